"""Timing work on CUDA streams: a spin kernel holds the stream until all is queued, events take the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from graphsched.executors.clocks import new_event

CALL_S = 3e-5  # more than one call from Python takes


class Spinner:
    """Keeps a stream of one CUDA device busy for a known time.

    Attributes:
        device: Number of the CUDA device.
        cycles_per_s: Rate of the clock that the spin kernel counts.
    """

    def __init__(self, device: int) -> None:
        import torch

        self.device = device
        self.cycles_per_s = 2e9
        with torch.cuda.device(device):
            for _ in range(3):  # the first ones raise the clocks
                self.cycles_per_s = self._rate(50_000_000)

    def _rate(self, cycles: int) -> float:
        import torch

        sleep: Any = torch.cuda._sleep
        start, end = new_event(timing=True), new_event(timing=True)
        start.record()
        sleep(cycles)
        end.record()
        end.synchronize()
        return cycles / (float(start.elapsed_time(end)) * 1e-3)

    def spin(self, seconds: float) -> None:
        """Occupy the current stream of the current device for `seconds`."""
        import torch

        sleep: Any = torch.cuda._sleep
        sleep(max(1, int(seconds * self.cycles_per_s)))


def new_stream(device: int) -> Any:
    """A CUDA stream of torch's pool."""
    import torch

    make: Any = torch.cuda.Stream
    return make(device)


def elapsed_s(start: Any, end: Any) -> float:
    """Seconds between two timing events of one device."""
    return float(start.elapsed_time(end)) * 1e-3


def on_streams(stack: ExitStack, streams: Sequence[Any]) -> None:
    """Make each stream current on its device until `stack` ends; the last one's device becomes current."""
    import torch

    for stream in streams:
        stack.enter_context(torch.cuda.stream(stream))


def queued_s(spinner: Spinner, streams: Sequence[Any], call: Callable[[], Any], batch: int) -> float:
    """Device seconds of one `call`, `batch` of them queued back to back on the last of `streams`."""
    stream = streams[-1]
    start, end = new_event(timing=True), new_event(timing=True)
    with ExitStack() as stack:
        on_streams(stack, streams)
        spinner.spin(1e-4 + batch * CALL_S)
        start.record(stream)
        for _ in range(batch):
            call()
        end.record(stream)
    end.synchronize()
    return elapsed_s(start, end) / batch


def poll_s(done: Callable[[], bool]) -> float:
    """Host time at which `done()` is first seen, by the executors' own way of waiting."""
    from graphsched.executors.watch import Watch

    watch = Watch(60.0)
    watch.begin()
    watch.poll(done, "a calibration step")
    return time.perf_counter()
