"""GPUs that have rested work before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsched.executors import measure, waking
from graphsched.executors.measure import execute, time_callable
from graphsched.executors.waking import CALLS, ELEMENTS, wake
from graphsched.workload import Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import by_hand, machine


class Gpus:
    """What is called of torch, with the numbers of the devices."""

    def __init__(self, patch: pytest.MonkeyPatch, full: tuple[str, ...] = ()) -> None:
        self.full, self.called = full, list[str]()
        patch.setattr(torch, "zeros", self.zeros)
        patch.setattr(torch, "relu", lambda values: self.called.append(f"relu {len(values)}"))
        patch.setattr(torch.cuda, "synchronize", lambda device: self.called.append(f"wait {device}"))

    def zeros(self, elements: int, device: str) -> range:
        if device in self.full:
            raise torch.OutOfMemoryError
        self.called.append(device)
        return range(elements)


def test_each_gpu_works_without_a_pause_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Gpus(monkeypatch)
    wake([0, 2])
    works = [f"relu {ELEMENTS}"] * CALLS
    assert gpus.called == ["cuda:0", *works, "wait 0", "cuda:2", *works, "wait 2"]


def test_a_full_gpu_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Gpus(monkeypatch, full=("cuda:0",))
    wake([0, 1])
    assert gpus.called[0] == "cuda:1"


def test_a_plan_is_measured_on_gpus_that_are_awake(cuda: Callable[[int], FakeCuda]) -> None:
    """a (cuda:0) ──▶ copy ──▶ b (cuda:1)."""
    fake, work, seen = cuda(2), Workload(), list[int]()
    a = work.task(torch.neg, work.input("x", torch.ones(1), device="cuda:0"), name="a", device="cuda:0")
    work.task(lambda x: (seen.append(len(fake.woken)), -x)[1], a, name="b", device="cuda:1")
    plan = by_hand(work, machine("cuda:0", "cuda:1"), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    execute(plan, repeats=1, warmup=0)
    assert fake.woken == [0, 1]
    assert set(seen[-4:]) == {2}


class Row:
    """A program that is made, and may be closed."""

    gpus, closed = (0,), False

    def close(self) -> None:
        self.closed = True


def test_a_program_whose_gpus_cannot_be_woken_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    row: Any = Row()
    monkeypatch.setattr(waking, "wake", lambda _: None)
    assert waking.awake(row) is row
    assert not row.closed
    monkeypatch.setattr(waking, "wake", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        waking.awake(row)
    assert row.closed


def test_callables_of_others_are_timed_on_gpus_that_are_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int] | str] = []
    monkeypatch.setattr(measure, "visible_gpus", lambda: 2)
    monkeypatch.setattr(waking, "wake", lambda devices: seen.append(list(devices)))
    time_callable(lambda: seen.append("called"), repeats=1, warmup=1)
    assert seen == [[0, 1], "called", "called"]


@pytest.mark.gpu
def test_a_real_gpu_is_woken() -> None:
    wake([0])
    assert torch.cuda.current_stream(0).query()
