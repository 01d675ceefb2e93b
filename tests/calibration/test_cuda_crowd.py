"""Copies beside kernels of two lanes: the factor is found again on streams that are played."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphsched.calibration import cuda_crowd as module
from graphsched.calibration.cuda_crowd import CALLS, SAMPLES, crowded_factors
from graphsched.calibration.cuda_links import Bench
from tests.calibration.streams import Stream
from tests.calibration.test_cuda_traffic import FakeCuda


class Crowded(FakeCuda):
    """Copies to the host take `longer_out` times as long where products were queued on two streams since the spin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, longer_out: float, *, late: int = 0) -> None:
        self.busy: set[Stream] = set()
        self.longer_out = longer_out
        super().__init__(monkeypatch, late=late)
        names = ("new_stream", "new_event", "elapsed_s", "on_streams", "way_s")
        from graphsched.calibration import cuda_traffic

        for name in names:
            monkeypatch.setattr(module, name, getattr(cuda_traffic, name))
        monkeypatch.setattr(torch, "mm", self._mm)

    @property
    def rate(self) -> float:
        out = getattr(self.current, "number", None) == "out"
        return 1e9 / (self.longer_out if out and len(self.busy) > 1 else 1.0)

    @rate.setter
    def rate(self, _: float) -> None:
        for row in self.__dict__.get("streams", ()):
            row[1].number = "out"  # the stream of copies to the host

    def _spin(self, seconds: float) -> None:
        self.busy.clear()
        super()._spin(seconds)

    def _mm(self, a: Any, b: Any, *, out: Any) -> None:
        assert a.shape == b.shape == out.shape
        self.busy.add(self.current)
        self.current.time_s += 1e-4


@pytest.mark.parametrize("longer", [1.0, 1.125, 2.0])
def test_the_factor_is_found_again(monkeypatch: pytest.MonkeyPatch, longer: float) -> None:
    cuda = Crowded(monkeypatch, longer)
    cuda.rate = 0.0
    into, out = crowded_factors(cuda, 0)  # type: ignore[arg-type]
    assert into == pytest.approx(0.0, abs=1e-6)
    assert out == pytest.approx(longer - 1.0, abs=1e-6)


def test_copies_outlast_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Crowded(monkeypatch, 1.0)
    crowded_factors(cuda, 0)  # type: ignore[arg-type]
    copies = len(cuda.copied) / 4 / (SAMPLES + 1)
    assert copies * 2**15 / 1e9 > CALLS * 1e-4


def test_what_was_not_queued_in_time_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Crowded(monkeypatch, 1.0, late=2)
    crowded_factors(late, 0)  # type: ignore[arg-type]
    again = Crowded(monkeypatch, 1.0)
    crowded_factors(again, 0)  # type: ignore[arg-type]
    assert len(late.spun) == len(again.spun) + 1


@pytest.mark.gpu
def test_factors_of_this_gpu_are_of_the_right_size() -> None:
    bench = Bench(1, 2**26)
    try:
        factors = crowded_factors(bench, 0)
    finally:
        bench.close()
    assert all(0.0 <= factor < 1.0 for factor in factors)
