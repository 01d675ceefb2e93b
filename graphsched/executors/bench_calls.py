"""What a call with new inputs takes, ``Program.run``, beside the same written by hand in PyTorch.

Not modelled: several GPUs; inputs that lie on the host; results that a caller throws away before the next call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from typing import Any

from graphsched.errors import ExecutionError
from graphsched.executors import waking
from graphsched.executors.program import Program
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Platform
from graphsched.workload import Workload

TASKS, QUICK_TASKS = (1, 20, 200), (1, 20)
ROUNDS, QUICK_ROUNDS, COLD_ROUNDS = 100, 15, 3
INPUTS = 4  # that take turns, so that each call has others than the one before
ELEMENTS = 64
LOOP = "loop by hand"

Way = Callable[[Any], Any]
"""From an input to the result, which is there when the call returns."""


def bench_calls(*, quick: bool = False) -> list[dict[str, float | int | str]]:
    """Time of a call with a new input until its result is there, of programs and of what users would write, in turn.

    A chain of tiny tasks on the first GPU, or on a CPU lane where there is none. ``loop by hand`` calls the same
    operations one by one. ``CUDA graph by hand``, on a GPU alone: it is captured once, and each call copies the input
    in, replays, and clones the result.

    Args:
        quick: Fewer rounds, and no long chain.

    Returns:
        Rows of ``tasks``, ``way``, ``call_s`` (median) with its quartiles ``call_q1_s`` and ``call_q3_s``, and
        ``ratio`` to the loop, from the two calls of each round.

    Raises:
        ExecutionError: Two ways have other results.
    """
    import torch

    device = Device("cuda:0", "cuda") if torch.cuda.is_available() else Device("worker:0", "worker")
    rounds = QUICK_ROUNDS if quick else ROUNDS
    return [row for tasks in (QUICK_TASKS if quick else TASKS) for row in call_rows(device, tasks, rounds)]


def call_rows(device: Device, tasks: int, rounds: int) -> list[dict[str, float | int | str]]:
    """The rows of a chain of so many tasks, see `bench_calls`."""
    with ExitStack() as stack:
        samples = timed_in_turn(ways(device, tasks, stack), given(device), rounds)
    return [{"tasks": tasks, "way": way, **figures(seconds, samples[LOOP])} for way, seconds in samples.items()]


def ways(device: Device, tasks: int, stack: ExitStack) -> dict[str, Way]:
    """By name; `stack` closes the programs."""
    plan = chain(device, tasks)
    if device.kind != "cuda":
        return {LOOP: partial(_loop, tasks), "Program.run, eager": _program(plan, "eager", stack)}
    return {
        LOOP: partial(_loop_on_gpu, tasks),
        "CUDA graph by hand": CapturedByHand(tasks, device.name),
        "Program.run, eager": _program(plan, "eager", stack),
        "Program.run, graph": _program(plan, "graph", stack),
    }


def chain(device: Device, tasks: int) -> Plan:
    """A chain of so many tiny tasks on one lane of `device`, from the input ``x``.

    Example:
        >>> len(chain(Device("worker:0", "worker"), 3))
        3
    """
    import torch

    work = Workload("calls")
    value = work.input("x", torch.zeros(ELEMENTS), device=device.name)
    for k in range(tasks):
        value = work.task(torch.neg, value, name=f"t{k}")
    lanes = {task.name: f"{device.name}/s0" for task in work.tasks}
    here = Platform("bench", (Device("cpu", "cpu"), device))
    return build_plan(work, here, None, Placement(list(lanes), lanes), scheduler="bench")


def given(device: Device) -> list[Any]:
    """Inputs that take turns."""
    import torch

    where = device.name if device.kind == "cuda" else "cpu"
    return [torch.full((ELEMENTS,), float(k), device=where) for k in range(1, INPUTS + 1)]


def timed_in_turn(found: Mapping[str, Way], inputs: Sequence[Any], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way's calls, one of each in every round, all with the round's input.

    Raises:
        ExecutionError: Results differ.
    """
    samples: dict[str, list[float]] = {name: [] for name in found}
    for number, value in zip(range(COLD_ROUNDS + rounds), cycle(inputs)):
        results = {}
        for name, way in found.items():
            began = time.perf_counter()
            results[name] = way(value)
            samples[name].append(time.perf_counter() - began)
        if number < COLD_ROUNDS:
            check_same(results)
    return {name: seconds[COLD_ROUNDS:] for name, seconds in samples.items()}


def check_same(results: Mapping[str, Any]) -> None:
    """Make sure that all results are the first one's.

    Raises:
        ExecutionError: One is not.
    """
    first, *others = results
    for name in others:
        if not results[name].equal(results[first]):
            raise ExecutionError(f"benchmark 'calls': {name!r} and {first!r} have other results for the same input")


def figures(seconds: Sequence[float], loop_s: Sequence[float]) -> dict[str, float]:
    """Median and quartiles, and the median of the ratio to the loop's call in the same round.

    Example:
        >>> figures([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
        {'call_s': 2.0, 'call_q1_s': 1.5, 'call_q3_s': 2.5, 'ratio': 0.5}
    """
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    ratio = statistics.median(a / b for a, b in zip(seconds, loop_s, strict=True))
    return {"call_s": middle, "call_q1_s": low, "call_q3_s": high, "ratio": ratio}


class CapturedByHand:
    """The chain as a CUDA graph with one input and one result, as PyTorch's documentation has it."""

    def __init__(self, tasks: int, device: str) -> None:
        import torch

        self._input = torch.zeros(ELEMENTS, device=device)
        _chained(tasks, self._input)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = _chained(tasks, self._input)

    def __call__(self, value: Any) -> Any:
        import torch

        self._input.copy_(value)
        self._graph.replay()
        result = self._result.clone()
        torch.cuda.synchronize()
        return result


def _chained(tasks: int, value: Any) -> Any:
    import torch

    for _ in range(tasks):
        value = torch.neg(value)
    return value


def _loop(tasks: int, value: Any) -> Any:
    import torch

    with torch.no_grad():
        return _chained(tasks, value)


def _loop_on_gpu(tasks: int, value: Any) -> Any:
    import torch

    result = _loop(tasks, value)
    torch.cuda.synchronize()
    return result


def _program(plan: Plan, mode: str, stack: ExitStack) -> Way:
    program = stack.enter_context(waking.awake(Program(plan, mode=mode)))
    (name,) = (value.name for value in plan.work.returned())
    return lambda value: program.run(x=value)[name]
