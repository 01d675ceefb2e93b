"""The interpreter's lock: threads of CPU lanes, and the one that hands them tasks, run Python in turn.

An operation lets the lock go while it computes. Its thread then needs it again, for what a lane does around a task. If
another thread holds it then, it sleeps until it is woken, by a call of whoever lets the lock go next, which takes that
thread some time. Until the woken one is there, whoever asks first has the lock, and it may find it taken again.

Where the dispatching thread makes no calls of GPUs, it lets the lock go only where it waits: what it hands over before
starts then. Calls of GPUs let it go again and again: a lane that comes meanwhile takes it, and the thread, which then
finds it taken, sleeps until the lane computes again (`makes_calls`, `locked_engine`). Where a lane ends what others
wait for, it wakes them, with the lock held: `Dispatch.handoff_s` for each.

Source: CPython, Python/ceval_gil.c (`take_gil`, `drop_gil`).

Not modelled: the switch that is forced after 5 ms; that the dispatching thread waits for the lock where it launches
graphs, and when in a call it does; tasks of several operations, which let it go several times; operations that keep
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from graphsched.platform import Dispatch
from graphsched.simulator.columns import Columns
from graphsched.simulator.lane_costs import CPU, CUDA

NOBODY, THREAD = -1, -2  # beside numbers of lanes

At = Callable[[float, Callable[[float], None]], None]


class InterpreterLock:
    """Who holds the lock, who sleeps until it is free, and when actions of CPU lanes start and end for that.

    Example:
        >>> calls, seen = [], []
        >>> lock = InterpreterLock(
        ...     Dispatch(job_s=1.0, lock_signal_s=0.5, lock_wake_s=4.0), [0, 1],
        ...     at=lambda time, call: calls.append((time, call)),
        ...     start=lambda i, time, longer_s: seen.append((i, time, longer_s)),
        ...     end=lambda i, time: seen.append((i, time)), tells=lambda i: 0)
        >>> lock.over(0, 10.0), lock.begin(1, 10.5)  # lane 1 comes while lane 0 has the lock
        (None, None)
        >>> while calls:
        ...     time, call = calls.pop(0)
        ...     call(time)
        >>> seen
        [(0, 11.0), (1, 15.0, 0.0)]
    """

    def __init__(
        self,
        costs: Dispatch,
        lane: list[int],
        *,
        at: At,
        start: Callable[[int, float, float], None],
        end: Callable[[int, float], None],
        tells: Callable[[int], int],
    ) -> None:
        """`lane`: of each action.

        Args:
            costs: Of dispatch.
            lane: Number of each action's lane.
            at: Has a function called at a time, with that time.
            start: Called as ``start(action, time, longer_s)`` where an operation starts that takes so much longer.
            end: Called as ``end(action, time)`` where one is over.
            tells: How many threads sleep until an action is over.
        """
        self._held_s, self._signal_s, self._wake_s = costs.job_s, costs.lock_signal_s, costs.lock_wake_s
        self._tell_s, self._lane = costs.tell_s or costs.handoff_s, lane
        self._at, self._start, self._end, self._tells = at, start, end, tells
        self._holder, self._until_s = NOBODY, 0.0
        self._asleep: deque[tuple[int, Callable[[float], None]]] = deque()
        self._next: int | None = None  # the action that the holder goes on with

    def begin(self, i: int, time: float) -> None:
        """The lane of action `i` has come to it at `time`, and is awake."""
        if self._holder == self._lane[i]:
            self._next = i
        else:
            self._take(self._lane[i], partial(self._go, i), time)

    def over(self, i: int, time: float) -> None:
        """The operation of action `i` is over at `time`."""
        self._take(self._lane[i], partial(self._finish, i), time)

    def hold(self, until_s: float) -> None:
        """The dispatching thread has the lock until then, if nobody has it."""
        if self._holder in (NOBODY, THREAD):
            self._holder, self._until_s = THREAD, until_s
            self._at(until_s, self._let_go_of_thread)

    def _let_go_of_thread(self, now: float) -> None:
        if self._holder == THREAD and now >= self._until_s:
            self._let_go(now)

    def _take(self, lane: int, had: Callable[[float], None], now: float) -> None:
        """Call `had` once `lane` has the lock, after those that wait for it."""
        if not self._is_taken(lane, had, now):
            self._asleep.append((lane, had))

    def _woken(self, lane: int, had: Callable[[float], None], now: float) -> None:
        """Likewise of a lane that was woken: it is the next one again if another was faster."""
        if not self._is_taken(lane, had, now):
            self._asleep.appendleft((lane, had))

    def _is_taken(self, lane: int, had: Callable[[float], None], now: float) -> bool:
        """Whether nobody had the lock, so that `lane` has it now."""
        if self._holder != NOBODY:
            return False
        self._holder = lane
        had(now)
        return True

    def _go(self, i: int, now: float) -> None:
        self._next = i
        self._let_go(now)

    def _finish(self, i: int, now: float) -> None:
        """The lane has the lock: it does what there is to do around a task, and says that this one is over."""
        self._at(now + self._held_s, partial(self._told, i))

    def _told(self, i: int, now: float) -> None:
        telling_s = self._tells(i) * self._tell_s
        self._end(i, now)
        if telling_s:
            self._at(now + telling_s, self._let_go)
        else:
            self._let_go(now)

    def _let_go(self, now: float) -> None:
        """The holder computes, or waits for something else than the lock; it wakes one that waits for it."""
        following, longer_s = self._next, 0.0
        self._holder, self._next = NOBODY, None
        if self._asleep:
            lane, had = self._asleep.popleft()
            self._at(now + self._wake_s, partial(self._woken, lane, had))
            longer_s = self._signal_s
        if following is not None:
            self._start(following, now, longer_s)


def takes_turns(columns: Columns, mode: str) -> bool:
    """Whether CPU lanes of a plan take the lock in turn at a cost; a rank's thread has no lanes beside it."""
    costs = columns.dispatch
    return mode != "distributed" and CPU in columns.kind and bool(costs.lock_signal_s or costs.lock_wake_s)


def holds_lock(columns: Columns) -> bool:
    """Whether the dispatching thread keeps the lock from wait to wait: it makes no calls of GPUs, which let it go."""
    return columns.locks and CUDA not in columns.kind


def makes_calls(columns: Columns) -> bool:
    """Whether the dispatching thread lets the lock go in calls of GPUs, and lanes take it from it at a known cost."""
    costs = columns.dispatch
    return columns.locks and CUDA in columns.kind and columns.graphs is None and bool(costs.lock_losses)


def without_lock(columns: Columns) -> Columns:
    """`columns` of lanes that wait for no lock: what they do around a task is part of it."""
    if not columns.locks:
        return columns
    kind, job_s = columns.kind, columns.dispatch.job_s
    work_s = [s + job_s * (k == CPU) for s, k in zip(columns.work_s, kind, strict=True)]
    routes = {
        i: route._replace(latency_s=route.latency_s + job_s * (kind[i] == CPU)) for i, route in columns.routes.items()
    }
    return replace(columns, work_s=work_s, routes=routes, job_s=job_s, locks=False)
