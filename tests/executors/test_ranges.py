"""Ranges around the calls of actions: none unless asked for, one an action, closed when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsched.errors import ExecutionError, TaskFailedError
from graphsched.executors import Program
from graphsched.executors.ranges import Call, marked_by, with_ranges
from graphsched.workload import Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import SIZE, WORKERS, add7, by_hand, digits, machine, mm7


def row(*functions: Any) -> Workload:
    """t0 ─▶ t1 ─▶ …"""
    work = Workload("row")
    value = work.input("x", digits(0))
    for k, function in enumerate(functions):
        value = work.task(function, value, value, name=f"t{k}", outputs=[value.spec])
    return work


@pytest.fixture
def nvtx(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What NVTX is told, played."""
    told: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", told.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: told.append("end"))
    return told


def test_no_call_is_added_where_none_is_asked_for(nvtx: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[int, Call] = {4: lambda: None}
    for value in (None, "", "0"):
        monkeypatch.delenv("GRAPHSCHED_NVTX", raising=False)
        if value is not None:
            monkeypatch.setenv("GRAPHSCHED_NVTX", value)
        assert with_ranges(calls, "abcde") is calls
    assert nvtx == []


def test_nvtx_ranges_bear_the_names_of_actions(nvtx: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSCHED_NVTX", "1")
    with Program(by_hand(row(add7, mm7), WORKERS, "worker:0/w0")) as program:
        del nvtx[:]
        program.run()
    names = [name for name in nvtx if name != "end"]
    assert names == [f"graphsched/{name}" for name in program.plan.names]
    assert nvtx[1::2] == ["end"] * len(names)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_gpu_lanes_have_them_when_issued_or_captured(
    nvtx: list[str], monkeypatch: pytest.MonkeyPatch, cuda: Callable[[int], FakeCuda], mode: str
) -> None:
    monkeypatch.setenv("GRAPHSCHED_NVTX", "1")
    cuda(1)
    with Program(by_hand(row(add7, mm7), machine("cuda:0"), "cuda:0/s0"), mode=mode) as program:
        program.run()
    assert nvtx.count("graphsched/t0") == nvtx.count("graphsched/t1") > 0
    assert nvtx.count("end") == len([name for name in nvtx if name != "end"])


def test_a_range_ends_when_its_task_fails(nvtx: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSCHED_NVTX", "1")

    def broken(a: Any, b: Any) -> Any:
        raise RuntimeError("out of luck")

    with Program(by_hand(row(broken), WORKERS, "worker:0/w0")) as program, pytest.raises(TaskFailedError, match="luck"):
        program.run()
    assert nvtx[-2:] == ["graphsched/t0", "end"]


def test_no_nvtx_here_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise RuntimeError("NVTX functions not installed")

    monkeypatch.setenv("GRAPHSCHED_NVTX", "1")
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", missing)
    with pytest.raises(ExecutionError, match="GRAPHSCHED_NVTX is set, but torch has no NVTX here"):
        Program(by_hand(row(add7), WORKERS, "worker:0/w0"))


def test_another_marker_takes_the_place_of_nvtx(nvtx: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSCHED_NVTX", "1")
    shown: list[str] = []

    def marker(name: str, call: Call) -> Call:
        return lambda: (shown.append(name), call())[1]

    with marked_by(marker):
        program = Program(by_hand(row(add7), WORKERS, "worker:0/w0"))
    with program:
        assert program.run()["t0"].shape == (SIZE, SIZE)
    assert "graphsched/t0" in shown
    assert nvtx == []
