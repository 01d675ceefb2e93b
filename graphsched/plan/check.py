"""What makes a plan right: every task once, sources for every copy, no missing wait, no deadlock, no early free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import networkx as nx

from graphsched.errors import DeadlockError, PlanError, PlatformError, ScheduleError
from graphsched.garbage import collector_off
from graphsched.plan.builder import allowed_devices, check_members
from graphsched.plan.dependencies import Clock, Columns, end_together, merge, required_actions
from graphsched.plan.frees import find_buffers
from graphsched.plan.model import HEAD_LINES, HOST_LANE, Lane, Plan, comm_lane, copy_lane, line_of
from graphsched.workload import Workload


@collector_off()
def check(plan: Plan) -> None:
    """Raise the first error found in `plan`; see `Plan.check`.

    Raises:
        PlanError: An action, lane, copy or dependency is missing or wrong, or a buffer is freed too early.
        DeadlockError: Actions wait for each other in a circle.
    """
    check_tasks(plan.work, plan.kinds, plan.names, line_of(plan, 0))
    _check_lanes(plan)
    for i in range(len(plan)):
        try:
            _check_action(plan, i)
        except (PlatformError, ScheduleError) as error:
            raise PlanError(str(error), line_of(plan, i)) from error
    _check_deadlock(plan)
    clocks = known(plan)
    _check_dependencies(plan, clocks)
    _check_frees(plan, clocks)


def check_plan(plan: Plan) -> None:
    """Make sure that `plan` is one.

    Raises:
        ScheduleError: It is something else.
    """
    if not isinstance(plan, Plan):
        raise ScheduleError(
            f"a {type(plan).__name__} was given: a plan is needed, which gs.schedule makes of a workload"
        )


def check_tasks(work: Workload, kinds: Sequence[str], names: Sequence[str], first_line: int) -> None:
    """Make sure that the actions hold every task of `work` once, and no others.

    Raises:
        PlanError: They do not; `first_line` is the line of the first action.
    """
    index = {name: i for i, name in enumerate(names)}
    if len(index) < len(names):
        name, count = next((n, c) for n, c in Counter(names).items() if c > 1)
        second = [i for i, n in enumerate(names) if n == name][1]
        raise PlanError(f"action {name!r} appears {count} times: remove all but one", first_line + second)
    for task in work.tasks:
        if task.name not in index:
            line = first_line + max(len(names) - 1, 0)
            raise PlanError(f"task {task.name!r} of the workload is missing: add a line for it", line)
        i = index[task.name]
        expected = "wait" if task.kind == "barrier" else task.kind
        if kinds[i] != expected:
            raise PlanError(f"task {task.name!r} is a {expected}, the plan has a {kinds[i]}", first_line + i)
    for i, kind in enumerate(kinds):
        if kind in ("run", "collective") and names[i] not in work.graph:
            raise PlanError(f"the workload has no task {names[i]!r}", first_line + i)


def _check_lanes(plan: Plan) -> None:
    taken: Counter[str] = Counter()
    for number, lane in enumerate(plan.lanes, HEAD_LINES + 1):
        if lane.kind == "host":
            continue
        try:
            device = plan.platform.device(lane.device)
            plan.platform.device(lane.target or lane.device)
        except PlatformError as error:
            raise PlanError(f"lane {lane.name!r}: {error}", number) from error
        taken[device.name] += lane.kind == "compute"
        if taken[device.name] > device.lanes:
            raise PlanError(f"{device.name} has {device.lanes} compute lanes, {lane.name} is one too many", number)


def _check_action(plan: Plan, i: int) -> None:
    lane, kind, name = plan.lanes[plan.lane_of[i]], plan.kinds[i], plan.names[i]
    if kind == "wait" and lane.name != HOST_LANE:
        raise PlanError(f"wait {name!r} is on {lane.name}: waits are on {HOST_LANE}", line_of(plan, i))
    if kind == "run":
        allowed = allowed_devices(plan.work[name], plan.platform, plan.work)
        if lane.kind != "compute" or lane.device not in allowed:
            raise PlanError(
                f"task {name!r} may not run on {lane.name}: compute lanes of {', '.join(allowed)}", line_of(plan, i)
            )
    if kind == "copy":
        _check_copy(plan, i, lane)
    if kind == "collective":
        _check_collective(plan, i)
    elif lane.kind == "comm":
        raise PlanError(f"{kind} {name!r} is on {lane.name}: only collectives are there", line_of(plan, i))
    for j in plan.waits[i]:
        if plan.kinds[j] == "wait" and j != i:
            raise PlanError(
                f"{name!r} waits for {plan.names[j]!r}, a wait of the thread: what is dispatched after it follows "
                "anyway, remove it",
                line_of(plan, i),
            )


def _check_collective(plan: Plan, i: int) -> None:
    members = plan.work[plan.names[i]].devices
    check_members(plan.names[i], members, plan.platform)
    lanes, own = [plan.lanes[k].name for k in plan.lanes_of(i)], [comm_lane(device) for device in members]
    if lanes != own:
        text = "+".join(own)
        raise PlanError(f"collective {plan.names[i]!r} is on {'+'.join(lanes)}: its lanes are {text}", line_of(plan, i))


def _check_copy(plan: Plan, i: int, lane: Lane) -> None:
    copy, name = plan.copies[i], plan.names[i]
    plan.platform.link(copy.source, copy.target, copy.memory)
    asked = plan.work[name].outputs[0].device if copy.task else name.rpartition(">")[2]
    if copy.target != asked:
        raise PlanError(f"copy {name!r} goes to {copy.target}, it is asked for on {asked}", line_of(plan, i))
    own = copy_lane(copy.source, copy.target)
    if lane.name != own and not (lane.kind == "compute" and lane.device in (copy.source, copy.target)):
        raise PlanError(f"copy {name!r} is on {lane.name}: its lane is {own}", line_of(plan, i))
    home = plan.homes[copy.read.value.name]
    if copy.source != home:
        raise PlanError(
            f"copy {name!r} has no source: {copy.read} is not on {copy.source} but on {home}", line_of(plan, i)
        )


def _check_deadlock(plan: Plan) -> None:
    """Lane order, waits and the thread's own waits must not form a circle."""
    if all(j < i for i, waits in enumerate(plan.waits) for j in waits):
        return
    graph = nx.DiGraph()
    last: dict[int, int] = {}
    thread = -1
    for i in range(len(plan)):
        graph.add_edges_from((j, i) for j in plan.waits[i])
        for before in (*(last.get(lane, -1) for lane in plan.lanes_of(i)), thread):
            if before >= 0:
                graph.add_edge(before, i)
        last.update(dict.fromkeys(plan.lanes_of(i), i))
        if plan.kinds[i] == "wait":
            thread = i
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [i for i, *_ in nx.find_cycle(graph)]
        first = cycle.index(min(cycle))  # what stands before it in the circle is dispatched later: a wait
        cycle = cycle[first:] + cycle[:first]
        path = " -> ".join(plan.names[i] for i in [*cycle, cycle[0]])
        raise DeadlockError(f"actions wait for each other: {path}: remove one of these waits", line_of(plan, cycle[0]))
    i, j = next((i, j) for i, waits in enumerate(plan.waits) for j in waits if j >= i)
    raise PlanError(f"{plan.names[i]!r} waits for {plan.names[j]!r}, which is dispatched later", line_of(plan, i))


def _check_dependencies(plan: Plan, clocks: Sequence[Clock]) -> None:
    columns = _columns(plan)
    _check_sources(plan)
    required = required_actions(plan.work, plan.platform, columns, plan.lanes, plan.homes)
    for i, clock in enumerate(clocks):
        if plan.kinds[i] == "wait" and plan.names[i] not in plan.work.graph:
            continue  # a wait of the scheduler's own may wait for less
        for j in reversed(required[i]):  # the last one often stands for those before it
            late = j > i
            if late or (plan.lane_of[j] != plan.lane_of[i] and clock[plan.lane_of[j]] < j):
                raise PlanError(
                    f"{plan.names[i]!r} depends on {plan.names[j]!r}, but nothing makes it wait: "
                    f"add 'after {plan.names[j]}'" + (" and dispatch it later" if late else ""),
                    line_of(plan, i),
                )


def _check_sources(plan: Plan) -> None:
    """Whatever a task reads on another device than its home must have been copied there before."""
    for i, kind in enumerate(plan.kinds):
        if kind not in ("run", "collective"):
            continue
        for read, device in plan.work[plan.names[i]].reads_on(plan.lanes[plan.lane_of[i]].device):
            name = plan.buffer(read, device)
            if name != read.value.name and plan.index_of.get(name, i) >= i:
                raise PlanError(
                    f"{plan.names[i]!r} reads {read} on {device}, but no action before it copies it there: "
                    f"add 'copy {name} from {plan.homes[read.value.name]} to {device} ...'",
                    line_of(plan, i),
                )


def _check_frees(plan: Plan, clocks: Sequence[Clock]) -> None:
    owners = {n: b for b in find_buffers(plan.work, _columns(plan), plan.lanes, plan.homes) for n in b.names}
    freed: set[str] = set()
    for i, names in plan.frees.items():
        for name in names:
            buffer = owners.get(name)
            if buffer is None:
                raise PlanError(f"{name!r} cannot be freed: it is no buffer, or one that stays", line_of(plan, i))
            if name in freed:
                raise PlanError(f"{name!r} is freed twice", line_of(plan, i))
            freed.add(name)
            if buffer.lane not in plan.lanes_of(i):
                lane = plan.lanes[buffer.lane].name
                raise PlanError(f"{name!r} is freed on another lane than {lane}, which made it", line_of(plan, i))
            blocking = buffer.in_use(clocks[i]) or (buffer.lane, buffer.lasts[buffer.lane])
            if blocking[1] > i or blocking[0] != buffer.lane:
                user = plan.names[blocking[1]]
                raise PlanError(f"{name!r} is freed, but {user!r} may still use it: free it later", line_of(plan, i))


def _columns(plan: Plan) -> Columns:
    return Columns(list(plan.kinds), list(plan.names), list(plan.lane_of), dict(plan.copies), dict(plan.more_lanes))


def known(plan: Plan) -> list[Clock]:
    """For each action the last action of every lane that its waits, direct or not, put before it."""
    nothing: Clock = (-1,) * len(plan.lanes)
    lane_clock = [nothing] * len(plan.lanes)
    thread = nothing
    clocks: list[Clock] = []
    over: dict[int, Clock] = {}
    for i, lane in enumerate(plan.lane_of):
        clock = merge(lane_clock[lane], thread)
        for other in plan.more_lanes.get(i, ()):
            clock = merge(clock, lane_clock[other])
        for j in plan.waits[i]:
            clock = merge(clock, over.get(j) or clocks[j], plan.lane_of[j], j)
        clocks.append(clock)
        lane_clock[lane] = clock
        if i in plan.more_lanes:
            over[i] = end_together(clock, i, plan.lanes_of(i), lane_clock)
        if plan.kinds[i] == "wait":
            thread = clock
    return clocks
