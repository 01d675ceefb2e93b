"""Copies between GPUs by the driver: what they take, what they leave to torch, and their errors."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.errors import ExecutionError, TaskFailedError
from graphsched.executors import Program, peer_copies
from graphsched.executors.peer_copies import allow_access, driver_copy, is_plain
from graphsched.workload import Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import by_hand, machine


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    driver_copy.cache_clear()
    yield
    driver_copy.cache_clear()


def driver(monkeypatch: pytest.MonkeyPatch, status: int) -> list[tuple[int, ...]]:
    """A CUDA driver whose copies are noted and return `status`."""
    noted: list[tuple[int, ...]] = []

    def copy(*args: int) -> int:
        noted.append(args)
        return status

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuMemcpyAsync=copy, name=name))
    return noted


def test_the_driver_gets_addresses_bytes_and_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = driver(monkeypatch, 0)
    driver_copy()(1, 2, 3, 4)
    assert noted == [(1, 2, 3, 4)]


def test_an_error_of_the_driver_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(monkeypatch, 700)
    with pytest.raises(RuntimeError, match="CUDA error 700 of cuMemcpyAsync"):
        driver_copy()(1, 2, 3, 4)


def test_without_a_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(peer_copies.ctypes, "CDLL", missing)
    with pytest.raises(ExecutionError, match=r"need the CUDA driver's library: libcuda\.so\.1"):
        driver_copy()


@pytest.mark.parametrize(
    ("tensor", "plain"),
    [
        (torch.ones(3, 4), True),
        (torch.ones(3, 4).T, False),
        (torch.ones(3, 4)[:, 1:], False),
        (torch.ones(3, 4)[1:], True),
        (torch.ones(3, dtype=torch.complex64).conj(), False),
        (torch.ones(1, dtype=torch.complex64).conj().imag, False),
        (torch.ones(0, 4), True),
    ],
)
def test_only_plain_tensors_are_copied_as_bytes(tensor: torch.Tensor, plain: bool) -> None:
    assert is_plain(tensor) is plain


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("columns", [slice(None), slice(1, None)])
def test_a_tensor_with_gaps_goes_by_torch(monkeypatch: pytest.MonkeyPatch, columns: slice, mode: str) -> None:
    """x (cuda:0) ──▶ part (cuda:0) ──▶ y (cuda:1): a part of the columns has gaps.

    Torch's copy lets the source's stream wait for the target's, which a capture must then hold too.
    """
    fake = FakeCuda(2)
    fake.install(monkeypatch)
    work = Workload()
    x = work.input("x", torch.arange(6.0).reshape(2, 3), device="cuda:0")
    part = work.task(lambda t: t[:, columns], x, name="part")
    work.task(torch.neg, part, name="y")
    lanes = {"part": "cuda:0/s0", "y": "cuda:1/s0"}
    with Program(by_hand(work, machine("cuda:0", "cuda:1"), lanes), mode=mode) as program:
        assert torch.equal(program.run()["y"], -torch.arange(6.0).reshape(2, 3)[:, columns])
    assert (fake.raw_copies > 0) == (columns == slice(None))


def test_a_tensor_without_elements_goes_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """x (cuda:0) ──▶ y (cuda:1): x has no memory, so no address that a driver could copy from."""
    fake = FakeCuda(2)
    fake.install(monkeypatch)
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(0, 4), device="cuda:0"), name="y")
    with Program(by_hand(work, machine("cuda:0", "cuda:1"), "cuda:1/s0")) as program:
        assert program.run()["y"].shape == (0, 4)
    assert fake.raw_copies == 0


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.bfloat16, torch.float8_e4m3fn, torch.complex64])
def test_bytes_of_every_type_arrive_from_within_a_storage(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """x (cuda:0) ──▶ part (cuda:0) ──▶ y (cuda:1): a part of the rows begins within x's memory."""
    fake = FakeCuda(2)
    fake.install(monkeypatch)
    x = torch.arange(24.0).reshape(8, 3).to(dtype)
    work = Workload()
    part = work.task(lambda t: t[3:7], work.input("x", x, device="cuda:0"), name="part")
    work.task(torch.clone, part, name="y")
    plan = by_hand(work, machine("cuda:0", "cuda:1"), {"part": "cuda:0/s0", "y": "cuda:1/s0"})
    with Program(plan) as program:
        found = program.run()["y"]
    assert (found.dtype, fake.raw_copies) == (dtype, 1)
    assert torch.equal(found.view(torch.uint8), x[3:7].contiguous().view(torch.uint8))


def test_a_failed_copy_names_the_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """x (cuda:0) ──▶ y (cuda:1)."""
    fake = FakeCuda(2)
    fake.install(monkeypatch)

    def fails(*_: int) -> None:
        raise RuntimeError("CUDA error 1 of cuMemcpyAsync")

    monkeypatch.setattr("graphsched.executors.calls.driver_copy", lambda: fails)
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="y")
    program = Program(by_hand(work, machine("cuda:0", "cuda:1"), "cuda:1/s0"))
    with program, pytest.raises(TaskFailedError, match="CUDA error 1 of cuMemcpyAsync"):
        program.run()


@pytest.mark.multigpu
def test_bytes_arrive_while_copies_leave_by_the_same_gpu() -> None:
    """Both ways at once, each on the stream of its source alone; that neither waits for the other is not looked at."""
    allow_access("cuda:0", "cuda:1")
    allow_access("cuda:1", "cuda:0")
    streams = [torch.cuda.Stream(f"cuda:{i}") for i in range(2)]  # type: ignore[no-untyped-call]
    sources = [torch.rand(2**26, device=f"cuda:{i}") for i in range(2)]
    targets = [torch.zeros(2**26, device=f"cuda:{1 - i}") for i in range(2)]
    for i in range(2):
        torch.cuda.synchronize(i)
    for i, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            driver_copy()(targets[i].data_ptr(), sources[i].data_ptr(), 4 * 2**26, stream.cuda_stream)
    for stream in streams:
        stream.synchronize()
    for source, target in zip(sources, targets, strict=True):
        assert torch.equal(source.cpu(), target.cpu())
