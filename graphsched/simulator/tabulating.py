"""A plan and its costs put into columns: times of tasks and copies, and what the thread's waits add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from graphsched.costs import TaskCost
from graphsched.errors import PlanError
from graphsched.plan import OUTSIDE, Copy, Plan, Segments, segments_of, stamped
from graphsched.plan.segments import blocks
from graphsched.platform import CapacityTable, Dispatch, Link
from graphsched.simulator.cache_states import inputs_longer_s
from graphsched.simulator.columns import ALONE, BLOCKS, NEEDS_CPU, NETWORK, SEVERAL, Columns
from graphsched.simulator.copy_engines import engines_of, rooms
from graphsched.simulator.durations import Durations
from graphsched.simulator.graph_mode import EMPTY, copy_shift_s, in_graph, inside, launch_graphs
from graphsched.simulator.host_calls import (
    add_changes,
    call_kinds,
    copy_call_s,
    copy_company_s,
    frees_s,
    with_cpu_lanes,
)
from graphsched.simulator.instruction_cache import company_longer_s
from graphsched.simulator.interpreter_lock import takes_turns
from graphsched.simulator.lane_costs import CPU, CUDA, lanes_of
from graphsched.simulator.model import Model, switched
from graphsched.simulator.network import Route, tables_of
from graphsched.simulator.pools import share_cores, share_devices, share_memory
from graphsched.simulator.rank_threads import orders_of


def tabulate(plan: Plan, model: Model) -> tuple[Columns, tuple[str, ...]]:
    """The columns of `plan` under `model`, and the names of tasks whose costs are estimates.

    Raises:
        CostError: A task has durations for other devices only.
        PlatformError: A link does not exist.
        PlanError: A task is on a lane where none can be.
    """
    segments = segments_of(plan) if plan.mode == "graph" else None
    durations = Durations(plan)
    dispatch = switched(_dispatch_of(plan, durations, segments), model)
    lanes = lanes_of(plan, dispatch)
    dispatch = with_cpu_lanes(dispatch, lanes.kind)
    columns = Columns(
        lanes=lanes,
        dispatch=dispatch,
        queue_depth=int(dispatch.queue_depth) if model.launch_queue and plan.mode == "eager" else None,
        lane=list(plan.lane_of),
        kind=[lanes.kind[lane] for lane in plan.lane_of],
        call=call_kinds(plan) if dispatch.change_s or dispatch.changes or dispatch.start_s else [],
        own_s=[0.0] * len(plan),
        call_s=[0.0] * len(plan),
        waits=plan.waits,
        launches=[1] * len(plan),
        work_s=[0.0] * len(plan),
        flags=[0] * len(plan),
        resource=[ALONE] * len(plan),
        cores=plan.platform.cores,
        more_lanes=plan.more_lanes,
    )
    columns.after_s = frees_s(columns, plan)
    columns.locks = takes_turns(columns, plan.mode)
    costs = _fill_runs(columns, durations, plan, model)
    if model.sharing:
        share_devices(columns, costs, plan, model)
    if model.traffic:
        share_memory(columns, costs, durations, plan)
    _fill_copies(columns, durations, plan, model)
    if model.sharing:
        share_cores(columns, plan)
    if segments is not None:
        columns.far_lanes = _far_lanes(plan, columns.lanes.kind)
        launch_graphs(columns, segments)
    if plan.mode == "distributed":
        columns.orders = orders_of(plan)
    return columns, tuple(durations.estimated)


def _dispatch_of(plan: Plan, durations: Durations, segments: Segments | None) -> Dispatch:
    """Costs of dispatch, in graph mode those where CUDA graphs hold the `segments`."""
    if segments is None:
        return plan.platform.dispatch
    memory = [n for name, n in durations.memory.items() if plan.platform.device(name).kind == "cuda"]
    whole = OUTSIDE not in segments.of
    return in_graph(plan.platform.dispatch, whole=whole, stamps=stamped(plan), memory_bytes=max(memory, default=0))


def _far_lanes(plan: Plan, kinds: Sequence[int]) -> frozenset[int]:
    """Lanes of GPUs that are not on the GPU of the first one, which graphs are launched on."""
    devices = {k: lane.device for k, (lane, kind) in enumerate(zip(plan.lanes, kinds, strict=True)) if kind == CUDA}
    return frozenset(k for k, device in devices.items() if device != next(iter(devices.values())))


def _fill_runs(columns: Columns, durations: Durations, plan: Plan, model: Model) -> dict[int, TaskCost]:
    """Times of tasks; returns the costs of those on GPUs."""
    graph, dispatch, lane_of = plan.mode == "graph", columns.dispatch, columns.lane
    devices = [plan.platform.device(lane.device) if lane.kind == "compute" else None for lane in plan.lanes]
    costs: dict[int, TaskCost] = {}
    job_s = _job_s(columns, plan)
    for i, (kind, task) in enumerate(zip(plan.kinds, plan.tasks, strict=True)):
        if kind == "run":
            device = devices[lane_of[i]]
            if device is None:
                raise PlanError(f"task {plan.names[i]!r} is on {plan.lanes[lane_of[i]].name}, no compute lane")
            assert task is not None
            cost = durations.task(task, device)
            if columns.kind[i] == CPU:
                columns.work_s[i] = cost.on_lane_at(dispatch.product_s) + job_s
                columns.call_s[i] = dispatch.handoff_s
            else:
                costs[i] = cost
        elif kind == "collective":
            assert task is not None
            _fill_collective(columns, i, durations.collective(task), model)
    _fill_launches(columns, costs, calls=model.dispatch and not graph, several=0 if graph else SEVERAL)
    for i, cost in costs.items() if graph else ():
        if cost.source == "given" and not cost.device_s:
            columns.flags[i] |= EMPTY
    if graph and any(cost.cache is not None for cost in costs.values()):
        _add_states(columns, costs, plan, model)
    return costs


def _job_s(columns: Columns, plan: Plan) -> float:
    """What a lane's thread takes around a task, where it needs no lock; a rank's thread has no lanes beside it."""
    return 0.0 if columns.locks or plan.mode == "distributed" else columns.dispatch.job_s


def _add_states(columns: Columns, costs: Mapping[int, TaskCost], plan: Plan, model: Model) -> None:
    """Add what tasks in graphs take longer by what caches hold; none takes less than no time."""
    inputs_s = inputs_longer_s(plan, costs) if model.cache else {}
    company_s = company_longer_s(plan, costs) if model.company else {}
    for i in costs:
        columns.work_s[i] = max(0.0, columns.work_s[i] + inputs_s.get(i, 0.0) + company_s.get(i, 0.0))


def _fill_collective(columns: Columns, i: int, cost: TaskCost, model: Model) -> None:
    """Times of a collective: a thread makes one call for all of its devices, or hands it to the first of CPU lanes."""
    columns.work_s[i] = cost.device_s
    if columns.kind[i] == CPU:
        columns.call_s[i] = columns.dispatch.handoff_s
    else:
        columns.own_s[i] = columns.dispatch.run_s
        columns.call_s[i] = cost.dispatch_s if model.dispatch else 0.0


def _fill_launches(columns: Columns, costs: Mapping[int, TaskCost], *, calls: bool, several: int) -> None:
    """Times of tasks on GPUs; `calls`: their calls take time, `several`: the flag of those of several launches."""
    run_s, call_s = columns.dispatch.run_s, columns.dispatch.call_s
    work_s, own_s, calls_s = columns.work_s, columns.own_s, columns.call_s
    for i, cost in costs.items():
        work_s[i] = cost.device_s
        own_s[i] = run_s
        pace = cost.pace_at(call_s) if call_s else 1.0
        if calls:
            calls_s[i] = cost.dispatch_s * pace
        if cost.company_s is not None:
            columns.company_s[i] = cost.company_s * pace, cost.switching_s * pace
        if cost.launches > 1:
            columns.launches[i] = cost.launches
            columns.flags[i] = several


class _Way(NamedTuple):
    """What copies from one device to another by one kind of memory have in common.

    Attributes:
        crosses: Numbers of the capacities.
        shared: Other lanes' transfers change its rate.
        shift_s: What a copy takes longer in a CUDA graph, or as a job of a CPU lane.
        call_s, company_s: Host time of its call, and what that takes longer after calls of many other kinds.
        flags: `BLOCKS` or 0.
    """

    link: Link
    crosses: tuple[int, ...]
    shared: bool
    on_cores: bool
    shift_s: float
    call_s: float
    company_s: float
    flags: int


def _fill_copies(columns: Columns, durations: Durations, plan: Plan, model: Model) -> None:
    """Times and blocking of copies; routes for those whose capacities other lanes use too."""
    users = _users(columns, durations, plan)
    numbers = {name: k for k, name in enumerate(users)}
    tables = plan.platform.tables if model.load else {}
    columns.capacities = [plan.platform.capacities[name] for name in users]
    columns.tables = tables_of(tables, numbers)
    if model.contention and model.engines:
        columns.engine_of = engines_of(plan, lambda copy: durations.link(copy).memory)
        columns.engines = rooms(plan, columns.engine_of)
    lanes_near = _lanes_near(users, tables)

    def way_of(copy: Copy, on_cpu: bool) -> _Way:
        link, dispatch, shift_s = durations.link(copy), columns.dispatch, 0.0
        if on_cpu:
            shift_s = _job_s(columns, plan)
        elif not blocks(plan, copy):
            shift_s = copy_shift_s(copy, link, plan)
        return _Way(
            link,
            crosses=tuple(numbers[name] for name in link.crosses),
            shared=model.contention and any(len(lanes_near[name]) > 1 for name in link.crosses),
            on_cores=on_cpu and link.memory != "network",
            shift_s=shift_s,
            call_s=dispatch.handoff_s if on_cpu else copy_call_s(copy, plan, dispatch),
            company_s=copy_company_s(copy, plan, dispatch),
            flags=BLOCKS if link.blocking and model.blocking and not on_cpu else 0,
        )

    ways: dict[tuple[str, str, str, bool], _Way] = {}
    alone_s: dict[Route, float] = {}
    for i, copy in plan.copies.items():
        on_cpu = columns.kind[i] == CPU
        key = (copy.source, copy.target, copy.memory, on_cpu)
        if key not in ways:
            ways[key] = way_of(copy, on_cpu)
        way = ways[key]
        route = durations.route(copy, way.crosses, way.on_cores)
        shift_s = max(way.shift_s, -route.latency_s)
        if shift_s:
            route = route._replace(latency_s=route.latency_s + shift_s)
        columns.call_s[i] = way.call_s
        if way.company_s:
            columns.company_s[i] = way.company_s, 0.0
        columns.flags[i] |= way.flags
        if not model.contention:
            columns.work_s[i] = way.link.duration_s(copy.read.value.nbytes) + shift_s
            route = route._replace(crosses=())
        else:
            if route not in alone_s:
                alone_s[route] = route.alone_s(columns.capacities)
            columns.work_s[i] = alone_s[route]
        if way.shared or i in columns.engine_of or i in columns.pressures or i in columns.slowed:
            columns.resource[i] = NETWORK
        if columns.resource[i] == NETWORK or (on_cpu and model.contention):
            columns.routes[i] = route


def _users(columns: Columns, durations: Durations, plan: Plan) -> dict[str, set[int]]:
    """Lanes whose copies cross each capacity."""
    users: dict[str, set[int]] = {}
    for i, copy in plan.copies.items():
        for name in durations.link(copy).crosses:
            users.setdefault(name, set()).add(columns.lane[i])
    return users


def _lanes_near(users: dict[str, set[int]], tables: Mapping[str, CapacityTable]) -> dict[str, set[int]]:
    """Lanes whose transfers change the rate of each capacity: those that cross it, and those its table counts."""
    near = {name: set(lanes) for name, lanes in users.items()}
    for name, table in tables.items():
        for other in table.by:
            if name in near and other in users:
                near[name] |= users[other]
    return near


def finish(columns: Columns, joins: dict[int, tuple[int, ...]], model: Model) -> None:
    """Fill what follows from the waits and the order of calls; then add `joins`, waits that cost the thread nothing."""
    kind, waits, lane = columns.kind, columns.waits, columns.lane
    wait_s, record_s = columns.lanes.wait_s, columns.dispatch.record_s
    before_s = columns.before_s = [0.0] * len(columns)
    add_changes(columns)
    waited: set[int] = set()
    for i, before in enumerate(waits):
        if before:
            waited.update(before)
        if before and kind[i] == CUDA:
            costs_s = None if inside(columns, i) else wait_s[lane[i]]
            for j in before:
                if kind[j] == CUDA and costs_s is not None:
                    before_s[i] += costs_s[lane[j]]
                elif kind[j] == CPU and model.blocking:
                    columns.flags[i] |= NEEDS_CPU
    for j in waited:
        if kind[j] == CUDA:
            columns.after_s[j] += record_s
    columns.previous = []
    last = [-1] * len(columns.lanes.kind)
    for i, number in enumerate(lane):
        columns.previous.append(last[number])
        last[number] = i
        if i in columns.more_lanes:
            _occupy(columns.more_lanes[i], i, last, joins)
    if columns.graphs is not None:
        columns.next_copy = {columns.previous[i]: i for i in columns.engine_of if columns.previous[i] >= 0}
    if columns.graphs is None:
        columns.final = [i for i in dict.fromkeys(last) if i >= 0 and kind[i] == CUDA and i not in waited]
    if joins:
        columns.waits = [w + joins.get(i, ()) for i, w in enumerate(waits)]


def _occupy(lanes: Sequence[int], i: int, last: list[int], joins: dict[int, tuple[int, ...]]) -> None:
    """Collective `i` stands behind the last action of each of its further `lanes`, at no cost to the thread."""
    before = tuple(last[lane] for lane in lanes if last[lane] >= 0)
    if before:
        joins[i] = tuple(dict.fromkeys((*joins.get(i, ()), *before)))
    for lane in lanes:
        last[lane] = i
