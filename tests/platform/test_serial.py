"""Platforms as JSON objects and files: round trips, and what is refused."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from graphsched.errors import FileFormatError, OutputError, PlatformError
from graphsched.platform import Device, Link, Platform, topologies
from tests.platform.desk import full


def test_json_round_trip() -> None:
    again = Platform.from_dict(json.loads(json.dumps(full().to_dict())))
    assert again == full()
    assert again.digest() == full().digest()


FACTORS = {"slowed_in": 0.025, "slowed_out": 0.037, "slowed_peer_in": 0.022, "slowed_peer_out": 0.19}


def test_what_kernels_cost_copies_is_written_and_goes_into_derived_platforms(tmp_path: Path) -> None:
    gpu = Device("cuda:0", "cuda", **FACTORS)
    pinned = (Link("cpu", "cuda:0", "pinned", 1e-5, 5e10), Link("cuda:0", "cpu", "pinned", 1e-5, 5e10))
    here = Platform("desk", (Device("cpu", "cpu"), gpu), pinned)
    here.save(tmp_path / "desk.json")
    assert Platform.load(tmp_path / "desk.json") == here
    assert here.digest() != replace(here, devices=(Device("cpu", "cpu"), replace(gpu, slowed_in=0.0))).digest()
    for new in (here.scaled(2), here.with_rates("pinned", 0.5), here.with_link("cpu", "cuda:0", latency_s=1e-6)):
        assert [getattr(new.devices[-1], name) for name in FACTORS] == list(FACTORS.values())


def test_a_file_that_does_not_know_what_kernels_cost_copies() -> None:
    data = _with(lambda d: [device.pop(name) for device in d["devices"] for name in FACTORS])
    assert {getattr(device, name) for device in Platform.from_dict(data).devices for name in FACTORS} == {0.0}


LANES = {"lanes_in": 0.31, "lanes_out": 0.17}
WRITTEN = {"fades_s": 1e-3, "written_busy": 0.4, "busy_fades_s": 2e-4, "written_back": 0.6}


def test_what_lanes_and_written_values_cost_copies_is_written_and_goes_into_derived_platforms(tmp_path: Path) -> None:
    gpu = Device("cuda:0", "cuda", **LANES)
    points = {"sizes_bytes": (4096,), "seconds": (1.01e-5,), "written_s": (1e-5,)}
    pinned = (
        Link("cpu", "cuda:0", "pinned", 1e-5, 5e10, **points, **WRITTEN),
        Link("cuda:0", "cpu", "pinned", 0, 5e10),
    )
    here = Platform("desk", (Device("cpu", "cpu"), gpu), pinned)
    here.save(tmp_path / "desk.json")
    assert Platform.load(tmp_path / "desk.json") == here
    others = [replace(here, devices=(here.devices[0], replace(gpu, **{name: 0.0}))) for name in LANES]
    others += [replace(here, links=(replace(pinned[0], **{name: 0.0}), pinned[1])) for name in WRITTEN]
    assert here.digest() not in {other.digest() for other in others}
    host = topologies.two_level(hosts=2, host=here).devices[-1]
    assert (host.kind, host.lanes_in, host.lanes_out) == ("cuda", 0.31, 0.17)
    for new in (here.scaled(2), here.with_rates("pinned", 0.5), here.with_link("cpu", "cuda:0", latency_s=1e-6)):
        assert [getattr(new.devices[-1], name) for name in LANES] == list(LANES.values())
        way = new.link("cpu", new.devices[-1].name, "pinned")
        assert [getattr(way, name) for name in WRITTEN] == list(WRITTEN.values())


def test_a_file_that_does_not_know_what_lanes_and_written_values_cost_copies() -> None:
    def forget(data: dict[str, Any]) -> None:
        for names, rows in ((LANES, data["devices"]), (WRITTEN, data["links"])):
            for row in rows:
                for name in names:
                    del row[name]

    here = Platform.from_dict(_with(forget))
    assert here == full()
    assert {getattr(device, name) for device in here.devices for name in LANES} == {0.0}
    assert {getattr(link, name) for link in here.links for name in WRITTEN} == {0.0}


def _with(change: Callable[[dict[str, Any]], object]) -> Any:
    data = copy.deepcopy(json.loads(json.dumps(full().to_dict())))
    change(data)
    return data


KEYS = ("name", "devices", "links", "capacities", "dispatch", "cores", "costs", "provenance")


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "desk",
        {},
        _with(lambda d: d.pop("schema")),
        _with(lambda d: d.update(schema=2)),
        _with(lambda d: d.update(schema="1")),
        *(_with(lambda d, k=key: d.pop(k)) for key in KEYS),
        *(_with(lambda d, k=key: d.update({k: 5})) for key in KEYS if key not in ("cores", "name")),
        _with(lambda d: d.update(devices=["cpu"])),
        _with(lambda d: d.update(links=["cpu>cuda:0"])),
        _with(lambda d: d.update(cores="many")),
        _with(lambda d: d["devices"][0].pop("name")),
        _with(lambda d: d["devices"][0].update(colour="red")),
        _with(lambda d: d["devices"][0].update(name=5)),
        _with(lambda d: d["links"][0].pop("source")),
        _with(lambda d: d["links"][0].update(colour="red")),
        _with(lambda d: d["links"][0].update(seconds=3)),
        _with(lambda d: d["dispatch"].update(colour=1.0)),
        _with(lambda d: d["costs"][0].pop("signature")),
        _with(lambda d: d["costs"][0].update(device_s="slow")),
    ],
)
def test_data_that_is_no_platform(data: Any) -> None:
    with pytest.raises(FileFormatError, match="not a "):
        Platform.from_dict(data)


@pytest.mark.parametrize(
    "data",
    [
        _with(lambda d: d["devices"].append(d["devices"][0])),
        _with(lambda d: d["devices"][0].update(kind="tpu")),
        _with(lambda d: d["devices"][0].update(threads="two")),
        _with(lambda d: d["links"][0].update(latency_s=-1)),
        _with(lambda d: d["links"][0].update(latency_s=math.nan)),
        _with(lambda d: d["links"][0].update(bandwidth_bytes_per_s="fast")),
        _with(lambda d: d["capacities"].clear()),
        _with(lambda d: d["dispatch"].update(run_s=None)),
    ],
)
def test_figures_that_make_no_sense(data: Any) -> None:
    with pytest.raises(PlatformError):
        Platform.from_dict(data)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "new" / "desk.json"
    full().save(path)
    assert Platform.load(path) == full()
    assert Platform.load(str(path)) == full()
    assert [p.name for p in path.parent.iterdir()] == ["desk.json"]
    first = path.read_bytes()
    full().save(path)
    assert path.read_bytes() == first


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "desk.json"
    full().save(path)
    with pytest.raises(TypeError):
        replace(full(), provenance={"tensor": object()}).save(path)
    assert Platform.load(path) == full()
    with pytest.raises(OutputError, match="cannot write"):
        full().save(path / "inside")


def test_every_truncation_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "desk.json"
    full().save(path)
    text = path.read_text().rstrip()
    for cut in range(0, len(text), 37):
        path.write_text(text[:cut])
        with pytest.raises(FileFormatError, match=r"desk\.json"):
            Platform.load(path)


def test_a_file_of_another_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "desk.json"
    path.write_text(json.dumps(_with(lambda d: d.update(schema=9))))
    with pytest.raises(FileFormatError, match=r"desk\.json: not a platform of schema 1 \(found 9\): measure the host"):
        Platform.load(path)


@pytest.mark.parametrize("name", ["h100-x99", "", ".", "nowhere/desk.json"])
def test_a_platform_that_is_not_there(name: str) -> None:
    with pytest.raises(PlatformError, match=r"no platform '.*': a JSON file, or one of "):
        Platform.load(name)


def test_every_shipped_platform_loads_by_name() -> None:
    folder = Path(str(resources.files("graphsched"))) / "platforms"
    for path in sorted(folder.glob("*.json")):
        assert Platform.load(path.stem) == Platform.load(path)
        assert "cpu" in [d.name for d in Platform.load(path.stem).devices]
