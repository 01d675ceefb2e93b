"""CUDA graphs made of a few lines, and how long their replays take: on the device, and for the thread.

Not modelled: graphs whose nodes are on several GPUs, but for copies between these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.cuda_clock import Spinner, elapsed_s, poll_s
from graphsched.executors.capture import capturing, free_generators
from graphsched.executors.clocks import new_event

HOLD_S = 1e-4  # longer than the host needs for a launch
REPLAYS, COLD_REPLAYS = 11, 2


class Replay(NamedTuple):
    """Seconds of the launch for the thread, and until it sees the end, on an idle device."""

    host_s: float
    whole_s: float


def captured(lanes: Sequence[Any], issue: Callable[[], object], graph: Any = None) -> Any:
    """A graph of what `issue` puts on `lanes`, streams of one GPU; the first forks to the others and joins them.

    `graph`: the empty one to fill; default a new one. After a failure the GPU can be used as before.
    """
    import torch

    graph = torch.cuda.CUDAGraph() if graph is None else graph
    try:
        with capturing(graph, lanes[0]):
            _issue(lanes, issue)
    except BaseException:
        free_generators([lanes[0].device.index], lanes[0])
        raise
    return graph


def _issue(lanes: Sequence[Any], issue: Callable[[], object]) -> None:
    import torch

    for lane in lanes[1:]:
        lane.wait_stream(lanes[0])
    try:
        issue()
    finally:
        torch.cuda.set_stream(lanes[0])  # a capture ends on the stream that it began on
    for lane in lanes[1:]:
        lanes[0].wait_stream(lane)


def device_s(graph: Any, spinner: Spinner, stream: Any, replays: int = REPLAYS) -> float:
    """Device seconds of a replay that was launched while `stream` was still busy; median."""
    import torch

    samples = []
    with torch.cuda.stream(stream):
        for _ in range(replays + COLD_REPLAYS):
            start, end = new_event(timing=True), new_event(timing=True)
            spinner.spin(HOLD_S)
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            samples.append(elapsed_s(start, end))
    return median(samples[COLD_REPLAYS:])


def return_s(stream: Any, repeats: int = 50) -> float:
    """The thread's return from waiting for an idle stream: half the time from an event's record to the poll that sees
    it, as `Dispatch.sync_s` is measured."""
    import torch

    samples = []
    with torch.cuda.stream(stream):
        event = new_event()
        for _ in range(repeats + COLD_REPLAYS):
            stream.synchronize()
            event.record(stream)
            issued = time.perf_counter()
            samples.append(poll_s(event.query) - issued)
    return median(samples[COLD_REPLAYS:]) / 2


def each_s(few: float, many: float, more: int) -> float:
    """Seconds of each of the `more` that a replay of `many` seconds has above one of `few`; not below 0.

    Example:
        >>> each_s(5.0, 25.0, 10), each_s(5.0, 4.0, 10)
        (2.0, 0.0)
    """
    return max(0.0, (many - few) / more)
