"""Platforms derived from others: another link, no peer access, faster or slower buses.

Each function returns a new platform whose provenance lists what was changed (``derived``), so that predictions
made with it can say so. Capacities named after a device (``cuda:0/h2d``: an engine, a port) are its own and
change with its links; all others (``host/h2d``) are shared and stay unless a factor for them is given.

Not modelled: what another bus would change beyond rates: latencies stay unless given, and so do dispatch costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.errors import PlatformError
from graphsched.platform.capacity import SLACK, CapacityTable, rate_alone
from graphsched.platform.checks import check_number
from graphsched.platform.dispatch import BLOCKING_BYTES, Dispatch
from graphsched.platform.links import SHORTEST_S, Ends, new_link, rescaled, staged_link, usual_memory
from graphsched.platform.parts import Link, LinkMemory

if TYPE_CHECKING:
    from graphsched.platform.host import Platform

BLOCKING: dict[str, tuple[str, str, LinkMemory]] = {
    "blocking_in_s": ("cpu", "", "pageable"),
    "blocking_out_s": ("", "cpu", "pageable"),
    "fresh_out_s": ("", "cpu", "fresh"),
}
"""Fields of `Dispatch` and the links that are in them; without a name: the first GPU."""


def check_listed(platform: Platform) -> None:
    """Make sure that all links of `platform` are listed, none made from the description of a network.

    Raises:
        PlatformError: Some are made.
    """
    if platform.fabric is not None:
        raise PlatformError(
            f"platform {platform.name!r} makes its links from a description: change that, or its host, instead "
            "(gs.topologies.two_level(hosts=2, host=gs.Platform.load('h200-x4').with_rates('peer', 2.0)))"
        )


def with_link(
    platform: Platform,
    source: str,
    target: str,
    *,
    memory: LinkMemory | None = None,
    bandwidth_bytes_per_s: float | None = None,
    latency_s: float | None = None,
    both_ways: bool = True,
) -> Platform:
    """`platform` with a link changed, or a new one; see `Platform.with_link`."""
    check_listed(platform)
    kind = memory or usual_memory(platform, source, target)
    links = {(k.source, k.target, k.memory): k for k in platform.links}
    capacities = dict(platform.capacities)
    for ends in _ways(source, target, both_ways):
        old = links.get((*ends, kind))
        if old is None:
            new = new_link(platform, ends, kind, bandwidth_bytes_per_s, latency_s)
        else:
            rate = old.bandwidth_bytes_per_s if bandwidth_bytes_per_s is None else bandwidth_bytes_per_s
            new = rescaled(old, rate, latency_s)
            capacities = _own_scaled(platform, capacities, old, new)
        if kind == "peer":
            links.pop((*ends, "staged"), None)
        links[(*ends, kind)] = new
        if bandwidth_bytes_per_s is not None:
            capacities = raised(platform, capacities, new)
    step = f"{_arrow(source, target, both_ways)} ({kind}){_figures(bandwidth_bytes_per_s, latency_s)}"
    found = derive(platform, step, links=_following(platform, links.values(), capacities), capacities=capacities)
    if source == target and kind == "pinned":  # what is given counts, and not what a run's yardstick said
        found = replace(found, dispatch=replace(found.dispatch, pinned_s=0.0))
    return found


def without_link(
    platform: Platform, source: str, target: str, *, memory: LinkMemory | None = None, both_ways: bool = True
) -> Platform:
    """`platform` without a link, accelerators then joined through the host; see `Platform.without_link`."""
    check_listed(platform)
    kind = memory or usual_memory(platform, source, target)
    gone = [(*ends, kind) for ends in _ways(source, target, both_ways)]
    there = {(k.source, k.target, k.memory) for k in platform.links}
    for a, b, _ in (key for key in gone if key not in there):
        raise PlatformError(f"platform {platform.name!r} has no link {a}>{b} ({kind}) to take away")
    links = [
        (staged_link(platform, k.source, k.target) if _between_accelerators(platform, k) else None)
        if (k.source, k.target, k.memory) in gone
        else k
        for k in platform.links
    ]
    step = f"{_arrow(source, target, both_ways)} ({kind}) taken away"
    return derive(platform, step, links=[k for k in links if k is not None])


def without_peer_links(platform: Platform) -> Platform:
    """`platform` whose accelerators reach each other only through the host; see `Platform.without_peer_links`."""
    check_listed(platform)
    if not any(k.memory == "peer" for k in platform.links):
        raise PlatformError(f"platform {platform.name!r} has no peer links to take away")
    links = [staged_link(platform, k.source, k.target) if k.memory == "peer" else k for k in platform.links]
    return derive(platform, "no peer links: copies staged through the host", links=links)


def with_rates(platform: Platform, memory: LinkMemory, factor: float, *, shared_factor: float = 1.0) -> Platform:
    """`platform` with all links of one kind `factor` times as fast; see `Platform.with_rates`."""
    check_listed(platform)
    check_number(factor, "factor", positive=True)
    check_number(shared_factor, "shared_factor", positive=True)
    chosen = [k for k in platform.links if k.memory == memory and not _by_lanes(k)]
    if not chosen:
        raise PlatformError(f"platform {platform.name!r} has no {memory} links")
    crossed = {name for k in chosen for name in k.crosses}
    own = {name for name in crossed if owner(platform, name)}
    capacities = {
        name: rate * (factor if name in own else shared_factor if name in crossed else 1.0)
        for name, rate in platform.capacities.items()
    }
    links = [rescaled(k, k.bandwidth_bytes_per_s * factor) if k in chosen else k for k in platform.links]
    shared = "" if shared_factor == 1.0 else f", what they share ×{shared_factor:g}"
    held = _held(platform, [k for k in links if k.memory == memory], capacities)
    step = f"{memory} links ×{factor:g}{shared}{held}"
    return derive(platform, step, links=_following(platform, links, capacities), capacities=capacities)


def _by_lanes(link: Link) -> bool:
    """Whether no engine copies over `link`: the way of CPU lanes into pinned memory."""
    return link.memory == "pinned" and link.source == link.target


def capped(platform: Platform, links: Iterable[Link], capacities: Mapping[str, float]) -> list[Link]:
    """No link faster, by more than `SLACK`, than what it gets alone of all that it crosses."""
    links = list(links)
    least = _too_fast(platform, links, capacities)
    return [rescaled(k, least[i][0]) if i in least else k for i, k in enumerate(links)]


def _too_fast(
    platform: Platform, links: Sequence[Link], capacities: Mapping[str, float]
) -> dict[int, tuple[float, str]]:
    """By number, links that are faster than what they get alone: of which capacity they get least, and how much."""
    tables = following(platform, capacities)
    rates = {i: [(rate_alone(k.crosses, n, capacities, tables), n) for n in k.crosses] for i, k in enumerate(links)}
    least = {i: min(found) for i, found in rates.items() if found}
    return {i: found for i, found in least.items() if links[i].bandwidth_bytes_per_s > found[0] * (1 + SLACK)}


def _held(platform: Platform, links: Sequence[Link], capacities: Mapping[str, float]) -> str:
    """What keeps links from the rate that they were to have, in words."""
    found: dict[str, float] = {}
    for rate, name in _too_fast(platform, links, capacities).values():
        found[name] = min(rate, found.get(name, rate))
    by = " and ".join(f"{rate / 1e9:.3g} GB/s by {name}" for name, rate in found.items())
    return f", held at {by}: give a larger shared_factor" if found else ""


def _ways(source: str, target: str, both_ways: bool) -> list[Ends]:
    there = [(source, target)]
    return [*there, (target, source)] if both_ways and source != target else there


def _between_accelerators(platform: Platform, link: Link) -> bool:
    ends = platform.device(link.source), platform.device(link.target)
    return link.source != link.target and all(d.is_accelerator for d in ends)


def _following(platform: Platform, links: Iterable[Link], capacities: Mapping[str, float]) -> list[Link]:
    """`links`, capped, those staged through the host changed as the two pinned ones that they go over have been.

    These are capped first: a copy in two halves gains what its halves gain, not what a shared capacity keeps from them.
    """
    links = list(links)
    before, after = _pinned(platform.links), _pinned(capped(platform, links, capacities))
    return capped(platform, [_restaged(k, before, after) if k.memory == "staged" else k for k in links], capacities)


def _pinned(links: Iterable[Link]) -> dict[Ends, Link]:
    return {(k.source, k.target): k for k in links if k.memory == "pinned"}


def _restaged(link: Link, before: Mapping[Ends, Link], after: Mapping[Ends, Link]) -> Link:
    """A staged link as many times as fast as its halves are one after the other, and as much later as they are."""
    halves = [ends for ends in ((link.source, "cpu"), ("cpu", link.target)) if ends in before and ends in after]
    if all(before[ends] == after[ends] for ends in halves):
        return link
    old_s, new_s = (sum(1 / known[ends].bandwidth_bytes_per_s for ends in halves) for known in (before, after))
    later_s = sum(after[ends].latency_s - before[ends].latency_s for ends in halves)
    return rescaled(link, link.bandwidth_bytes_per_s * (old_s / new_s), max(0.0, link.latency_s + later_s))


# -- capacities -----------------------------------------------------------------------------------


def following(platform: Platform, capacities: Mapping[str, float]) -> dict[str, CapacityTable]:
    """The platform's tables, each as much larger as its capacity is in `capacities`."""
    return {name: table.scaled(capacities[name] / platform.capacities[name]) for name, table in platform.tables.items()}


def owner(platform: Platform, capacity: str) -> str | None:
    """The device that a capacity is named after (``cuda:0/h2d``), if any."""
    name = capacity.partition("/")[0]
    return name if any(d.name == name and d.is_accelerator for d in platform.devices) else None


def raised(platform: Platform, capacities: dict[str, float], link: Link) -> dict[str, float]:
    """Capacities that let `link` through while it is alone; under other loads they are as many times larger."""
    rate, tables, found = link.bandwidth_bytes_per_s, following(platform, capacities), dict(capacities)
    for name in link.crosses:
        alone = rate_alone(link.crosses, name, capacities, tables)
        if alone < rate:
            found[name] = max(rate, capacities[name] * (rate / alone))
    return found


def _own_scaled(platform: Platform, capacities: dict[str, float], old: Link, new: Link) -> dict[str, float]:
    """Engines and ports that serve this pair of devices alone are as much faster as its fastest link is."""
    if old.memory not in ("pinned", "peer"):
        return capacities
    ends = {old.source, old.target}
    others = [k for k in platform.links if {k.source, k.target} != ends and k.memory != "staged"]
    used = {name for k in others for name in k.crosses}
    factor = new.bandwidth_bytes_per_s / old.bandwidth_bytes_per_s
    own = [name for name in old.crosses if name not in used and owner(platform, name)]
    return capacities | {name: capacities[name] * factor for name in own}


# -- provenance -----------------------------------------------------------------------------------


def notes(platform: Platform) -> tuple[str, ...]:
    """What a reader of figures predicted for `platform` must know.

    Example:
        >>> from graphsched.platform import Device, Platform
        >>> host = Platform("desk", (Device("cpu", "cpu"), Device("cuda:0", "cuda")))
        >>> notes(host), notes(host.scaled(1))
        ((), ('figures of a derived platform: 1 accelerators in place of 1',))
    """
    steps = platform.provenance.get("derived", ())
    return (f"figures of a derived platform: {'; '.join(steps)}",) if steps else ()


def derive(
    platform: Platform,
    step: str,
    *,
    links: Iterable[Link],
    capacities: Mapping[str, float] | None = None,
    spread: Mapping[str, float | None] | None = None,
) -> Platform:
    """The new platform: its name ends in ``-derived``, its provenance in `step`."""
    provenance = dict(platform.provenance)
    provenance["derived"] = [*provenance.get("derived", ()), step]
    if spread:
        known = {name: value for name, value in spread.items() if value is not None}
        provenance["spread"] = {**provenance.get("spread", {}), **known}
    capacities = platform.capacities if capacities is None else capacities
    links = tuple(links)
    return replace(
        platform,
        name=platform.name if platform.name.endswith("-derived") else f"{platform.name}-derived",
        links=links,
        capacities=capacities,
        dispatch=_blocked_as_long(platform, links),
        tables=following(platform, capacities),
        provenance=provenance,
    )


def _blocked_as_long(platform: Platform, links: Sequence[Link]) -> Dispatch:
    """Small copies that block were measured as a whole: what the links they took take longer now, they take longer."""
    gpu = next((device.name for device in platform.devices if device.kind == "cuda"), "")
    before, after = ({(k.source, k.target, k.memory): k for k in those} for those in (platform.links, links))
    known = {name: getattr(platform.dispatch, name) for name in BLOCKING}
    for name, (source, target, memory) in BLOCKING.items():
        key = (source or gpu, target or gpu, memory)
        if known[name] and key in before and key in after:
            more_s = after[key].duration_s(BLOCKING_BYTES) - before[key].duration_s(BLOCKING_BYTES)
            known[name] = max(SHORTEST_S, known[name] + more_s)
    return replace(platform.dispatch, **known)


def _arrow(source: str, target: str, both_ways: bool) -> str:
    return f"{source}{'<>' if both_ways and source != target else '>'}{target}"


def _figures(bandwidth_bytes_per_s: float | None, latency_s: float | None) -> str:
    rate = "" if bandwidth_bytes_per_s is None else f" {bandwidth_bytes_per_s / 1e9:g} GB/s"
    return rate + ("" if latency_s is None else f" {latency_s * 1e6:g} µs")
