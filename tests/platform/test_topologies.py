"""Platforms of many hosts from a short description: routes, what they share, files, refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graphsched as gs
from graphsched.collectives.scaling import PAPER
from graphsched.errors import FileFormatError, GraphschedError, PlatformError
from graphsched.platform import Device, Link, Platform, topologies
from graphsched.platform.capacity import CapacityTable

RATE, NBYTES, LATENCY_S, SWITCH_S = 100.0, 1_000_000, 1.0, 0.25
MAKERS = (topologies.two_level, topologies.fat_tree, topologies.rail_optimised)


def host(gpus: int = 2) -> Platform:
    """A host whose GPUs copy to each other at 1,000 B/s.

    ::

        cuda:0 ◀─1000─▶ cuda:1
    """
    names = [f"cuda:{i}" for i in range(gpus)]
    links = [Link("cpu", name, "pinned", 0.0, 500.0, (f"{name}/h2d", "host/h2d")) for name in names]
    links += [Link(a, b, "peer", 0.0, 1000.0, (f"{a}/out", f"{b}/in")) for a in names for b in names if a != b]
    capacities = {f"{name}/{way}": 1000.0 for name in names for way in ("out", "in", "h2d")} | {"host/h2d": 500.0}
    tables = {f"{n}/out": CapacityTable((f"{n}/out", f"{n}/in"), ((1,), (0,)), (1000.0,)) for n in names}
    devices = (Device("cpu", "cpu"), *(Device(name, "cuda") for name in names))
    return Platform("desk", devices, tuple(links), capacities, tables=tables)


def made(topology: str, hosts: int, *, gpus: int = 2, **more: Any) -> Platform:
    """Such hosts, joined."""
    figures = {"nic_bytes_per_s": RATE, "nic_latency_s": LATENCY_S, "switch_latency_s": SWITCH_S}
    maker = getattr(topologies, topology)
    platform: Platform = maker(hosts=hosts, gpus=gpus, host=host(gpus), **(figures | more))
    return platform


def seconds(platform: Platform, pairs: Sequence[tuple[int, int]]) -> float:
    """Predicted seconds of copies of `NBYTES` between pairs of GPUs, all at once, without latencies."""
    work = gs.Workload("copies")
    for i, (a, b) in enumerate(pairs):
        value = work.input(f"x{i}", gs.TensorSpec((NBYTES,), "uint8"), device=f"cuda:{a}")
        work.copy(value, to=f"cuda:{b}", name=f"copy{i}")
    plan = gs.schedule(work, platform, scheduler="one_stream")
    return gs.predict(plan, model=PAPER).makespan_s


ALONE_S = pytest.approx(NBYTES / RATE, rel=1e-3)
TWICE_S = pytest.approx(2 * NBYTES / RATE, rel=1e-3)


def test_two_hosts_with_one_nic_each_have_its_rate() -> None:
    """Two copies from one host to the other share both NICs; back and forth they do not.

    ::

        cuda:0, cuda:1 ── nic ── leaf ── nic ── cuda:2, cuda:3
    """
    platform = made("two_level", 2, nics=1)
    assert seconds(platform, [(0, 2)]) == ALONE_S
    assert seconds(platform, [(0, 2), (1, 3)]) == TWICE_S
    assert seconds(platform, [(0, 2), (3, 1)]) == ALONE_S
    assert seconds(made("two_level", 2), [(0, 2), (1, 3)]) == ALONE_S


def test_latency_grows_with_the_switches() -> None:
    """Four hosts of a GPU, a leaf each, two leaves a pod: 1 or 3 switches in a pod, 5 between pods."""
    tree = made("fat_tree", 8, gpus=1, hosts_per_leaf=2, leaves_per_pod=2)
    latencies = [tree.link("cuda:0", f"cuda:{k}").latency_s for k in (1, 2, 4)]
    assert latencies == [LATENCY_S + SWITCH_S, LATENCY_S + 3 * SWITCH_S, LATENCY_S + 5 * SWITCH_S]


@pytest.mark.parametrize("over", [1.0, 2.0, 4.0])
def test_all_to_all_between_pods_is_as_much_slower_as_the_core_is_oversubscribed(over: float) -> None:
    """Two pods of two leaves of two hosts of a GPU: each sends to its like in the other pod, or in its own."""
    tree = made("fat_tree", 8, gpus=1, hosts_per_leaf=2, leaves_per_pod=2, core_oversubscription=over)
    between = [(k, (k + 4) % 8) for k in range(8)]
    within = [(k, 4 * (k // 4) + (k + 2) % 4) for k in range(8)]
    assert seconds(tree, between) == pytest.approx(over * NBYTES / RATE, rel=1e-3)
    assert seconds(tree, within) == ALONE_S


def test_leaves_share_their_uplinks() -> None:
    """Two leaves of two hosts of a GPU, two to one: what crosses both uplinks halves, what stays in a leaf does not."""
    platform = made("two_level", 4, gpus=1, hosts_per_leaf=2, oversubscription=2.0)
    assert seconds(platform, [(0, 2), (1, 3)]) == TWICE_S
    assert seconds(platform, [(0, 2), (3, 1)]) == ALONE_S
    assert seconds(platform, [(0, 1), (1, 0)]) == ALONE_S


def test_rails_share_nothing_and_meet_in_the_spine() -> None:
    """Four hosts of two GPUs, two to a leaf of each rail; eight to one above the leaves.

    ::

        rail 0: cuda:0, cuda:2 ── leaf 0 ── spine ── leaf 1 ── cuda:4, cuda:6
        rail 1: cuda:1, cuda:3 ── leaf 0 ── spine ── leaf 1 ── cuda:5, cuda:7
    """
    rails = made("rail_optimised", 4, hosts_per_leaf=2, oversubscription=8.0)
    assert seconds(rails, [(0, 2), (1, 3)]) == ALONE_S
    crossing = rails.link("cuda:0", "cuda:3")
    assert crossing.crosses == ("host0/nic0/out", "leaf0/rail0/up", "leaf0/rail1/down", "host1/nic1/in")
    assert seconds(rails, [(0, 4)]) == pytest.approx(4 * NBYTES / RATE, rel=1e-3)
    assert seconds(rails, [(0, 4), (1, 5)]) == pytest.approx(4 * NBYTES / RATE, rel=1e-3)
    assert seconds(rails, [(0, 4), (2, 6)]) == pytest.approx(8 * NBYTES / RATE, rel=1e-3)


def test_network_copies_leave_a_gpus_engine_free() -> None:
    """A copy inside the host does not wait for one to another host, nor the other way round."""
    assert seconds(made("two_level", 2), [(0, 2), (0, 1)]) == ALONE_S


def test_every_host_is_like_the_one_described() -> None:
    platform = made("two_level", 3)
    assert [d.name for d in platform.devices] == ["cpu", *(f"cuda:{k}" for k in range(6))]
    assert [platform.device(f"cuda:{k}").host for k in range(6)] == [f"host{k // 2}" for k in range(6)]
    inside = platform.link("cuda:4", "cuda:5")
    assert inside == replace(
        host().link("cuda:0", "cuda:1"), source="cuda:4", target="cuda:5", crosses=("cuda:4/out", "cuda:5/in")
    )
    assert platform.link("cuda:4", "cuda:5") is inside
    assert platform.tables["cuda:5/out"].by == ("cuda:5/out", "cuda:5/in")
    assert platform.link("cpu", "cuda:1").crosses == ("cuda:1/h2d", "host/h2d")


def test_what_is_not_joined() -> None:
    platform = made("two_level", 2)
    with pytest.raises(PlatformError, match=r"no link from 'cpu' to 'cuda:2' .*: hosts but the first have no CPU"):
        platform.link("cpu", "cuda:2")
    with pytest.raises(PlatformError, match="no device 'cuda:4'"):
        platform.link("cuda:0", "cuda:4")


@pytest.mark.parametrize("maker", MAKERS)
def test_files_are_short_and_exact(maker: Any, tmp_path: Path) -> None:
    platform = maker(hosts=128)
    path = tmp_path / "many.json"
    platform.save(path)
    assert Platform.load(path) == platform
    assert Platform.load(path).digest() == platform.digest()
    bare = platform.to_dict() | {"costs": {}, "provenance": {}}
    assert len(json.dumps(bare)) < 200_000
    assert bare["devices"] == bare["links"] == []
    assert not bare["capacities"]


def test_what_was_changed_by_hand_is_in_the_file() -> None:
    platform = made("two_level", 2)
    slower = replace(platform.device("cuda:3"), bytes_per_s=1.0)
    changed = replace(
        platform,
        devices=(*platform.devices[:-1], slower),
        links=(Link("cuda:0", "cuda:3", "network", 0.0, 7.0),),
        capacities={**platform.capacities, "leaf0/up": 3.0},
    )
    read = Platform.from_dict(changed.to_dict())
    assert read == changed
    assert read.link("cuda:0", "cuda:3").bandwidth_bytes_per_s == 7.0


def test_predictions_say_what_they_are_for() -> None:
    (note,) = made("fat_tree", 2, core_oversubscription=2.0).notes
    assert note.endswith(
        "fat-tree network of 2 hosts, 2 accelerators and 2 NICs of 1e-07 GB/s each, core oversubscription 2"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hosts": 0}, "hosts is 0: a whole number above 0"),
        ({"hosts": 2.5}, "hosts is 2.5: a whole number above 0"),
        ({"gpus": 0}, "gpus is 0: a whole number above 0"),
        ({"gpus": True}, "gpus is True: a whole number above 0"),
        ({"nics": 3}, "3 NICs do not serve 2 accelerators of a host evenly: choose a divisor"),
        ({"nics": 0}, "nics is 0: a whole number above 0"),
        ({"nic_bytes_per_s": -1.0}, "nic_bytes_per_s is -1.0: it must be above 0"),
        ({"nic_bytes_per_s": float("nan")}, "nic_bytes_per_s is nan: a finite number"),
        ({"nic_latency_s": -1e-6}, "nic_latency_s is -1e-06: it must be at least 0"),
        ({"switch_latency_s": float("inf")}, "switch_latency_s is inf: a finite number"),
        ({"hosts_per_leaf": 0}, "hosts_per_leaf is 0: a whole number above 0"),
        ({"leaves_per_pod": -1}, "leaves_per_pod is -1: a whole number above 0"),
        ({"oversubscription": 0.5}, "oversubscription is 0.5: at least 1"),
        ({"core_oversubscription": 0}, "core_oversubscription is 0: at least 1"),
        ({"host": "h200-x4"}, "host is 'h200-x4': a platform is needed, as gs.Platform.load"),
    ],
)
def test_a_wrong_description_is_refused(wrong: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"hosts": 2, "gpus": 2, "host": host()} | wrong
    with pytest.raises(PlatformError, match=message):
        topologies.fat_tree(**given)


def test_a_network_of_networks_is_refused() -> None:
    with pytest.raises(PlatformError, match="has several hosts: describe one"):
        topologies.two_level(hosts=2, host=made("two_level", 2), gpus=4)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.scaled(2),
        lambda p: p.with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=1.0),
        lambda p: p.without_link("cuda:0", "cuda:1"),
        lambda p: p.without_peer_links(),
        lambda p: p.with_rates("peer", 2.0),
    ],
)
def test_links_that_are_made_are_changed_in_the_description(change: Any) -> None:
    with pytest.raises(PlatformError, match="makes its links from a description: change that, or its host"):
        change(made("two_level", 2))


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda f: f.pop("nics"), FileFormatError, "look at nics"),
        (lambda f: f.update(colour="red"), FileFormatError, "look at colour"),
        (lambda f: f.pop("host"), FileFormatError, "'fabric' must be an object that has a 'host'"),
        (lambda f: f.update(topology="torus"), PlatformError, "topology is 'torus': one of two_level"),
        (lambda f: f.update(hosts="many"), PlatformError, "hosts is 'many'"),
        (lambda f: f["host"].pop("links"), FileFormatError, "it lacks 'links'"),
    ],
)
def test_a_damaged_file_is_refused(damage: Any, error: type[GraphschedError], message: str) -> None:
    data = json.loads(json.dumps(made("two_level", 2).to_dict()))
    damage(data["fabric"])
    with pytest.raises(error, match=message):
        Platform.from_dict(data)
