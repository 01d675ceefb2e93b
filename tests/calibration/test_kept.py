"""The kept platform and the kept costs: used again, set aside when broken, renewed when the host has changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from graphsched.calibration import cost_cache, kept_costs, local_platform
from graphsched.calibration import kept as module
from graphsched.calibration.cost_cache import costs_path, keep_costs, left_out, settings
from graphsched.calibration.host import host_facts
from graphsched.calibration.kept import platform_path
from graphsched.costs import Costs, TaskCost
from graphsched.errors import GraphschedWarning, PlatformWarning
from graphsched.platform import Device, Platform

CPU = Platform("here", (Device("cpu", "cpu", "EPYC"),))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Stands in for measuring; lists whether each measurement was quick."""
    calls: list[bool] = []

    def measure_platform(*, quick: bool) -> Platform:
        calls.append(quick)
        provenance = {"fingerprint": host_facts().fingerprint(), "quick": quick}
        return Platform(f"here{len(calls)}", CPU.devices, provenance=provenance)

    monkeypatch.setattr(module, "measure_platform", measure_platform)
    return calls


def test_a_kept_platform_is_used_again(measured: list[bool]) -> None:
    first = local_platform()
    assert local_platform() == first
    assert local_platform(quick=True) == first
    assert measured == [False]


def test_refresh_measures_anew(measured: list[bool]) -> None:
    local_platform()
    assert local_platform(refresh=True).name == "here2"


def test_a_quick_measurement_gives_way_to_a_full_one(measured: list[bool]) -> None:
    local_platform(quick=True)
    local_platform(quick=True)
    local_platform()
    assert measured == [True, False]


def test_a_changed_host_is_named_and_measured_anew(measured: list[bool]) -> None:
    local_platform()
    data = json.loads(platform_path().read_text())
    data["provenance"]["fingerprint"]["cores"] = 1000
    platform_path().write_text(json.dumps(data))
    with pytest.warns(PlatformWarning, match=f"cores was 1000, is {host_facts().cores}"):
        assert local_platform().name == "here2"
    assert local_platform().name == "here2"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}'])
def test_a_broken_platform_file_is_set_aside(measured: list[bool], text: str) -> None:
    platform_path().write_text(text)
    with pytest.warns(GraphschedWarning, match=r"set aside as platform\.json\.broken"):
        assert local_platform().name == "here1"
    assert platform_path().with_name("platform.json.broken").read_text() == text


def test_a_folder_that_cannot_be_written_costs_a_warning_only(
    measured: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPHSCHED_CACHE", str(tmp_path / "file"))
    with pytest.warns(GraphschedWarning, match="not kept"):
        assert local_platform().name == "here1"


def test_costs_of_several_processes_add_up() -> None:
    keep_costs(Costs({("a", "EPYC"): TaskCost(1.0)}))
    keep_costs(Costs({("b", "EPYC"): TaskCost(2.0, concurrency=((1, 1.0), (2, 1.5)))}))
    kept = kept_costs(CPU)
    assert {key: cost.device_s for key, cost in ((k, kept[k]) for k in kept)} == {
        ("a", "EPYC"): 1.0,
        ("b", "EPYC"): 2.0,
    }
    assert kept["b", "EPYC"].concurrency == ((1, 1.0), (2, 1.5))


def test_costs_of_other_models_are_left_out() -> None:
    keep_costs(Costs({("a", "Xeon"): TaskCost(1.0)}))
    assert len(kept_costs(CPU)) == 0


def test_costs_hold_only_under_the_flags_they_were_measured_with() -> None:
    keep_costs(Costs({("a", "EPYC"): TaskCost(1.0)}))
    before, text = torch.backends.cudnn.benchmark, settings()
    try:
        torch.backends.cudnn.benchmark = not before
        assert settings() != text
        assert len(kept_costs(CPU)) == 0
    finally:
        torch.backends.cudnn.benchmark = before
    assert len(kept_costs(CPU)) == 1


def test_costs_are_not_used_with_another_driver_and_this_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def driver(version: str | None) -> None:
        monkeypatch.setattr(cost_cache, "installed_driver", lambda: version)

    driver("570.1")
    keep_costs(Costs({(name, "EPYC"): TaskCost(1.0) for name in "abc"}))
    assert left_out(CPU) is None
    driver("580.2")
    assert len(kept_costs(CPU)) == 0
    line = left_out(CPU)
    assert line is not None
    assert line.startswith("3 kept costs are not used")
    assert line.endswith("driver was 570.1, is 580.2")
    keep_costs(Costs({("a", "EPYC"): TaskCost(2.0)}))  # measured again
    assert str(left_out(CPU)).startswith("2 kept costs")
    assert left_out(Platform("other", (Device("cpu", "cpu", "Xeon"),))) is None
    driver("570.1")
    assert kept_costs(CPU)["a", "EPYC"].device_s == 1.0


@pytest.mark.parametrize("text", ["", '{"schema": 1}', '{"schema": 1, "groups": {"x": [{"model": 3}]}}'])
def test_a_broken_cache_of_costs_is_set_aside(text: str) -> None:
    costs_path().write_text(text)
    with pytest.warns(GraphschedWarning, match=r"set aside as costs\.json\.broken"):
        assert len(kept_costs(CPU)) == 0
    keep_costs(Costs({("a", "EPYC"): TaskCost(1.0)}))
    assert len(kept_costs(CPU)) == 1


def test_how_threads_wait_is_what_a_platform_and_costs_hold_for(
    measured: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small operation on a lane of several threads takes several times as long where these sleep at once."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    local_platform()
    keep_costs(Costs({("add", "EPYC"): TaskCost(1e-3)}))
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    with pytest.warns(PlatformWarning, match="wait_policy was default, is passive: it is measured anew"):
        assert local_platform().name == "here2"
    assert len(kept_costs(CPU)) == 0
    assert "wait_policy was default, is passive" in str(left_out(CPU))
    monkeypatch.setenv("OMP_WAIT_POLICY", "")
    assert len(kept_costs(CPU)) == 1
