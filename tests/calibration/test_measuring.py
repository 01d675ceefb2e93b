"""This host's platform, measured quickly where there are no GPUs."""

from __future__ import annotations

from statistics import median
from types import SimpleNamespace

import pytest

from graphsched.calibration import check_platform, measure_platform
from graphsched.calibration import measuring as module
from graphsched.calibration.checking import drift
from graphsched.calibration.cuda_dispatch import first_slow
from graphsched.calibration.cuda_links import Measured
from graphsched.calibration.fitting import Points
from graphsched.calibration.host import HostFacts, host_facts
from graphsched.errors import PlatformError
from graphsched.platform import Device, Link, Platform
from graphsched.processes import cores
from tests.calibration.simulated_host import SimulatedHost


@pytest.fixture(scope="module")
def here() -> Platform:
    """This host as one without GPUs."""
    facts = HostFacts("a CPU", cores(), "2.13")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "host_facts", lambda: facts)
        return measure_platform(quick=True)


def test_cpu_and_workers_are_there(here: Platform) -> None:
    assert [d.name for d in here.devices][:3] == ["cpu", "worker:0", "worker:1"]
    assert here.accelerators(2) == ("worker:0", "worker:1")
    assert {d.model for d in here.devices} == {"a CPU, 1 thread"}
    assert here.device("cpu").lanes == 1
    assert all(d.threads == 1 and d.flop_per_s > 0 for d in here.devices)


def test_every_pair_of_devices_is_linked_by_memory_that_is_shared(here: Platform) -> None:
    for source in here.devices:
        for target in here.devices:
            for kind in ("pinned", "pageable", "fresh"):
                link = here.link(source.name, target.name, kind)
                assert (link.source, link.target) == (source.name, target.name)
                assert not link.blocking
                assert link.crosses == ("host/memory",)
                assert link.duration_s(2**24) > 0
    assert here.capacities["host/memory"] > 0


def test_lane_figures_are_measured_and_the_platform_survives_its_file(here: Platform) -> None:
    dispatch = here.dispatch
    assert dispatch.handoff_s > 0
    assert dispatch.sync_s > 0
    assert 0 < dispatch.run_s < 1e-3
    assert Platform.from_dict(here.to_dict()) == here
    assert here.provenance["quick"] is True
    assert here.provenance["cuda_device_max_connections"]


def test_report_names_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = HostFacts("a CPU", 2, "2.13")
    monkeypatch.setattr(module, "host_facts", lambda: facts)
    lines: list[str] = []
    assert measure_platform(name="mine", quick=True, report=lines.append).name == "mine"
    assert lines == ["memory copies", "arithmetic", "dispatch"]


def test_a_check_measures_a_sample_again(here: Platform) -> None:
    rows = {row.entry: row for row in check_platform(here)}
    assert "dispatch handoff_s" in rows
    assert "cpu>cpu (local), 16777216 bytes" in rows
    assert all(row.ratio == pytest.approx(row.now / row.stored) for row in rows.values() if row.stored)


def test_a_platform_of_another_host_cannot_be_checked() -> None:
    other = Platform("other", (Device("cpu", "cpu"), Device("cuda:97", "cuda", "NVIDIA H200")))
    with pytest.raises(PlatformError, match=r"cuda:97 is 'NVIDIA H200', this host has no such GPU"):
        check_platform(other)


def test_drift_takes_the_tolerance_both_ways() -> None:
    assert not drift("x", 1e-3, 1.09e-3, 0.1).drifted
    assert drift("x", 1e-3, 1.11e-3, 0.1).drifted
    assert drift("x", 1e-3, 0.9e-3, 0.1).drifted
    assert drift("x", 0.0, 1e-3, 0.1).drifted
    assert drift("x", 0.0, 1e-3, 0.1).ratio is None
    assert not drift("x", 0.0, 0.0, 0.1).drifted


def test_a_call_that_blocks_ends_the_count_of_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1e-6, 1e-6, 2e-6, 2e-6, 0.5])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    assert first_slow(lambda: None, 10) == 2


def test_worker_hosts_are_told_by_their_gpus() -> None:
    assert host_facts().cores == cores()


def test_links_that_are_slower_than_those_like_them_are_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs, copies to the first of which were slowed while links were measured."""
    where = "graphsched.calibration.cuda_links"

    def measured(source: str, target: str, rate: float) -> Measured:
        return Measured(Link(source, target, "pinned", 1e-5, rate), 0.25)

    def host_links(bench: object, gpu: int, largest: int, calls_s: object) -> list[Measured]:
        return [measured("cpu", f"cuda:{gpu}", 50.0 + 5.0 * gpu), measured(f"cuda:{gpu}", "cpu", 55.0)]

    monkeypatch.setattr(f"{where}.host_links", host_links)
    monkeypatch.setattr(f"{where}.local_link", lambda bench, gpu, largest: measured(f"cuda:{gpu}", f"cuda:{gpu}", 9.0))
    monkeypatch.setattr(f"{where}.pair_link", lambda bench, i, j, *_: measured(f"cuda:{i}", f"cuda:{j}", 7.0))
    monkeypatch.setattr(
        f"{where}.queued_points", lambda bench, way, largest: Points((54, 108), (1.0, 2.0), (0.1, 0.125))
    )
    monkeypatch.setattr(f"{where}.way_of_link", lambda bench, link: None)
    monkeypatch.setattr("graphsched.calibration.cuda_ways.warm_all", lambda bench: None)
    monkeypatch.setattr(module, "copy_points", lambda most, threads: (None, None))
    monkeypatch.setattr(module, "pinned_link", lambda pinned, most, threads: None)
    monkeypatch.setattr(module, "cpu_links", lambda *_: [])
    dispatch = dict.fromkeys(("copy_s", "copy_out_s", "launch_s"), 0.0)
    bench = SimpleNamespace(gpus=2, pinned=None, largest=108)
    links, spreads = module._cuda_links(bench, dispatch, 1, lambda what: None)
    rates = {(k.source, k.target): k.bandwidth_bytes_per_s for k in links}
    assert (rates["cpu", "cuda:0"], rates["cpu", "cuda:1"], rates["cuda:0", "cpu"]) == (54.0, 55.0, 55.0)
    assert (spreads["cpu>cuda:0 (pinned)"], spreads["cpu>cuda:1 (pinned)"]) == (0.125, 0.25)


@pytest.mark.parametrize(
    ("gpus", "one_at_a_time", "fitted", "new"),
    [(1, False, 1, 2), (2, False, 9, 2), (4, False, 41, 7), (4, True, 40, 8)],  # all to all tells nothing then
)
def test_patterns_are_fitted_to_the_rates_that_they_are_held_against(
    gpus: int, one_at_a_time: bool, fitted: int, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pattern is measured once a round, in the same order, and never again for the rows."""
    host = SimulatedHost(gpus, noise=0.02, one_at_a_time=one_at_a_time)
    monkeypatch.setattr("graphsched.calibration.cuda_together.Together", lambda bench, repeats: host.measure)
    found, spreads = module._cuda_capacities(SimpleNamespace(gpus=gpus), host.links(), 3)
    single = len(host.asked) // 3 - fitted - new
    assert host.asked == host.asked[: len(host.asked) // 3] * 3
    assert single == 2 * gpus + gpus * (gpus - 1)
    assert [row["fitted"] for row in found.patterns] == [True] * fitted + [False] * new
    assert len(spreads) == fitted + new + single
    assert all(0.0 < spread < 0.05 for spread in spreads.values())
    errors = [abs(row["predicted_bytes_per_s"] / row["measured_bytes_per_s"] - 1) for row in found.patterns]
    assert median(errors[:fitted]) < 0.005  # noise of 2 % is in both sides
