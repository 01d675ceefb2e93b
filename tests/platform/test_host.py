"""Platforms: what they hold, how they are asked, files."""

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

from graphsched.costs import Costs, TaskCost
from graphsched.errors import FileFormatError, GraphschedError, OutputError, PlatformError
from graphsched.platform import Device, Dispatch, Link, Platform


def full() -> Platform:
    """A worker, a GPU and a CPU, in an order that is not theirs."""
    return Platform(
        "desk",
        (Device("cpu", "cpu", "CPU"), Device("cuda:0", "cuda", "GPU"), Device("worker:0", "worker", "CPU", threads=4)),
        (
            Link("cpu", "cuda:0", "pinned", 1e-5, 5e10, ("bus",), sizes_bytes=(4096, 10**6), seconds=(1e-5, 3e-5)),
            Link("cpu", "cuda:0", "pageable", 1e-5, 1e10, blocking=True),
            Link("cuda:0", "cpu", "pageable", 1e-5, 1e10),
            Link("cuda:0", "cuda:0", "local", 1e-6, 2e12),
            Link("cuda:0", "worker:0", "staged", 1e-5, 1e10),
        ),
        {"bus": 6e10},
        Dispatch(run_s=3e-6),
        64,
        Costs({("mm", "GPU"): TaskCost(1e-3, quartiles_s=(0.9e-3, 1.1e-3), concurrency=((2, 1.5),))}),
        {"driver": "580", "date": "2025-01-01"},
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"devices": (Device("cpu", "cpu"), Device("cpu", "cpu"))}, "platform 'desk' has two devices 'cpu'"),
        (
            {"links": (Link("cpu", "cuda:7", "pinned", 0, 1),)},
            r"cpu>cuda:7 \(pinned\) leads to 'cuda:7', which is no",
        ),
        ({"links": (Link("cuda:7", "cpu", "pinned", 0, 1),)}, "leads to 'cuda:7'"),
        ({"links": (Link("cpu", "cuda:0", "pinned", 0, 1),) * 2}, r"has two links 'cpu>cuda:0 \(pinned\)'"),
        ({"capacities": {}}, "crosses capacity 'bus', which has no entry"),
        ({"capacities": {"bus": 0.0}}, "capacity 'bus' is 0.0"),
        ({"capacities": {"bus": -1.0}}, "capacity 'bus' is -1.0"),
        ({"capacities": {"bus": math.nan}}, "capacity 'bus' is nan"),
        ({"cores": 0}, "cores is 0"),
        ({"cores": -4}, "cores is -4"),
    ],
)
def test_a_platform_that_contradicts_itself(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(PlatformError, match=message):
        replace(full(), **wrong)


def test_devices_by_name() -> None:
    assert full().device("cuda:0").model == "GPU"
    with pytest.raises(PlatformError, match="no device 'cuda:1' on platform 'desk': it has cpu, cuda:0, worker:0"):
        full().device("cuda:1")


def test_links_by_ends_and_memory() -> None:
    host = full()
    assert host.link("cpu", "cuda:0").memory == "pinned"
    assert host.link("cpu", "cuda:0", "pageable").blocking
    assert host.link("cpu", "cuda:0", "fresh").memory == "pinned"
    assert host.link("cuda:0", "cpu", "pinned").memory == "pageable"
    assert host.link("cuda:0", "cuda:0").memory == "local"
    assert host.link("cuda:0", "worker:0").memory == "staged"


def test_a_link_that_is_not_there() -> None:
    with pytest.raises(PlatformError, match=r"no link from 'worker:0' to 'cpu' .*: add a Link, or copy via cpu"):
        full().link("worker:0", "cpu")
    with pytest.raises(PlatformError, match="no device 'cuda:3'"):
        full().link("cuda:3", "cpu")


def test_accelerators() -> None:
    host = full()
    assert host.accelerators() == ("cuda:0", "worker:0")
    assert host.accelerators(1) == ("cuda:0",)
    assert host.accelerators(0) == ()
    with pytest.raises(PlatformError, match=r"3 accelerators asked for, platform 'desk' has 2 \(cuda:0, worker:0\)"):
        host.accelerators(3)
    with pytest.raises(PlatformError, match=r"has 0 \(none\)"):
        Platform("bare", (Device("cpu", "cpu"),)).accelerators(1)
    with pytest.raises(PlatformError, match="-1 accelerators"):
        host.accelerators(-1)


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ((), ("cuda:0", "worker:0", "cpu")),
        (("cpu",), ("cpu",)),
        (("cuda",), ("cuda:0",)),
        (("cpu", "cuda:0"), ("cuda:0", "cpu")),
        (("worker", "worker:0"), ("worker:0",)),
    ],
)
def test_matching_by_kind_and_name(patterns: tuple[str, ...], found: tuple[str, ...]) -> None:
    host = full()
    assert host.matching(patterns) == found
    assert host.matching(patterns) == found


def test_matching_nothing() -> None:
    for pattern in ("cuda:7", "tpu", ""):
        with pytest.raises(PlatformError, match=f"no device '{pattern}'"):
            full().matching(("cpu", pattern))


def test_costs_are_added() -> None:
    new = full().with_costs(Costs({("add", "GPU"): TaskCost(1.0)}))
    assert sorted(signature for signature, _ in new.costs) == ["add", "mm"]
    assert len(full().costs) == 1


def test_the_digest_is_of_what_plans_rest_on() -> None:
    base = full()
    for same in ({"name": "x"}, {"costs": Costs()}, {"provenance": {}}):
        assert replace(base, **same).digest() == base.digest()  # type: ignore[arg-type]
    others: list[dict[str, Any]] = [
        {"devices": (*base.devices, Device("cuda:1", "cuda"))},
        {"links": base.links[:-1]},
        {"capacities": {"bus": 7e10}},
        {"dispatch": Dispatch()},
        {"cores": 1},
    ]
    assert len({base.digest(), *(replace(base, **other).digest() for other in others)}) == 1 + len(others)


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


def test_errors_are_of_the_tree() -> None:
    assert issubclass(PlatformError, GraphschedError)


def test_a_platform_prints_in_one_line() -> None:
    gpus = [Device(f"cuda:{i}", "cuda", "NVIDIA H200") for i in range(2)]
    platform = Platform("desk", (Device("cpu", "cpu"), *gpus), (Link("cpu", "cuda:0", "pinned", 1e-5, 5e10),))
    assert str(platform) == "Platform desk: 1 × cpu, 2 × NVIDIA H200; 1 links; costs of 0 operations"
