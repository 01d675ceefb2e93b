"""A plan as the simulator reads it: for each action, what it costs whom and what it waits for.

Columns are plain lists indexed by action, made once by `simulator.tabulating` and read by every run of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from graphsched.costs import Beside, TaskCost
from graphsched.platform import Dispatch
from graphsched.simulator.code_fetches import Fetch
from graphsched.simulator.graph_segments import Replays
from graphsched.simulator.lane_costs import Lanes
from graphsched.simulator.network import Route, Table
from graphsched.simulator.written_copies import Written

NEEDS_CPU = 1  # the thread must wait for results of CPU lanes before it issues the action
BLOCKS = 2  # the thread waits until the action is over
SEVERAL = 4  # more than one launch

ALONE = -1  # the action shares nothing: its end is known as soon as its start is
NETWORK = -2

LOADED = 1.02  # times its work alone from which on an action counts as slowed by others: chosen, not measured


class CallCompany(NamedTuple):
    """What a call takes the thread longer beside others, seconds.

    Attributes:
        others_s: After many others of other kinds.
        switching_s: On another stream than the last call's, of the same kind.
        own_code: Whether it shares little code with other kinds, so that the first one in a run has all of
            `others_s`: an operation, not a copy.
    """

    others_s: float
    switching_s: float = 0.0
    own_code: bool = False


class Half(NamedTuple):
    """What its half of a message takes a rank's thread, seconds: the columns of these names, for that rank alone."""

    own_s: float
    before_s: float
    call_s: float
    after_s: float


@dataclass(slots=True)
class Columns:
    """Columns by action; times in seconds.

    Attributes:
        lane, kind: Lane number; `CUDA`, `CPU` or `WAIT`.
        call: What the thread calls, as a number: actions of one number call the same function. Empty where
            changes cost nothing.
        own_s: Host time before the action's waits.
        call_s: Host time of the calls that launch it (for CPU lanes: of handing it over).
        row_s: The same in a row of calls like it, by which it goes how cold they are behind a wait.
        waits, joins: What it waits for, at a cost to the thread; what it waits for at none.
        previous: The action before it on its lane, or -1.
        on_cpu: Actions of each CPU lane that has any, ascending.
        company: What its call takes longer beside others, where that was measured.
        before_s, after_s: Host time before and after its calls.
        final: Last actions of lanes of GPUs, of those that no other action waits for, in the lanes' order.
        launches, work_s: Kernels; seconds alone.
        flags: `NEEDS_CPU`, `BLOCKS`, `SEVERAL`; `CHAINED`, `EMPTY` and `PASSED` of `graph_mode`.
        resource: `ALONE`, `NETWORK` or the number of a pool.
        curve_of, threads_of: Of actions in pools: place in `curves`; threads used.
        moved, memory_bytes_per_s: Bytes a second that tasks on CPU lanes move through the host's memory while they
            are alone; how many these can move in all.
        pairs: What is measured of two side by side, by places in `curves`.
        block_queue: Blocks of kernels are placed one by one where they are known.
        routes: Of transfers that share capacities, or are made by a core.
        tables: Of capacities, by number: how they fall with load.
        held: Transfers that keep one of the shared cores busy.
        engine_of, engines, next_copy: Of transfers that a GPU makes so many at a time: number of its engine; copies at
            a time of each; the next one of a lane that keeps it, see `simulator.copy_engines`.
        pools: Number of pools; the last is that of the cores.
        graphs: In graph mode, the CUDA graphs.
        spacing_s: Of pools of lanes in a graph: least time from the start of one node to that of the next.
        fetches: Tasks that others make longer where they fetch their code together, see `simulator.code_fetches`.
        lone: How many pools before the last hold tasks that only copies slow.
        shares: Memory shares of tasks that copies slow, or that slow copies.
        pressures, slowed: What copies cost tasks, and tasks them, see `simulator.traffic`.
        several: Pools where tasks on several lanes cost copies something; in `slowed` their numbers are behind all.
        written, to_host: Copies of what a CPU lane has just written, and those that they slow: see
            `simulator.written_copies`.
        rested: What tasks on CPU lanes take by how long these have rested, see `simulator.rested_lanes`.
        pinnings: How many results CPU lanes copy into pinned memory, by task, where the thread makes calls of GPUs
            meanwhile; see `simulator.locked_engine`.
        late_events_s: What timing events take longer beside copies, see `simulator.timing_events`.
        joins_s: How much later than behind tasks alone those in graphs start that wait for copies too, see
            `simulator.graph_joins`.
        handovers: Of first nodes of graphs behind others, latencies by lane, see `simulator.handover`.
        by_chance_s: By task and lane, what waits for that take longer, or shorter, see `simulator.chance`.
        loads_s: Likewise, what they take longer beside copies from the host, see `simulator.loaded_edges`.
        join_loads_s: What `joins_s` are longer there.
        launching, far_lanes: In graph mode, the lane that graphs are launched on; lanes of other GPUs than its own.
        event_lanes: Of each graph and device where timing events pass in turn, its lanes; see `simulator.event_nodes`.
        events_of: Place in these of each action whose events do so.
        event_ends: Those of them that are the last on their lanes.
        events_known: Those of them whose work holds what the event behind it waits for others.
        orders: In distributed mode, the actions that each rank's thread issues, see `simulator.rank_threads`.
        messages: Messages and collectives of ranks that streams carry, with the rank that each begins on.
        handed: Copies from a host into another rank's GPU, with the rank whose thread hands them over.
        halves: By action and rank, halves that take the thread another time than the columns say.
        more_lanes: Further lanes of collectives.
        locks: CPU lanes take the interpreter's lock in turn, see `simulator.interpreter_lock`.
        job_s: What a CPU lane takes around a task, where it needs no lock; a rank's thread has no lanes beside it.
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
    row_s: list[float] = field(default_factory=list)
    previous: list[int] = field(default_factory=list)
    on_cpu: list[list[int]] = field(default_factory=list)
    company: dict[int, CallCompany] = field(default_factory=dict)
    before_s: list[float] = field(default_factory=list)
    after_s: list[float] = field(default_factory=list)
    final: list[int] = field(default_factory=list)
    curves: list[TaskCost] = field(default_factory=list)
    curve_of: dict[int, int] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Beside] = field(default_factory=dict)
    block_queue: bool = True
    threads_of: dict[int, int] = field(default_factory=dict)
    moved: dict[int, float] = field(default_factory=dict)
    memory_bytes_per_s: float = 0.0
    routes: dict[int, Route] = field(default_factory=dict)
    held: dict[int, None] = field(default_factory=dict)
    engine_of: dict[int, int] = field(default_factory=dict)
    engines: list[int] = field(default_factory=list)
    next_copy: dict[int, int] = field(default_factory=dict)
    capacities: list[float] = field(default_factory=list)
    tables: dict[int, Table] = field(default_factory=dict)
    cores: int = 1
    pools: int = 1
    graphs: Replays | None = None
    spacing_s: dict[int, float] = field(default_factory=dict)
    fetches: Mapping[int, Fetch] = field(default_factory=dict)
    lone: int = 0
    shares: dict[int, float] = field(default_factory=dict)
    pressures: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    slowed: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    several: frozenset[int] = frozenset()
    written: dict[int, Written] = field(default_factory=dict)
    to_host: frozenset[int] = frozenset()
    rested: dict[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    pinnings: dict[int, int] = field(default_factory=dict)
    late_events_s: dict[int, float] = field(default_factory=dict)
    joins_s: dict[int, float] = field(default_factory=dict)
    handovers: dict[int, list[float]] = field(default_factory=dict)
    by_chance_s: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    loads_s: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    join_loads_s: Mapping[int, float] = field(default_factory=dict)
    launching: int = -1
    far_lanes: frozenset[int] = frozenset()
    event_lanes: list[int] = field(default_factory=list)
    events_of: dict[int, int] = field(default_factory=dict)
    event_ends: frozenset[int] = frozenset()
    events_known: frozenset[int] = frozenset()
    orders: list[list[int]] = field(default_factory=list)
    messages: Mapping[int, int] = field(default_factory=dict)
    handed: Mapping[int, int] = field(default_factory=dict)
    halves: Mapping[tuple[int, int], Half] = field(default_factory=dict)
    more_lanes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    locks: bool = False
    job_s: float = 0.0

    def __len__(self) -> int:
        return len(self.lane)

    @property
    def event_s(self) -> float:
        """What one timing event adds to its lane."""
        return self.dispatch.timed_gap_s / 2

    def slowed_by_others(self, i: int, seconds: float) -> bool:
        """Whether action `i`, which took so many seconds, takes longer than alone, be it after the longest rest."""
        own_s = self.work_s[i]
        if i in self.rested:
            own_s += max(s for _, s in self.rested[i]) - self.rested[i][0][1]
        if i in self.written:
            own_s *= 1.0 + self.written[i].longer
        return self.resource[i] != ALONE and seconds > LOADED * own_s

    def half(self, i: int, rank: int) -> Half:
        """What issuing action `i` takes the thread of `rank`."""
        found = self.halves.get((i, rank))
        return found or Half(self.own_s[i], self.before_s[i], self.call_s[i], self.after_s[i])

    def behind_s(self, i: int) -> float:
        """What events add to the span of action `i`: the one behind it; that before the next, unless it is served."""
        return self.event_s if i in self.events_of else self.dispatch.timed_gap_s
