"""Dispatch figures of a CUDA host: what the dispatching thread's calls take, and waits between streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from graphsched.calibration.cold_launches import launch_colds_on
from graphsched.calibration.copy_company import company_calls
from graphsched.calibration.copy_edges import copy_edge_figures
from graphsched.calibration.cuda_calls import call_figures
from graphsched.calibration.cuda_clock import (
    CALL_S,
    Spinner,
    elapsed_s,
    new_stream,
    on_streams,
    poll_s,
)
from graphsched.calibration.cuda_graphs import graph_figures
from graphsched.calibration.cuda_single_runs import single_figures
from graphsched.calibration.graph_across import across_figures
from graphsched.calibration.graph_beside import beside_s
from graphsched.calibration.graph_joins import peer_join_s
from graphsched.calibration.graph_looks import look_figures
from graphsched.calibration.graph_rows import Launches
from graphsched.calibration.launch_pace import launches_on
from graphsched.calibration.step_times import step_figures
from graphsched.executors.clocks import new_event
from graphsched.platform.pace import LAUNCH_COLDS

CHAIN = 50
SLOW_CALL_S = 1e-3
TINY_ELEMENTS, SHORT_ELEMENTS = 64, 2**23  # of additions of about 2 and 15 µs
COPIED_BYTES, COPIES = 2**26, 4  # of about 1.2 ms each, beside chains of 1 to 2 ms
SPIN_FOR_QUEUE_S = 0.1
MOST_LAUNCHES = 5000


def cuda_dispatch(spinners: Sequence[Spinner]) -> dict[str, float]:
    """Fields of `Dispatch` measured on the first GPU (those between GPUs on the first two), in seconds."""
    first, devices = spinners[0], [spinner.device for spinner in spinners]
    figures = call_figures(devices, company_calls(devices)) | chain_figures(spinners) | idle_figures(first)
    figures |= single_figures(spinners, figures | {"tiny_s": chain_s(first, [new_stream(first.device)])})
    figures["graph_launches"] = launches = launches_on(devices)
    figures |= zip(LAUNCH_COLDS, colds := launch_colds_on(devices), strict=False)
    figures |= graph_figures(first, Launches(dict(launches)[1], colds[0])) | copy_edge_figures(spinners)
    figures |= across_figures(devices, figures) | step_figures(devices, figures)
    if len(devices) > 1:
        figures |= {"graph_peer_join_s": peer_join_s(devices), "graph_beside_in_s": beside_s(devices)}
        figures |= look_figures(spinners, figures["sync_s"])
    depth = queue_depth(first)
    return figures | ({"queue_depth": depth} if depth else {})


# -- device time of waits -------------------------------------------------------------------------


def chain_figures(spinners: Sequence[Spinner]) -> dict[str, float]:
    """What a chain of operations gains in time by timing events, and one of tiny ones by other streams, other devices.

    Timing events stand around operations of some microseconds: beside tiny ones the events themselves are the limit.
    """
    first = spinners[0]
    one, two = new_stream(first.device), new_stream(first.device)
    alone = chain_s(first, [one])
    short_s, timed_s = (chain_s(first, [one], timed=timed, elements=SHORT_ELEMENTS) for timed in (False, True))
    edges_s = chain_s(first, [one, two], timed=True, elements=SHORT_ELEMENTS)
    same_s = max(0.0, chain_s(first, [one, two]) - alone)
    gap_s = max(0.0, timed_s - short_s)
    figures = {
        "timed_gap_s": gap_s,
        "timed_edge_s": max(0.0, edges_s - timed_s - same_s),
        "timed_beside_s": max(0.0, _gap_beside_copies_s(first, one) - gap_s) / 2,
        "same_device_s": same_s,
    }
    if len(spinners) > 1:
        there = new_stream(spinners[1].device)
        figures["other_device_s"] = max(0.0, chain_s(first, [one, there]) - alone)
    return figures


def _gap_beside_copies_s(spinner: Spinner, lane: Any) -> float:
    """What two timing events add to an operation while copies come from the host's pinned memory."""
    copies = copies_in(spinner.device)
    short_s, timed_s = (
        chain_s(spinner, [lane], timed=timed, elements=SHORT_ELEMENTS, beside=copies) for timed in (False, True)
    )
    return timed_s - short_s


def copies_in(device: int) -> Callable[[Any], None]:
    """A function that queues copies from pinned memory to the GPU, longer than a chain, to start at an event."""
    import torch

    stream = new_stream(device)
    host = torch.empty(COPIED_BYTES, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(COPIED_BYTES, dtype=torch.uint8, device=stream.device)

    def queue(event: Any) -> None:
        with torch.cuda.stream(stream):
            stream.wait_event(event)
            for _ in range(COPIES):
                there.copy_(host, non_blocking=True)

    return queue


def chain_s(
    spinner: Spinner,
    lanes: Sequence[Any],
    *,
    timed: bool = False,
    repeats: int = 11,
    elements: int = TINY_ELEMENTS,
    beside: Callable[[Any], None] | None = None,
) -> float:
    """Seconds an operation of a chain that goes round `lanes`, all of it queued before it runs; median.

    `beside` queues what is to run meanwhile, from the event that it is given on.
    """
    import torch

    tensors = [torch.zeros(elements, device=lane.device).add_(1) for lane in lanes]
    for lane in lanes:
        lane.synchronize()
    before, after = _chain_events(timed), _chain_events(timed)
    passed = [new_event() for _ in range(CHAIN)]
    samples = []
    for _ in range(repeats + 2):
        with ExitStack() as stack:
            on_streams(stack, [*lanes[1:], lanes[0]])
            samples.append(_chain_once(spinner, lanes, tensors, passed, before, after, beside))
    return median(samples[2:])


def _chain_events(timed: bool) -> list[Any]:
    return [new_event(timing=True) for _ in range(CHAIN)] if timed else []


def _chain_once(
    spinner: Spinner,
    lanes: Sequence[Any],
    tensors: Sequence[Any],
    passed: Sequence[Any],
    before: Sequence[Any],
    after: Sequence[Any],
    beside: Callable[[Any], None] | None,
) -> float:
    import torch

    start, end, several = new_event(timing=True), new_event(timing=True), len(lanes) > 1
    spinner.spin(2 * CHAIN * CALL_S)
    start.record(lanes[0])
    if beside is not None:
        beside(start)
    for i in range(CHAIN):
        lane = lanes[i % len(lanes)]
        torch.cuda.set_stream(lane)
        if several and i:
            lane.wait_event(passed[i - 1])
        if before:
            before[i].record(lane)
        tensors[i % len(lanes)].add_(1)
        if after:
            after[i].record(lane)
        if several:
            passed[i].record(lane)
    if several:
        lanes[0].wait_event(passed[-1])
    end.record(lanes[0])
    for lane in lanes:
        lane.synchronize()
    return elapsed_s(start, end) / CHAIN


# -- an idle stream, a full queue -----------------------------------------------------------------


def idle_figures(spinner: Spinner, repeats: int = 200) -> dict[str, float]:
    """Return from waiting (``sync_s``) and start of an operation on an idle stream (``launch_s``).

    An event on an idle stream happens half-way between its record and the poll that sees it: the
    executors' clocks take it so too. What a tiny operation takes beyond that half and its own time
    from the return of its call to the poll that sees it is the launch.
    """
    import torch

    stream = new_stream(spinner.device)
    tiny_s = chain_s(spinner, [stream])
    returns, ends = [], []
    with torch.cuda.stream(stream):
        event = new_event()
        tensor = torch.zeros(64, device=stream.device).add_(1)
        for _ in range(repeats + 20):
            stream.synchronize()
            event.record(stream)
            issued = time.perf_counter()
            returns.append(poll_s(event.query) - issued)
            tensor.add_(1)
            issued = time.perf_counter()
            ends.append(poll_s(stream.query) - issued)
    sync_s = median(returns[20:]) / 2
    return {"sync_s": sync_s, "launch_s": max(0.0, median(ends[20:]) - tiny_s - sync_s)}


def queue_depth(spinner: Spinner) -> int:
    """Launches that the queue holds before a call blocks; 0 if none did."""
    import torch

    stream = new_stream(spinner.device)
    with torch.cuda.stream(stream):
        tensor = torch.zeros(64, device=stream.device).add_(1)
        stream.synchronize()
        spinner.spin(SPIN_FOR_QUEUE_S)
        found = first_slow(lambda: tensor.add_(1), MOST_LAUNCHES)
        stream.synchronize()
    return found


def first_slow(call: Callable[[], Any], most: int) -> int:
    """Number of calls before the first that takes longer than a millisecond; 0 if none of `most` does.

    Example:
        >>> first_slow(lambda: None, 10)
        0
    """
    clock = time.perf_counter
    for i in range(most):
        start = clock()
        call()
        if clock() - start > SLOW_CALL_S:
            return i
    return 0
