"""Host time of calls beyond a row of their own: other kinds in between, other streams, memory given back.

The first call of an operation in a run finds nothing in the processor's caches, if others were called since the last:
what ends a run and begins the next lies in between. A later one finds the more of it the fewer other kinds came
between: a share of what it was measured to lose to `COMPANY_KINDS`. So does a copy, even the first: most of its code it
has in common with other copies. This was found in plans of LeNet, a transformer and a cell of GoogLeNet on one GPU,
timed call by call, and chosen with recorded runs in view; so was it that the share goes with the number of kinds, as
what tiny operations lose does in the median of 26 readings (12, 45 and 91 % after 1, 5 and 11 kinds), whereas one of a
disturbed host says 41 % after one.

How cold a call is goes with how long its last one lies back, too, and with what neighbours do on the processor
meanwhile: company is measured at two such distances (`TaskCost.company_after`) and scaled by what calls take after
waits now and took then (`TaskCost.cold_pace_at`). With company from some milliseconds back a cell of GoogLeNet was
predicted 33 % too long on a host whose neighbours were busy only while costs were measured; without that scale 14 % too
short where they were busy only during the runs; with both 2 % off, on a quieter host (readings that were not
recorded). The length of a whole run is taken for the distance of all of its operations.

That no call of an operation, or of a copy, is colder than after `COMPANY_KINDS` other kinds was settled with a
recording on four GPUs in view (caps of half, one, one and a half and none were compared), which is therefore no test of
it. Nor are recordings of LeNet and of graphs on four GPUs one of what counts as another kind: that an operation on one
GPU warms the same on the next (of four calls of a product the first took 67 µs, the others 29 to 32), while a copy
between other devices is colder than the same again (of both alike, none, and copies of one direction alike, this came
nearest).

Not modelled: calls of CPU lanes; what the arguments of a call take that no cache holds; that of a small copy that
blocks some is the device's, which is as fast whatever the thread's speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.costs import COMPANY_KINDS, company_share
from graphsched.plan import Copy, Plan
from graphsched.platform import Dispatch, Link
from graphsched.platform.dispatch import BLOCKING_BYTES
from graphsched.simulator.call_distance import call_distances
from graphsched.simulator.empty_nodes import without_empty
from graphsched.simulator.event_nodes import with_event_nodes
from graphsched.simulator.graph_joins import with_joins
from graphsched.simulator.graph_mode import inside
from graphsched.simulator.lane_costs import CPU, CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns


def call_kinds(plan: Plan) -> list[int]:
    """A number for what each action calls: an operation by its name, on whatever GPU, or a copy by its two ends."""
    numbers: dict[tuple[str, ...], int] = {}
    found = []
    for i, (name, task) in enumerate(zip(plan.names, plan.tasks, strict=True)):
        copy = plan.copies.get(i)
        if copy is not None:
            key: tuple[str, ...] = ("copy", copy.source, copy.target)
        else:
            key = ("run", task.signature.partition("(")[0] if task is not None else name)
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def frees_s(columns: Columns, plan: Plan) -> list[float]:
    """What giving memory back takes the thread after each action; lanes of the CPU do it themselves."""
    found = [0.0] * len(plan)
    for i, freed in plan.frees.items() if columns.dispatch.free_s else ():
        if columns.kind[i] == CUDA:
            found[i] = columns.dispatch.free_s * len(freed)
    return found


def copy_call_s(copy: Copy, plan: Plan, costs: Dispatch) -> float:
    """Host time of issuing a copy: of one that blocks, what it takes beyond its launch and the link's time."""
    link = plan.platform.link(copy.source, copy.target, copy.memory)
    whole_s = _blocking_s(copy, costs) if link.blocking else 0.0
    if whole_s and costs.copy_s:
        return max(0.0, whole_s - costs.launch_s - _measured_on(copy, plan).duration_s(BLOCKING_BYTES))
    if _between_gpus(copy, plan):
        return costs.peer_copy_s
    return costs.copy_out_s or costs.copy_s if copy.target == "cpu" else costs.copy_s


def copy_company_s(copy: Copy, plan: Plan, costs: Dispatch) -> float:
    """What issuing a copy takes longer after calls of many other kinds; 0: unknown, or it blocks."""
    if plan.platform.link(copy.source, copy.target, copy.memory).blocking:
        return 0.0
    if _between_gpus(copy, plan):
        return costs.peer_company_s
    return costs.copy_out_company_s if copy.target == "cpu" else costs.copy_company_s


def _between_gpus(copy: Copy, plan: Plan) -> bool:
    ends = (copy.source, copy.target)
    return copy.source != copy.target and all(plan.platform.device(end).kind == "cuda" for end in ends)


def _measured_on(copy: Copy, plan: Plan) -> Link:
    """The link that small copies like it were measured on: that of the first GPU."""
    gpu = next(device.name for device in plan.platform.devices if device.kind == "cuda")
    ends = (copy.source, gpu) if copy.source == "cpu" else (gpu, copy.target)
    return plan.platform.link(*ends, copy.memory)


def _blocking_s(copy: Copy, costs: Dispatch) -> float:
    """A copy of `BLOCKING_BYTES` from its call to its return; 0 if unknown, or if neither end is the host's memory."""
    if copy.source == copy.target or "cpu" not in (copy.source, copy.target):
        return 0.0
    if copy.source == "cpu":
        return costs.blocking_in_s
    return costs.fresh_out_s if copy.memory == "fresh" else costs.blocking_out_s


def add_changes(columns: Columns) -> None:
    """What a call to a stream takes longer as the first of all, for the calls of other kinds before it, and where
    the call before went to another stream: both in one for an operation that was measured after other kinds.

    It is the call that takes longer: a timing event before it is recorded without that."""
    dispatch = columns.dispatch
    places = [i for i, kind in enumerate(columns.kind) if kind == CUDA] if columns.call else []
    most = min(max([COMPANY_KINDS, *(kinds for kinds, _ in dispatch.changes)]), len(set(columns.call)))
    added_s = [dispatch.change_after_s(others) for others in range(most + 1)]
    shares = [company_share(others) for others in range(most + 1)]
    before = columns.lane[places[-1]] if places else -1
    longer_s = dict.fromkeys(places, 0.0)
    called: set[int] = set()
    for i, others in zip(places, call_distances([columns.call[i] for i in places], most), strict=True):
        company, share = columns.company.get(i), shares[others]
        if company is None:
            longer_s[i] += added_s[others]
        else:
            if company.own_code and others and columns.call[i] not in called:
                share = 1.0
            longer_s[i] += company.others_s * share
            longer_s[i] += company.switching_s * (1.0 - share) if columns.lane[i] != before else 0.0
        called.add(columns.call[i])
        before = columns.lane[i]
    if places:
        longer_s[places[0]] += dispatch.start_s
    for i, seconds in longer_s.items():
        in_call = columns.launches[i] == 1 and not inside(columns, i)  # several launches share a call
        (columns.call_s if in_call else columns.before_s)[i] += seconds


def with_cpu_lanes(costs: Dispatch, kinds: Sequence[int]) -> Dispatch:
    """Costs of dispatch of a plan with lanes of these kinds: without CPU lanes the thread that waits for a GPU lets
    nothing else run, see `simulator.returns`."""
    return costs if CPU in kinds and CUDA in kinds else replace(costs, look_s=0.0, yield_s=0.0)


def queries_s(columns: Columns, end_s: Sequence[float]) -> float:
    """The thread asks lane after lane whether it is done: after the last to end, those that come behind it."""
    final = columns.final
    if len(final) < 2:
        return 0.0
    last = max(range(len(final)), key=lambda k: (end_s[final[k]], k))
    return (len(final) - 1 - last) * columns.dispatch.query_s


def without_events(columns: Columns) -> Columns:
    """`columns` of a run without timing events that follows one like it."""
    return _warm(with_joins(without_empty(columns)))


def _warm(columns: Columns) -> Columns:
    """The first calls find the processor's caches as the run before left them."""
    if CUDA not in columns.kind:
        return columns
    first, before_s = columns.kind.index(CUDA), list(columns.before_s)
    before_s[first] += columns.lanes.first_s[columns.lane[first]] - columns.dispatch.start_s
    return replace(columns, before_s=before_s)


def with_events(columns: Columns, plan: Plan) -> Columns:
    """`columns` of a run of `plan` with timing events: lanes wait longer for each other (`simulator.event_nodes`).

    Where events are served in turn, an edge between tasks on two lanes of a GPU is in what the event behind it takes.
    """
    columns = with_joins(with_event_nodes(columns, plan))
    edge_s, lanes = columns.dispatch.timed_edge_s, columns.lanes
    if not edge_s and not columns.events_of:
        return columns
    streams = [kind == CUDA for kind in lanes.kind]
    tasks = [lane.kind == "compute" for lane in plan.lanes]

    def latency_s(a: int, b: int) -> float:
        if a == b or not (streams[a] and streams[b]):
            return lanes.latency_s[a][b]
        served = columns.events_of and tasks[a] and tasks[b] and lanes.queue[a] == lanes.queue[b]
        return 0.0 if served else lanes.latency_s[a][b] + edge_s

    numbers = range(len(lanes.latency_s))
    return replace(columns, lanes=replace(lanes, latency_s=[[latency_s(a, b) for b in numbers] for a in numbers]))
