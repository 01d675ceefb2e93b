"""The watchdog of one rank, which ends every wait once a failure is known, here or on another rank."""

from __future__ import annotations

import threading
import time

from graphsched.executors.watch import Watch

SLICE_S = 0.05  # of a wait, after which the thread looks whether something has failed
GRACE_S = 0.5  # beyond the deadline, in which a message that did not pass says so first


class RankWatch(Watch):
    """A watchdog that ends waits as soon as a failure is known, on this rank or another."""

    def wait(self, event: threading.Event, what: str) -> None:
        """Wait for a thread's event.

        Raises:
            StuckError: It lasted beyond the deadline.
        """
        while not event.wait(SLICE_S):
            if self.failure is not None:
                raise self.failure
            if time.perf_counter() > self.deadline + GRACE_S:
                raise self.stuck(what)
        if self.failure is not None:
            raise self.failure

    def left_s(self) -> float:
        """Seconds until the deadline, for a message."""
        return max(0.0, self.deadline - time.perf_counter())
