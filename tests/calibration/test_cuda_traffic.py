"""What copies and kernels cost each other: fits, on a simulated host's readings; timing, on streams that are played."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cuda_traffic as module
from graphsched.calibration import cuda_ways, measuring
from graphsched.calibration.capacities import Flow
from graphsched.calibration.cuda_links import local_link
from graphsched.calibration.cuda_traffic import (
    CALLS,
    Additions,
    Reading,
    Sample,
    fit_slowed,
    fit_traffic,
    readings,
    traffic_flows,
    traffic_readings,
)
from graphsched.calibration.cuda_ways import Bench
from graphsched.calibration.measuring import peer_of
from graphsched.platform import Device, Link
from tests.calibration.streams import Event, Stream

MEMORY = 4e12


@dataclass
class SimulatedMemory:
    """A GPU whose chain of additions takes `alone_s`, longer by its share of known factors beside copies."""

    into: float
    out: float
    share: float = 1.0
    alone_s: float = 2e-3
    noise: float = 0.0
    asked: list[Sequence[Flow]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(0)

    @property
    def moved_bytes(self) -> float:
        return self.share * self.alone_s * MEMORY

    def beside(self, flows: Sequence[Flow]) -> Sample:
        self.asked.append(flows)
        rates = [5e10 if "cpu" in flow else 2.8e11 for flow in flows]
        pressed = sum(r * (self.into if f[1] == "cuda:0" else self.out) for f, r in zip(flows, rates, strict=True))
        seconds = self.alone_s * (1 + self.share * pressed / MEMORY) * (1 + self.noise * self._random.uniform(-1, 1))
        return Sample(seconds, tuple(rates), tuple(1.1 * rate for rate in rates))

    def found(self, peer: str | None) -> list[Reading]:
        return readings("cuda:0", ["cpu", *([peer] if peer else [])], self.moved_bytes, MEMORY, self.beside)


@pytest.mark.parametrize("peer", [None, "cuda:1"])
@pytest.mark.parametrize(("into", "out", "share"), [(1.5, 1.0, 1.0), (0.8, 2.5, 0.6), (1.2, 0.0, 1.0), (0.0, 0.0, 1.0)])
def test_known_factors_are_found_again(into: float, out: float, share: float, peer: str | None) -> None:
    host = SimulatedMemory(into, out, share)
    assert fit_traffic(host.found(peer)) == pytest.approx((into, out), rel=0.01, abs=1e-9)
    assert host.asked == [(), *traffic_flows("cuda:0", ["cpu", peer] if peer else ["cpu"])]


def test_noise_of_a_thousandth_leaves_a_few_per_cent_with_a_peer() -> None:
    host = SimulatedMemory(1.5, 1.0, noise=1e-3)
    assert fit_traffic(host.found("cuda:1")) == pytest.approx((1.5, 1.0), rel=0.05)


def test_a_reading_has_rates_as_shares_of_the_memorys() -> None:
    found = SimulatedMemory(2.0, 1.0, share=0.5).found("cuda:1")
    both = found[-1]
    assert (both.share, both.into, both.out) == pytest.approx((0.5, 0.07, 0.07))
    assert both.longer == pytest.approx(0.5 * 0.07 * 3)
    assert both.slower == ()


def test_one_transfer_is_held_against_itself_alone() -> None:
    found = SimulatedMemory(2.0, 1.0).found("cuda:1")
    assert [reading.flows for reading in found] == traffic_flows("cuda:0", ["cpu", "cuda:1"])
    assert [reading.slower for reading in found] == [(pytest.approx(0.1),), (pytest.approx(0.1),), ()] * 2


def test_no_share_is_above_1() -> None:
    assert SimulatedMemory(1.0, 1.0, share=1.1).found(None)[0].share == 1.0


@pytest.mark.parametrize(
    ("longer", "factors"),
    [((0.04, -0.01, 0.03), (1.75, 0.0)), ((-0.01, 0.04, 0.03), (0.0, 1.75)), ((-0.01, -0.02, -0.03), (0.0, 0.0))],
)
def test_no_factor_is_below_0(longer: tuple[float, ...], factors: tuple[float, float]) -> None:
    """Beside copies of 0.02 into, out, and both; the other factor alone is fitted: 0.02 · (x + y) / (2 · 0.02²)."""
    shares = [(0.02, 0.0), (0.0, 0.02), (0.02, 0.02)]
    found = [Reading(more, 1.0, *share) for more, share in zip(longer, shares, strict=True)]
    assert fit_traffic(found) == pytest.approx(factors)


def test_without_any_rate_nothing_is_known() -> None:
    assert fit_traffic([Reading(0.1, 1.0, 0.0, 0.0)]) == (0.0, 0.0)
    assert fit_traffic([Reading(-0.1, 1.0, 0.02, 0.0)]) == (0.0, 0.0)


def test_readings_of_an_h200() -> None:
    """Additions of 200 MB beside 16 MB copies, as measured on one; the fit is good to a hundredth of their time."""
    rates = [(50, 0), (0, 51), (50, 51), (0, 258), (287, 0), (277, 240)]
    longer = [0.026, 0.012, 0.033, 0.057, 0.099, 0.162]
    found = [Reading(x, 1.0, a / 4250, b / 4250) for (a, b), x in zip(rates, longer, strict=True)]
    into, out = fit_traffic(found)
    assert (into, out) == pytest.approx((1.55, 1.007), abs=0.002)
    assert max(abs(into * r.into + out * r.out - r.longer) for r in found) < 0.01


def single(source: str, target: str, longer: float, share: float = 0.986) -> Reading:
    return Reading(0.0, share, 0.0, 0.0, ((source, target),), (longer,))


SINGLES = [
    single("cpu", "cuda:0", 0.0247),
    single("cuda:0", "cpu", 0.0365),
    single("cuda:1", "cuda:0", 0.0216),
    single("cuda:0", "cuda:1", 0.189),
]
"""Copies beside additions, as measured on an H200."""


def test_what_kernels_cost_copies_is_told_by_direction_and_link() -> None:
    both = Reading(0.1, 0.986, 0.1, 0.1, (("cpu", "cuda:0"), ("cuda:0", "cpu")))
    found = fit_slowed("cuda:0", [*SINGLES, both])
    assert found == pytest.approx((0.0247 / 0.986, 0.0365 / 0.986, 0.0216 / 0.986, 0.189 / 0.986))
    assert fit_slowed("cuda:0", [both, *reversed(SINGLES)]) == found


def test_each_factor_goes_to_its_field() -> None:
    pressed = [replace(SINGLES[0], longer=0.02, into=0.01), replace(SINGLES[1], longer=0.01, out=0.01)]
    found = [*pressed, *SINGLES[2:]]
    gpu = measuring._beside_copies(Device("cuda:0", "cuda"), found)
    factors = (gpu.slowed_in, gpu.slowed_out, gpu.slowed_peer_in, gpu.slowed_peer_out)
    assert factors == fit_slowed("cuda:0", found)
    assert (gpu.traffic_in, gpu.traffic_out) == fit_traffic(found) == pytest.approx((2 / 0.986, 1 / 0.986))
    assert sorted(factors) == [factors[2], factors[0], factors[1], factors[3]]


def test_a_copy_that_is_no_slower_has_no_factor_and_what_was_not_measured_has_none() -> None:
    assert fit_slowed("cuda:3", [single("cpu", "cuda:3", -0.01), single("cuda:3", "cpu", 0.05, share=0.5)]) == (
        0.0,
        0.1,
        0.0,
        0.0,
    )
    assert fit_slowed("cuda:0", []) == fit_slowed("cuda:0", [Reading(0.1, 1.0, 0.02, 0.0)]) == (0.0, 0.0, 0.0, 0.0)
    assert fit_slowed("cuda:0", [single("cpu", "cuda:0", 0.1, share=0.0)]) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("peer", [None, "cuda:1"])
def test_what_a_simulated_memory_costs_copies_is_found_again(peer: str | None) -> None:
    """Each copy takes a tenth longer beside additions of share 0.5."""
    found = fit_slowed("cuda:0", SimulatedMemory(2.0, 1.0, share=0.5).found(peer))
    assert found == pytest.approx((0.2, 0.2, 0.2, 0.2) if peer else (0.2, 0.2, 0.0, 0.0))


def test_the_peer_is_the_first_that_is_joined_both_ways() -> None:
    ways = [("cuda:0", "cuda:1", "staged"), ("cuda:1", "cuda:0", "staged"), ("cuda:0", "cuda:2", "peer")]
    ways += [("cuda:0", "cuda:3", "peer"), ("cuda:3", "cuda:0", "peer"), ("cuda:10", "cuda:0", "peer")]
    links = [
        Link(source, target, memory, 0.0, 1.0) for source, target, memory in [*ways, ("cuda:0", "cuda:10", "peer")]
    ]
    assert peer_of(0, links) == 3
    assert peer_of(2, links) is None


# -- streams that are played -----------------------------------------------------------------------


@dataclass
class Memory:
    """Bytes of a device; a copy into them takes the current stream as long as its rate says."""

    cuda: FakeCuda
    where: str
    nbytes: int

    device = "cpu"

    def __getitem__(self, part: slice) -> Memory:
        return Memory(self.cuda, self.where, len(range(*part.indices(self.nbytes))))

    def numel(self) -> int:
        return self.nbytes

    def copy_(self, source: Memory, non_blocking: bool) -> None:
        assert (non_blocking, source.nbytes) == (True, self.nbytes)
        self.cuda.copied.append((source.where, self.where))
        self.cuda.current.time_s += self.nbytes / self.cuda.rate


class FakeCuda:
    """Two GPUs: an addition takes `add_s`, as much longer as `longer` says; copies run at `rate`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, late: int = 0) -> None:
        self.add_s, self.longer, self.rate, self.late = 1e-4, 0.0, 1e9, late
        self.copied: list[tuple[str, str]] = []
        self.spun: list[float] = []
        self.current = Stream(0)
        self.gpus, self.largest = 2, 2**16
        names = [f"cuda:{i}" for i in range(2)]
        self.first, self.second = ([Memory(self, name, self.largest) for name in names] for _ in range(2))
        self.pinned = Memory(self, "cpu", self.largest)
        self.streams = [[Stream(i) for _ in range(6)] for i in range(2)]
        self.spinners = [SimpleNamespace(spin=self._spin) for _ in range(2)]
        monkeypatch.setattr(cuda_ways, "allow_access", lambda *_: None)
        monkeypatch.setattr(module, "new_stream", Stream)
        monkeypatch.setattr(module, "new_event", lambda *, timing=False: Event())
        monkeypatch.setattr(module, "elapsed_s", lambda start, end: end.time_s - start.time_s)
        monkeypatch.setattr(module, "on_streams", self._on_streams)
        monkeypatch.setattr(module, "way_s", lambda _, way, nbytes, repeats: nbytes / self.rate)
        monkeypatch.setattr(module.time, "perf_counter", self._clock)
        monkeypatch.setattr(torch, "add", self._add)
        self._host_s = 0.0

    def _clock(self) -> float:
        self._host_s += 10.0 if self.late else 0.0
        self.late = max(0, self.late - 1)
        return self._host_s

    def _on_streams(self, stack: ExitStack, streams: Sequence[Stream]) -> None:
        self.current = streams[-1]

    def _spin(self, seconds: float) -> None:
        self.spun.append(seconds)
        self.current.time_s += seconds

    def _add(self, a: Any, b: Any, *, out: Any) -> None:
        assert a.shape == b.shape == out.shape
        self.current.time_s += self.add_s * (1 + self.longer)

    def settle(self) -> None:
        now = max(s.time_s for row in self.streams for s in row)
        for stream in (s for row in self.streams for s in row):
            stream.time_s = now


def test_a_chain_is_timed_alone_and_beside_copies_that_outlast_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    additions = Additions(cuda, 0)  # type: ignore[arg-type]
    assert additions.moved_bytes == CALLS * 3 * 2**16
    assert additions(()) == Sample(pytest.approx(CALLS * 1e-4), (), ())
    assert not cuda.copied
    cuda.longer = 0.25
    flows = (("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:1", "cuda:0"), ("cuda:0", "cuda:1"))
    sample = additions(flows)
    assert sample.seconds == pytest.approx(CALLS * 1.25e-4)
    assert sample.rates == pytest.approx((1e9,) * 4)
    assert sample.alone == pytest.approx((1e9,) * 4)
    assert set(cuda.copied) == set(flows)
    copies = len(cuda.copied) / len(flows) / (module.SAMPLES + 1)
    assert copies * 2**15 / cuda.rate > CALLS * 1.25e-4


def test_copies_begin_with_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    additions = Additions(cuda, 0)  # type: ignore[arg-type]
    additions(())
    additions((("cuda:1", "cuda:0"),))
    assert cuda.streams[1][2].time_s > sum(cuda.spun)  # the spin kernels held them back


def test_what_was_not_queued_in_time_is_timed_again_with_a_longer_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, late=2)
    Additions(cuda, 0)(())  # type: ignore[arg-type]
    assert len(cuda.spun) == module.SAMPLES + 2
    assert cuda.spun[1] == 2 * cuda.spun[0]
    assert cuda.spun[2] == cuda.spun[0]


def test_factors_of_a_gpu_come_from_its_own_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is slower beside copies here, so both factors are 0; the peer is asked if there is one."""
    cuda = FakeCuda(monkeypatch)
    alone = traffic_readings(cuda, 0, None, 1e12)  # type: ignore[arg-type]
    assert fit_traffic(alone) == pytest.approx((0.0, 0.0), abs=1e-9)
    assert {end for flow in cuda.copied for end in flow} == {"cpu", "cuda:0"}
    traffic_readings(cuda, 0, 1, 1e12)  # type: ignore[arg-type]
    assert {end for flow in cuda.copied for end in flow} == {"cpu", "cuda:0", "cuda:1"}


@pytest.mark.gpu
def test_factors_of_this_gpu_are_of_the_right_size() -> None:
    """A byte copied costs an addition about the time of a byte that it moves itself."""
    bench = Bench(1, 2**26)
    try:
        bytes_per_s = 2 * local_link(bench, 0, 2**26).link.bandwidth_bytes_per_s
        into, out = fit_traffic(traffic_readings(bench, 0, None, bytes_per_s))
    finally:
        bench.close()
    assert 0.0 <= into < 10.0
    assert 0.0 <= out < 10.0
