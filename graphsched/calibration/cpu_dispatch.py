"""Dispatch figures of CPU lanes: handing a task to a lane's thread, its start and what is around it, the return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from graphsched.calibration.cold_calls import colds_of
from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS
from graphsched.calibration.interpreter_lock import lock_figures
from graphsched.executors.giving_way import give_way, short_sleeps
from graphsched.executors.spinning import Done, spins
from graphsched.executors.watch import Watch
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Platform
from graphsched.workload import TensorSpec, Workload

IN_A_ROW = 50  # tasks handed to a lane that has some already
PAUSE_S = 1e-4  # long enough for an idle thread to fall asleep
SLEPT_US = (100, 300, 1000, 3000)  # how long it has slept then
SLEEPS = 40  # of each
CHAIN, RUNS = (20, 120), 40  # tasks of the two chains; runs
ADDED = 2**20  # elements: an operation that all threads of a lane take part in


def lane_figures(repeats: int = 200) -> dict[str, Any]:
    """``handoff_s``, ``wake_s``, ``wakes`` and ``sync_s`` in seconds, medians, with an idle lane of the executors; and
    ``put_s``, ``job_s`` and what `lock_figures` finds, of busy ones.
    """
    import torch

    from graphsched.executors.lanes import CpuLane

    threads = torch.get_num_threads()
    lane = CpuLane("calibration", 1)
    try:
        samples = [_hand_over(lane) for _ in range(repeats + 20)][20:]
        wakes_s = [tuple(_hand_over(lane, us * 1e-6)[1] for us in SLEPT_US) for _ in range(SLEEPS)]
    finally:
        lane.drain(10.0)
        lane.close()
        torch.set_num_threads(threads)
    names = ("handoff_s", "wake_s", "sync_s")
    middles_s = [max(0.0, median(column)) for column in zip(*samples, strict=True)]
    found: dict[str, Any] = dict(zip(names, middles_s, strict=True))
    found["wakes"] = colds_of(wakes_s, SLEPT_US)
    return found | {"put_s": put_s(repeats), "job_s": job_s()} | lock_figures()


def put_s(repeats: int) -> float:
    """`Dispatch.put_s` in seconds, median: handing a task to a lane that has been given others just before."""
    from graphsched.executors.lanes import CpuLane

    lane = CpuLane("calibration", 1)
    try:
        return median([_row_s(lane) / IN_A_ROW for _ in range(repeats)])
    finally:
        lane.drain(10.0)
        lane.close()


def _row_s(lane: Any) -> float:
    calls = [partial(lane.put, int)] * IN_A_ROW
    lane.drain(10.0)
    lane.put(int)
    began = time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - began


def job_s() -> float:
    """`Dispatch.job_s` in seconds: a task of a chain on one lane, less its operation alone."""
    import torch

    from graphsched.calibration.cpu_operations import Sampled, measure_on_cpu
    from graphsched.calibration.lane_pace import Yardsticks

    operation = Sampled(partial(torch.neg, torch.zeros(TINY_ELEMENTS)))
    few_s, many_s = (chain_s(tasks) for tasks in CHAIN)
    alone_s = measure_on_cpu([operation], Yardsticks(1), RUNS).device_s
    return max(0.0, each_s(few_s, many_s, CHAIN[1] - CHAIN[0]) - alone_s)


def chain_s(tasks: int) -> float:
    """Seconds of a run of a chain of tiny tasks on one lane of the CPU, median."""
    import torch

    from graphsched.executors.program import Program

    work = Workload("chain")
    value = work.input("x", torch.zeros(TINY_ELEMENTS))
    made = [TensorSpec((TINY_ELEMENTS,))]  # declared, for fake tensors would take a second of imports to tell
    names = [f"t{k}" for k in range(tasks)]
    for name in names:
        value = work.task(torch.neg, value, name=name, device="cpu", outputs=made)
    here = Platform("here", (Device("cpu", "cpu"),))
    plan = build_plan(work, here, None, Placement(names, dict.fromkeys(names, "cpu/w0")), scheduler="calibration")
    with Program(plan) as program:
        return median([program.time_once() for _ in range(RUNS)])


def _hand_over(lane: object, pause_s: float = PAUSE_S) -> tuple[float, float, float]:
    clock, done, times = time.perf_counter, threading.Event(), [0.0, 0.0]

    def job() -> None:
        times[0] = clock()
        times[1] = clock()
        done.set()

    put = lane.put  # type: ignore[attr-defined]
    time.sleep(pause_s)
    start = clock()
    put(job)
    handed = clock()
    done.wait()
    back = clock()
    return handed - start, times[0] - handed, back - times[1]


def waiting_figures(threads: int, repeats: int = 200) -> dict[str, float]:
    """``look_s`` in seconds, median, and what `returns_s` finds: how late a thread goes on that waits for CPU lanes."""
    with short_sleeps():
        looks = [_look_s() for _ in range(repeats)]
    return returns_s(threads, repeats) | {"look_s": median(looks)}


def returns_s(threads: int, repeats: int = 200) -> dict[str, float]:
    """``result_s`` and, where the system lets a thread stay awake, ``spun_s`` in seconds, medians.

    After an operation the other of the lane's `threads` look for work for a while: a thread that has slept until then
    has to get a core back from them.
    """
    import torch

    from graphsched.executors.lanes import CpuLane

    before, watch = torch.get_num_threads(), Watch(60.0, spins=spins())
    ways = {"result_s": watch.wait, "spun_s": watch.spin} if watch.spins else {"result_s": watch.wait}
    lane, tensor = CpuLane("calibration", threads), torch.ones(ADDED)
    watch.begin()
    try:
        turns = [[_return_s(lane, tensor, wait) for wait in ways.values()] for _ in range(repeats + 20)][20:]
    finally:
        lane.drain(10.0)
        lane.close()
        torch.set_num_threads(before)
    return {name: max(0.0, median(each)) for name, each in zip(ways, zip(*turns, strict=True), strict=True)}


def _return_s(lane: object, tensor: Any, wait: Callable[[Done, str], None]) -> float:
    done, over_s = Done(), [0.0]

    def job() -> None:
        tensor.add(1)
        over_s[0] = time.perf_counter()
        done.set()

    lane.put(job)  # type: ignore[attr-defined]
    wait(done, "a lane of the calibration")
    return time.perf_counter() - over_s[0]


def _look_s() -> float:
    """Of letting other threads run between two questions whether a device is done, see `executors.watch`."""
    began = time.perf_counter()
    give_way()
    return time.perf_counter() - began
