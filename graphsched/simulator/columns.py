"""A plan as the simulator reads it: for each action, what it costs whom and what it waits for.

Columns are plain lists indexed by action, made once and read by every run of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsched.costs import Beside, TaskCost
from graphsched.errors import PlanError
from graphsched.plan import OUTSIDE, Plan, segments_of
from graphsched.plan.segments import blocks
from graphsched.platform import CapacityTable, Dispatch
from graphsched.simulator.durations import Durations
from graphsched.simulator.graph_mode import copy_shift_s, in_graph, inside, launch_graphs
from graphsched.simulator.graph_segments import Replays
from graphsched.simulator.host_calls import add_changes, call_kinds, copy_call_s, frees_s, with_cpu_lanes
from graphsched.simulator.kinds import Kinds
from graphsched.simulator.lane_costs import CPU, CUDA, Lanes, lanes_of
from graphsched.simulator.model import Model, switched
from graphsched.simulator.network import Route, Table, tables_of
from graphsched.simulator.traffic import couplings, memory_shares

NEEDS_CPU = 1  # the thread must wait for results of CPU lanes before it issues the action
BLOCKS = 2  # the thread waits until the action is over
SEVERAL = 4  # more than one launch

ALONE = -1  # the action shares nothing: its end is known as soon as its start is
NETWORK = -2


@dataclass(slots=True)
class Columns:
    """Columns by action; times in seconds.

    Attributes:
        lane, kind: Lane number; `CUDA`, `CPU` or `WAIT`.
        call: What the thread calls, as a number: actions of one number call the same function. Empty where
            changes cost nothing.
        own_s: Host time before the action's waits.
        call_s: Host time of the calls that launch it (for CPU lanes: of handing it over).
        waits, joins: What it waits for, at a cost to the thread; what it waits for at none.
        previous: The action before it on its lane, or -1.
        company_s: What its call takes longer after many others of other kinds, and on another stream than the last
            call's, where that was measured.
        before_s, after_s: Host time before and after its calls.
        final: Last actions of lanes of GPUs, of those that no other action waits for, in the lanes' order.
        launches, work_s: Kernels; seconds alone.
        flags: `NEEDS_CPU`, `BLOCKS`, `SEVERAL`, `graph_mode.CHAINED`.
        resource: `ALONE`, `NETWORK` or the number of a pool.
        curve_of, threads_of: Of actions in pools: place in `curves`; threads used.
        pairs: What is measured of two side by side, by places in `curves`.
        block_queue: Blocks of kernels are placed one by one where they are known.
        routes: Of transfers that share capacities, or are made by a core.
        tables: Of capacities, by number: how they fall with load.
        held: Transfers that keep one of the shared cores busy.
        pools: Number of pools; the last is that of the cores.
        graphs: In graph mode, the CUDA graphs.
        spacing_s: Of pools of lanes in a graph: least time from the start of one node to that of the next.
        lone: How many pools before the last hold tasks that only copies slow.
        shares: Memory shares of tasks that copies slow, or that slow copies.
        pressures, slowed: What copies cost tasks, and tasks them, see `simulator.traffic`.
        late_events_s: What timing events take longer beside copies, see `simulator.timing_events`.
        event_gates: Device of each action of a graph whose timing events pass in turn with those of other lanes.
        event_spacing_s: By such a device, least time from one of them to the next, see `simulator.event_nodes`.
    """

    lanes: Lanes
    dispatch: Dispatch
    queue_depth: int | None
    lane: list[int]
    kind: list[int]
    call: list[int]
    own_s: list[float]
    call_s: list[float]
    waits: Sequence[tuple[int, ...]]
    launches: list[int]
    work_s: list[float]
    flags: list[int]
    resource: list[int]
    previous: list[int] = field(default_factory=list)
    company_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    before_s: list[float] = field(default_factory=list)
    after_s: list[float] = field(default_factory=list)
    final: list[int] = field(default_factory=list)
    curves: list[TaskCost] = field(default_factory=list)
    curve_of: dict[int, int] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Beside] = field(default_factory=dict)
    block_queue: bool = True
    threads_of: dict[int, int] = field(default_factory=dict)
    routes: dict[int, Route] = field(default_factory=dict)
    held: dict[int, None] = field(default_factory=dict)
    capacities: list[float] = field(default_factory=list)
    tables: dict[int, Table] = field(default_factory=dict)
    cores: int = 1
    pools: int = 1
    graphs: Replays | None = None
    spacing_s: dict[int, float] = field(default_factory=dict)
    lone: int = 0
    shares: dict[int, float] = field(default_factory=dict)
    pressures: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    slowed: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    late_events_s: dict[int, float] = field(default_factory=dict)
    event_gates: dict[int, int] = field(default_factory=dict)
    event_spacing_s: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lane)


def tabulate(plan: Plan, model: Model) -> tuple[Columns, tuple[str, ...]]:
    """The columns of `plan` under `model`, and the names of tasks whose costs are estimates.

    Raises:
        CostError: A task has durations for other devices only.
        PlatformError: A link does not exist.
        PlanError: An action is of a kind that is not simulated yet.
    """
    segments = segments_of(plan) if plan.mode == "graph" else None
    dispatch = plan.platform.dispatch
    if segments is not None:
        dispatch = in_graph(dispatch, whole=OUTSIDE not in segments.of)
    dispatch = switched(dispatch, model)
    lanes = lanes_of(plan, dispatch)
    dispatch = with_cpu_lanes(dispatch, lanes.kind)
    columns = Columns(
        lanes=lanes,
        dispatch=dispatch,
        queue_depth=int(dispatch.queue_depth) if model.launch_queue and segments is None else None,
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
    )
    durations = Durations(plan)
    columns.after_s = frees_s(columns, plan)
    costs = _fill_runs(columns, durations, plan, model)
    if model.sharing:
        _share_devices(columns, costs, plan, model)
    if model.traffic:
        _share_memory(columns, costs, durations, plan)
    _fill_copies(columns, durations, plan, model)
    if model.sharing:
        _share_cores(columns, plan)
    if segments is not None:
        launch_graphs(columns, segments)
    return columns, tuple(durations.estimated)


def _fill_runs(columns: Columns, durations: Durations, plan: Plan, model: Model) -> dict[int, TaskCost]:
    """Times of tasks; returns the costs of those on GPUs."""
    graph = plan.mode == "graph"
    handoff_s, run_s = columns.dispatch.handoff_s, columns.dispatch.run_s
    devices = [plan.platform.device(lane.device) if lane.kind == "compute" else None for lane in plan.lanes]
    tasks = dict(plan.work.graph.nodes(data="task"))
    costs: dict[int, TaskCost] = {}
    for i, kind in enumerate(plan.kinds):
        if kind == "run":
            device = devices[columns.lane[i]]
            if device is None:
                raise PlanError(f"task {plan.names[i]!r} is on {plan.lanes[columns.lane[i]].name}, no compute lane")
            cost = durations.task(tasks[plan.names[i]], device)
            columns.work_s[i] = cost.device_s
            if columns.kind[i] == CPU:
                columns.call_s[i] = handoff_s
                continue
            costs[i] = cost
            columns.own_s[i] = run_s
            columns.call_s[i] = cost.dispatch_at(columns.dispatch.call_s) if model.dispatch and not graph else 0.0
            if cost.company_s is not None:
                pace = cost.pace_at(columns.dispatch.call_s)
                columns.company_s[i] = cost.company_s * pace, cost.switching_s * pace
            if cost.launches > 1:
                columns.launches[i] = cost.launches
                columns.flags[i] = 0 if graph else SEVERAL
        elif kind == "collective":
            raise PlanError(f"{plan.names[i]!r} is a collective, which cannot be predicted yet")
    return costs


def _fill_copies(columns: Columns, durations: Durations, plan: Plan, model: Model) -> None:
    """Times and blocking of copies; routes for those whose capacities other lanes use too."""
    users: dict[str, set[int]] = {}
    for i, copy in plan.copies.items():
        for name in durations.link(copy).crosses:
            users.setdefault(name, set()).add(columns.lane[i])
    numbers = {name: k for k, name in enumerate(users)}
    columns.capacities = [plan.platform.capacities[name] for name in users]
    columns.tables = tables_of(plan.platform.tables if model.load else {}, numbers)
    lanes_near = _lanes_near(users, plan.platform.tables if model.load else {})
    for i, copy in plan.copies.items():
        link = durations.link(copy)
        on_cpu = columns.kind[i] == CPU
        route = durations.route(copy, tuple(numbers[name] for name in link.crosses), on_cpu)
        shift_s = 0.0 if blocks(plan, copy) else max(copy_shift_s(copy, link, plan), -route.latency_s)
        if shift_s:
            route = route._replace(latency_s=route.latency_s + shift_s)
        columns.call_s[i] = columns.dispatch.handoff_s if on_cpu else copy_call_s(copy, plan, columns.dispatch)
        if link.blocking and model.blocking and not on_cpu:
            columns.flags[i] |= BLOCKS
        if not model.contention:
            columns.work_s[i] = link.duration_s(copy.read.value.nbytes) + shift_s
            route = route._replace(crosses=())
        else:
            columns.work_s[i] = route.alone_s(columns.capacities)
        shared = model.contention and any(len(lanes_near[name]) > 1 for name in link.crosses)
        if shared or i in columns.pressures or i in columns.slowed:
            columns.resource[i] = NETWORK
        if columns.resource[i] == NETWORK or (on_cpu and model.contention):
            columns.routes[i] = route


def _lanes_near(users: dict[str, set[int]], tables: Mapping[str, CapacityTable]) -> dict[str, set[int]]:
    """Lanes whose transfers change the rate of each capacity: those that cross it, and those its table counts."""
    near = {name: set(lanes) for name, lanes in users.items()}
    for name, table in tables.items():
        for other in table.by:
            if name in near and other in users:
                near[name] |= users[other]
    return near


def _share_devices(columns: Columns, costs: dict[int, TaskCost], plan: Plan, model: Model) -> None:
    """Give tasks on a GPU with several busy compute lanes to that GPU's pool."""
    busy: dict[str, dict[int, None]] = {}
    for i in costs:
        busy.setdefault(plan.lanes[columns.lane[i]].device, {})[columns.lane[i]] = None
    crowded = [lanes for lanes in busy.values() if len(lanes) > 1]
    pool_of = {lane: k for k, lanes in enumerate(crowded) for lane in lanes}
    columns.pools = len(crowded) + 1
    columns.block_queue = model.block_queue
    if plan.mode == "graph":
        columns.spacing_s = {k: columns.dispatch.graph_rate_s(len(lanes)) for k, lanes in enumerate(crowded)}
    pairs = plan.costs.pairs if model.pairs and crowded else {}
    kinds = Kinds(plan, {(key[side], key[2]) for key in pairs for side in (0, 1)})
    for i, cost in costs.items():
        pool = pool_of.get(columns.lane[i])
        if pool is not None:
            columns.resource[i] = pool
            columns.curve_of[i] = kinds.place(i, columns.lane[i], cost)
    columns.curves = kinds.costs
    columns.pairs = {(a, b): pair for key, pair in pairs.items() for a, b in kinds.places(*key)}


def _share_memory(columns: Columns, costs: dict[int, TaskCost], durations: Durations, plan: Plan) -> None:
    """Put tasks that copies slow, or that slow copies, into pools, alone there as they may be; say who slows whom."""
    found = couplings(plan, durations.link)
    if not found:
        return
    by_block = _placed_by_block(columns, costs)
    pressed, slowing = ({device for both in found.values() for device, _ in both[side]} for side in (0, 1))
    moved = {i: cost for i, cost in costs.items() if columns.resource[i] not in by_block}
    columns.shares = memory_shares(plan, moved, pressed) | memory_shares(plan, costs, slowing)
    pools = _memory_pools(columns, plan)
    for i, (presses, slowed) in found.items():
        felt = tuple((pools[k], x) for k, x in presses if k in pools and pools[k] not in by_block)
        paid = tuple((pools[k], x) for k, x in slowed if k in pools)
        if felt:
            columns.pressures[i] = felt
        if paid:
            columns.slowed[i] = paid


def _memory_pools(columns: Columns, plan: Plan) -> dict[str, int]:
    """By device, the pool of its tasks that have a memory share: the one that they are in, or else one of their own."""
    pools: dict[str, int] = {}
    for i in columns.shares:
        device = plan.lanes[columns.lane[i]].device
        if device not in pools:
            pools[device] = columns.resource[i]
            if columns.resource[i] == ALONE:
                pools[device] = columns.pools - 1
                columns.pools, columns.lone = columns.pools + 1, columns.lone + 1
        columns.resource[i] = pools[device]
    return pools


def _placed_by_block(columns: Columns, costs: dict[int, TaskCost]) -> set[int]:
    """Pools whose kernels are placed block by block, for all of them are known: copies do not slow these."""
    if not columns.block_queue:
        return set()
    unknown = {columns.resource[i] for i, cost in costs.items() if not (cost.kernels and cost.processors)}
    return {columns.resource[i] for i in costs} - unknown - {ALONE}


def _share_cores(columns: Columns, plan: Plan) -> None:
    """Give what CPU lanes do to the pool of the cores, if together they may want more than there are."""
    threads = {
        lane: plan.platform.device(plan.lanes[lane].device).threads if plan.lanes[lane].kind == "compute" else 1
        for lane in dict.fromkeys(columns.lane)
        if columns.lanes.kind[lane] == CPU
    }
    if sum(threads.values()) <= plan.platform.cores:
        return
    for i, kind in enumerate(columns.kind):
        if kind == CPU:
            columns.threads_of[i] = 1 if plan.kinds[i] == "copy" else threads[columns.lane[i]]
            if i in columns.routes:
                columns.resource[i] = NETWORK
                columns.held[i] = None
            else:
                columns.resource[i] = columns.pools - 1


def finish(columns: Columns, joins: dict[int, tuple[int, ...]], model: Model) -> None:
    """Fill what follows from the waits and the order of calls; then add `joins`, waits that cost the thread nothing."""
    n, kind, waits, lane = len(columns), columns.kind, columns.waits, columns.lane
    wait_s, record_s = columns.lanes.wait_s, columns.dispatch.record_s
    columns.before_s = [0.0] * n
    add_changes(columns)
    recorded: set[int] = set()
    for i, before in enumerate(waits):
        for j in before:
            if kind[j] == CUDA:
                recorded.add(j)
                if kind[i] == CUDA and not inside(columns, i):
                    columns.before_s[i] += wait_s[lane[i]][lane[j]]
            elif kind[j] == CPU and kind[i] == CUDA and model.blocking:
                columns.flags[i] |= NEEDS_CPU
    for j in recorded:
        columns.after_s[j] += record_s
    columns.previous = [-1] * n
    last = [-1] * len(columns.lanes.kind)
    for i, number in enumerate(lane):
        columns.previous[i], last[number] = last[number], i
    waited = {j for before in waits for j in before}
    if columns.graphs is None:
        columns.final = [i for i in last if i >= 0 and kind[i] == CUDA and i not in waited]
    if joins:
        columns.waits = [w + joins.get(i, ()) for i, w in enumerate(waits)]
