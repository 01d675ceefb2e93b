"""The engine: a plan's columns in, the spans of its actions out.

An action starts when it has been issued, the one before it on its lane is over and so are its waits. As
soon as these times are known its start is; if it shares nothing its end is too, and no event is spent on
it. Actions that share a device or a link go through the clock of a SimPy environment, by callbacks: one
event when they begin, one when the first of those that share ends. Ties are broken by plan order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphsched.errors import DeadlockError
from graphsched.garbage import collector_off
from graphsched.simulator.clock import Call, Clock
from graphsched.simulator.columns import ALONE, NETWORK, SEVERAL, Columns
from graphsched.simulator.dispatch import Thread
from graphsched.simulator.doors import Doors
from graphsched.simulator.fluid import Resource
from graphsched.simulator.graph_joins import joined_s
from graphsched.simulator.graph_mode import inside, latencies_s
from graphsched.simulator.host_calls import queries_s
from graphsched.simulator.lane_costs import CPU, CUDA, WAIT
from graphsched.simulator.launch_queue import UNKNOWN
from graphsched.simulator.rank_threads import RankThreads
from graphsched.simulator.rested_lanes import rested_s
from graphsched.simulator.returns import finished_s
from graphsched.simulator.shared_resources import SharedResources
from graphsched.simulator.straight import Straight
from graphsched.simulator.woken_lanes import awake_s


class Engine:
    """One run of a plan.

    Attributes:
        thread: The dispatching thread, with its columns; in distributed mode those of all ranks.
        start_s, end_s: When each action ran, in seconds from time 0.
    """

    def __init__(self, columns: Columns, timed: bool, late_s: Mapping[int, float] | None = None) -> None:
        """`timed`: with a timing event before and after every action on a stream.

        `late_s`: by action, seconds by which it starts later than what it waits for has it, in the place of joins.
        """
        n = len(columns)
        self._late_s, self._joins_s = late_s or {}, columns.joins_s if late_s is None else {}
        self.start_s, self.end_s = [0.0] * n, [UNKNOWN] * n
        self.thread = self._threads(timed, columns)
        self._columns = columns
        self._kind, self._lane = columns.kind, columns.lane
        self._flags, self._resource = columns.flags, columns.resource
        self._waits, self._previous, self._work_s = columns.waits, columns.previous, columns.work_s
        self._latency_s = columns.lanes.latency_s
        self._held, self._engine_of, self._spacing_s = columns.held, columns.engine_of, columns.spacing_s
        self._next_copy = columns.next_copy
        self._ready_s, self._queue_of, self._wake_s = self.thread.ready_s, self.thread.queue_of, columns.lanes.wake_s
        self._sleeps = bool(columns.dispatch.wakes)
        self._timed = timed
        self._gap_s = columns.dispatch.timed_gap_s if timed else 0.0
        self._least_gap_s = self._gap_s  # what passes between the end of any work and that of its span
        self._rested = columns.rested
        self._late_events_s = columns.late_events_s if timed else {}
        self._clock = Clock()
        self._now = 0.0
        self._horizon = 0.0  # what is on a stream and has no known end ends then or later
        self._missing: dict[int, int] = {}  # action -> how many ends it needs that are not known
        self._dependents: dict[int, list[int]] = {}
        self._routes = columns.routes
        self._shared = SharedResources(columns, self._at, self.end_s)
        self._pools, self._cores, self._network = self._shared.pools, self._shared.cores, self._shared.network
        doors = Doors(columns, copy=self._begin_copy, let_in=self._let_in)
        self._engines, self._gates, self._doors = doors.engines, doors.gates, doors.all
        self._over = self._end
        self._advance: Callable[[float], None] = self.thread.advance
        self._coupled = self._shared.coupled
        self._touched: dict[Resource, None] = {}

    def _threads(self, timed: bool, columns: Columns) -> Thread | RankThreads:
        if columns.orders:
            return RankThreads(columns, self.end_s, self._place, self._settle, timed)
        thread = Thread(columns, self.end_s, self._place, timed)
        if columns.graphs is None and not (self._late_s or columns.late_events_s):
            thread.straight = Straight(columns, thread, self.start_s, self.end_s)
        return thread

    @collector_off()
    def run(self) -> float:
        """Run to the end; the makespan in seconds.

        Raises:
            DeadlockError: Actions wait for each other, so that not all can start.
        """
        self._advance(0.0)
        self._after_change()
        self._clock.run()
        if not self.thread.done or self._missing:
            stuck = next(iter(self._missing), self.thread.needs)
            raise DeadlockError(f"action number {stuck} never ends: plan.check() says why")
        return sum(finished_s(self._columns, self)) + queries_s(self._columns, self.end_s)

    # -- what is known at once -----------------------------------------------------------------

    def _place(self, i: int) -> None:
        """Action `i` has been issued."""
        if self._kind[i] == WAIT and not inside(self._columns, i):
            self.start_s[i], self.end_s[i] = self.thread.issue_start_s[i], self.thread.issue_end_s[i]
            return
        ends = self.end_s
        dependents, previous, missing = self._dependents, self._previous[i], 0
        for j in self._waits[i]:
            if ends[j] < 0.0:
                missing += 1
                dependents.setdefault(j, []).append(i)
        if previous >= 0 and ends[previous] < 0.0:
            missing += 1
            dependents.setdefault(previous, []).append(i)
        if missing:
            self._missing[i] = missing
        else:  # a start before time 0 comes from figures put in the place of modelled ones
            self._begin(i, max(0.0, self._earliest(i)))

    def _earliest(self, i: int) -> float:
        """Time when action `i` may start; all ends that it hangs on are known."""
        ends, start = self.end_s, self._ready_s[i]
        if i in self._joins_s:
            return joined_s(self._columns, i, start, ends)
        if waits := self._waits[i]:
            lane_of = self._lane
            latency_s = self._latency_s[lane_of[i]] if self._columns.graphs is None else latencies_s(self._columns, i)
            for j in waits:
                end = ends[j] + latency_s[lane_of[j]]
                if end > start:
                    start = end
        previous = self._previous[i]
        if previous >= 0 and ends[previous] >= start:
            return ends[previous]
        if self._sleeps and self._kind[i] == CPU:
            return awake_s(self._columns, i, self._ready_s[i], start, ends)
        return start + self._wake_s[self._lane[i]]

    def _begin(self, i: int, start: float) -> None:
        """Action `i` starts at `start`."""
        if self._kind[i] == WAIT:
            before = self._previous[i]
            self.start_s[i] = max(self.thread.issue_start_s[i], self.end_s[before] if before >= 0 else 0.0)
            self.end_s[i] = start
            return
        self._carry_out(i, start, 0.0)

    def _carry_out(self, i: int, start: float, longer_s: float) -> None:
        """The work of action `i` starts, which takes so much longer."""
        if self._late_s:
            start += self._late_s.get(i, 0.0)
        if i in self._rested:
            longer_s += rested_s(self._columns, i, start, self.end_s)
        self._work(i, start, longer_s)

    def _work(self, i: int, start: float, longer_s: float) -> None:
        """The work of action `i` starts now."""
        self.start_s[i] = start
        start += longer_s
        if self._timed and self._kind[i] == CUDA:
            launched = self._ready_s[i] + self._columns.call_s[i] / self._columns.launches[i]
            if launched > start:
                start = launched
        resource = self._resource[i]
        if resource == ALONE:
            self._over(i, start + self._work_s[i])
        elif resource == NETWORK:
            if i in self._held:
                self._arrive(i, start, self._cores)
            engine = self._engine_of.get(i)
            if engine is None:
                self._begin_copy(i, start)
            else:
                self._arrive(i, start, self._engines[engine])
        elif self._spacing_s.get(resource):
            self._arrive(i, start, self._gates[resource])
        else:
            self._arrive(i, start, self._pools[resource])

    def _end(self, i: int, end: float) -> None:
        """The work of action `i` is over at `end`, and nothing holds its events up."""
        if self._kind[i] == CUDA:
            if self._flags[i] & SEVERAL:
                end = max(end, self.thread.floor_s[i])
            self._set_end(i, end + self._gap_s)
        else:
            self.end_s[i] = end

    def _set_end(self, i: int, end: float) -> None:
        """Its lane passes the event behind action `i` at `end`, but for what copies beside it cost that."""
        if self._late_events_s:
            end += self._late_events_s.get(i, 0.0)
        queue = self._queue_of[self._lane[i]]
        if queue is not None:
            queue.over(self._columns.launches[i], end)
        self.end_s[i] = end

    def _settle(self, i: int) -> None:
        """Start what waited for the end of action `i`, and what waited for the ends that follow from it."""
        missing, known = self._missing, [i]
        while known:
            for k in self._dependents.pop(known.pop(), ()):
                left = missing[k] - 1
                if left:
                    missing[k] = left
                    continue
                del missing[k]
                self._begin(k, self._earliest(k))
                if self.end_s[k] >= 0.0:
                    known.append(k)

    # -- what goes through the clock -------------------------------------------------------------

    def _arrive(self, i: int, time: float, resource: Resource) -> None:
        """Action `i` begins to use `resource` at `time`."""
        if time <= self._now:
            self._enter(i, resource)
        else:
            self._clock.call_at(time, (time, resource, i), self._arrived)

    def _arrived(self, call: Call) -> None:
        time, resource, i = call.what
        if time > self._now:
            self._now = time
        resource.enter(i, self._now)
        if resource not in self._doors:
            self._touched[resource] = None
        if i in self._dependents and self.end_s[i] >= 0.0:
            self._settle(i)
        self._after_change()

    def _enter(self, i: int, resource: Resource) -> None:
        resource.enter(i, self._now)
        if resource not in self._doors:
            self._touched[resource] = None

    def _let_in(self, pool: int, i: int, time: float) -> None:
        self._arrive(i, time, self._pools[pool])

    def _begin_copy(self, i: int, time: float) -> None:
        self._arrive(i, time + self._routes[i].latency_s, self._network)

    def _following(self, i: int) -> int:
        """The next copy of the lane of copy `i` if it waits for the end of `i` alone, else -1."""
        j = self._next_copy.get(i, -1)
        waits = j >= 0 and self._missing.get(j) == 1 and self.end_s[i] >= 0.0
        return j if waits and self._earliest(j) == self.end_s[i] else -1

    def _at(self, time: float, resource: Resource, token: int) -> None:
        self._clock.call_at(time, (time, resource, token), self._due)

    def _due(self, call: Call) -> None:
        time, resource, token = call.what
        if time > self._now:
            self._now = time
        over = resource.due(token, time)
        if over or resource in self._shared.queues:  # blocks may have ended that are not the last
            self._touched[resource] = None
        for i in over:
            if i in self._held:
                self._cores.leave(i)
                self._touched[self._cores] = None
            self._over(i, time)
            if i in self._engine_of:
                self._engines[self._engine_of[i]].leave(time, self._following(i) if self._next_copy else -1)
        for i in over:
            if self.end_s[i] >= 0.0:  # else it is not over for those that wait: its thread needs a lock first
                self._settle(i)
        self._after_change()

    def _after_change(self) -> None:
        """Let the thread go on if it may, and set new rates once all that happens now has happened."""
        thread = self.thread
        horizon = self._now + self._least_gap_s
        if horizon > self._horizon:
            self._horizon = horizon
        else:
            horizon = self._horizon
        needs, full = thread.needs, thread.full
        end = full.next_end_s(horizon) if full is not None else UNKNOWN
        if needs >= 0:
            moves = self.end_s[needs] >= 0.0
        else:
            moves = full is not None and (end < 0.0 or not full.unknown) and full.moves(horizon)
        if moves:
            self._advance(horizon)
            full = thread.full
            end = full.next_end_s(horizon) if full is not None else UNKNOWN
        if self._touched and self._clock.over:
            self._refresh()
        if end >= 0.0:
            self._clock.call_if_first(end - self._least_gap_s, end, self._rung)

    def _refresh(self) -> None:
        touched, self._touched = self._touched, {}
        if self._coupled:
            self._shared.couple(touched, self._now)
        for resource in touched:
            resource.refresh(self._now)

    def _rung(self, call: Call) -> None:
        """The thread, held up by a full queue, wakes at the first end that may make room: nothing happened before."""
        end = call.what
        self._now = max(self._now, end - self._least_gap_s)
        self._horizon = max(self._horizon, end)
        self._after_change()
