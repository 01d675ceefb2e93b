"""What tasks return in later runs, held against what they declare wherever it is moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsched.errors import SignatureError, TaskFailedError
from graphsched.executors import Program
from graphsched.plan import Plan
from graphsched.workload import TensorSpec, Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import by_hand, machine

FOUR = TensorSpec((4,))


def as_long(x: torch.Tensor) -> torch.Tensor:
    """As many numbers as the first of `x` says."""
    return torch.ones(int(x[0]))


def moved(devices: tuple[str, str], between: str = "peer") -> Plan:
    """x ──▶ y on the first device ──▶ q on the second."""
    work = Workload()
    y = work.task(as_long, work.input("x", torch.full((1,), 4.0), device=devices[0]), name="y", outputs=[FOUR])
    work.task(torch.neg, y, name="q")
    return by_hand(work, machine(*devices, between=between), {"y": f"{devices[0]}/s0", "q": f"{devices[1]}/s0"})


def to_host() -> Plan:
    """x ──▶ y on a GPU ──▶ z on the host."""
    work = Workload()
    y = work.task(as_long, work.input("x", torch.full((1,), 4.0), device="cuda:0"), name="y", outputs=[FOUR])
    work.copy(y, to="cpu", name="z", pinned=True)
    return by_hand(work, machine("cuda:0"), {"y": "cuda:0/s0"})


def summed(*devices: str) -> Plan:
    """x ──▶ y on the second device, ones on the first ──▶ their sum on both."""
    work = Workload()
    x = work.input("x", torch.full((1,), 4.0), device=devices[1])
    y = work.task(as_long, x, name="y", outputs=[FOUR], device=devices[1])
    work.collective("all_reduce", [work.input("ones", torch.ones(4), device=devices[0]), y], devices=devices)
    return by_hand(work, machine(*devices), {"y": f"{devices[1]}/s0"})


PLANS: dict[str, Callable[[], Plan]] = {
    "workers": lambda: moved(("worker:0", "worker:1")),
    "peer": lambda: moved(("cuda:0", "cuda:1")),
    "staged": lambda: moved(("cuda:0", "cuda:1"), "staged"),
    "to the host": to_host,
    "sum of workers": lambda: summed("worker:0", "worker:1"),
    "sum of GPUs": lambda: summed("cuda:0", "cuda:1"),
}


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("length", [1, 5])
def test_a_later_result_of_another_shape_is_not_moved(kind: str, length: int, cuda: Callable[[int], FakeCuda]) -> None:
    """Which torch would spread over what is there, or read beyond its end; the next run is right."""
    cuda(2)
    message = rf"output 'y' of task 'y' is declared as float32\[4\] and has become float32\[{length}\]"
    with Program(PLANS[kind]()) as program:
        expected = {name: found.clone() for name, found in program.run().items()}
        with pytest.raises(TaskFailedError, match=message) as caught:
            program.run(x=torch.full((1,), float(length)))
        assert isinstance(caught.value.__cause__, SignatureError)
        assert all(torch.equal(found, expected[name]) for name, found in program.run().items())


def test_a_later_result_of_another_type_is_not_moved() -> None:
    """x ──▶ y, whole numbers in the second run ──▶ q."""
    results = [torch.ones(4), torch.ones(4, dtype=torch.int64)]
    work = Workload()
    y = work.task(lambda x: results.pop(0), work.input("x", torch.ones(4)), name="y", outputs=[FOUR])
    work.task(torch.neg, y, name="q")
    plan = by_hand(work, machine("worker:0", "worker:1"), {"y": "worker:0/s0", "q": "worker:1/s0"})
    with Program(plan) as program:
        program.run()
        with pytest.raises(TaskFailedError, match=r"has become int64\[4\]"):
            program.run()


@pytest.mark.parametrize(
    ("declared", "later", "count"),
    [(1, None, 0), (1, [], 0), (2, None, 0), (2, torch.ones(2, 4), 1), (2, (torch.ones(4), None), 1)],
)
def test_a_later_run_that_returns_another_number_of_tensors(declared: int, later: Any, count: int) -> None:
    """x ──▶ t."""
    results = [[torch.ones(4)] * declared, later]
    work = Workload()
    work.task(lambda x: results.pop(0), work.input("x", torch.ones(4)), name="t", outputs=[FOUR] * declared)
    with Program(by_hand(work, machine(), "cpu/w0")) as program:
        program.run()
        with pytest.raises(TaskFailedError, match=f"task 't' declares {declared} outputs and returned {count}"):
            program.run()
