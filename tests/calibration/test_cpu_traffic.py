"""Additions on a CPU lane beside copies, on a clock and streams that are played."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cpu_traffic as module
from graphsched.calibration.cpu_traffic import ADDITIONS, SETS, WARM_UP, LaneAdditions, cpu_traffic_readings
from graphsched.calibration.cuda_links import local_link
from graphsched.calibration.cuda_traffic import fit_slowed, fit_traffic
from graphsched.calibration.cuda_ways import Bench
from graphsched.costs import REST_S

RATE, NBYTES = 1e9, 2**20
IN, OUT = ("cuda:0", "cpu"), ("cpu", "cuda:0")


class Part:
    """Bytes of a buffer."""

    def __init__(self, where: str, first: int, last: int) -> None:
        self.where, self.first, self.last = where, first, last

    def __getitem__(self, part: slice) -> Part:
        return Part(self.where, self.first, min(self.last, self.first + part.stop))

    def numel(self) -> int:
        return self.last - self.first


class Host:
    """Additions take 1 ms, more beside copies: half of it into the host's memory, a quarter out of it.

    A copy out takes a fifth longer beside additions in a row. Copies are at first taken to be `short` times as long as
    they are.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, short: float = 1.0) -> None:
        self.now_s, self.short, self.rest_s = 0.0, short, 0.0
        self.flows: dict[tuple[str, str], float] = {}  # when their last copies are over
        self.counts: list[dict[tuple[str, str], int]] = []
        self.sets: list[tuple[Any, ...]] = []
        self.ways: list[Any] = []
        self.largest = 2 * NBYTES
        monkeypatch.setattr(module, "COPIED_BYTES", NBYTES)
        monkeypatch.setattr(module, "ADDED_BYTES", 4000)
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now_s, sleep=self._sleep))
        monkeypatch.setattr(module, "host_way", self._way)
        monkeypatch.setattr(module, "way_s", lambda _, way, nbytes, repeats: self.short * nbytes / RATE)
        monkeypatch.setattr(module, "queue_copies", self._queue)
        monkeypatch.setattr(module, "copy_rate", self._rate)
        monkeypatch.setattr(torch, "add", self._add)

    def _sleep(self, seconds: float) -> None:
        self.rest_s += seconds
        self.now_s += seconds

    def _way(self, bench: Any, gpu: int, *, to_gpu: bool, part: slice) -> Any:
        assert (bench, gpu) == (self, 0)
        ends = [Part("cpu", part.start, 4 * NBYTES), Part("cuda:0", 0, 2 * NBYTES)]
        source, target = ends if to_gpu else reversed(ends)
        return SimpleNamespace(source=source, target=target, streams=("stream",))

    def _queue(self, way: Any, count: int) -> list[Any]:
        flow = (way.source.where, way.target.where)
        self.ways.append(way)
        self.flows[flow] = self.now_s + count * way.source.numel() / RATE
        return [SimpleNamespace(query=lambda: self.now_s >= self.flows[flow])]

    def _rate(self, way: Any, marks: Sequence[Any], until_s: float) -> float:
        assert marks
        assert until_s > 0.0
        slower = 1.2 if way.source.where == "cpu" and not self.rest_s else 1.0
        return RATE / slower

    def _add(self, a: Any, b: Any, *, out: Any) -> None:
        self.sets.append((a, b, out))
        copying = [flow for flow, end_s in self.flows.items() if end_s > self.now_s]
        self.now_s += 1e-3 * (1.0 + sum(0.5 if flow == IN else 0.25 for flow in copying))

    def settle(self) -> None:
        self.flows.clear()
        self.rest_s = 0.0


def additions(host: Host, rest_s: float = 0.0, threads: int = 1) -> LaneAdditions:
    return LaneAdditions(host, 0, ThreadPoolExecutor(1), threads, rest_s)  # type: ignore[arg-type]


def test_an_addition_is_timed_by_itself_alone_and_beside_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    row = additions(host)
    assert row.moved_bytes == 3 * 4000
    assert row(()).seconds == pytest.approx(1e-3)
    sample = row([IN, OUT])
    assert sample.seconds == pytest.approx(1.75e-3)
    assert sample.rates == pytest.approx((RATE, RATE / 1.2))
    assert sample.alone == pytest.approx((RATE, RATE))


def test_no_two_additions_in_a_row_use_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    additions(host)(())
    assert len(host.sets) == ADDITIONS + WARM_UP
    used = [{t.data_ptr() for t in tensors} for tensors in host.sets[:SETS]]
    assert len(set().union(*used)) == 3 * SETS


def test_threads_sleep_before_each_and_copies_are_not_held_against_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between additions copies have the memory to themselves."""
    host = Host(monkeypatch)
    slept: list[float] = []
    monkeypatch.setattr(host, "settle", lambda: (slept.append(host.rest_s), Host.settle(host)))
    rested = additions(host, rest_s=2e-3)
    assert rested(()).seconds == pytest.approx(1e-3)
    assert slept == [pytest.approx((ADDITIONS + WARM_UP) * 2e-3)]
    sample = rested([OUT])
    assert sample.seconds == pytest.approx(1.25e-3)
    assert sample.alone == ()


def test_directions_use_parts_of_their_own_of_the_hosts_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    additions(host)([OUT, IN])
    out, into = host.ways[-2].source, host.ways[-1].target
    assert out.numel() == into.numel() == NBYTES
    assert out.last <= into.first or into.last <= out.first


@pytest.mark.parametrize("short", [1.0, 30.0])
def test_copies_that_end_before_the_additions_do_are_queued_again(
    short: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken to last 30 times as long as they do, too few are queued; nothing is told that did not go on to the end."""
    host = Host(monkeypatch, short=short)
    row = additions(host)
    row(())
    assert row([IN]).seconds == pytest.approx(1.5e-3)
    assert (len(host.ways) > 1) == (short > 1.0)


@pytest.mark.parametrize("threads", [1, 4])
def test_factors_are_those_of_the_cpu(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """12,000 bytes in 1 ms of 24 MB/s: share 1/2. Copies of 1 GB/s are 1000 / 24 of the memory's rate."""
    host = Host(monkeypatch)
    found = cpu_traffic_readings(host, 0, threads, 24e6)  # type: ignore[arg-type]
    assert len(found) == (3 if threads == 1 else 6)
    assert fit_slowed("cpu", found) == pytest.approx((0.0, 0.4, 0.0, 0.0))
    into, out = fit_traffic(found)
    assert into == pytest.approx(0.5 / 0.5 / (1000 / 24), rel=0.1)
    assert out == pytest.approx(0.25 / 0.5 / (1000 / 24), rel=0.2)  # rates beside a row are a sixth lower


def test_a_lane_of_several_threads_rests_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    class Noted(LaneAdditions):
        def __init__(self, *arguments: Any) -> None:
            rests.append(arguments[-1])
            super().__init__(*arguments)

    monkeypatch.setattr(module, "LaneAdditions", Noted)
    host = Host(monkeypatch)
    cpu_traffic_readings(host, 0, 2, 24e6)  # type: ignore[arg-type]
    cpu_traffic_readings(host, 0, 1, 24e6)  # type: ignore[arg-type]
    assert rests == [REST_S, 0.0, 0.0]


@pytest.mark.gpu
def test_factors_of_this_host_are_of_the_right_size() -> None:
    """Copies cost tasks something, and no more than if each byte were moved ten times."""
    bench = Bench(1, 2**27)
    try:
        bytes_per_s = 2 * local_link(bench, 0, 2**26).link.bandwidth_bytes_per_s
        found = cpu_traffic_readings(bench, 0, torch.get_num_threads(), min(bytes_per_s, 2e11))
    finally:
        bench.close()
    into, out = fit_traffic(found)
    assert 0.0 < into + out < 20.0
    assert max(fit_slowed("cpu", found)) < 1.0
