"""Level by level: tasks that no path joins go side by side."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import assign, find_candidates
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.registry import register
from graphsched.schedulers.round_robin import Rotation, rotation
from graphsched.workload import Task, Workload


@register("wavefront")
def wavefront(
    work: Workload,
    platform: Platform,
    costs: Costs,  # noqa: ARG001
    *,
    lanes: int | None = None,
    sync: bool = False,
    copies: Copies = "own",
) -> Placement:
    """Each level of the graph spread over `lanes` lanes (default 4) on each device, level by level.

    A task's level is the length of the longest path to it. The first task of a level goes to the
    first lane. With `sync` the dispatching thread waits after each level.

    Raises:
        ScheduleError: More lanes than a device may have.
    """
    position = {name: i for i, name in enumerate(work.graph)}
    levels = [sorted(level, key=position.__getitem__) for level in nx.topological_generations(work.graph)]
    candidates = find_candidates(work, platform)
    turn = rotation(work, platform, candidates, lanes)
    placed = assign(candidates, _in_turn(work, levels, turn), turn.choose)
    waits = frozenset(level[-1] for level in levels) if sync else frozenset()
    return Placement([name for level in levels for name in level], placed, waits, copies)


def _in_turn(work: Workload, levels: list[list[str]], turn: Rotation) -> Iterator[Task]:
    for level in levels:
        turn.restart()
        for name in level:
            yield work[name]
