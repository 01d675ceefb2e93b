"""Signs of life: a process that was stopped, as on a host that hangs, closes no connection and says nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from graphsched.executors.distributed.bounded_store import BoundedStore

BEAT_S = 2.0
SILENT_LOOKS = 15  # at intervals of `BEAT_S`, after which a rank without a sign of life counts as stopped


class Pulses:
    """Counters of all ranks in their store, each moved on by a thread of its rank and watched by the rank before."""

    def __init__(self, store: BoundedStore, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        threading.Thread(target=self._beat, name="graphsched pulse", daemon=True).start()

    def _beat(self) -> None:
        while not self._store.closed:
            with contextlib.suppress(RuntimeError):
                self._store.add(f"pulse {self._rank}", 1)
            time.sleep(BEAT_S)

    def watch(self, tell: Callable[[int | None], None]) -> Callable[[], None]:
        """Call `tell` once from a thread if the next rank gives no sign of life, with its number; None: the store does.

        Looks are counted, not seconds: where all ranks were stopped and go on, nobody is to blame.

        Returns:
            What ends that.
        """
        watched, over = (self._rank + 1) % self._size, threading.Event()

        def look() -> None:
            last: int | None = -1
            missed = 0
            while missed < SILENT_LOOKS and not over.wait(BEAT_S):
                now = self._pulse_of(watched)
                last, missed = now, missed + 1 if now in (last, None) else 0
            if not over.is_set():
                tell(None if last is None else watched)

        if watched != self._rank:
            threading.Thread(target=look, name="graphsched silence", daemon=True).start()
        return over.set

    def silent(self, ranks: Sequence[int]) -> list[int]:
        """Those of `ranks` that give no sign of life while two would come; none where the store does not answer."""
        before = [self._pulse_of(rank) for rank in ranks]
        time.sleep(2 * BEAT_S)
        after = [self._pulse_of(rank) for rank in ranks]
        return [rank for rank, was, now in zip(ranks, before, after, strict=True) if was is not None and was == now]

    def _pulse_of(self, rank: int) -> int | None:
        with contextlib.suppress(RuntimeError):
            return self._store.add(f"pulse {rank}", 0)
        return None
