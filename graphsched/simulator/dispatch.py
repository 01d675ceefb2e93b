"""The thread that issues a plan's actions, one after another.

It runs ahead, computing times only, until it needs the end of an action that is not known yet; the
engine calls `Thread.advance` again when it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphsched.plan import OUTSIDE
from graphsched.simulator.columns import BLOCKS, NEEDS_CPU, SEVERAL, Columns
from graphsched.simulator.lane_costs import CPU
from graphsched.simulator.launch_queue import UNKNOWN, LaunchQueue, launch_queues
from graphsched.simulator.returns import NOTHING, given_way_s, return_s
from graphsched.simulator.straight import Straight
from graphsched.timeline import Interval

IN_GRAPH = 3  # beside the kinds of actions: one that a CUDA graph holds


class Thread:
    """The dispatching thread.

    Attributes:
        time: Its clock, in seconds from time 0: the end of what it has issued.
        issue_start_s, issue_end_s: When it began and ended issuing each action.
        halves_s: Those of further ranks, see `rank_threads`; of one thread there are none.
        ready_s: When each action may start at the earliest, by its issue.
        floor_s: When each action of several launches ends at the earliest.
        queue_of: By lane, the launch queue of its device; None where it can never be full.
        stream: The lane that it issued to last, or -1.
        cold_s: What its next call takes longer for a wait before the run.
        waited_s, slept_s: How long it has waited since its last call to a stream or launch of a graph; how long of that
            for a CPU lane, asleep or awake.
        needs: The action whose end it must know to go on, or -1.
        full: The launch queue whose next end it must know to go on, or None.
        straight: What runs actions that need no more than a look at the columns; None: nothing does.
        in_step: It issues nothing after `now` while CPU lanes have what it has handed over.
        paused: That is why it has stopped.
        handed: How much that is; whoever sets `in_step` takes off what is over.
    """

    def __init__(self, columns: Columns, end_s: list[float], place: Callable[[int], None], timed: bool) -> None:
        """`end_s` is the engine's column of ends, `place` its entry for an action that has been issued."""
        n = len(columns)
        self.time = 0.0
        self.issue_start_s, self.issue_end_s, self.ready_s = [0.0] * n, [0.0] * n, [0.0] * n
        self.halves_s: dict[tuple[int, int], Interval] = {}
        self.floor_s: dict[int, float] = {}
        self.queue_of = launch_queues(columns)
        self.needs = -1
        self.full: LaunchQueue | None = None
        self._columns, self._end_s, self._place = columns, end_s, place
        self._timed = timed
        self._timed_s = columns.dispatch.timed_record_s if timed else 0.0
        self._switch_s, self._launch_s = columns.lanes.switch_s, columns.dispatch.launch_s
        self._put_s = columns.dispatch.put_s
        self._lane, self._flags = columns.lane, columns.flags
        self._own_s, self._before_s = columns.own_s, columns.before_s
        self._call_s, self._after_s = columns.call_s, columns.after_s
        self._replays: dict[int, tuple[float, float, float]] = {}  # of each graph: its issue, and when it may start
        self._how = _ways(columns)
        self._next = 0
        self.stream = -1
        self.cold_s = self.waited_s = self.slept_s = 0.0
        self.straight: Straight | None = None
        self.in_step = self.paused = False
        self.handed = 0
        self._held = False  # the action before `_next` blocks the thread
        self._now = 0.0

    @property
    def done(self) -> bool:
        """Whether it has issued everything."""
        return self._next == len(self._columns) and not self._held

    def advance(self, now: float) -> None:
        """Issue what can be issued; the ends that are not known are `now` or later."""
        self._now, self.needs, self.full, self.paused = now, -1, None, False
        if self._held and not self._release():
            return
        issue = (self._launch, self._hand_over, self._wait, self._replay)
        kind, place, straight, i = self._how, self._place, self.straight, self._next
        takes = straight.takes if straight is not None else []
        while i < len(kind):
            if self.in_step and self.handed and self.time > now:
                self.paused = True
                return
            if straight is not None and takes[i] and straight.may_run(i):
                i = self._next = straight.run(i, now, timed=self._timed)
            if i == len(kind) or not issue[kind[i]](i):
                return
            place(i)
            i = self._next = i + 1
            if self._held and not self._release():
                return

    def lose(self, seconds: float) -> None:
        """The call that it makes takes so much longer."""
        self.time += seconds
        self.issue_end_s[self._next - 1] = self.time

    def _launch(self, i: int) -> bool:
        """Issue an action to a stream."""
        lane, flags, begun = self._lane[i], self._flags[i], self.time
        time = begun + self._own_s[i]
        time += self.cold_s
        if self.waited_s:
            time += self._columns.dispatch.cold_call_s(self.waited_s, self._columns.row_s[i], self.slept_s)
        if lane != self.stream:
            time += self._switch_s[lane][self.stream]
        if flags & NEEDS_CPU:
            there = self._results(self._columns.waits[i], time)
            if there == UNKNOWN:
                return False
            time = there + self._columns.dispatch.slept_cold_s(there - time)
        time += self._before_s[i]
        queue = self.queue_of[lane]
        if queue is not None:
            time = queue.admit(self._columns.launches[i], time, self._now)
            if time == UNKNOWN:  # the first call of all may be made before time 0: `host_calls` takes its start off
                self.full = queue
                return False
        self.stream, self.cold_s, self.waited_s, self.slept_s = lane, 0.0, 0.0, 0.0
        self.issue_start_s[i] = begun
        time += self._timed_s
        call_s = self._call_s[i]
        first = time + self._launch_s
        if not self._timed:
            first += call_s / self._columns.launches[i] if flags & SEVERAL else call_s
        self.ready_s[i] = first
        self.time = time + call_s
        if flags & (SEVERAL | BLOCKS):
            return self._finish_launch(i, flags)
        self.time = self.issue_end_s[i] = self.time + self._timed_s + self._after_s[i]
        return True

    def _finish_launch(self, i: int, flags: int) -> bool:
        if flags & SEVERAL:
            c = self._columns
            self.floor_s[i] = self.time + self._launch_s + c.work_s[i] / c.launches[i]
        self._held = flags & BLOCKS != 0
        if not self._held:
            self._record(i)
        return True

    def _record(self, i: int) -> None:
        """Record the events after action `i`."""
        self.time += self._timed_s + self._after_s[i]
        self.issue_end_s[i] = self.time

    def _results(self, actions: Sequence[int], time: float) -> float:
        """Time when the thread goes on behind those of `actions` that are CPU lanes'; `UNKNOWN` if not known yet."""
        for j in actions:
            if self._columns.kind[j] == CPU:
                end = self._end_s[j]
                if end < 0.0:
                    self.needs = j
                    return UNKNOWN
                if end > time:
                    time = end + self._columns.dispatch.result_s
        return time

    def _hand_over(self, i: int) -> bool:
        """Give an action to a worker thread."""
        self.issue_start_s[i] = self.time
        self.time += self._put_s if self._put_s and self._is_busy(i) else self._call_s[i]
        self.issue_end_s[i] = self.ready_s[i] = self.time
        self.handed += 1
        return True

    def _is_busy(self, i: int) -> bool:
        """Whether the lane of action `i` still has something to do when it is handed over."""
        previous = self._columns.previous[i]
        return previous >= 0 and not 0.0 <= self._end_s[previous] <= self.time

    def _wait(self, i: int) -> bool:
        """Wait for actions."""
        time, last = self.time, NOTHING
        for j in self._columns.waits[i]:
            end = self._end_s[j]
            if end < 0.0:
                self.needs = j
                return False
            if end > time:
                time, last = end, j
        self.issue_start_s[i] = self.time
        waited_s, self.cold_s = time - self.time, 0.0
        self.waited_s += waited_s
        if last >= 0 and self._columns.kind[last] == CPU:
            self.slept_s += waited_s
        given_s = given_way_s(self._columns, self._end_s, time, i) if last != NOTHING else 0.0
        self.time = self.issue_end_s[i] = time + return_s(self._columns, last, given_s)
        return True

    def _replay(self, i: int) -> bool:
        """Launch the CUDA graph that begins with action `i`; the others that it holds are issued with it."""
        graphs = self._columns.graphs
        assert graphs is not None
        k, time = graphs.of[i], self.time
        if graphs.first[k] == i:
            begun, time = time, self._results(graphs.needs[k], time)
            if time == UNKNOWN:
                return False
            slept_s = max(self.slept_s, time - begun)
            cold_s = max(self.cold_s, self._columns.dispatch.launch_cold_s(self.waited_s, graphs.gpus[k], slept_s))
            first_s = time + cold_s + self._own_s[i]
            self.time = first_s + (graphs.longer_s[k] if graphs.longer_s else 0.0)
            self.stream, self.cold_s, self.waited_s, self.slept_s = -1, 0.0, 0.0, 0.0
            self._replays[k] = time, self.time, first_s + self._launch_s + graphs.later_s[k]
        self.issue_start_s[i], self.issue_end_s[i], self.ready_s[i] = self._replays[k]
        if graphs.spread_s:
            self.ready_s[i] += graphs.spread_s[i]
        return True

    def _release(self) -> bool:
        """Go on after the blocking copy that was issued last, if its end is known."""
        i = self._next - 1
        if self._end_s[i] < 0.0:
            self.needs = i
            return False
        self.time = max(self.time, self._end_s[i])
        self._record(i)
        self._held = False
        return True


def _ways(columns: Columns) -> list[int]:
    """How each action is issued: by its kind, or with the CUDA graph that holds it."""
    if columns.graphs is None:
        return columns.kind
    return [kind if k == OUTSIDE else IN_GRAPH for kind, k in zip(columns.kind, columns.graphs.of, strict=True)]
