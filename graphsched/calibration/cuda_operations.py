"""An operation measured alone on a CUDA device, in streams and in a graph, and beside copies of itself.

Inputs below an eighth of the L2 cache are read again and again, and so come from it, as those that the
operation before has just made; of larger ones several sets are gone round, so that they come from memory. Of small ones
too, which all stay there, for its parts are not all as near: on an H200 a tiny operation in a row took 1.02 to
1.13 µs by the places that it read and wrote, and 1.08 where each read what the one before had made.

In graphs, inputs that were written just before, or that the cache has lost, are measured too (`graph_states`), and
other kinds before it (`graph_company`).

Not modelled: in streams, a large input that is still in the cache, a small one that no longer is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from graphsched.calibration.block_relief import with_reliefs
from graphsched.calibration.cuda_clock import CALL_S, Spinner, elapsed_s, new_stream, on_streams
from graphsched.calibration.cuda_kernels import launched
from graphsched.calibration.graph_company import code_of
from graphsched.calibration.graph_fetches import hindered
from graphsched.calibration.graph_operations import cache_bytes, in_graph
from graphsched.calibration.graph_pushes import pushed_bytes
from graphsched.calibration.graph_states import cache_states, writing
from graphsched.calibration.host_costs import Company, host_costs
from graphsched.calibration.kernels import multiprocessors
from graphsched.calibration.sampling import (
    calls_in_sample,
    chain_length,
    cost_of,
    places_wanted,
    samples_wanted,
    sets_wanted,
    slowdowns,
)
from graphsched.calibration.serial_run import Step, bind, clone
from graphsched.costs import CacheStates, TaskCost
from graphsched.executors.clocks import new_event

COPIES = (1, 2, 4, 8)
CURVE_BELOW_S = 5e-3
CURVE_SAMPLES = 3
LONGER = 3.0  # spin, where a busy host was too slow for the first


def measure_on_cuda(
    step: Step, spinner: Spinner, repeats: int, *, concurrency: bool, company: Company | None
) -> TaskCost:
    """Cost of a step's operation on its device.

    Args:
        concurrency: Its curve too, if it takes less than 5 ms.
        company: To measure beside it what the call costs the host; None: that is left out.
    """
    import torch

    with torch.cuda.device(spinner.device):
        workspace_bytes = _workspace_bytes(step, spinner.device)
        returned_bytes = sum(value.nbytes for value in step.task.outputs)
        sets = _sets(step, spinner.device)
        places = places_wanted(_input_bytes(step) + returned_bytes, cache_bytes(spinner.device))
        calls = [step.bound() for _ in range(max(sets, places))]
        seen = launched(calls[0], spinner)
        device_s, host_s = _alone(calls, spinner, seen.launches, repeats)
        alone_s = median(device_s)
        host = _host_figures(step, calls, company, alone_s, returned_bytes)
        in_graphs = in_graph(calls, spinner.device, alone_s, returned_bytes)
        states = (step, sets, spinner.device, alone_s, returned_bytes, workspace_bytes)
        cache = _states(*states) if in_graphs else None
        wanted = concurrency and alone_s < CURVE_BELOW_S
        processors = multiprocessors(spinner.device) if seen.kernels else None
        cost = cost_of(device_s, launches=seen.launches, workspace_bytes=workspace_bytes)
        cost = replace(cost, kernels=seen.kernels, processors=processors, graph_tried=True)
        cost = _in_company(cost, step, calls[0], host_s, spinner) if wanted else cost
        torch.cuda.synchronize()
    cost = replace(cost, curve_left_out=not concurrency, **host)
    return replace(cost, graph_s=in_graphs[0][1], graph_memory=in_graphs, cache=cache) if in_graphs else cost


def with_curve(cost: TaskCost, step: Step, spinner: Spinner) -> TaskCost:
    """`cost`, of a step's operation, with the curve, and the reliefs, left out when it was measured."""
    import torch

    if cost.device_s < CURVE_BELOW_S:
        with torch.cuda.device(spinner.device):
            call = step.bound()
            _, host_s, _ = _rough([call], new_stream(spinner.device), spinner)
            cost = _in_company(cost, step, call, host_s, spinner)
            torch.cuda.synchronize()
    return replace(cost, curve_left_out=False)


def _in_company(cost: TaskCost, step: Step, call: Callable[[], Any], host_s: float, spinner: Spinner) -> TaskCost:
    """`cost` with what tells how operations share a GPU: the concurrency curve, and the reliefs of its kernels."""
    cost = replace(cost, concurrency=_curve(step, spinner, cost.device_s, host_s, cost.launches))
    if cost.processors is None:
        return cost
    return replace(cost, kernels=with_reliefs(cost.kernels, cost.processors, call, cost.device_s, spinner))


def _states(
    step: Step, sets: int, device: int, alone_s: float, returned_bytes: int, workspace_bytes: int
) -> CacheStates | None:
    found = cache_states(step, device, alone_s, returned_bytes, sets)
    if found is None:
        return None
    try:
        tensors = [clone(tensor) for tensor in step.tensors]
        nbytes = _input_bytes(step) + returned_bytes
        operation = (bind(step.task, tensors), writing(tensors), device, alone_s, nbytes)
        code = code_of(*operation)
        found = replace(found, **code._asdict())
        worked_on = nbytes + workspace_bytes
        found = replace(found, pushed_bytes=pushed_bytes(operation[0], device, alone_s, worked_on))
        return replace(found, **hindered(*operation, code.lost_s)._asdict())
    except Exception:  # it has run in graphs: what it raises is about memory
        return found


def _host_figures(
    step: Step, calls: Sequence[Callable[[], Any]], company: Company | None, alone_s: float, returned_bytes: int
) -> dict[str, Any]:
    """Fields of `TaskCost` for what the call costs the host."""
    if company is None:
        return {"host_left_out": True}
    operation = step.task.operation
    assert operation is not None
    assert operation.function is not None
    return asdict(host_costs(calls, operation.function, company, alone_s, returned_bytes))


def _sets(step: Step, device: int) -> int:
    import torch

    return sets_wanted(_input_bytes(step), cache_bytes(device), torch.cuda.mem_get_info(device)[0])


def _input_bytes(step: Step) -> int:
    return sum(t.numel() * t.element_size() for t in step.tensors)


def _workspace_bytes(step: Step, device: int) -> int:
    """Memory at the peak of a call beyond what was there and what it returns."""
    import torch

    call = step.bound()
    call()  # the first use of a library takes memory that stays
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    made = call()
    torch.cuda.synchronize()
    after, peak = torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
    del made
    return max(0, peak - max(after, before))


# -- alone ----------------------------------------------------------------------------------------


def _alone(
    calls: Sequence[Callable[[], Any]], spinner: Spinner, launches: int, repeats: int
) -> tuple[list[float], float]:
    """Samples of device seconds of one call, and about what one takes the host."""
    stream = new_stream(spinner.device)
    rough_s, host_s, waits = _rough(calls, stream, spinner)
    batch = calls_in_sample(rough_s, max(launches, int(host_s / CALL_S)))
    hold_s = 0.0 if waits else 1e-4 + 1.5 * batch * host_s  # a call that waits for the device is not hidden
    samples = [
        _batch_s(calls, stream, spinner, batch, hold_s)
        for _ in range(samples_wanted(repeats, batch * (rough_s + host_s)) + 1)
    ][1:]
    return [s[0] for s in samples], median([s[1] for s in samples])


def _rough(calls: Sequence[Callable[[], Any]], stream: Any, spinner: Spinner) -> tuple[float, float, bool]:
    """About what one call takes the device and the host, and whether it waits for the device."""
    hold_s = 1e-3
    for _ in range(3):
        rough_s, host_s = _batch_s(calls, stream, spinner, 1, hold_s)
        waits, hold_s = host_s > hold_s, 1e-4 + 1.5 * host_s
    return rough_s, host_s, waits


def _batch_s(
    calls: Sequence[Callable[[], Any]], stream: Any, spinner: Spinner, batch: int, hold_s: float
) -> tuple[float, float]:
    """Device and host seconds of one of `batch` calls, queued behind a spin of `hold_s` seconds."""
    import torch

    start, end = new_event(timing=True), new_event(timing=True)
    kept: deque[Any] = deque(maxlen=len(calls))  # outputs of the last calls stay, so that their memory differs
    order = [calls[i % len(calls)] for i in range(batch)]
    with torch.cuda.stream(stream):
        spinner.spin(hold_s)
        start.record(stream)
        began = time.perf_counter()
        for call in order:
            kept.append(call())
        issued_s = time.perf_counter() - began
        end.record(stream)
    end.synchronize()
    return elapsed_s(start, end) / batch, issued_s / batch


# -- beside copies of itself ----------------------------------------------------------------------


def _curve(step: Step, spinner: Spinner, alone_s: float, host_s: float, launches: int) -> tuple[tuple[int, float], ...]:
    """Slowdown beside 1, 3 and 7 copies; empty where the calls wait for the device, so that none run side by side."""
    import torch

    streams = [new_stream(spinner.device) for _ in range(COPIES[-1])]
    distinct = _input_bytes(step) * len(streams) < torch.cuda.mem_get_info(spinner.device)[0] // 4
    shared = step.bound()
    calls = [step.bound() if distinct or step.task.updates else shared for _ in streams]
    length = chain_length(alone_s, launches, COPIES[-1])
    torch.cuda.synchronize()
    times = []
    for copies in COPIES:
        hold_s = 3e-4 + 1.5 * length * copies * (host_s + 5e-6)
        found = _samples(calls[:copies], streams[:copies], spinner, length, hold_s)
        found = found or _samples(calls[:copies], streams[:copies], spinner, length, LONGER * hold_s)
        if not found:
            return ()
        times.append((copies, median(found)))
    return slowdowns(times)


def _samples(
    calls: Sequence[Callable[[], Any]], streams: Sequence[Any], spinner: Spinner, length: int, hold_s: float
) -> list[float]:
    """Seconds of some runs behind a spin of `hold_s`; none if one of them began before all was queued."""
    samples = [_side_by_side(calls, streams, spinner, length, hold_s) for _ in range(CURVE_SAMPLES + 1)][1:]
    found = [seconds for seconds in samples if seconds is not None]
    return found if len(found) == CURVE_SAMPLES else []


def _side_by_side(
    calls: Sequence[Callable[[], Any]], streams: Sequence[Any], spinner: Spinner, length: int, hold_s: float
) -> float | None:
    """Seconds until chains of `length` calls, one a stream, are done; None if they began before all was queued."""
    import torch

    hold, start, ends = new_event(), new_event(timing=True), [new_event(timing=True) for _ in streams]
    with ExitStack() as stack:
        on_streams(stack, streams)
        front = streams[0]
        stack.enter_context(torch.cuda.stream(front))
        began = time.perf_counter()
        spinner.spin(hold_s)
        start.record(front)
        hold.record(front)
        for stream in streams[1:]:
            stream.wait_event(hold)
        _issue_in_turn(calls, streams, length)
        for stream, end in zip(streams, ends, strict=True):
            end.record(stream)
        in_time = time.perf_counter() - began < hold_s
    torch.cuda.synchronize(spinner.device)
    return max(elapsed_s(start, end) for end in ends) if in_time else None


def _issue_in_turn(calls: Sequence[Callable[[], Any]], streams: Sequence[Any], length: int) -> None:
    import torch

    for _ in range(length):
        for call, stream in zip(calls, streams, strict=True):
            torch.cuda.set_stream(stream)
            call()
