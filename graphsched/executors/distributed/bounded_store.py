"""The store of all ranks with an end to every wait: the process that keeps it may have been stopped."""

from __future__ import annotations

import atexit
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

ANSWER_S = 5.0


class BoundedStore:
    """A store of torch.distributed whose calls end within `answer_s` seconds.

    Torch waits without end for the answer of a process that was stopped. A thread does so here. While an answer is late
    every call fails at once.

    Example:
        >>> from torch import distributed
        >>> store = BoundedStore(distributed.HashStore())
        >>> store.set("key", "value")
        >>> store.check("key"), store.get("key")
        (True, 'value')
    """

    def __init__(self, store: Any, answer_s: float = ANSWER_S) -> None:
        self._store, self._answer_s = store, answer_s
        self._late: Future[Any] | None = None
        self.closed = False
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="graphsched store", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def set(self, key: str, value: str) -> None:
        """Keep `value` under `key`.

        Raises:
            RuntimeError: The store is gone, or does not answer.
        """
        self._ask(lambda: self._store.set(key, value))

    def get(self, key: str) -> str:
        """What is under `key`, which must be there; raises as `set`."""
        return bytes(self._ask(lambda: self._store.get(key))).decode()

    def check(self, key: str) -> bool:
        """Whether there is something under `key`; raises as `set`."""
        return bool(self._ask(lambda: self._store.check([key])))

    def add(self, key: str, number: int) -> int:
        """Add to the number under `key`, 0 at first; raises as `set`."""
        return int(self._ask(lambda: self._store.add(key, number)))

    def close(self) -> None:
        """End the thread: a process that ends while torch is called there aborts."""
        self.closed = True
        self._asked.put(None)
        self._thread.join(1.0)

    def _ask(self, call: Callable[[], Any]) -> Any:
        if self.closed or (self._late is not None and not self._late.done()):
            raise RuntimeError("the store does not answer")
        answer: Future[Any] = Future()
        self._asked.put((call, answer))
        try:
            return answer.result(self._answer_s)
        except TimeoutError:
            self._late = answer
            raise RuntimeError("the store does not answer") from None

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            call, answer = asked
            try:
                answer.set_result(call())
            except Exception as error:
                answer.set_exception(error)
