"""What a check compares with what, on hosts that are played: figures come from a platform, some of them changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from graphsched.calibration import checking
from graphsched.calibration.checking import check_platform, drift, sampled_links
from graphsched.calibration.fitting import Points
from graphsched.calibration.patterns import PATTERN_BYTES, pattern_bytes_per_s, sampled_patterns
from graphsched.platform import Link, Platform
from tests.builders import platform as built

STORED = Platform.load("h200-x4")
LARGE, SMALL = 2**26, 4096


class PlayedTogether:
    """Measures what `host` predicts, in place of real transfers together."""

    def __init__(self, host: Platform) -> None:
        self.host = host

    def __call__(self, flows: Sequence[tuple[str, str]]) -> list[float]:
        return [pattern_bytes_per_s(self.host, flows) / len(flows)] * len(flows)


def play(patch: pytest.MonkeyPatch, host: Platform) -> list[str]:
    """Put `host` in the place of this one; returns what happens to the bench."""
    seen: list[str] = []
    lanes = {"handoff_s": host.dispatch.handoff_s, "wake_s": host.dispatch.wake_s, "sync_s": 7.0}
    chains = {"same_device_s": host.dispatch.same_device_s, "other_device_s": host.dispatch.other_device_s}

    def bench(gpus: int, largest: int) -> Any:
        seen.append(f"{gpus} GPUs, {largest} bytes")
        spinners = [SimpleNamespace(device=i) for i in range(gpus)]
        return SimpleNamespace(spinners=spinners, close=lambda: seen.append("closed"))

    played: dict[str, Callable[..., Any]] = {
        "check_is_here": lambda platform, name: seen.append(name),
        "Bench": bench,
        "warm_all": lambda bench: seen.append("warm"),
        "way_of_link": lambda bench, link: host.link(link.source, link.target, link.memory),
        "way_s": lambda bench, way, nbytes, repeats: way.duration_s(nbytes),
        "Together": lambda bench, repeats: PlayedTogether(host),
        "cuda_flop_per_s": lambda spinner: host.device(f"cuda:{spinner.device}").flop_per_s,
        "tiny_call_s": lambda device: host.dispatch.call_s,
        "chain_figures": lambda spinners: chains,
        "idle_figures": lambda spinner, repeats: {"sync_s": host.dispatch.sync_s},
        "launches_on": lambda gpus: ((1, 1e-5),),
        "launch_colds_on": lambda gpus: (((20, 1e-6),),),
        "sampled_figures": lambda spinner, launches: {"graph_node_s": host.dispatch.graph_node_s},
        "lane_figures": lambda: dict(lanes),
    }
    for name, call in played.items():
        patch.setattr(checking, name, call)
    return seen


def drifted(host: Platform, patch: pytest.MonkeyPatch, stored: Platform = STORED) -> list[str]:
    play(patch, host)
    return [row.entry for row in check_platform(stored) if row.drifted]


def test_a_host_that_is_as_it_was_has_not_drifted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = play(monkeypatch, STORED)
    parts: list[str] = []
    rows = check_platform(STORED, report=parts.append)
    assert seen == [*STORED.accelerators(), f"4 GPUs, {4 * LARGE} bytes", "warm", "closed"]
    assert parts == ["links", "transfers together", "arithmetic", "dispatch", "host dispatch"]
    assert not any(row.drifted for row in rows)
    assert all(row.ratio == pytest.approx(1.0) for row in rows)
    entries = [row.entry for row in rows]
    assert len(entries) == len(set(entries)) == 2 * (8 + 4 + 5) + 4 + 4 + 5 + 2
    assert {row.unit for row in rows} == {"s", "bytes/s", "flop/s"}
    assert [row.stored for row in rows if row.entry == "dispatch sync_s"] == [STORED.dispatch.sync_s]  # not a lane's


def test_a_link_that_is_slower_now_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = STORED.link("cuda:1", "cuda:2").bandwidth_bytes_per_s
    now = STORED.with_link("cuda:1", "cuda:2", bandwidth_bytes_per_s=0.8 * rate, both_ways=False)
    assert drifted(now, monkeypatch)[0] == f"cuda:1>cuda:2 (peer), {LARGE} bytes"
    now = STORED.with_link("cpu", "cuda:3", latency_s=2e-5, both_ways=False)
    assert drifted(now, monkeypatch) == [f"cpu>cuda:3 (pinned), {SMALL} bytes"]


def test_less_than_the_stated_minimum_is_no_drift_and_a_larger_spread_is_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slower(share: float) -> Platform:
        return replace(STORED, links=tuple(_slower(k, share) if k.memory == "peer" else k for k in STORED.links))

    assert drifted(slower(0.98), monkeypatch) == []
    rows = drifted(slower(0.9), monkeypatch)
    assert sum("(peer)" in entry for entry in rows) == 5
    scattered = {**STORED.provenance, "spread": {str(k): 0.2 for k in STORED.links}}
    rows = drifted(slower(0.9), monkeypatch, replace(STORED, provenance=scattered))
    assert not any("(peer)" in entry for entry in rows)


def _slower(link: Link, share: float) -> Link:
    rate = link.bandwidth_bytes_per_s * share
    return replace(link, bandwidth_bytes_per_s=rate, seconds=tuple(s / share for s in link.seconds))


def test_a_shared_capacity_that_shrank_shows_in_transfers_together_only(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: table for name, table in STORED.tables.items() if name != "host/h2d"}
    now = replace(STORED, capacities={**STORED.capacities, "host/h2d": 1e11}, tables=tables)
    entry = " + ".join(f"cpu>{name}" for name in STORED.accelerators())
    assert drifted(now, monkeypatch) == [f"{entry}, together"]
    scattered = {**STORED.provenance, "spread": {entry: 2.0}}
    assert drifted(now, monkeypatch, replace(STORED, provenance=scattered)) == []


def test_slower_arithmetic_and_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = tuple(replace(d, flop_per_s=d.flop_per_s * 0.9) if d.name == "cuda:2" else d for d in STORED.devices)
    assert drifted(replace(STORED, devices=devices), monkeypatch) == ["fp32 product on cuda:2"]
    now = replace(STORED, dispatch=replace(STORED.dispatch, other_device_s=2e-5, handoff_s=9e-6))
    assert drifted(now, monkeypatch) == ["dispatch other_device_s", "dispatch handoff_s"]


def test_links_between_gpus_are_sampled_round_a_ring_and_once_across() -> None:
    def peers(platform: Platform) -> list[tuple[str, str]]:
        chosen = sampled_links(platform, platform.accelerators())
        assert len({str(link) for link in chosen}) == len(chosen)
        return [(k.source[-1], k.target[-1]) for k in chosen if k.memory == "peer"]

    assert peers(STORED) == [("0", "1"), ("0", "2"), ("1", "2"), ("2", "3"), ("3", "0")]
    assert peers(Platform.load("h200-x2")) == [("0", "1"), ("1", "0")]
    assert peers(Platform.load("h200-x1")) == []
    assert peers(STORED.without_peer_links()) == []


def test_the_bench_is_given_back_when_a_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = play(monkeypatch, STORED)

    def broken(bench: Any, way: Any, nbytes: int, repeats: int) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "way_s", broken)
    with pytest.raises(KeyboardInterrupt):
        check_platform(STORED)
    assert seen[-1] == "closed"


def workers() -> Platform:
    """A CPU and two workers that share host memory: 100 B/s, 1 s."""
    host = built(gpus=0, workers=2, shared={"bus": 200.0})
    local = Link("cpu", "cpu", "local", 0.0, 1e10)
    links = (local, replace(local, memory="fresh"), *(k for k in host.links if k.source != k.target))
    return replace(host, links=links, capacities={"bus": 2e10}, provenance={"spread": {"fresh memory": 3.0}})


@pytest.mark.parametrize(
    ("changed", "entries"),
    [
        ({}, []),
        ({"warm": 2.0}, ["cpu>cpu (local), 16777216 bytes"]),
        ({"fresh": 2.0}, []),  # its recorded spread was larger
        ({"bus": 0.4}, ["capacity bus"]),
        ({"flops": 0.5}, ["fp32 product on cpu"]),
        ({"handoff": 1.0}, ["dispatch handoff_s"]),
    ],
)
def test_hosts_without_gpus(changed: dict[str, float], entries: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    host = workers()
    seconds = 2**24 / 1e10

    def points(name: str) -> Points:
        return Points((2**24,), (seconds * changed.get(name, 1.0),), (0.0,))

    monkeypatch.setattr(checking, "copy_points", lambda largest, threads: (points("warm"), points("fresh")))
    monkeypatch.setattr(checking, "shared_memory", lambda n: {"bus": 2e10 * changed.get("bus", 1.0), "new": 1.0})
    monkeypatch.setattr(checking, "cpu_flop_per_s", lambda threads: 1e11 * changed.get("flops", 1.0))
    handoff_s = changed.get("handoff", host.dispatch.handoff_s)
    monkeypatch.setattr(checking, "lane_figures", lambda: {"handoff_s": handoff_s, "sync_s": host.dispatch.sync_s})
    rows = check_platform(host)
    assert [row.entry for row in rows if row.drifted] == entries
    assert len(rows) == 6


def test_small_differences_of_times_are_none() -> None:
    assert not drift("x", 1e-7, 9e-7, 0.1).drifted
    assert drift("x", 1e-7, 9e-7, 0.1, "bytes/s").drifted


def test_patterns_of_hosts_of_one_gpu_and_none() -> None:
    assert sampled_patterns(built(gpus=0, workers=2)) == []
    assert sampled_patterns(Platform.load("h200-x1")) == []
    assert len(sampled_patterns(Platform.load("h200-x2"))) == 3  # no fan-out to one
    assert sampled_patterns(STORED.without_peer_links()) == [
        [("cpu", name) for name in STORED.accelerators()],
        [(name, "cpu") for name in STORED.accelerators()],
    ]


def test_rates_of_a_pattern_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three transfers over a bus that carries two."""
    host = built(gpus=3, bandwidth=100.0, shared={"bus": 200.0}, latency_s=1.0)
    flows = [("cpu", f"cuda:{i}") for i in range(3)]
    assert pattern_bytes_per_s(host, flows) == pytest.approx(200.0, rel=1e-3)
    assert pattern_bytes_per_s(host, flows[:1]) == pytest.approx(PATTERN_BYTES / (1 + PATTERN_BYTES / 100.0))
