"""Platforms of many hosts from a short description: `two_level`, `fat_tree`, `rail_optimised`.

Each host is like a measured one; what lies between hosts is given, by default as a data sheet has it: a NIC of 400
Gbit/s a GPU, 5 µs from memory to memory over two NICs, 0.3 µs a switch. Links are made when they are asked for, so that
a thousand GPUs, with a million pairs, are quick to make and short to save.

    >>> platform = fat_tree(hosts=128, core_oversubscription=2)
    >>> len(platform.accelerators()), platform.device("cuda:1023").host
    (1024, 'host127')
    >>> platform.link("cuda:0", "cuda:8").crosses
    ('host0/nic0/out', 'host1/nic0/in')

Source: of the defaults, NVIDIA ConnectX-7 and Quantum-2 data sheets (400 Gbit/s a port); latencies are round figures,
not measured. See `platform.fabric` for routes and for what is not modelled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.platform.fabric import Fabric, Topology, check_count
from graphsched.platform.host import Platform

__all__ = ["fat_tree", "rail_optimised", "two_level"]

HOST = "h200-x4"
NIC_BYTES_PER_S = 50e9
NIC_LATENCY_S = 5e-6
SWITCH_LATENCY_S = 3e-7


def two_level(
    *,
    hosts: int,
    gpus: int = 8,
    host: Platform | None = None,
    nics: int | None = None,
    nic_bytes_per_s: float = NIC_BYTES_PER_S,
    nic_latency_s: float = NIC_LATENCY_S,
    switch_latency_s: float = SWITCH_LATENCY_S,
    hosts_per_leaf: int = 4,
    oversubscription: float = 1.0,
) -> Platform:
    """Leaf switches, each with `hosts_per_leaf` hosts, that are all joined to the same spine switches.

    Args:
        hosts: How many.
        gpus: Accelerators of each.
        host: What each host is like; default ``h200-x4``. It is scaled to `gpus` accelerators.
        nics: Network cards of a host, which divide `gpus`; default one a GPU.
        nic_bytes_per_s: Rate of each, out and in.
        nic_latency_s, switch_latency_s: Of a copy of no bytes between hosts, and what each switch on its way adds.
        hosts_per_leaf: Hosts on one leaf switch.
        oversubscription: Rate of the NICs on a leaf over the rate of its uplinks.

    Raises:
        PlatformError: A number is out of range, or NICs do not divide GPUs.

    Example:
        >>> two_level(hosts=8, oversubscription=4).link("cuda:0", "cuda:32").crosses
        ('host0/nic0/out', 'leaf0/up', 'leaf1/down', 'host4/nic0/in')
    """
    return _platform("two_level", **locals())


def fat_tree(
    *,
    hosts: int,
    gpus: int = 8,
    host: Platform | None = None,
    nics: int | None = None,
    nic_bytes_per_s: float = NIC_BYTES_PER_S,
    nic_latency_s: float = NIC_LATENCY_S,
    switch_latency_s: float = SWITCH_LATENCY_S,
    hosts_per_leaf: int = 4,
    leaves_per_pod: int = 4,
    oversubscription: float = 1.0,
    core_oversubscription: float = 1.0,
) -> Platform:
    """Three levels of switches: leaves, pods of `leaves_per_pod` leaves, and a core that joins the pods.

    Args:
        hosts, gpus, host, nics, nic_bytes_per_s, nic_latency_s, switch_latency_s, hosts_per_leaf: As `two_level`.
        leaves_per_pod: Leaf switches of a pod.
        oversubscription: Rate of the NICs on a leaf over the rate of its uplinks.
        core_oversubscription: Rate of the leaves' uplinks in a pod over the rate of the pod's uplinks.

    Raises:
        PlatformError: A number is out of range, or NICs do not divide GPUs.

    Example:
        >>> fat_tree(hosts=32).link("cuda:0", "cuda:128").crosses
        ('host0/nic0/out', 'leaf0/up', 'pod0/up', 'pod1/down', 'leaf4/down', 'host16/nic0/in')
    """
    return _platform("fat_tree", **locals())


def rail_optimised(
    *,
    hosts: int,
    gpus: int = 8,
    host: Platform | None = None,
    nics: int | None = None,
    nic_bytes_per_s: float = NIC_BYTES_PER_S,
    nic_latency_s: float = NIC_LATENCY_S,
    switch_latency_s: float = SWITCH_LATENCY_S,
    hosts_per_leaf: int = 32,
    oversubscription: float = 1.0,
) -> Platform:
    """NIC r of every host is on leaf switch r of its `hosts_per_leaf` hosts: a rail. Rails meet in the spine.

    Args:
        hosts, gpus, host, nics, nic_bytes_per_s, nic_latency_s, switch_latency_s: As `two_level`.
        hosts_per_leaf: Hosts on the same leaf switches.
        oversubscription: Rate of the NICs on a leaf over the rate of its uplinks.

    Raises:
        PlatformError: A number is out of range, or NICs do not divide GPUs.

    Example:
        >>> rail_optimised(hosts=64).link("cuda:3", "cuda:259").crosses
        ('host0/nic3/out', 'leaf0/rail3/up', 'leaf1/rail3/down', 'host32/nic3/in')
    """
    return _platform("rail_optimised", **locals())


def _platform(
    topology: Topology, *, hosts: int, gpus: int, host: Platform | None, nics: int | None, **figures: Any
) -> Platform:
    check_count(hosts, "hosts")
    check_count(gpus, "gpus")
    like = Platform.load(HOST) if host is None else host
    if not isinstance(like, Platform):
        raise PlatformError(f"host is {like!r}: a platform is needed, as gs.Platform.load({HOST!r})")
    if like.fabric is not None:
        raise PlatformError(f"platform {like.name!r} has several hosts: describe one of them with host=")
    one = like if len(like.accelerators()) == gpus else like.scaled(gpus)
    bare = replace(one, costs=Costs(), provenance={})
    fabric = Fabric(topology, hosts=hosts, host=bare, nics=gpus if nics is None else nics, **figures)
    name = f"{like.name}-{topology.replace('_', '-')}-{hosts}x{gpus}"
    derived = [*one.provenance.get("derived", ()), str(fabric)]
    provenance = {**one.provenance, "derived": derived}
    return Platform.of_fabric(fabric, name=name, costs=one.costs, provenance=provenance)
