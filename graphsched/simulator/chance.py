"""What hangs on chance in a CUDA graph over several GPUs: how soon a task sees what it waits for on another GPU.

Nothing is told: who waits looks, once a period (`Dispatch.graph_look_s`, see `simulator.looks`), and when that is in
relation to the end that it waits for is known of nothing but the end of a graph. So it comes anywhere in the period,
and one run of a plan differs from the next. A plan is simulated with waits as they are on average, and a few times with
waits that are longer or shorter by up to half a period, each by chance, and by as much the other way round: of a chain
the median stays what it is. The simulation of the median makespan stands for all. Where the first of two products that
become ready together has the GPU to itself, the makespan is one of several, some per cent apart, and waits as they are
on average may give the rarest of them: a stencil in three lanes of each of four H200s took 5.88 to 6.66 ms (median
6.54), where 5.93 was predicted without chance.

Numbers come from a generator of fixed seeds, so that a prediction is always the same. Where no period was measured it
is taken for twice the wait.

Not modelled: chance in when copies begin, which are made in the order of their plan; in waits on one GPU; of the
thread.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.simulator.graph_mode import PASSED, inside
from graphsched.simulator.host_calls import without_events
from graphsched.simulator.lane_costs import CUDA
from graphsched.simulator.model import Model
from graphsched.simulator.repeated import run_again

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns

FEW, MANY = 1, 4  # pairs of simulations; a few are enough where
ALIKE = 0.005  # their makespans differ by no more than this share

Longest = dict[int, dict[int, float]]
"""Seconds by action and by lane that it waits for."""


def with_chance(columns: Columns, model: Model) -> tuple[Columns, float]:
    """`columns` with the waits of the simulation of the median makespan; standard deviation of makespans by chance."""
    longest_s = _longest_s(columns) if model.chance else {}
    if not longest_s:
        return columns, 0.0
    tried = [_tried(columns), *_pairs(columns, longest_s, range(FEW))]
    makespans_s = [makespan_s for makespan_s, _ in tried]
    if max(makespans_s) - min(makespans_s) > ALIKE * max(makespans_s):
        tried += _pairs(columns, longest_s, range(FEW, MANY))
    deviation_s = statistics.stdev(makespan_s for makespan_s, _ in tried[1:])
    tried.sort(key=lambda one: one[0])
    return tried[len(tried) // 2][1], deviation_s


def _pairs(columns: Columns, longest_s: Longest, seeds: range) -> list[tuple[float, Columns]]:
    return [_tried(replace(columns, by_chance_s=_drawn_s(longest_s, seed, w))) for seed in seeds for w in (1, -1)]


def _tried(columns: Columns) -> tuple[float, Columns]:
    return run_again(without_events(columns))[1], columns


def _drawn_s(longest_s: Longest, seed: int, way: int) -> Longest:
    numbers = random.Random(seed)
    return {
        i: {lane: numbers.uniform(-seconds, seconds) * way for lane, seconds in by_lane.items()}
        for i, by_lane in longest_s.items()
    }


def _longest_s(columns: Columns) -> Longest:
    """By task and lane that it waits for, what a wait may be longer or shorter than on average."""
    lanes, lane, period_s = columns.lanes, columns.lane, columns.dispatch.graph_look_s
    if columns.graphs is None or not columns.far_lanes:
        return {}
    copies = lanes.peers | lanes.host_copies
    found: Longest = {}
    for i, kind in enumerate(columns.kind):
        own = lane[i]
        if kind != CUDA or own in copies or columns.flags[i] & PASSED or not inside(columns, i):
            continue
        for j in columns.waits[i]:
            other = lane[j]
            apart = other in lanes.peers or lanes.queue[other] != lanes.queue[own]
            mean_s = lanes.latency_s[own][other]
            if apart and mean_s > 0.0 and inside(columns, j):
                found.setdefault(i, {})[other] = min(mean_s, period_s / 2) if period_s else mean_s
    return found
