"""What makes a plan right: every task once, sources for every copy, no missing wait, no deadlock."""

from __future__ import annotations

from collections import Counter

import networkx as nx

from graphsched.errors import DeadlockError, PlanError, PlatformError
from graphsched.plan.builder import allowed_devices
from graphsched.plan.dependencies import Clock, Columns, merge, required_actions
from graphsched.plan.model import HOST_LANE, Plan, copy_lane
from graphsched.plan.text import line_of


def check(plan: Plan) -> None:
    """Raise the first error found in `plan`; see `Plan.check`.

    Raises:
        PlanError: An action, lane, copy or dependency is missing or wrong.
        DeadlockError: Actions wait for each other in a circle.
    """
    _check_tasks(plan)
    for i in range(len(plan)):
        _check_lane(plan, i)
    _check_deadlock(plan)
    _check_dependencies(plan)


def _check_tasks(plan: Plan) -> None:
    counts = Counter(plan.names)
    for name, count in counts.items():
        if count > 1:
            second = [i for i, n in enumerate(plan.names) if n == name][1]
            raise PlanError(f"action {name!r} appears {count} times: remove all but one", line_of(plan, second))
    for task in plan.work.tasks:
        if task.name not in counts:
            raise PlanError(f"task {task.name!r} of the workload is missing: add a line for it")
        i = plan.index_of[task.name]
        kind = "wait" if task.kind == "barrier" else task.kind
        if plan.kinds[i] != kind:
            raise PlanError(f"task {task.name!r} is a {kind}, the plan has a {plan.kinds[i]}", line_of(plan, i))
    for i, kind in enumerate(plan.kinds):
        if kind == "run" and plan.names[i] not in plan.work.graph:
            raise PlanError(f"the workload has no task {plan.names[i]!r}", line_of(plan, i))


def _check_lane(plan: Plan, i: int) -> None:
    lane, kind, name = plan.lanes[plan.lane_of[i]], plan.kinds[i], plan.names[i]
    try:
        if kind == "wait" and lane.name != HOST_LANE:
            raise PlanError(f"wait {name!r} is on {lane.name}: waits are on {HOST_LANE}", line_of(plan, i))
        if kind == "run":
            allowed = allowed_devices(plan.work[name], plan.platform, plan.work)
            if lane.kind != "compute" or lane.device not in allowed:
                raise PlanError(
                    f"task {name!r} may not run on {lane.name}: compute lanes of {', '.join(allowed)}",
                    line_of(plan, i),
                )
        if kind == "copy":
            copy = plan.copies[i]
            plan.platform.link(copy.source, copy.target, copy.memory)
            own = copy_lane(copy.source, copy.target)
            if lane.name != own and not (lane.kind == "compute" and lane.device in (copy.source, copy.target)):
                raise PlanError(f"copy {name!r} is on {lane.name}: its lane is {own}", line_of(plan, i))
            if copy.source != plan.homes[copy.read.value.name]:
                raise PlanError(
                    f"copy {name!r} has no source: {copy.read} is not on {copy.source} but on "
                    f"{plan.homes[copy.read.value.name]}",
                    line_of(plan, i),
                )
    except PlatformError as error:
        raise PlanError(str(error), line_of(plan, i)) from error


def _check_deadlock(plan: Plan) -> None:
    """Lane order, waits and the thread's own waits must not form a circle."""
    if all(j < i for i, waits in enumerate(plan.waits) for j in waits):
        return
    graph = nx.DiGraph()
    last: dict[int, int] = {}
    thread = -1
    for i, lane in enumerate(plan.lane_of):
        graph.add_edges_from((j, i) for j in plan.waits[i])
        for before in (last.get(lane, -1), thread):
            if before >= 0:
                graph.add_edge(before, i)
        last[lane] = i
        if plan.kinds[i] == "wait":
            thread = i
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [i for i, *_ in nx.find_cycle(graph)]
        path = " -> ".join(plan.names[i] for i in [*cycle, cycle[0]])
        raise DeadlockError(f"actions wait for each other: {path}: remove one of these waits", line_of(plan, cycle[0]))
    i, j = next((i, j) for i, waits in enumerate(plan.waits) for j in waits if j >= i)
    raise PlanError(f"{plan.names[i]!r} waits for {plan.names[j]!r}, which is dispatched later", line_of(plan, i))


def _check_dependencies(plan: Plan) -> None:
    columns = Columns(list(plan.kinds), list(plan.names), list(plan.lane_of), dict(plan.copies))
    required = required_actions(plan.work, columns, plan.lanes, plan.homes)
    for i, clock in enumerate(known(plan)):
        for j in required[i]:
            late = j > i
            if late or (plan.lane_of[j] != plan.lane_of[i] and clock[plan.lane_of[j]] < j):
                if plan.kinds[i] == "wait" and plan.names[i] not in plan.work.graph:
                    continue  # a wait of the scheduler's own may wait for less
                raise PlanError(
                    f"{plan.names[i]!r} depends on {plan.names[j]!r}, but nothing makes it wait: "
                    f"add 'after {plan.names[j]}'" + (" and dispatch it later" if late else ""),
                    line_of(plan, i),
                )


def known(plan: Plan) -> list[Clock]:
    """For each action the last action of every lane that its waits, direct or not, put before it."""
    nothing: Clock = (-1,) * len(plan.lanes)
    lane_clock = [nothing] * len(plan.lanes)
    thread = nothing
    clocks: list[Clock] = []
    for i, lane in enumerate(plan.lane_of):
        clock = merge(lane_clock[lane], thread)
        for j in plan.waits[i]:
            clock = merge(clock, clocks[j], plan.lane_of[j], j)
        clocks.append(clock)
        lane_clock[lane] = clock
        if plan.kinds[i] == "wait":
            thread = clock
    return clocks
