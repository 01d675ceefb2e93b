"""How much of its own time the executor spends on an action, beside the same calls in a plain loop."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from graphsched.executors.clocks import new_event
from graphsched.executors.lanes import CpuLane, close_lanes, stream_pool
from graphsched.executors.program import Program
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Platform
from graphsched.workload import Workload

RUNS = 9
LANES = 4


def bench_dispatch(n: int = 2000, *, quick: bool = False) -> dict[str, float | str]:
    """Host time of issuing `n` tiny tasks as a plan, and of the same torch and CUDA calls in a Python loop.

    Plan and loop take turns; the figures are medians. On a GPU: a chain of tasks on one stream, and one
    that goes round four streams with a wait at every step (keys ``…lanes4…``). Without one: handing
    tasks to a lane's thread, and putting the same function on a `queue.SimpleQueue`.

    Args:
        n: Tasks, at least 1.
        quick: Not more than 500 of them.

    Returns:
        ``device``, ``actions``, and in seconds an action ``plan_action_s``, ``direct_action_s`` and
        ``own_action_s``, the plan's beyond the loop's.

    Example:
        >>> figures = bench_dispatch(50)
        >>> list(figures)[:5]
        ['device', 'actions', 'plan_action_s', 'direct_action_s', 'own_action_s']
    """
    import torch

    n = max(1, min(n, 500) if quick else n)
    cuda = torch.cuda.is_available()
    device = Device("cuda:0", "cuda", torch.cuda.get_device_name(0)) if cuda else Device("worker:0", "worker")
    figures: dict[str, float | str] = {"device": f"{device.name} {device.model}".strip(), "actions": n}
    if not cuda:
        return figures | _named("", _turns(n, device, 1, _queued))
    return figures | _named("", _turns(n, device, 1, _one_stream)) | _named("_lanes4", _turns(n, device, LANES, _round))


def _named(label: str, medians: tuple[float, float, float]) -> dict[str, float]:
    return {f"{what}{label}_action_s": s for what, s in zip(("plan", "direct", "own"), medians, strict=True)}


def _turns(n: int, device: Device, lanes: int, direct: Callable[[int], float]) -> tuple[float, float, float]:
    """Medians of the issue time an action: of the plan, of the loop, of their difference in one turn."""
    rows = []
    with _chain(n, device, lanes) as program:
        for _ in range(RUNS + 2):
            gc.collect()
            program.time_once()
            rows.append((program.issue_s / n, direct(n) / n))
    plan, loop = zip(*rows[2:], strict=True)
    own = [a - b for a, b in rows[2:]]
    return statistics.median(plan), statistics.median(loop), statistics.median(own)


def _chain(n: int, device: Device, lanes: int) -> Program:
    import torch

    work = Workload("bench")
    value = work.input("x", torch.ones(1), device=device.name)
    for i in range(n):
        value = work.task(torch.neg, value, name=f"t{i}")
    place = {f"t{i}": f"{device.name}/s{i % lanes}" for i in range(n)}
    here = Platform("bench", (Device("cpu", "cpu"), device))
    return Program(build_plan(work, here, None, Placement(list(work.graph), place), scheduler="bench"))


def _one_stream(n: int) -> float:
    import torch

    neg, clock = torch.neg, time.perf_counter
    y = torch.ones(1, device="cuda:0")
    with torch.cuda.stream(stream_pool(0)[0]), torch.no_grad():
        torch.cuda.synchronize(0)
        start = clock()
        for _ in range(n):
            y = neg(y)
        seconds = clock() - start
        torch.cuda.synchronize(0)
    return seconds


def _round(n: int) -> float:
    import torch

    neg, clock, set_stream = torch.neg, time.perf_counter, torch.cuda.set_stream
    y = torch.ones(1, device="cuda:0")
    steps: list[tuple[Any, Any]] = [(stream_pool(0)[i % LANES], new_event()) for i in range(n)]
    for stream, event in steps:
        event.record(stream)
    torch.cuda.synchronize(0)
    before = torch.cuda.current_stream(0)
    last = steps[-1][1]
    with torch.no_grad():
        start = clock()
        for stream, event in steps:
            set_stream(stream)
            stream.wait_event(last)
            y = neg(y)
            event.record(stream)
            last = event
        seconds = clock() - start
    set_stream(before)
    torch.cuda.synchronize(0)
    return seconds


def _queued(n: int) -> float:
    import torch

    clock, threads = time.perf_counter, torch.get_num_threads()
    task: Callable[[], Any] = partial(torch.neg, torch.ones(1))
    lane = CpuLane("bench", 1)
    lane.drain(10.0)
    torch.set_num_threads(threads)
    put = lane.put
    start = clock()
    for _ in range(n):
        put(task)
    seconds = clock() - start
    lane.drain(60.0)
    close_lanes({0: lane})
    return seconds
