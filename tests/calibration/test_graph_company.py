"""Operations behind others of other kinds: the parts of one graph, and what their differences say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_company as module
from graphsched.calibration.graph_company import Code, Region, code_of, reference, regions, regions_s
from graphsched.calibration.graph_states import writing
from graphsched.costs import COMPANY_KINDS
from tests.executors.fake_cuda import STAMP_NS, FakeCuda

CACHE = 1000
STAMP_S = 1e-6


class Played:
    """Kernels with code of so many bytes in a cache of 1,000, which is lost in parts; a stamp takes 1 µs.

    Each call takes its own seconds, and what it loses times its company. The cache of data loses everything to a fill:
    then code that is lost comes from memory, which takes `memory_s` more. Of the kernels of other kinds each loses its
    lines there to `large` calls, and takes `robbed_s` longer once.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        memory_s: float = 0.0,
        large: str = "",
        robbed_s: float = 0.0,
        **kernels: tuple[float, float, int],
    ) -> None:
        self.kernels = dict.fromkeys("xyz", (2e-6, 1e-6, 600)) | {"f": (4e-5, 0.0, 0)} | kernels  # two fill the cache
        self.memory_s, self.large, self.robbed_s = memory_s, large, robbed_s
        self.kept: set[str] = set()
        patch.setattr(module, "filling", lambda device: SimpleNamespace(written="f"))
        self.asked = 0
        patch.setattr(module, "other_calls", lambda device: list("xyz"))
        patch.setattr(module, "probes", lambda device: ("p", "q"))
        patch.setattr(module, "cache_bytes", lambda device: 10**6)
        patch.setattr(module, "_dropping", lambda call: call)
        patch.setattr(module, "regions_s", self.regions_s)
        reference.cache_clear()

    def regions_s(self, parts: list[Region], device: int) -> list[float]:
        assert device == 3
        self.asked += 1
        recent: list[str] = []
        found = []
        for part in parts:
            for call in part.before:
                self._seconds(str(call), recent)
            found.append(STAMP_S + sum(self._seconds(str(call), recent) for call in part.timed))
        return found

    def _seconds(self, call: str, recent: list[str]) -> float:
        own_s, company_s, _ = self.kernels[call]
        place = recent.index(call) if call in recent else len(recent)
        lost = min(1.0, sum(self.kernels[name][2] for name in recent[:place]) / CACHE)
        if call in recent:
            recent.remove(call)
        recent.insert(0, call)
        robbed_s = self.robbed_s * (call in "xyz" and call not in self.kept)
        memory_s = self.memory_s * lost * (call not in self.kept) * (call == "o")
        self.kept = set() if call == "f" else self.kept - set("xyz") if call in self.large else self.kept
        self.kept.add(call)
        return own_s + lost * company_s + memory_s + robbed_s


def played(patch: pytest.MonkeyPatch, *op: Any) -> Played:
    probe = (5e-6, 2e-6, 400)
    return Played(patch, p=probe, q=probe, o=op)


@pytest.mark.parametrize("nbytes", [0, 100, 500, 1000])
def test_company_and_footprint_are_found_again(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    played(monkeypatch, 5e-6, 0.5e-6, nbytes)
    found = code_of("o", (), 3, 5e-6, 8)  # type: ignore[arg-type]
    assert found == (pytest.approx(0.5e-6), pytest.approx(nbytes / CACHE), pytest.approx(0.0, abs=1e-12))
    assert reference(3) == ("p", (pytest.approx(2e-6), pytest.approx(0.4), 0.0))


def test_what_others_lose_to_a_large_one_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """o takes the lines of x, y and z from the cache of data: 3 times 2 µs a round, which a fill takes in any case."""
    probe = (5e-6, 2e-6, 400)
    Played(monkeypatch, p=probe, q=probe, o=(5e-6, 0.5e-6, 100), large="o", robbed_s=2e-6)
    found = code_of("o", (), 3, 5e-6, 8)  # type: ignore[arg-type]
    assert found.company_s == pytest.approx(0.5e-6)
    assert found.code_lost_s == pytest.approx(0.0, abs=1e-12)


def test_code_that_comes_from_memory_takes_longer_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a fill and other kinds: 0.5 µs for the cache of instructions, 0.75 for that of data; no fill, no more."""
    probe = (5e-6, 2e-6, 400)
    Played(monkeypatch, p=probe, q=probe, o=(5e-6, 0.5e-6, 100), memory_s=0.75e-6)
    found = code_of("o", (), 3, 5e-6, 8)  # type: ignore[arg-type]
    assert found.company_s == pytest.approx(0.5e-6)
    assert found.code_lost_s == pytest.approx(0.75e-6)


def test_one_without_company_has_a_footprint(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, 5e-6, 0.0, 300)
    found = code_of("o", (), 3, 5e-6, 8)  # type: ignore[arg-type]
    assert found[:2] == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.3))


def test_probes_are_measured_once_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = played(monkeypatch, 5e-6, 0.5e-6, 100)
    for _ in range(3):
        code_of("o", (), 3, 5e-6, 8)  # type: ignore[arg-type]
    assert gpu.asked == 2 + 3


def test_noise_makes_nothing_negative_and_no_footprint_above_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.footprint(-1e-6, 0.0, Code(1e-6, 0.5)) == 0.0
    assert module.footprint(1.0, 0.0, Code(1e-6, 0.5)) == 1.0
    played(monkeypatch, 5e-6, -1e-6, 0)
    assert code_of("o", (), 3, 5e-6, 8).company_s == 0.0  # type: ignore[arg-type]


def test_probes_that_lose_nothing_leave_footprints_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    Played(monkeypatch, p=(5e-6, 0.0, 400), q=(5e-6, 0.0, 400), o=(5e-6, 1e-6, 400))
    assert code_of("o", (), 3, 5e-6, 8)[:2] == (pytest.approx(1e-6), None)  # type: ignore[arg-type]


def test_long_ones_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = played(monkeypatch, 5e-6, 0.5e-6, 100)
    assert code_of("o", (), 3, 1e-3, 8) == Code()  # type: ignore[arg-type]
    assert gpu.asked == 0
    assert code_of("o", (), 3, 5e-6, 400_000).footprint is not None  # type: ignore[arg-type]


def test_of_a_large_one_what_it_takes_without_its_code_is_told_behind_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    """o takes the lines of x, y and z, 2 µs each, in rounds without a fill; its code comes from memory: 1.25 µs."""
    probe = (5e-6, 2e-6, 400)
    gpu = Played(monkeypatch, p=probe, q=probe, o=(5e-6, 0.5e-6, 100), large="o", robbed_s=2e-6, memory_s=0.75e-6)
    assert code_of("o", (), 3, 5e-6, 600_000) == Code(pytest.approx(1.25e-6))  # type: ignore[arg-type]
    assert gpu.asked == 2 + 1


def test_other_kinds_are_as_many_as_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    full, called = torch.full, list[tuple[Any, Any]]()
    monkeypatch.setattr(torch, "full", lambda *args, device, **more: full(*args, **more))
    monkeypatch.setattr(module, "_dropping", lambda function, *args: (function, args))
    for function, args in (*module.other_calls(0), *module.probes(0)):  # type: ignore[misc]
        made = function(*args)  # type: ignore[has-type]
        values = made[0] if isinstance(made, tuple) else made
        assert bool(torch.isfinite(values.abs()).all())
        called.append((function, args[0].dtype))  # type: ignore[has-type]
    assert len(set(called)) == len(called) == COMPANY_KINDS + 2
    assert torch.float32 not in {dtype for _, dtype in called}


def test_regions_are_timed_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stamps before and behind each region, which on a played GPU are a microsecond apart."""
    FakeCuda(1).install(monkeypatch)
    log: list[str] = []
    calls = {name: (lambda name=name: log.append(name)) for name in "opxyfw"}
    o, p, x, y, f, w = (calls[name] for name in "opxyfw")
    parts = regions(o, p, [x, y], [f], [w], (2, 1))
    assert regions_s(parts, 0) == pytest.approx([STAMP_NS * 1e-9] * len(parts))
    assert "".join(log).startswith(
        "o" + "ooo" + "ppp" + "popopo" + "xyxyxy" + "xyoxyoxyo" + "fwfw" + "fwofwo" + "fxywfxyw" + "fxywofxywo"
    )


@pytest.mark.gpu
def test_a_sum_takes_longer_without_its_code_and_fills_a_part_of_the_cache() -> None:
    """Of 2 MB: some tenths of a microsecond to a few, and more than a negation of 64 elements."""
    x, tiny = torch.ones(7168, 64, device="cuda:0"), torch.ones(64, device="cuda:0")
    reference.cache_clear()
    summed, negated = (
        code_of(lambda: x.sum(0), writing([x]), 0, 1.3e-5, x.nbytes),
        code_of(tiny.neg, writing([tiny]), 0, 1e-6, tiny.nbytes),
    )
    print(summed, negated, reference(0)[1])
    assert 3e-7 < summed.company_s < 1e-5
    assert negated.company_s < summed.company_s
    assert negated.footprint is not None
    assert summed.footprint is not None
    assert negated.footprint < summed.footprint
    assert 1e-7 < summed.code_lost_s < 1e-5
    assert negated.code_lost_s < summed.code_lost_s


@pytest.mark.gpu
def test_a_convolution_of_much_data_has_little_company() -> None:
    """4 MB made of 3 MB: others lose some microseconds to it, and it loses less than one."""
    x, w = torch.rand(256, 20, 13, 13, device="cuda:0"), torch.rand(50, 20, 5, 5, device="cuda:0")
    found = code_of(lambda: torch.conv2d(x, w), writing([x]), 0, 7.5e-5, x.nbytes)
    print(found)
    assert found.company_s < 1.5e-6
