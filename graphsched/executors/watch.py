"""Waiting with an end: what a run waits for, until when, and what has failed meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphsched.errors import StuckError
from graphsched.executors.giving_way import give_way, short_sleeps
from graphsched.executors.spinning import Done, question_about, spin_on

if TYPE_CHECKING:
    from graphsched.executors.lanes import CpuLane


@dataclass
class Watch:
    """The watchdog of one run, shared by the dispatching thread and the lanes' threads.

    A wait that lasts beyond `timeout_s` ends the run with `StuckError`, naming what was waited for; a
    failure on one lane ends every wait. With `spins` the dispatching thread stays awake while CPU lanes are at work:
    it has a core beside theirs.
    """

    timeout_s: float
    lanes: Sequence[CpuLane] = ()
    spins: bool = False
    deadline: float = 0.0
    failure: BaseException | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Start a run: forget old failures, set the deadline."""
        self.failure = None
        self.deadline = time.perf_counter() + self.timeout_s

    def prolong(self) -> None:
        """Start a run while the one before is under way: there is time for both."""
        self.deadline = time.perf_counter() + 2 * self.timeout_s

    def fail(self, error: BaseException) -> None:
        """Record the first failure of the run."""
        with self._lock:
            if self.failure is None:
                self.failure = error

    def poll(self, done: Callable[[], bool], what: str) -> None:
        """Wait until `done()`; polling sees the end of device work sooner than a blocking wait.

        While one of `lanes` is at work it has the core, and the interpreter's lock, between two questions.

        Raises:
            StuckError: It lasted beyond the deadline.
        """
        if done():
            return
        with short_sleeps() if self.lanes else nullcontext():
            while True:
                if any(lane.at_work for lane in self.lanes):
                    give_way()
                self._go_on(what)
                if done():
                    return

    def see(self, work: Any, what: str) -> None:
        """Wait until `work`, an event or a stream of a GPU, is done: the dispatching thread's way.

        Raises:
            StuckError: It lasted beyond the deadline.
        """
        question = question_about(work) if self.spins else None
        if question is None:
            self.poll(work.query, what)
            return
        while not work.query():
            self._go_on(what)
            spin_on(question)

    def spin(self, done: Done, what: str) -> None:
        """Wait for a lane's task: the dispatching thread's way.

        Raises:
            StuckError: It lasted beyond the deadline.
        """
        if not self.spins:
            self.wait(done, what)
            return
        while not done.spin():
            self._go_on(what)
        self._passed(True, what)

    def _go_on(self, what: str) -> None:
        if self.failure is not None:
            raise self.failure
        if time.perf_counter() > self.deadline:
            raise self.stuck(what)

    def wait(self, event: threading.Event, what: str) -> None:
        """Wait for a thread's event, asleep.

        Raises:
            StuckError: It lasted beyond the deadline.
        """
        self._passed(event.wait(max(0.0, self.deadline - time.perf_counter())), what)

    def take(self, tokens: threading.Semaphore, what: str, given: Done | None = None) -> None:
        """Wait for a token, and take it; asleep, or with `given`, which is set after each release, as `spin` does.

        Raises:
            StuckError: It lasted beyond the deadline.
        """
        if given is not None and self.spins:
            while not tokens.acquire(blocking=False):
                self.spin(given, what)
                given.clear()
            self._passed(True, what)
            return
        self._passed(tokens.acquire(timeout=max(0.0, self.deadline - time.perf_counter())), what)

    def _passed(self, in_time: bool, what: str) -> None:
        if not in_time:
            raise self.stuck(what)
        if self.failure is not None:
            raise self.failure

    def stuck(self, what: str) -> StuckError:
        """The error of a wait for `what` that lasted too long."""
        return StuckError(
            f"the run waited for {what} beyond {self.timeout_s:g} s: it may hang, or give a larger timeout_s"
        )
