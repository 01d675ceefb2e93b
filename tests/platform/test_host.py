"""Platforms: what they hold, and how they are asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.errors import GraphschedError, PlatformError
from graphsched.platform import Device, Dispatch, Link, Platform
from tests.platform.desk import full


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
        ({"cores": 1.5}, "cores is 1.5: a whole number is needed"),
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
    with pytest.raises(PlatformError, match=r"no link from 'worker:0' to 'cpu' .*: add a Link$"):
        full().link("worker:0", "cpu")
    with pytest.raises(PlatformError, match=r"no link from 'worker:0' to 'cuda:0' .*: add a Link, or copy via cpu$"):
        full().link("worker:0", "cuda:0")
    with pytest.raises(PlatformError, match="no device 'cuda:3'"):
        full().link("cuda:3", "cpu")


def test_a_copy_to_its_own_device_is_not_sent_elsewhere_where_no_link_is_there() -> None:
    bare = Platform("bare", (Device("cpu", "cpu"), Device("cuda:0", "cuda")))
    with pytest.raises(PlatformError, match=r"no link from 'cuda:0' to 'cuda:0' .*: leave out the copy, .* 'local'$"):
        bare.link("cuda:0", "cuda:0")


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
    with pytest.raises(PlatformError, match="'1' accelerators asked for: a whole number is needed"):
        host.accelerators("1")  # type: ignore[arg-type]
    with pytest.raises(PlatformError, match="True accelerators asked for: a whole number is needed"):
        host.accelerators(True)


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


def test_errors_are_of_the_tree() -> None:
    assert issubclass(PlatformError, GraphschedError)


def test_a_platform_prints_in_one_line() -> None:
    gpus = [Device(f"cuda:{i}", "cuda", "NVIDIA H200") for i in range(2)]
    platform = Platform("desk", (Device("cpu", "cpu"), *gpus), (Link("cpu", "cuda:0", "pinned", 1e-5, 5e10),))
    assert str(platform) == "Platform desk: 1 × cpu, 2 × NVIDIA H200; 1 links; costs of 0 operations"
