"""Dispatch figures of CPU lanes: handing a task to a lane's thread, its start, the return from waiting."""

from __future__ import annotations

import threading
import time
from typing import Any

from graphsched.calibration.fitting import median

PAUSE_S = 1e-4  # long enough for an idle thread to fall asleep
ADDED = 2**20  # elements: an operation that all threads of a lane take part in


def lane_figures(repeats: int = 200) -> dict[str, float]:
    """``handoff_s``, ``wake_s`` and ``sync_s`` in seconds, medians, with an idle lane of the executors."""
    import torch

    from graphsched.executors.lanes import CpuLane

    threads = torch.get_num_threads()
    lane = CpuLane("calibration", 1)
    try:
        samples = [_hand_over(lane) for _ in range(repeats + 20)][20:]
    finally:
        lane.drain(10.0)
        lane.close()
        torch.set_num_threads(threads)
    names = ("handoff_s", "wake_s", "sync_s")
    return {name: max(0.0, median(column)) for name, column in zip(names, zip(*samples, strict=True), strict=True)}


def _hand_over(lane: object) -> tuple[float, float, float]:
    clock, done, times = time.perf_counter, threading.Event(), [0.0, 0.0]

    def job() -> None:
        times[0] = clock()
        times[1] = clock()
        done.set()

    put = lane.put  # type: ignore[attr-defined]
    time.sleep(PAUSE_S)
    start = clock()
    put(job)
    handed = clock()
    done.wait()
    back = clock()
    return handed - start, times[0] - handed, back - times[1]


def waiting_figures(repeats: int = 200) -> dict[str, float]:
    """``result_s`` and ``yield_s`` in seconds, medians: how late a thread goes on that waits where CPU lanes compute.

    After an operation the other threads of a lane look for work for a while: what waits for its result has to get
    a core back from them.
    """
    import torch

    from graphsched.executors.lanes import CpuLane

    threads = torch.get_num_threads()
    lane, tensor = CpuLane("calibration", threads), torch.ones(ADDED)
    try:
        results = [_result_s(lane, tensor) for _ in range(repeats + 20)][20:]
    finally:
        lane.drain(10.0)
        lane.close()
        torch.set_num_threads(threads)
    return {"result_s": max(0.0, median(results)), "yield_s": median([_yield_s() for _ in range(repeats)])}


def _result_s(lane: object, tensor: Any) -> float:
    done, over_s = threading.Event(), [0.0]

    def job() -> None:
        tensor.add(1)
        over_s[0] = time.perf_counter()
        done.set()

    lane.put(job)  # type: ignore[attr-defined]
    done.wait()
    return time.perf_counter() - over_s[0]


def _yield_s() -> float:
    """Of letting other threads run between two questions whether a device is done, see `executors.watch`."""
    began = time.perf_counter()
    time.sleep(0)
    return time.perf_counter() - began
