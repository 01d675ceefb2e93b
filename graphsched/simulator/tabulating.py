"""A plan and its costs put into columns: times of tasks, and what the thread's waits add; for copies see `copying`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from graphsched.costs import TaskCost
from graphsched.errors import PlanError
from graphsched.plan import OUTSIDE, Plan, Segments, launching_lane, pinned_results, segments_of, spares_a_core, stamped
from graphsched.platform import Dispatch
from graphsched.platform.dispatch import COMPANY_WAIT_S
from graphsched.simulator.cache_states import inputs_longer_s
from graphsched.simulator.code_fetches import fetches_of
from graphsched.simulator.columns import ALONE, NEEDS_CPU, SEVERAL, CallCompany, Columns
from graphsched.simulator.copying import fill_copies
from graphsched.simulator.durations import Durations
from graphsched.simulator.graph_mode import EMPTY, in_graph, inside, launch_graphs
from graphsched.simulator.host_cache import uncached_part
from graphsched.simulator.host_calls import add_changes, call_kinds, frees_s, with_cpu_lanes
from graphsched.simulator.instruction_cache import company_longer_s, fetched_codes
from graphsched.simulator.interpreter_lock import makes_calls, takes_turns
from graphsched.simulator.lane_costs import CPU, CUDA, lanes_of
from graphsched.simulator.model import Model, switched
from graphsched.simulator.pools import share_cores, share_devices, share_memory, watch_cores
from graphsched.simulator.rank_threads import fill_ranks


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
    durations.uncached = uncached_part(plan, dispatch.sweeps, durations.memory if segments is not None else None)
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
    columns.job_s = 0.0 if columns.locks or plan.mode == "distributed" else dispatch.job_s
    costs = _fill_runs(columns, durations, plan, model)
    if model.sharing:
        share_devices(columns, costs, plan, model)
    if model.traffic or model.lanes:
        share_memory(columns, costs, durations, plan, model)
    fill_copies(columns, durations, plan, model)
    if model.sharing:
        share_cores(columns, plan, model)
    if columns.written:
        watch_cores(columns)
    if segments is not None:
        columns.launching, columns.far_lanes = _launched_on(plan, segments, columns.lanes.kind)
        launch_graphs(columns, segments)
    if makes_calls(columns):
        pinned = pinned_results(plan)
        columns.pinnings = {i: len(pinned[name]) for i, name in enumerate(plan.names) if name in pinned}
    if plan.mode == "distributed":
        fill_ranks(columns, plan)
    return columns, tuple(durations.estimated)


def _dispatch_of(plan: Plan, durations: Durations, segments: Segments | None) -> Dispatch:
    """Costs of dispatch as the plan has them, in graph mode those where CUDA graphs hold the `segments`."""
    costs = plan.platform.dispatch.awake() if spares_a_core(plan) else plan.platform.dispatch
    if segments is None:
        return costs
    memory = [n for name, n in durations.memory.items() if plan.platform.device(name).kind == "cuda"]
    whole = OUTSIDE not in segments.of
    return in_graph(costs, whole=whole, stamps=stamped(plan), memory_bytes=max(memory, default=0))


def _launched_on(plan: Plan, segments: Segments, kinds: Sequence[int]) -> tuple[int, frozenset[int]]:
    """The lane that graphs are launched on, and lanes of GPUs that are not on its GPU; -1 where there is no GPU."""
    devices = {k: lane.device for k, (lane, kind) in enumerate(zip(plan.lanes, kinds, strict=True)) if kind == CUDA}
    if not devices:
        return -1, frozenset()
    here = launching_lane(plan, segments)
    return here, frozenset(k for k, device in devices.items() if device != devices[here])


def _fill_runs(columns: Columns, durations: Durations, plan: Plan, model: Model) -> dict[int, TaskCost]:
    """Times of tasks; returns the costs of those on GPUs."""
    graph, dispatch, lane_of = plan.mode == "graph", columns.dispatch, columns.lane
    devices = [plan.platform.device(lane.device) if lane.kind == "compute" else None for lane in plan.lanes]
    costs: dict[int, TaskCost] = {}
    for i, (kind, task) in enumerate(zip(plan.kinds, plan.tasks, strict=True)):
        if kind == "run":
            device = devices[lane_of[i]]
            if device is None:
                raise PlanError(f"task {plan.names[i]!r} is on {plan.lanes[lane_of[i]].name}, no compute lane")
            assert task is not None
            cost = durations.task(task, device)
            if columns.kind[i] == CPU:
                yardsticks = dispatch.product_s, dispatch.sweep_s
                alone_s, rests = cost.on_lane_at(*yardsticks), cost.rests_at(*yardsticks)
                if model.rests and rests:
                    columns.rested[i], alone_s = rests, rests[0][1]
                columns.work_s[i] = alone_s + durations.pinning_s(task, dispatch) + columns.job_s
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


def _add_states(columns: Columns, costs: Mapping[int, TaskCost], plan: Plan, model: Model) -> None:
    """Add what tasks in graphs take longer by what caches hold; none takes less than no time."""
    inputs_s = inputs_longer_s(plan, costs) if model.cache else {}
    fetched = fetched_codes(plan, costs)
    company_s = company_longer_s(fetched) if model.company else {}
    columns.fetches = fetches_of(fetched) if model.fetches else {}
    for i in costs:
        columns.work_s[i] = max(0.0, columns.work_s[i] + inputs_s.get(i, 0.0) + company_s.get(i, 0.0))


def _fill_collective(columns: Columns, i: int, cost: TaskCost, model: Model) -> None:
    """Times of a collective: a thread makes one call for all of its devices, or hands it to the first of CPU lanes."""
    columns.work_s[i] = cost.device_s
    if columns.kind[i] == CPU:
        columns.call_s[i] = columns.dispatch.handoff_s
    else:
        columns.own_s[i] = columns.dispatch.run_s
        columns.call_s[i] = cost.dispatch_s * cost.pace_at(columns.dispatch.call_s) if model.dispatch else 0.0


def _fill_launches(columns: Columns, costs: Mapping[int, TaskCost], *, calls: bool, several: int) -> None:
    """Times of tasks on GPUs; `calls`: their calls take time, `several`: the flag of those of several launches."""
    run_s, call_s = columns.dispatch.run_s, columns.dispatch.call_s
    work_s, own_s, calls_s = columns.work_s, columns.own_s, columns.call_s
    in_company: list[int] = []
    for i, cost in costs.items():
        work_s[i] = cost.device_s
        own_s[i] = run_s
        if calls:
            calls_s[i] = cost.dispatch_s * cost.pace_at(call_s) if call_s else cost.dispatch_s
        if cost.launches > 1:
            columns.launches[i] = cost.launches
            columns.flags[i] = several
        if cost.company_s is not None:
            in_company.append(i)
    if in_company:
        _fill_company(columns, costs, in_company)


def _fill_company(columns: Columns, costs: Mapping[int, TaskCost], known: Sequence[int]) -> None:
    """What calls of `known` take longer beside others: the more, the longer a run is, and the colder calls are now."""
    dispatch, call_s = columns.dispatch, columns.dispatch.call_s
    row_s, cold_s = sum(columns.call_s[i] + columns.own_s[i] for i in costs), dispatch.cold_after_s(COMPANY_WAIT_S)
    for i in known:
        cost = costs[i]
        pace = cost.pace_at(call_s) if call_s else 1.0
        cold_pace = cost.cold_pace_at(call_s, cold_s) if dispatch.colds else pace
        company_s = cost.company_after(row_s / call_s if call_s else math.inf)
        columns.company[i] = CallCompany(company_s * cold_pace, cost.switching_s * pace, own_code=True)


def finish(columns: Columns, joins: dict[int, tuple[int, ...]], model: Model) -> None:
    """Fill what follows from the waits and the order of calls; then add `joins`, waits that cost the thread nothing."""
    kind, waits, lane = columns.kind, columns.waits, columns.lane
    wait_s, record_s = columns.lanes.wait_s, columns.dispatch.record_s
    before_s = columns.before_s = [0.0] * len(columns)
    columns.row_s = list(columns.call_s)
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
    previous, more_lanes = [-1] * len(columns), columns.more_lanes
    last = [-1] * len(columns.lanes.kind)
    for i, number in enumerate(lane):
        previous[i] = last[number]
        last[number] = i
        if more_lanes and i in more_lanes:
            _occupy(more_lanes[i], i, last, joins)
    columns.previous = previous
    columns.on_cpu = _on_cpu(columns)
    if columns.graphs is not None:
        columns.next_copy = {columns.previous[i]: i for i in columns.engine_of if columns.previous[i] >= 0}
    if columns.graphs is None:
        columns.final = [i for i in dict.fromkeys(last) if i >= 0 and kind[i] == CUDA and i not in waited]
    if joins:
        columns.waits = [w + joins.get(i, ()) for i, w in enumerate(waits)]


def _on_cpu(columns: Columns) -> list[list[int]]:
    """Actions of each CPU lane that has any."""
    found: dict[int, list[int]] = {}
    for i, kind in enumerate(columns.kind):
        if kind == CPU:
            found.setdefault(columns.lane[i], []).append(i)
    return list(found.values())


def _occupy(lanes: Sequence[int], i: int, last: list[int], joins: dict[int, tuple[int, ...]]) -> None:
    """Collective `i` stands behind the last action of each of its further `lanes`, at no cost to the thread."""
    before = tuple(last[lane] for lane in lanes if last[lane] >= 0)
    if before:
        joins[i] = tuple(dict.fromkeys((*joins.get(i, ()), *before)))
    for lane in lanes:
        last[lane] = i
