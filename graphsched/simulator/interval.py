"""Between which bounds a measured makespan is expected nine times in ten.

The makespan is a sum along its chain of causes (`simulator.path`): seconds of each operation, of each link,
of latencies. Each of these figures was measured, and has a spread; one figure's error is in all the actions
that rest on it, so it does not average out over repeats: their seconds are added before they are multiplied
with the spread. Different figures err independently: the squares are added. The thread is seldom on the
chain, and soon is when it is a little slower: for it the plan is simulated again, with all that it does
slower and faster by one standard deviation, the launch of graphs over several GPUs by one of its own.

The spread of one calibration's samples says little of how another calibration would differ, so every kind
of figure has a floor, the standard deviation between readings of the same thing:

============== ======= ==========================================================================
GPU operation   0.8 %   one operation of 12 µs and more on H200s, calibrations of two days (399 readings of 142)
CPU operation   7.6 %   likewise, lanes of CPU threads (12 of 6; few)
host           19 %     one call with operands of other shapes, in one calibration (70 readings)
launch         30 %     what a graph over several GPUs takes to launch beyond one on one GPU, by six calibrations
                        (116 plans)
pinned copy     1.9 %   links of one host that are alike (24 readings a direction, the worse one)
pageable       12 %     likewise
fresh           4.5 %   likewise
peer            3.7 %   likewise (56)
local           2.6 %   one GPU's, three hosts (20)
latency         5.7 %   of a wait on another GPU, three hosts
in graphs       9.2 %   likewise of edges to another GPU, from copies and between copies (32 readings of 4)
handover        1.2 µs  from one kernel to the next: chains of 14 operations, in a graph and eagerly
side by side    4.7 %   kernels that share a GPU, where pairs were measured: makespans of 120 mixes made for
                        that, see docs/sharing.md (95th percentile of the absolute errors / 1.96, 9.1 % then)
by curves       8.6 %   likewise where only curves were: 106 mixes (median / 0.6745)
under load      2 %     transfers that share a capacity, the error that a fit of capacities may have
============== ======= ==========================================================================

None of them comes from a run that is predicted; ``python -m tests.simulator.readings`` reads those of operations,
launches and graphs off the calibrations. Two choices were made with earlier recorded runs in view, whose
share inside (175 of 193 then) is no test of them: that the handover counts whole (1.2 µs, the mean
difference) and not as its scatter over operations (0.45 µs: 168), and that all of the thread's costs err
together, simulated, and not call by call along the chain (without the handover 158, not 167).

Not modelled: errors of the model other than the last four; spikes; chains of GPUs that may become the
longest (the mean of a maximum is above the maximum of the means).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from graphsched.plan import Plan
from graphsched.platform.pace import LAUNCH_COLDS, SLEPT_COLDS
from graphsched.simulator.columns import NETWORK, Columns
from graphsched.simulator.durations import Durations
from graphsched.simulator.graph_launches import further_gpus
from graphsched.simulator.graph_segments import Replays
from graphsched.simulator.host_calls import without_events
from graphsched.simulator.lane_costs import CPU, CUDA
from graphsched.simulator.path import Stretch, chain
from graphsched.simulator.repeated import run_again

DEVIATIONS = 1.6449  # of a normal distribution, 90 % lie within so many standard deviations
QUARTILES = 1.349  # standard deviations between the quartiles of a normal distribution

GPU_OPERATION, CPU_OPERATION, HOST, LAUNCH = 0.008, 0.076, 0.19, 0.30
LATENCY, LATENCY_IN_GRAPHS = 0.057, 0.092
LINKS = {
    "pinned": 0.019,
    "pageable": 0.12,
    "fresh": 0.045,
    "peer": 0.037,
    "staged": 0.037,
    "local": 0.026,
    "network": 0.5,
}
SIDE_BY_SIDE, BY_CURVES, UNDER_LOAD = 0.047, 0.086, 0.02
HANDOVER_S = 1.2e-6
ESTIMATED = 0.5  # an estimate is good to a factor of about 1.6: chosen, as that of networks, and not measured
RETURNS = ("sync_s", "result_s", "look_s", "yield_s", "launch_s", "first_message_s", "meeting_s")
"""Of the dispatching thread, and in no column."""


class Figure(NamedTuple):
    """A figure that a prediction rests on, and its relative standard deviation."""

    name: str
    deviation: float


def interval(plan: Plan, columns: Columns, chance_s: float = 0.0) -> tuple[float, float]:
    """Bounds of the makespan without timing events, in seconds; 90 % of what is measured lies between.

    Args:
        columns: Of `plan`, of several steps of it perhaps.
        chance_s: Standard deviation of makespans by what hangs on chance (`simulator.chance`).
    """
    columns = without_events(columns)
    engine, makespan_s = run_again(columns)
    other_s = deviation_s(plan, columns, chain(columns, engine))
    faster_s, slower_s = (run_again(_with_host(columns, 1 + way))[1] for way in (-HOST, HOST))
    below_s = math.hypot(other_s, chance_s, max(0.0, makespan_s - faster_s))
    above_s = math.hypot(other_s, chance_s, max(0.0, slower_s - makespan_s))
    return bounds(makespan_s, below_s, above_s)


def bounds(makespan_s: float, below_s: float, above_s: float) -> tuple[float, float]:
    """Bounds of the 90 % interval from the standard deviations to both sides; both stay above 0.

    Example:
        >>> low, high = bounds(1.0, 0.01, 0.02)
        >>> round(low, 4), round(high, 4)
        (0.9837, 1.0334)
    """
    if not makespan_s:
        return 0.0, 0.0
    below, above = (math.exp(DEVIATIONS * side_s / makespan_s) for side_s in (below_s, above_s))
    return makespan_s / below, makespan_s * above


def deviation_s(plan: Plan, columns: Columns, stretches: list[Stretch]) -> float:
    """Standard deviation of the makespan by all figures but the host's, in seconds.

    Args:
        stretches: The chain of causes of a run of `columns`, which are of `plan` (of several steps perhaps).
    """
    figures = _Figures(plan, columns)
    sums: dict[Figure, float] = {}
    for stretch in stretches:
        for figure in figures.of(stretch) if stretch.cost != "host" else ():
            sums[figure] = sums.get(figure, 0.0) + stretch.seconds
    kernels = sum(stretch.cost == "work" and columns.kind[stretch.action] == CUDA for stretch in stretches)
    squares = [(figure.deviation * seconds) ** 2 for figure, seconds in sums.items()]
    return math.sqrt(math.fsum([*squares, (HANDOVER_S * kernels) ** 2]))


def _with_host(columns: Columns, factor: float) -> Columns:
    """`columns` with all that the dispatching thread does `factor` times as long."""
    lanes, dispatch = columns.lanes, columns.dispatch
    own_s, call_s, before_s, after_s = (
        [factor * seconds for seconds in column]
        for column in (columns.own_s, columns.call_s, columns.before_s, columns.after_s)
    )
    switch_s = [[factor * seconds for seconds in row] for row in lanes.switch_s]
    returns = {name: factor * getattr(dispatch, name) for name in RETURNS}
    colds: dict[str, Any] = {
        name: tuple((us, factor * s) for us, s in getattr(dispatch, name))
        for name in ("colds", *LAUNCH_COLDS, *SLEPT_COLDS)
    }
    return replace(
        columns,
        lanes=replace(lanes, switch_s=switch_s),
        dispatch=replace(dispatch, **returns, **colds),
        own_s=own_s,
        call_s=call_s,
        before_s=before_s,
        after_s=after_s,
        graphs=_launched(columns, 1 + (factor - 1) * LAUNCH / HOST),
    )


def _launched(columns: Columns, factor: float) -> Replays | None:
    """The graphs of `columns`, what launching them piece after piece adds `factor` times as long."""
    graphs = columns.graphs
    if graphs is None:
        return None
    more_s = [(factor - 1) * columns.dispatch.graph_across_start_s * more for more in further_gpus(columns, graphs)]
    return replace(
        graphs,
        later_s=[later_s + added_s for later_s, added_s in zip(graphs.later_s, more_s, strict=True)],
        spread_s=[factor * seconds for seconds in graphs.spread_s],
        longer_s=[factor * seconds for seconds in graphs.longer_s],
    )


class _Figures:
    """The figures that actions rest on, each looked up once."""

    def __init__(self, plan: Plan, columns: Columns) -> None:
        self._plan, self._columns, self._durations = plan, columns, Durations(plan)
        self._spreads: Mapping[str, Any] = plan.platform.provenance.get("spread", {})
        self._known: dict[str, Figure] = {}

    def of(self, stretch: Stretch) -> tuple[Figure, ...]:
        """The figures whose errors are in all of a stretch's seconds."""
        if stretch.cost == "latency":
            return (Figure("latency", LATENCY_IN_GRAPHS if self._columns.graphs is not None else LATENCY),)
        i = stretch.action % len(self._plan)
        source = self._source(i)
        if source not in self._known:
            self._known[source] = Figure(source, self._link(i) if i in self._plan.copies else self._operation(i))
        return (self._known[source], *self._slowed(stretch))

    def _source(self, i: int) -> str:
        """What the figure of action `i` is filed under."""
        plan, copy = self._plan, self._plan.copies.get(i)
        if copy is not None:
            return f"{copy.source}>{copy.target} {copy.memory}"
        task = plan.task(i)
        assert task is not None  # what takes work is a copy or a task
        return f"{task.signature or task.name} {plan.platform.device(plan.lanes[plan.lane_of[i]].device).model}"

    def _link(self, i: int) -> float:
        link = self._durations.link(self._plan.copies[i])
        return max(LINKS[link.memory], float(self._spreads.get(str(link), 0.0)) / QUARTILES)

    def _operation(self, i: int) -> float:
        task = self._plan.task(i)
        assert task is not None
        cost = self._durations.task(task, self._plan.platform.device(self._plan.lanes[self._plan.lane_of[i]].device))
        if cost.source != "measured":
            return ESTIMATED if cost.source == "estimated" else 0.0
        low_s, high_s = cost.quartiles_s or (0.0, 0.0)
        floor = CPU_OPERATION if self._columns.kind[i] == CPU else GPU_OPERATION
        return max(floor, (high_s - low_s) / QUARTILES / cost.device_s if cost.device_s else 0.0)

    def _slowed(self, stretch: Stretch) -> tuple[Figure, ...]:
        """What the rule of sharing adds where others slow an action."""
        resource = self._columns.resource[stretch.action]
        if not self._columns.slowed_by_others(stretch.action, stretch.seconds):
            return ()
        if resource == NETWORK:
            return (Figure("under load", UNDER_LOAD),)
        if 0 <= self._columns.pools - 2 - resource < self._columns.lone:  # by copies only
            return ()
        return (Figure("side by side", SIDE_BY_SIDE if self._columns.pairs else BY_CURVES),)
