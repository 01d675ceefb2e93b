"""Servers of a running store: a thread each, with a stream of its own on a GPU, that does the most urgent job first."""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphsched import hanging
from graphsched.errors import PlatformError

Job = Callable[[], None]


def torch_device(name: str) -> Any:
    """What torch calls a device: workers are threads of the CPU.

    Raises:
        PlatformError: There is no such device here.

    Example:
        >>> torch_device("worker:1")
        device(type='cpu')
    """
    import torch

    kind, _, number = str(name).partition(":")
    if kind in ("cpu", "worker") and (not number or number.isdigit()):
        return torch.device("cpu")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind != "cuda" or not number.isdigit() or int(number) >= gpus:
        there = "".join(f", cuda:{i}" for i in range(gpus))
        raise PlatformError(f"no device {name!r} here: there are cpu, worker:0, worker:1, …{there}")
    return torch.device(name)


@dataclass(frozen=True)
class Placed:
    """A tensor of the store's own that another stream may read.

    Attributes:
        tensor: Nobody changes it.
        ready: On a GPU an event behind what made it.
    """

    tensor: Any
    ready: Any

    @classmethod
    def made(cls, tensor: Any) -> Placed:
        """`tensor` as the current stream of its device has just made it."""
        import torch

        on_gpu = tensor.device.type == "cuda"
        return cls(tensor, torch.cuda.current_stream(tensor.device).record_event() if on_gpu else None)

    @classmethod
    def copied(cls, tensor: Any, device: Any) -> Placed:
        """A copy of `tensor`, contiguous, on `device`; the caller may change `tensor` at once."""
        import torch

        return cls.made(tensor.detach().to(device, copy=True, memory_format=torch.contiguous_format))

    def taken(self) -> Any:
        """The tensor, to be read by the current stream of its device."""
        import torch

        if self.ready is not None:
            stream = torch.cuda.current_stream(self.tensor.device)
            stream.wait_event(self.ready)
            self.tensor.record_stream(stream)
        return self.tensor


class Server:
    """A thread that does jobs, those of the highest priority first, then in the order in which they came.

    Args:
        name: Of its device.
    """

    def __init__(self, name: str) -> None:
        import torch

        self.name, self.device = name, torch_device(name)
        self._stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._jobs: queue.PriorityQueue[tuple[float, int, Job | None]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self.thread = threading.Thread(target=self._work, name=f"kvstore {name}", daemon=True)
        self.thread.start()

    def submit(self, job: Job, priority: float) -> None:
        """Do `job`, which raises nothing, before all that wait with a lower priority."""
        self._jobs.put((-priority, next(self._numbers), job))

    def close(self) -> None:
        """Do all jobs that came before, and end; `has_ended` waits for that."""
        self._jobs.put((math.inf, next(self._numbers), None))

    def has_ended(self, wait_s: float) -> bool:
        """Whether it has, within so many seconds; or will, where its own last job asks."""
        if self.thread is threading.current_thread():
            return True
        self.thread.join(max(wait_s, 0.0))
        return not self.thread.is_alive()

    def give_up(self) -> None:
        """Interrupt the job under way, and do no other."""
        self._jobs.put((-math.inf, next(self._numbers), None))
        hanging.end([self.thread], 0.0)

    def _work(self) -> None:
        with self._own_stream(), contextlib.suppress(SystemExit):
            while (job := self._jobs.get()[2]) is not None:
                job()
                del job

    @contextlib.contextmanager
    def _own_stream(self) -> Iterator[None]:
        import torch

        with torch.no_grad(), torch.cuda.stream(self._stream):
            yield


def end_servers(servers: Mapping[str, Server], timeout_s: float) -> list[str]:
    """Have servers do their jobs and end; the names of those that have not in time, which are interrupted."""
    for server in servers.values():
        server.close()
    until, busy = time.monotonic() + timeout_s, list(servers)
    try:
        busy = [name for name, server in servers.items() if not server.has_ended(until - time.monotonic())]
    finally:
        for name in busy:
            servers[name].give_up()
    return busy
