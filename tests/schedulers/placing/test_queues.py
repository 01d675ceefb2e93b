"""Which copies wait for each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.platform import Device, Link, Platform, topologies
from graphsched.schedulers.placing.queues import Queues, first_ride, take
from graphsched.schedulers.placing.slots import Slots

HOSTS = {"cuda:0/h2d": 1.0, "cuda:1/h2d": 1.0}


def desk(host: float = 2.0, engines: int = 1) -> Platform:
    """A CPU and two GPUs: a byte a second on each way, a bus of `host` bytes a second for all that leaves the CPU."""
    gpus = [f"cuda:{k}" for k in range(2)]
    links = [Link("cpu", gpu, kind, 0.0, 1.0, (f"{gpu}/h2d", "bus")) for gpu in gpus for kind in ("pinned", "pageable")]
    links += [Link(a, b, "peer", 0.0, 1.0) for a, b in (gpus, gpus[::-1])]
    devices = (Device("cpu", "cpu"), *(Device(gpu, "cuda", peer_engines=engines) for gpu in gpus))
    return Platform("desk", devices, tuple(links), HOSTS | {"bus": host})


def test_a_direction_between_host_and_gpu_is_one_queue() -> None:
    """Whatever host memory is copied from; the other GPU's is another."""
    queues = Queues(desk())
    pinned, pageable = (queues.way("cpu", "cuda:0", memory) for memory in ("pinned", "pageable"))
    assert pinned.queue is pageable.queue
    assert queues.way("cpu", "cuda:1", "pinned").queue is not pinned.queue


@pytest.mark.parametrize(("engines", "one_queue", "shares"), [(0, False, 0), (1, True, 0), (2, False, 1)])
def test_the_one_engine_of_a_gpu_is_the_queue_of_all_its_copies(engines: int, one_queue: bool, shares: int) -> None:
    """Several engines are shared by queues of their own, any number by none."""
    platform = desk(engines=engines)
    third = Link("cuda:0", "cuda:2", "peer", 0.0, 1.0)
    platform = replace(platform, devices=(*platform.devices, Device("cuda:2", "cuda")), links=(*platform.links, third))
    queues = Queues(platform)
    ways = [queues.way("cuda:0", target, "pinned") for target in ("cuda:1", "cuda:2")]
    assert (ways[0].queue is ways[1].queue) == one_queue
    assert [len(way.shares) for way in ways] == [shares] * 2


@pytest.mark.parametrize(("host", "end_s"), [(2.0, 4), (1.0, 8)])
def test_only_a_capacity_that_is_too_small_is_shared(host: float, end_s: float) -> None:
    """Four bytes to each GPU: side by side where the bus has room for both, else one after the other."""
    queues = Queues(desk(host))
    ways = [queues.way("cpu", f"cuda:{k}", "pinned") for k in range(2)]
    assert [len(way.shares) for way in ways] == [int(host < 2.0)] * 2
    assert [take(first_ride(way, 4, 4.0, 0.0)) for way in ways][1] == end_s


def test_a_copy_on_a_compute_lane_holds_the_engine_too() -> None:
    """The lane is free, the engine is not until 5."""
    queues, lane = Queues(desk()), Slots()
    take(first_ride(queues.way("cuda:0", "cuda:1", "pinned"), 5, 5.0, 0.0))
    assert take(first_ride(queues.way("cuda:0", "cuda:1", "pinned", lane), 2, 2.0, 0.0)) == 7
    assert lane.idle_s == 7


def test_all_capacities_of_a_fabric_count() -> None:
    """Its links are not listed, so nobody knows how many cross one."""
    platform = topologies.two_level(hosts=2, host=Platform.load("h200-x4"))
    hosts = [d for d in platform.devices if d.kind == "cuda"]
    way = Queues(platform).way(hosts[0].name, hosts[-1].name, "pinned")
    assert len(way.shares) == len(platform.link(hosts[0].name, hosts[-1].name, "pinned").crosses) > 0
