"""Which actions share what: GPUs with several busy lanes, memory that copies and kernels use, cores of CPU lanes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphsched.costs import TaskCost
from graphsched.plan import Plan
from graphsched.simulator.columns import ALONE, NETWORK, Columns
from graphsched.simulator.durations import Durations
from graphsched.simulator.host_memory import CACHED_BYTES, memory_bytes_per_s, moved_bytes_per_s
from graphsched.simulator.kinds import Kinds
from graphsched.simulator.lane_costs import CPU
from graphsched.simulator.model import Model
from graphsched.simulator.traffic import LANES, Coupling, couplings, memory_shares


def share_devices(columns: Columns, costs: dict[int, TaskCost], plan: Plan, model: Model) -> None:
    """Give tasks on a GPU with several busy compute lanes to that GPU's pool."""
    busy: dict[str, dict[int, None]] = {}
    for lane in dict.fromkeys([columns.lane[i] for i in costs]):
        busy.setdefault(plan.lanes[lane].device, {})[lane] = None
    crowded = [lanes for lanes in busy.values() if len(lanes) > 1]
    pool_of = {lane: k for k, lanes in enumerate(crowded) for lane in lanes}
    columns.pools = len(crowded) + 1
    columns.block_queue = model.block_queue
    if plan.mode == "graph":
        columns.spacing_s = {k: columns.dispatch.graph_rate_s(len(lanes)) for k, lanes in enumerate(crowded)}
    if not crowded:
        return
    pairs = plan.costs.pairs if model.pairs else {}
    kinds = Kinds(plan, {(key[side], key[2]) for key in pairs for side in (0, 1)})
    for i, cost in costs.items():
        pool = pool_of.get(columns.lane[i])
        if pool is not None:
            columns.resource[i] = pool
            columns.curve_of[i] = kinds.place(i, columns.lane[i], cost)
    columns.curves = kinds.costs
    if plan.mode == "graph":
        pairs = {key: pair.in_graph() for key, pair in pairs.items()}
    columns.pairs = {(a, b): pair for key, pair in pairs.items() for a, b in kinds.places(*key)}


def share_memory(columns: Columns, costs: dict[int, TaskCost], durations: Durations, plan: Plan, model: Model) -> None:
    """Put tasks that copies slow, or that slow copies, into pools, alone there as they may be; say who slows whom.

    Args:
        columns: To be filled.
        costs: Of tasks on GPUs; the others have their times in `columns`.
        durations: Of `plan`.
        plan: What is simulated.
        model: Says whether tasks by what they move, several lanes as such, or both slow copies.
    """
    found = couplings(plan, durations.link)
    if not model.traffic:
        found = {i: Coupling((), (), both.lanes) for i, both in found.items()}
    if not found:
        return
    by_block = _placed_by_block(columns, costs)
    pressed, slowing = ({device for both in found.values() for device, _ in both[side]} for side in (0, 1))
    every = costs | _through_memory(columns, durations, plan)
    moved = {i: cost for i, cost in every.items() if columns.resource[i] not in by_block}
    columns.shares = memory_shares(plan, moved, pressed) | memory_shares(plan, every, slowing)
    pools = _memory_pools(columns, plan)
    several = (
        _several(columns, costs, plan, {k for both in found.values() for k, _ in both.lanes}) if model.lanes else {}
    )
    columns.several = frozenset(several.values())
    pools |= _cores_pools(columns, plan)
    for i, (presses, slowed, beside) in found.items():
        felt = tuple((pools[k], x) for k, x in presses if k in pools and pools[k] not in by_block)
        paid = tuple((pools[k], x) for k, x in slowed if k in pools)
        paid += tuple((columns.pools + several[k], x) for k, x in beside if k in several)
        if felt:
            columns.pressures[i] = felt
        if paid:
            columns.slowed[i] = paid


def _several(columns: Columns, costs: dict[int, TaskCost], plan: Plan, devices: Collection[str]) -> dict[str, int]:
    """Of these devices, those with tasks on `LANES` lanes or more, with the pool that all of these are put into."""
    tasks: dict[str, list[int]] = {}
    for i in costs:
        tasks.setdefault(plan.lanes[columns.lane[i]].device, []).append(i)
    found = {}
    for device, here in tasks.items():
        if device in devices and len({columns.lane[i] for i in here}) >= LANES:
            pool = max(columns.resource[i] for i in here)
            found[device] = _lone_pool(columns) if pool == ALONE else pool
            for i in here:
                columns.resource[i] = found[device]
    return found


def _through_memory(columns: Columns, durations: Durations, plan: Plan) -> dict[int, TaskCost]:
    """Times of the tasks on CPU lanes whose values are too large for caches, as costs.

    What they then copy into pinned memory moves as many bytes a second as they do.
    """
    return {
        i: TaskCost(columns.work_s[i] - durations.pinning_s(task, columns.dispatch))
        for i, task in enumerate(plan.tasks)
        if columns.kind[i] == CPU and plan.kinds[i] == "run" and task is not None and task.nbytes >= CACHED_BYTES
    }


def _memory_pools(columns: Columns, plan: Plan) -> dict[str, int]:
    """By device, the pool of its tasks that have a memory share: the one that they are in, or else one of their own."""
    pools: dict[str, int] = {}
    for i in columns.shares:
        device = plan.lanes[columns.lane[i]].device
        if columns.kind[i] == CPU:
            continue
        if device not in pools:
            pools[device] = columns.resource[i]
            if columns.resource[i] == ALONE:
                pools[device] = _lone_pool(columns)
        columns.resource[i] = pools[device]
    return pools


def _lone_pool(columns: Columns) -> int:
    """A new pool, of tasks that do not slow each other."""
    columns.pools, columns.lone = columns.pools + 1, columns.lone + 1
    return columns.pools - 2


def _cores_pools(columns: Columns, plan: Plan) -> dict[str, int]:
    """By device, the pool of its tasks on CPU lanes that have a memory share: that of the cores, where they are put."""
    found = {}
    for i in columns.shares:
        if columns.kind[i] == CPU:
            found[plan.lanes[columns.lane[i]].device] = columns.resource[i] = columns.pools - 1
            columns.threads_of[i] = 0  # there are cores for all, unless `share_cores` finds that there are not
    return found


def _placed_by_block(columns: Columns, costs: dict[int, TaskCost]) -> set[int]:
    """Pools whose kernels are placed block by block, for all of them are known: copies do not slow these."""
    if not columns.block_queue:
        return set()
    unknown = {columns.resource[i] for i, cost in costs.items() if not (cost.kernels and cost.processors)}
    return {columns.resource[i] for i in costs} - unknown - {ALONE}


def share_cores(columns: Columns, plan: Plan, model: Model) -> None:
    """Give what CPU lanes do to the pool of the cores, if together they may want more than there are.

    Tasks are there, too, where they may want more of the host's memory than there is.
    """
    threads = {
        lane: plan.platform.device(plan.lanes[lane].device).threads if plan.lanes[lane].kind == "compute" else 1
        for lane in dict.fromkeys(columns.lane)
        if columns.lanes.kind[lane] == CPU
    }
    if model.memory and len(threads) > 1:
        _share_host_memory(columns, plan)
    if sum(threads.values()) <= plan.platform.cores:
        for i in columns.moved:
            columns.threads_of[i], columns.resource[i] = threads[columns.lane[i]], columns.pools - 1
        return
    for i, kind in enumerate(columns.kind):
        if kind == CPU:
            columns.threads_of[i] = 1 if plan.kinds[i] == "copy" else threads[columns.lane[i]]
            if i in columns.routes:
                columns.resource[i] = NETWORK
                if columns.routes[i].on_cores:
                    columns.held[i] = None
            else:
                columns.resource[i] = columns.pools - 1


def watch_cores(columns: Columns) -> None:
    """Put tasks of CPU lanes that share nothing into the pool of the cores: that they compute matters to copies."""
    for i, kind in enumerate(columns.kind):
        if kind == CPU and columns.resource[i] == ALONE:
            columns.threads_of[i], columns.resource[i] = 0, columns.pools - 1  # as many cores as they want


def watch_lanes(columns: Columns, before: Sequence[int]) -> None:
    """Put tasks that share nothing back where they were: that several lanes are busy matters to copies.

    They share nothing there either: their times are known. `before`: the pool that each was in.
    """
    there = {i: pool for i, pool in enumerate(before) if pool in columns.several}
    for i, pool in there.items():
        columns.resource[i] = pool
    columns.curve_of = {i: curve for i, curve in columns.curve_of.items() if i not in there}
    columns.shares = {i: share for i, share in columns.shares.items() if i not in there}
    columns.spacing_s = {k: seconds for k, seconds in columns.spacing_s.items() if k not in columns.several}


def _share_host_memory(columns: Columns, plan: Plan) -> None:
    """Say what tasks move through memory, if those of all lanes may want more at once than there is."""
    columns.memory_bytes_per_s = memory_bytes_per_s(plan)
    moved = moved_bytes_per_s(columns, plan)
    most: dict[int, float] = {}
    for i, rate in moved.items():
        most[columns.lane[i]] = max(most.get(columns.lane[i], 0.0), rate)
    if len(most) > 1 and sum(most.values()) > columns.memory_bytes_per_s:
        columns.moved = moved
