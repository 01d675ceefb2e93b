"""A platform of several hosts, of what was measured between them and of the one machine that they are made on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from experiments.hosts.measuring import Measured
from experiments.hosts.network import Network
from experiments.hosts.ranks import check_counts
from graphsched.platform import Device, Link, Platform
from graphsched.platform.consistency import reconciled

SWITCH, INSIDE = "switch", "inside"


def platform_of(here: Platform, network: Network, ranks: Sequence[int], found: Measured) -> Platform:
    """Hosts with so many workers each, numbered through, like the workers `here`.

    A copy between hosts takes part of what its source's card sends, of what its target's receives, of what each of them
    does both ways, and of what all cards carry together (``switch``); one between ranks of the same host takes part of
    what passes inside all hosts together (``inside``). The last three are bound by cores, which all hosts share.

    Raises:
        PlatformError: A host has no rank, or the machine has no workers.
    """
    check_counts(ranks, network.hosts)
    host_of = [h for h, count in enumerate(ranks) for _ in range(count)]
    wide = here.scaled(len(host_of))
    workers = dict(zip(wide.accelerators(), host_of, strict=True))
    devices = [_placed(device, workers) for device in wide.devices]
    links = [link for link in wide.links if not _between(link, workers)]
    links += [_link(a, b, workers, found) for a in workers for b in workers if a != b]
    made = replace(
        wide,
        name=f"hosts-{'-'.join(map(str, ranks))}-{network.bit_per_s / 1e9:g}gbit-{network.delay_s * 1e3:g}ms",
        devices=tuple(devices),
        links=tuple(links),
        capacities={**wide.capacities, **_capacities(network.hosts, found)},
        provenance={**here.provenance, "network": {"asked": asdict(network), "measured": _as_lists(asdict(found))}},
    )
    return reconciled(made)


def _as_lists(row: Mapping[str, Any]) -> dict[str, Any]:
    """As it is read from a file again."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def _placed(device: Device, workers: Mapping[str, int]) -> Device:
    return replace(device, host=f"host{workers.get(device.name, 0)}")


def _between(link: Link, workers: Mapping[str, int]) -> bool:
    return link.source != link.target and link.source in workers and link.target in workers


def _capacities(hosts: int, found: Measured) -> dict[str, float]:
    cards = {f"host{h}/nic0/out": found.out_of_one for h in range(hosts)}
    cards |= {f"host{h}/nic0/in": found.into_one for h in range(hosts)}
    cards |= {f"host{h}/nic0/both": found.both_ways for h in range(hosts)}
    inside = {INSIDE: found.in_hosts} if found.in_hosts else {}
    return (cards | {SWITCH: found.of_all} if hosts > 1 else {}) | inside


def _link(source: str, target: str, workers: Mapping[str, int], found: Measured) -> Link:
    a, b = workers[source], workers[target]
    seconds = found.in_host if a == b else found.between_hosts
    cards = f"host{a}/nic0", f"host{b}/nic0"
    between = (f"{cards[0]}/out", f"{cards[0]}/both", SWITCH, f"{cards[1]}/in", f"{cards[1]}/both")
    crosses = (INSIDE,) if a == b else between
    points: dict[str, Any] = {"sizes_bytes": found.sizes_bytes, "seconds": seconds}
    large_s = max(seconds[-1] - seconds[-2], seconds[-1] / 2)  # noise may make the smaller message as long
    rate = (found.sizes_bytes[-1] - found.sizes_bytes[-2]) / large_s
    return Link(source, target, "peer" if a == b else "network", seconds[0], rate, crosses, **points)
