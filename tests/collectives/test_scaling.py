"""Sums over many hosts: closed forms, and figures against whole plans simulated event by event."""

from __future__ import annotations

from typing import Any

import pytest

from graphsched.collectives.scaling import WAYS, simulated_s, sum_time
from graphsched.collectives.scaling.costs import together_s, waits_of
from graphsched.collectives.scaling.exchange import exchange_s, sharded_s
from graphsched.collectives.scaling.full import _by_trees
from graphsched.collectives.scaling.rings import rings_s
from graphsched.errors import PlatformError, WorkloadError
from graphsched.estimates import LAUNCH_S
from graphsched.platform import Device, Dispatch, Link, Platform, topologies
from graphsched.schedulers import schedule
from graphsched.workload import TensorSpec, Workload

NIC, NVLINK, MEMORY = 50e9, 400e9, 4e12
WAIT_S, KERNEL_S = 4e-6, LAUNCH_S["cuda"]


def host(gpus: int) -> Platform:
    """A host whose GPUs have ports of `NVLINK` bytes per second each way, and no latency between them."""
    names = [f"cuda:{i}" for i in range(gpus)]
    links = [Link(a, b, "peer", 0.0, NVLINK, (f"{a}/out", f"{b}/in")) for a in names for b in names if a != b]
    devices = (Device("cpu", "cpu"), *(Device(name, "cuda", bytes_per_s=MEMORY) for name in names))
    dispatch = Dispatch(peer_edge_s=WAIT_S, other_device_s=WAIT_S)
    capacities = {f"{name}/{way}": NVLINK for name in names for way in ("out", "in")}
    return Platform("hand", devices, tuple(links), capacities, dispatch)


def many(topology: str, hosts: int, gpus: int = 4, **more: Any) -> Platform:
    """Such hosts, joined."""
    made: Platform = getattr(topologies, topology)(hosts=hosts, gpus=gpus, host=host(gpus), **more)
    return made


def test_a_ring_of_hosts_of_one_gpu_is_its_closed_form() -> None:
    """Every hop: wait, copy of a block, and on the way up another wait and a sum; at the end all blocks are joined."""
    k, nbytes, alpha = 8, 8 * 2**20, 3e-6
    platform = many("two_level", k, gpus=1, hosts_per_leaf=k, nic_latency_s=alpha, switch_latency_s=0.0)
    block = nbytes / k
    copy_s, sum_s = alpha + block / NIC, KERNEL_S + 3 * block / MEMORY
    expected = (k - 1) * (2 * WAIT_S + copy_s + sum_s) + (k - 1) * (WAIT_S + copy_s) + WAIT_S
    assert rings_s(platform, [platform.accelerators()], nbytes) == pytest.approx(expected, rel=1e-9)
    far = many("two_level", k, gpus=1, hosts_per_leaf=k, nic_latency_s=alpha + 1e-3, switch_latency_s=0.0)
    longer = rings_s(far, [far.accelerators()], nbytes) - expected
    assert longer == pytest.approx(2 * (k - 1) * 1e-3, rel=1e-9)


def test_shares_take_what_leaves_a_network_card() -> None:
    """Four hosts of four GPUs with a card each: a GPU sends its block to the 12 GPUs of other hosts."""
    nbytes = 2**24
    platform = many("two_level", 4, nic_latency_s=0.0, switch_latency_s=0.0)
    assert exchange_s(platform, platform.accelerators(), nbytes) == pytest.approx(12 * nbytes / NIC, rel=1e-6)
    one_card = many("two_level", 4, nics=1, nic_latency_s=0.0, switch_latency_s=0.0)
    assert exchange_s(one_card, one_card.accelerators(), nbytes) == pytest.approx(4 * 12 * nbytes / NIC, rel=1e-6)


@pytest.mark.parametrize(
    ("topology", "name"), [("two_level", "oversubscription"), ("fat_tree", "core_oversubscription")]
)
def test_shares_over_oversubscribed_switches(topology: str, name: str) -> None:
    """Eight hosts of four GPUs, two a leaf, two leaves a pod: bytes that leave a leaf or pod, over its uplinks."""
    more: dict[str, Any] = {"leaves_per_pod": 2} if topology == "fat_tree" else {}
    nbytes, gpus_under = 2**24, 16 if topology == "fat_tree" else 8
    more |= {name: 4.0, "hosts_per_leaf": 2, "nic_latency_s": 0.0, "switch_latency_s": 0.0}
    platform = many(topology, 8, **more)
    expected = (32 - gpus_under) * nbytes / (NIC / 4)
    assert exchange_s(platform, platform.accelerators(), nbytes) == pytest.approx(expected, rel=1e-6)


def test_copies_together_share_what_they_cross() -> None:
    """Both GPUs of a host send through its one card; a third copy goes the other way."""
    platform = many("two_level", 2, gpus=2, nics=1, nic_latency_s=0.0, switch_latency_s=0.0)
    pairs = [("cuda:0", "cuda:2"), ("cuda:1", "cuda:3"), ("cuda:2", "cuda:0")]
    assert together_s(platform, pairs, 10**9) == pytest.approx([0.04, 0.04, 0.02], rel=1e-9)


@pytest.mark.parametrize("topology", ["two_level", "fat_tree", "rail_optimised"])
@pytest.mark.parametrize("way", WAYS)
def test_figures_are_those_of_whole_plans(way: str, topology: str) -> None:
    """Four hosts of four GPUs, two hosts a leaf, two to one above."""
    over = "core_oversubscription" if topology == "fat_tree" else "oversubscription"
    platform = many(topology, 4, hosts_per_leaf=2, **{over: 2.0})
    members = platform.accelerators()
    for nbytes in (2**16, 2**24):
        found = sum_time(platform, way, 16, nbytes).seconds
        assert found == pytest.approx(simulated_s(platform, members, nbytes, way), rel=0.01)


@pytest.mark.parametrize(
    ("way", "hosts", "gpus"), [("tree", 4, 3), ("tree", 3, 5), ("hierarchical", 4, 3), ("rails", 3, 5)]
)
def test_stages_of_hosts_of_any_size_are_those_of_whole_plans(way: str, hosts: int, gpus: int) -> None:
    platform = many("two_level", hosts, gpus=gpus)
    nbytes = 4 * 2**20 * hosts * gpus
    found = sum_time(platform, way, hosts * gpus, nbytes).seconds
    assert found == pytest.approx(simulated_s(platform, platform.accelerators(), nbytes, way), rel=0.005)


@pytest.mark.parametrize("way", ["tree", "hierarchical"])
def test_hosts_of_one_gpu_have_no_stages(way: str) -> None:
    platform = many("two_level", 5, gpus=1)
    found = sum_time(platform, way, 5, 5 * 2**16).seconds
    assert found == pytest.approx(simulated_s(platform, platform.accelerators(), 5 * 2**16, way), rel=0.01)


def test_a_tree_crosses_the_network_between_first_gpus_alone() -> None:
    """Three hosts of three: in each the first sums, cuda:0 all of these; every GPU gets a copy of that."""
    platform = many("two_level", 3, gpus=3)
    work = Workload()
    values = [work.input(f"x{k}", TensorSpec((4,)), device=f"cuda:{k}") for k in range(9)]
    work.keep(*_by_trees(work, values, platform))
    copies = schedule(work, platform, scheduler="one_stream").copies.values()
    across = {(c.source, c.target) for c in copies if platform.device(c.source).host != platform.device(c.target).host}
    assert len(copies) == 2 * 8
    assert across == {("cuda:3", "cuda:0"), ("cuda:6", "cuda:0"), ("cuda:0", "cuda:3"), ("cuda:0", "cuda:6")}


@pytest.mark.parametrize("way", WAYS)
def test_measured_hosts_and_odd_bytes(way: str) -> None:
    """Two hosts like the shipped one, whose ports have tables: within two per cent, where blocks are unequal too."""
    platform = topologies.rail_optimised(hosts=2)
    found = sum_time(platform, way, 16, 11_175_820).seconds
    assert found == pytest.approx(simulated_s(platform, platform.accelerators(), 11_175_820, way), rel=0.02)


def test_a_ring_of_many_hosts_against_its_whole_plan() -> None:
    platform = topologies.fat_tree(hosts=8, hosts_per_leaf=2, leaves_per_pod=2, core_oversubscription=4)
    found = sum_time(platform, "ring", 64, 2**23).seconds
    assert found == pytest.approx(simulated_s(platform, platform.accelerators(), 2**23, "ring"), rel=0.01)


@pytest.mark.parametrize("way", WAYS)
def test_latency_is_what_no_bytes_take(way: str) -> None:
    """More bytes change the time, not the latency; the part of a ring's latency grows with its hops."""
    platform = many("two_level", 8)
    small, large = (sum_time(platform, way, 32, nbytes) for nbytes in (2**16, 2**26))
    assert small.latency_s == large.latency_s
    assert small.latency_s <= small.seconds < large.seconds
    assert small.latency_s / small.seconds > 0.5 > large.latency_s / large.seconds


def test_copies_that_a_gpu_sends_at_once_may_follow_one_another() -> None:
    """With 1 ms from one to the next the last of 15 leaves after 14 ms, twice."""
    platform = many("two_level", 4)
    plain, spaced = (sharded_s(platform, platform.accelerators(), 2**16, issue_s) for issue_s in (0.0, 1e-3))
    assert spaced - plain == pytest.approx(2 * 14e-3, abs=1e-3)
    assert waits_of(platform).after_copy_s == WAIT_S


@pytest.mark.parametrize(
    ("way", "gpus", "nbytes", "error", "message"),
    [
        ("star", 8, 2**20, WorkloadError, "star"),
        ("ring", 6, 2**20, WorkloadError, "6 GPUs of hosts of 4: from 2 on, and all of each host"),
        ("ring", 1, 2**20, WorkloadError, "1 GPUs of hosts of 4"),
        ("ring", 8, float("nan"), WorkloadError, "nbytes is nan: a whole number of bytes is needed"),
        ("ring", 8, True, WorkloadError, "nbytes is True: a whole number"),
        ("ring", 8, 64, WorkloadError, "64 bytes over 8 GPUs: at least 128 are needed"),
        ("ring", 16, 2**20, PlatformError, "16 accelerators asked for"),
    ],
)
def test_wrong_requests(way: str, gpus: int, nbytes: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sum_time(many("two_level", 2), way, gpus, nbytes)


def test_one_host_alone_is_not_for_this() -> None:
    with pytest.raises(WorkloadError, match="'hand' is one host: make one of several"):
        sum_time(host(4), "ring", 4, 2**20)
