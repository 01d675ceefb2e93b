"""Copies within the host's memory, and into pinned memory by the threads that have made what is copied."""

from __future__ import annotations

import pytest
import torch

from graphsched.calibration import cpu_links as module
from graphsched.calibration.cpu_links import pinned_link
from graphsched.costs import REST_S

LARGEST = 2**24


@pytest.mark.parametrize("threads", [1, 2])
def test_several_threads_rest_before_they_write_pinned_memory(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    rests: list[float] = []

    def copy_s(target: torch.Tensor, source: torch.Tensor, batch: int) -> float:
        assert target.nbytes == source.nbytes
        assert target.dtype == source.dtype == torch.float32
        assert torch.get_num_threads() == threads
        return 1e-9 * target.nbytes

    monkeypatch.setattr(module, "timed_s", copy_s)
    monkeypatch.setattr(module.time, "sleep", rests.append)
    link = pinned_link(torch.empty(2 * LARGEST, dtype=torch.uint8), LARGEST, threads)
    assert (link.source, link.target, link.memory) == ("cpu", "cpu", "pinned")
    assert set(rests) == ({REST_S} if threads > 1 else set())
    assert link.seconds == pytest.approx([1e-9 * n for n in link.sizes_bytes])


def test_a_link_into_pinned_memory_is_measured() -> None:
    link = pinned_link(torch.ones(2 * LARGEST, dtype=torch.uint8), LARGEST, threads=2)
    assert min(link.seconds) > 0.0
    assert link.sizes_bytes[-1] == LARGEST


@pytest.mark.parametrize("way", ["_warm", "_fresh"])
def test_copies_are_of_as_many_bytes_as_they_are_said_to_be(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """And of numbers of 32 bits, whatever the user's default is, whose number no size need be a multiple of."""
    copied: list[tuple[int, torch.dtype]] = []
    real = torch.Tensor.to

    def to(source: torch.Tensor, *args: object, **options: object) -> torch.Tensor:
        copied.append((source.nbytes, source.dtype))
        return real(source, *args, **options)  # type: ignore[call-overload]

    def timed(target: torch.Tensor, source: torch.Tensor, batch: int) -> float:
        assert target.nbytes == source.nbytes
        copied.append((source.nbytes, source.dtype))
        return 1e-3

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(module, "timed_s", timed)
    torch.set_default_dtype(torch.float64)
    try:
        assert getattr(module, way)(2**16 + 3)(2**14) > 0.0
    finally:
        torch.set_default_dtype(torch.float32)
    assert copied == [(2**14, torch.float32)]
