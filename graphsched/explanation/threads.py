"""Which rank's thread issued each action last, and when; where there are no ranks, the one thread issued all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphsched.plan import Plan
from graphsched.plan.ranks import find_places
from graphsched.plan.ranks.places import EVERYWHERE
from graphsched.simulator.columns import BLOCKS, Columns
from graphsched.simulator.graph_mode import inside
from graphsched.simulator.lane_costs import CPU, CUDA
from graphsched.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Issues:
    """Issues of actions by threads; times in seconds.

    Attributes:
        orders: By rank, the actions of which it is known when its thread issued them, in order.
        rank_of: Of each action the rank that issued it last: what several issue cannot run before.
        issue_start_s, issue_end_s: When that was.
        there_s: When what the thread waited for before it was over on CPU lanes; when it began, if it waited for none.
        launched_s: When its kernels had all been launched, by that, and could run.
    """

    orders: tuple[list[int], ...]
    rank_of: list[int]
    issue_start_s: list[float]
    issue_end_s: list[float]
    there_s: list[float]
    launched_s: list[float]


def find_issues(line: Timeline, columns: Columns) -> Issues:
    """The issues of `line`; of equals that of the rank which the action begins on."""
    begins = _begins(line.plan)
    rank_of = [max(0, rank) for rank in begins]
    start_s, begun_s, issued_s = line.start_s.tolist(), line.issue_start_s.tolist(), line.issue_end_s.tolist()
    results_s = _results_s(line, columns)
    launched_s = [
        _launched_s(columns, i, max(begun_s[i], results_s[i]), issued_s[i], start_s[i]) for i in range(len(line))
    ]
    for (i, rank), half in sorted(line.halves_s.items()):
        half_s = _launched_s(columns, i, *half, start_s[i])
        if half_s > launched_s[i]:
            rank_of[i], (begun_s[i], issued_s[i]), launched_s[i] = rank, half, half_s
    ended_s = line.issue_end_s.tolist()
    free = [free_s(columns, ended_s, i, begun) for i, begun in enumerate(begun_s)]
    there_s = [result if result > free[i] else begun_s[i] for i, result in enumerate(results_s)]
    return Issues(_orders(begins, line), rank_of, begun_s, issued_s, there_s, launched_s)


def free_s(columns: Columns, issue_end_s: Sequence[float], i: int, begun_s: float) -> float:
    """When the thread that began to issue action `i` at `begun_s` had done what came before.

    That is sooner where a CUDA graph is launched, whose launch begins behind what it waits for.
    """
    if columns.graphs is None or not inside(columns, i):
        return begun_s
    first = columns.graphs.first[columns.graphs.of[i]]
    return min(begun_s, issue_end_s[first - 1] if first else 0.0)


def _results_s(line: Timeline, columns: Columns) -> list[float]:
    """When what is over on CPU lanes was, for which the thread waits before it issues an action on a GPU, or its graph.

    0 where it waits for none.
    """

    def over_s(waits: Iterable[int]) -> float:
        return max([float(line.end_s[j]) for j in waits if columns.kind[j] == CPU], default=0.0)

    graphs = columns.graphs
    of_graph = [over_s(needs) for needs in graphs.needs] if graphs is not None else []
    found = [0.0] * len(line)
    for i, kind in enumerate(columns.kind):
        if graphs is not None and inside(columns, i):
            found[i] = of_graph[graphs.of[i]]
        elif kind == CUDA:
            found[i] = over_s(columns.waits[i])
    return found


def _begins(plan: Plan) -> list[int]:
    """The rank that each action begins on; of waits `EVERYWHERE`."""
    return [begin for begin, _ in find_places(plan).ends] if plan.mode == "distributed" else [0] * len(plan)


def _orders(begins: list[int], line: Timeline) -> tuple[list[int], ...]:
    ranks = max([0, *begins, *(rank for _, rank in line.halves_s)]) + 1
    return tuple(
        [i for i, begin in enumerate(begins) if begin in (rank, EVERYWHERE) or (i, rank) in line.halves_s]
        for rank in range(ranks)
    )


def _launched_s(columns: Columns, i: int, begun_s: float, issued_s: float, start_s: float) -> float:
    """The issue of an action ends with the event after it, its launch came before; a copy that blocks lies between.

    What a graph holds may run while the thread still launches the rest of it, and what has started had been launched.
    """
    c, dispatch = columns, columns.dispatch
    event_s, launch_s = dispatch.timed_record_s, dispatch.launch_s
    if c.kind[i] != CUDA:
        return issued_s
    if inside(c, i):
        return min(start_s, begun_s + _in_graph_s(c, i))
    if c.flags[i] & BLOCKS:
        return begun_s + c.own_s[i] + c.before_s[i] + event_s + c.call_s[i] + launch_s
    return issued_s - c.after_s[i] - event_s + launch_s


def _in_graph_s(columns: Columns, i: int) -> float:
    """From the begin of the launch of a graph to when it has come to action `i`."""
    graphs = columns.graphs
    assert graphs is not None
    k = graphs.of[i]
    spread_s = graphs.spread_s[i] if graphs.spread_s else 0.0
    return columns.own_s[graphs.first[k]] + columns.dispatch.launch_s + graphs.later_s[k] + spread_s
