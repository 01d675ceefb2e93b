"""Capacities fitted to a simulated host are its own, and predict patterns that were not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from graphsched.calibration.capacities import (
    Capacities,
    Flow,
    between,
    corrected,
    fit_capacities,
    host_counts,
    host_flows,
    host_loads,
    rates_alone,
)
from graphsched.calibration.fitting import link_of, measure_points
from graphsched.calibration.patterns import fitted_patterns, new_patterns, pattern_rows, predicted_rates
from graphsched.platform import Device, Platform
from graphsched.platform.consistency import reconciled
from graphsched.records import find_runs, load_run
from graphsched.simulator import predict
from tests.builders import FREE, planned, workload
from tests.calibration.simulated_host import SimulatedHost

ALL_TO_ALL = [(f"cuda:{i}", f"cuda:{j}") for i in range(4) for j in range(4) if i != j]


def platform_of(host: SimulatedHost, found: Capacities) -> Platform:
    """The platform that a calibration makes of `host`, dispatch and latencies left out."""
    gpus = [Device(f"cuda:{i}", "cuda", peer_engines=found.peer_engines) for i in range(host.gpus)]
    links = tuple(replace(link, latency_s=0.0) for link in host.links())
    return Platform("simulated", (Device("cpu", "cpu"), *gpus), links, found.rates, dispatch=FREE, tables=found.tables)


def together(where: Platform, flows: list[Flow], copies: int = 60) -> list[float]:
    """Predicted rates while all `flows`, of many copies each, are under way: bytes sent by the end of the first."""
    pairs = [(i, k) for k in range(copies) for i in range(len(flows))]
    work = workload(
        dict.fromkeys([f"{end}{i}-{k}" for end in "ab" for i, k in pairs], 0.0),
        [(f"a{i}-{k}", f"b{i}-{k}", 1000) for i, k in pairs],
    )
    lanes = {}
    for i, k in pairs:
        for end, device in zip("ab", flows[i], strict=True):
            lanes[f"{end}{i}-{k}"] = f"{device}/{'w' if device == 'cpu' else 's'}{i}"
    order = [f"{end}{i}-{k}" for end in "ab" for i, k in pairs]
    line = predict(planned(work, where, lanes, order=order))
    copied = [s for s in line if ">" in s.action]
    sent = {flow: [s for s in copied if s.action.startswith(f"a{i}-")] for i, flow in enumerate(flows)}
    first = min(spans[-1].end_s for spans in sent.values())
    parts = {f: sum(min(1.0, max(0.0, first - s.start_s) / s.duration_s) for s in spans) for f, spans in sent.items()}
    return [1000 * parts[flow] / first for flow in flows]


def assert_predicted(host: SimulatedHost, flows: list[Flow], within: float, found: Capacities | None = None) -> None:
    predicted = together(platform_of(host, found or fit_capacities(host.gpus, host.links(), host.measure)), flows)
    assert predicted == pytest.approx(host.truth(flows), rel=within)


@pytest.mark.parametrize("one_at_a_time", [True, False])
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_measured_patterns_come_back(gpus: int, one_at_a_time: bool) -> None:
    host = SimulatedHost(gpus, one_at_a_time=one_at_a_time)
    found = fit_capacities(gpus, host.links(), host.measure)
    where = platform_of(host, found)
    for flows in list(host.asked):
        true = host.truth(flows)
        assert predicted_rates(where, flows) == pytest.approx(true, rel=0.01)
        if not one_at_a_time or all(len(set(ends)) == len(flows) for ends in zip(*flows, strict=True)):
            assert sum(together(where, flows)) == pytest.approx(sum(true), rel=0.01)


@pytest.mark.parametrize("gpus", [3, 4])
def test_a_link_alone_keeps_its_rate_where_a_port_gives_several_less(gpus: int, tmp_path: Path) -> None:
    """A tenth is lost where a port sends or receives more than one: the platform's file can be read again."""
    host = SimulatedHost(gpus)
    alone = rates_alone(host.links())

    def measure(flows: Sequence[Flow]) -> list[float]:
        crowd = [max(sum(f[0] == s for f in flows), sum(f[1] == t for f in flows)) for s, t in flows]
        return [alone[f] / k * (1.0 if k == 1 else 0.9) for f, k in zip(flows, crowd, strict=True)]

    where = reconciled(platform_of(host, fit_capacities(gpus, host.links(), measure)))
    where.save(tmp_path / "mine.json")
    again = Platform.load(tmp_path / "mine.json")
    for flow in [("cuda:0", "cuda:1"), ("cuda:2", "cuda:0")]:
        assert predicted_rates(again, [flow]) == pytest.approx([alone[flow]])
    everywhere = [flow for flow in alone if flow[0] == "cuda:0" and flow[1] != "cpu"]
    assert sum(predicted_rates(again, everywhere)) == pytest.approx(sum(measure(everywhere)), rel=0.01)


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize("way", ["h2d", "d2h"])
def test_each_gpu_alone_keeps_its_rate_where_one_is_slower(slow: int, way: str, tmp_path: Path) -> None:
    """The host's memory is measured with the first GPU (out: the last), which may be the slow one."""
    host = SimulatedHost(2)
    links = [replace(k, bandwidth_bytes_per_s=50.0) if f"cuda:{slow}/{way}" in k.crosses else k for k in host.links()]
    alone = rates_alone(links)

    def measure(flows: Sequence[Flow]) -> list[float]:
        return [min(rate, alone[flow]) for flow, rate in zip(flows, host.truth(flows), strict=True)]

    where = platform_of(host, fit_capacities(2, links, measure))
    where = replace(where, links=tuple(replace(k, latency_s=0.0) for k in links))
    where.save(tmp_path / "mine.json")
    again = Platform.load(tmp_path / "mine.json")
    for gpu in ("cuda:0", "cuda:1"):
        for flow in (("cpu", gpu), (gpu, "cpu")):
            assert predicted_rates(again, [flow]) == pytest.approx([alone[flow]])
    both = [("cpu", "cuda:0"), ("cpu", "cuda:1")] if way == "h2d" else [("cuda:0", "cpu"), ("cuda:1", "cpu")]
    assert sum(predicted_rates(again, both)) == pytest.approx(105.0)


def test_two_slower_gpus_slow_no_others() -> None:
    """Copies to the first two of four are slower, and the host is no limit: it is measured with these."""
    links = [
        replace(k, bandwidth_bytes_per_s=25.0) if k.source == "cpu" and k.target in ("cuda:0", "cuda:1") else k
        for k in SimulatedHost().links()
    ]
    alone = rates_alone(links)
    found = fit_capacities(4, links, lambda flows: [alone[flow] for flow in flows])
    where = replace(platform_of(SimulatedHost(), found), links=tuple(replace(k, latency_s=0.0) for k in links))
    flows = [("cpu", "cuda:2"), ("cpu", "cuda:3")]
    assert predicted_rates(where, flows) == pytest.approx([55.0, 55.0])


@pytest.mark.parametrize(
    "flows",
    [
        host_flows(4, 3, 1),
        host_flows(4, 1, 3),
        host_flows(4, 3, 3),
        [("cuda:0", "cuda:2"), ("cuda:1", "cuda:3")],  # the second step of a broadcast tree
        [("cuda:0", "cuda:1"), ("cuda:0", "cuda:2"), ("cuda:3", "cuda:1")],
        [(f"cuda:{i}", f"cuda:{(i + 1) % 4}") for i in range(4)],
        ALL_TO_ALL,
    ],
)
def test_patterns_that_were_not_measured_are_predicted(flows: list[Flow]) -> None:
    assert_predicted(SimulatedHost(), flows, 0.03)


LATER = "2026-11-28"
"""From when on hosts were measured that had no part in how loads between those measured are found."""


def recorded_hosts() -> list[Platform]:
    """Hosts of four GPUs in the recorded runs, but for one where four were given less than three: it was disturbed."""
    root = Path(__file__).parents[2] / "experiments" / "results"
    runs = map(load_run, find_runs(root.glob("*-x4")))
    known = {repr(p.tables): p for run in runs for p in (case.setup.platform for case in run.cases)}
    into = [(p, p.tables["host/h2d"]) for p in known.values() if "patterns" in p.provenance]
    return [p for p, table in into if table.rate((4, 0)) > table.rate((3, 0))]


def test_three_ways_in_and_one_out_lie_between_what_real_hosts_were_measured_with() -> None:
    """cpu ─▶ 3 GPUs, the fourth ─▶ cpu; and one ─▶, three ◀─: of the recorded loads that a calibration measures."""
    errors = []
    for where in recorded_hosts():
        ways = [where.tables["host/h2d"], where.tables["host/d2h"]]
        into, out = ({load: table.rate(load) for load in product((1, 2, 3, 4), range(5))} for table in ways)
        into = {(a, b): into[a, b] for a, b in host_loads(4) if a}
        out = {(b, a): out[b, a] for a, b in host_loads(4) if b}
        for row in where.provenance["patterns"]:
            load = tuple(sum(flow[end] == "cpu" for flow in row["flows"]) for end in (0, 1))
            if not row["fitted"] and load in ((3, 1), (1, 3)):
                both = between(into, out, host_counts(4), *load) + between(out, into, host_counts(4), *load[::-1])
                errors.append((abs(both / row["measured_bytes_per_s"] - 1), where.provenance["measured"]))
    assert len(errors) >= 12
    known = [error for error, measured in errors if measured < LATER]
    later = [error for error, measured in errors if measured >= LATER]
    assert sum(known) / len(known) < 0.025
    assert not later or sum(later) / len(later) < 0.032  # one host: 4.6 and 1.7 %
    worst, next_worst = sorted(error for error, _ in errors)[
        :-3:-1
    ]  # aim: 3 %; hosts with H200s are at 6.4 and 5.6, H100s 5.2
    assert next_worst < 0.057
    assert worst < 0.065


def test_the_figures_of_the_host_are_found() -> None:
    host = SimulatedHost(noise=0.004)
    tables = fit_capacities(4, host.links(), host.measure).tables
    assert tables["cuda:1/h2d"].rate((1, 0)) == pytest.approx(host.engine, rel=0.01)
    assert tables["cuda:1/h2d"].rate((1, 1)) == pytest.approx(host.engine_both, rel=0.01)
    for own, other in ((3, 0), (4, 0), (4, 4), (3, 3)):
        assert tables["host/h2d"].rate((own, other)) == pytest.approx(host.host_rate(own, other), rel=0.01)
    assert tables["cuda:2/out"].rate((3, 0)) == pytest.approx(host.port_out, rel=0.01)
    assert tables["cuda:2/in"].rate((3, 0)) == pytest.approx(host.port_in, rel=0.01)
    assert tables["cuda:2/out"].rate((3, 3)) == pytest.approx(host.port_rate(3, 3, host.port_in), rel=0.01)


def test_noise_stays_noise() -> None:
    host = SimulatedHost(noise=0.004)
    found = fit_capacities(4, host.links(), host.measure)
    for flows in (host_flows(4, 4, 0), host_flows(4, 4, 4), ALL_TO_ALL):
        assert_predicted(host, flows, 0.015, found)


def test_gpus_that_make_one_copy_at_a_time_are_told_from_fair_shares() -> None:
    for one_at_a_time in (True, False):
        host = SimulatedHost(one_at_a_time=one_at_a_time)
        found = fit_capacities(4, host.links(), host.measure)
        assert found.peer_engines == (1 if one_at_a_time else 0)


def test_an_uneven_topology_has_ports_for_the_pairs_that_are_linked() -> None:
    """cuda:0 and cuda:1 are linked, cuda:2 with nobody."""
    host = SimulatedHost(3, unlinked=frozenset({frozenset((0, 2)), frozenset((1, 2))}))
    found = fit_capacities(3, host.links(), host.measure)
    assert {name for name in found.rates if name.endswith(("/out", "/in"))} == {
        "cuda:0/out", "cuda:0/in", "cuda:1/out", "cuda:1/in",
    }  # fmt: skip
    assert all("cuda:2" not in flow or "cpu" in flow for flows in host.asked for flow in flows)
    assert_predicted(host, [("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")], 0.01, found)


def test_without_peer_access_only_the_host_is_shared() -> None:
    pairs = frozenset(frozenset((i, j)) for i in range(2) for j in range(i))
    found = fit_capacities(2, SimulatedHost(2, unlinked=pairs).links(), SimulatedHost(2, unlinked=pairs).measure)
    assert sorted(found.rates) == ["cuda:0/d2h", "cuda:0/h2d", "cuda:1/d2h", "cuda:1/h2d", "host/d2h", "host/h2d"]


def test_numbers_of_busy_gpus() -> None:
    assert host_counts(8) == (1, 2, 3, 4, 8)
    assert host_counts(3) == (1, 2, 3)


def test_a_link_is_found_again_through_spikes() -> None:
    """Every tenth transfer takes forty times as long: medians do not see them."""
    host = SimulatedHost(noise=0.002)
    points = measure_points(host.copy_s, [4096 * 4**k for k in range(10)])
    link = link_of("cpu", "cuda:0", "pinned", points)
    assert link.bandwidth_bytes_per_s == pytest.approx(55e9, rel=0.01)
    assert link.latency_s == pytest.approx(1e-5, rel=0.01)
    assert link.duration_s(2**22) == pytest.approx(1e-5 + 2**22 / 55e9, rel=0.01)


@pytest.mark.parametrize("one_at_a_time", [True, False])
def test_rows_say_how_well_patterns_are_predicted(one_at_a_time: bool) -> None:
    host = SimulatedHost(one_at_a_time=one_at_a_time)
    links = host.links()
    found = fit_capacities(4, links, host.measure)
    here = platform_of(host, found)
    measured = corrected(host.measure, rates_alone(links))
    rows = pattern_rows(here, fitted_patterns(4, links), measured, fitted=True)
    assert len(rows) == 4 + (len(host_loads(4)) - 2) + 1 + 1 + 4 * 5 - 1  # cuda:0 and cuda:1 have one pair
    for row in rows:
        assert row["predicted_bytes_per_s"] == pytest.approx(row["measured_bytes_per_s"], rel=0.02)
    new = pattern_rows(here, new_patterns(4, links), measured, fitted=False)
    assert [len(row["flows"]) for row in new] == [2, 2, 4, 4, 2, 4, 3]
    for row in new:
        assert row["fitted"] is False
        assert row["predicted_bytes_per_s"] == pytest.approx(row["measured_bytes_per_s"], rel=0.03)
