"""The engine of plans whose CPU lanes take the interpreter's lock in turn, see `interpreter_lock`.

From a thread that makes calls of GPUs a lane takes it as a task begins and as each of its operations ends: the task's
own, and a copy into pinned memory of each result that a GPU reads. Each time costs the call that is being made then
what `Dispatch.lock_losses` say of the lane's rest before the task, and the operation `lock_late_s`. Copies count with
the end of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from graphsched.simulator.clock import Call
from graphsched.simulator.columns import Columns
from graphsched.simulator.dispatch import Thread
from graphsched.simulator.engine import Engine
from graphsched.simulator.event_engine import EventEngine
from graphsched.simulator.interpreter_lock import InterpreterLock, holds_lock, makes_calls
from graphsched.simulator.lane_costs import CPU


def engine_of(columns: Columns, timed: bool, late_s: Mapping[int, float] | None = None) -> Engine:
    """The engine for a run of these columns, with what `Engine` takes."""
    if columns.locks:
        return LockedEngine(columns, timed, late_s)
    return (EventEngine if columns.events_of else Engine)(columns, timed, late_s)


class LockedEngine(EventEngine):
    """An engine whose CPU lanes ask for the lock before an operation starts, and to say that it is over."""

    def __init__(self, columns: Columns, timed: bool, late_s: Mapping[int, float] | None = None) -> None:
        """As `Engine`."""
        super().__init__(columns, timed, late_s)
        self._lock = InterpreterLock(
            columns.dispatch,
            self._lane,
            at=self._at_time,
            start=self._carry_out,
            end=self._end_and_settle,
            tells=self._sleepers,
        )
        self._over = self._operation_over
        self._lost_s: dict[int, float] = {}  # of tasks that lanes have begun: what a call loses each time
        self._caller: Thread | None = None  # the dispatching thread, where lanes take the lock from it between calls
        if holds_lock(columns):
            self._advance = self._advance_and_hold
        elif makes_calls(columns) and isinstance(self.thread, Thread):
            self._caller, self._advance = self.thread, self._advance_in_step
            self._caller.straight, self._caller.in_step = None, True

    def _begin(self, i: int, start: float) -> None:
        if self._kind[i] == CPU:
            self._ask(self._lock.begin, i, start, 1)
        else:
            super()._begin(i, start)

    def _operation_over(self, i: int, end: float) -> None:
        """The operation of action `i` is over at `end`; its thread needs the lock to say so."""
        if self._kind[i] == CPU:
            self._ask(self._lock.over, i, end, 1 + self._columns.pinnings.get(i, 0))
        else:
            self._work_over(i, end)

    def _advance_and_hold(self, horizon: float) -> None:
        """Let the thread go on; until it waits, it lets no lane run."""
        self.thread.advance(horizon)
        self._lock.hold(self.thread.time)

    def _advance_in_step(self, horizon: float) -> None:
        """Let the thread go on; where lanes are at work no further than the call that it makes at `horizon`."""
        thread = self._caller
        assert thread is not None
        thread.advance(horizon)
        if thread.paused:
            self._at_time(thread.time, self._go_on)

    def _go_on(self, now: float) -> None:
        if self._caller is not None and self._caller.paused:
            self._horizon = max(self._horizon, now + self._least_gap_s)
            self._advance(self._horizon)

    def _at_time(self, time: float, call: Callable[[float], None]) -> None:
        self._clock.call_at(time, (time, call), self._called)

    def _ask(self, function: Callable[[int, float], None], i: int, time: float, times: int) -> None:
        """Call `function`, which needs the lock for action `i`, at `time`; the lane takes it so many `times`."""
        if self._caller is not None:
            function = partial(self._taken, self._caller, function, times)
        if time <= self._now:
            function(i, self._now)
        else:
            self._at_time(time, partial(function, i))

    def _taken(self, thread: Thread, function: Callable[[int, float], None], times: int, i: int, now: float) -> None:
        """The lane of action `i` needs the lock at `now`, and takes it from the thread if that makes calls."""
        ends, late_s = i in self._lost_s, 0.0
        lost_s = self._lost_s.pop(i) if ends else self._lost_s.setdefault(i, self._loss_s(i, now))
        if thread.paused and thread.time > now:
            thread.lose(times * lost_s)
            late_s = times * self._columns.dispatch.lock_late_s if ends else 0.0
        if late_s:
            self._at_time(now + late_s, partial(function, i))
        else:
            function(i, now)

    def _loss_s(self, i: int, now: float) -> float:
        """What a call loses each time that the lane of task `i` takes the lock, which begins at `now`."""
        before = self._columns.previous[i]
        return self._columns.dispatch.lock_lost_s(now - (self.end_s[before] if before >= 0 else 0.0))

    def _called(self, call: Call) -> None:
        time, function = call.what
        if time > self._now:
            self._now = time
        function(self._now)
        self._after_change()

    def _end_and_settle(self, i: int, time: float) -> None:
        self._end(i, time)
        if self._caller is not None:
            self._caller.handed -= 1
        self._settle(i)

    def _sleepers(self, i: int) -> int:
        """How many other lanes, and the thread, wait for the end of action `i` alone."""
        lane_of, missing = self._lane, self._missing
        others = [k for k in self._dependents.get(i, ()) if lane_of[k] != lane_of[i] and missing[k] == 1]
        return len(others) + (self.thread.needs == i)
