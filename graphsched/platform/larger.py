"""A platform with more devices of the kind that it has, or with fewer.

Not modelled: ports of a device that had no peer to measure them with; more CPU cores or memory for more devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.errors import PlatformError
from graphsched.platform.capacity import CapacityTable
from graphsched.platform.checks import check_number
from graphsched.platform.derived import capped, check_listed, derive, owner
from graphsched.platform.links import Ends, staged_link
from graphsched.platform.parts import Link

if TYPE_CHECKING:
    from graphsched.platform.host import Platform

MOST = 256
"""Accelerators of a larger platform: links, one a pair and way, are made and checked in about three seconds."""


def scaled(platform: Platform, gpus: int, *, shared_factor: float = 1.0) -> Platform:
    """`platform` with `gpus` accelerators like those it has; see `Platform.scaled`."""
    check_listed(platform)
    check_number(shared_factor, "shared_factor", positive=True)
    names = platform.accelerators()
    if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 1:
        raise PlatformError(f"gpus is {gpus!r}: a whole number above 0 is needed")
    if gpus > MOST:
        raise PlatformError(
            f"gpus is {gpus}: at most {MOST}, as each pair has a link; for more give their hosts to gs.topologies"
        )
    if not names:
        raise PlatformError(f"platform {platform.name!r} has no accelerator to copy")
    wanted = [*names, *_fresh_names(platform, gpus - len(names))][:gpus]
    like = {name: names[i % len(names)] for i, name in enumerate(wanted)}
    others = [d for d in platform.devices if not d.is_accelerator]
    devices = [*others, *(replace(platform.device(like[name]), name=name) for name in wanted)]
    made = _scaled_links(platform, [d.name for d in others], like)
    capacities = _scaled_capacities(platform, like, shared_factor)
    tables = _scaled_tables(platform, like, capacities, shared_factor)
    base = replace(platform, devices=tuple(devices), links=(), capacities=capacities, tables=tables)
    staged = replace(base, links=tuple(k for k, _ in made))
    links = [k for k, _ in made] + [staged_link(staged, a, b) for a, b in _unlinked(wanted, made, platform)]
    shared = "" if shared_factor == 1.0 else f", shared capacities ×{shared_factor:g}"
    step = f"{gpus} accelerators in place of {len(names)}{shared}"
    spread = {str(k): platform.provenance.get("spread", {}).get(str(template)) for k, template in made}
    return derive(base, step, links=capped(base, links, capacities), spread=spread)


def _fresh_names(platform: Platform, count: int) -> list[str]:
    """Names of accelerators to add: the first one's, with the next free numbers."""
    stem = platform.accelerators()[0].partition(":")[0]
    taken = {d.name for d in platform.devices}
    found: list[str] = []
    number = 0
    while len(found) < count:
        if f"{stem}:{number}" not in taken:
            found.append(f"{stem}:{number}")
        number += 1
    return found


def _scaled_links(platform: Platform, others: list[str], like: Mapping[str, str]) -> list[tuple[Link, Link]]:
    """Links between the devices of the larger platform, each with the one that it is a copy of."""
    names = {name: name for name in others} | dict(like)
    by_ends: dict[Ends, list[Link]] = {}
    for link in platform.links:
        by_ends.setdefault((link.source, link.target), []).append(link)
    models, made = list(dict.fromkeys(like.values())), []
    for source in names:
        for target in names:
            ends = _template(names[source], names[target], source != target, models)
            if (ends[0] == ends[1]) != (source == target):
                continue  # there was one accelerator, and so no pair to copy
            for link in by_ends.get(ends, []):
                moved = {ends[0]: source, ends[1]: target}
                crosses = tuple(_renamed(name, moved) for name in link.crosses)
                made.append((replace(link, source=source, target=target, crosses=crosses), link))
    return made


def _template(source: str, target: str, differ: bool, accelerators: list[str]) -> Ends:
    """The pair to copy for a pair of devices like these; two like one another take that one and the next."""
    if source != target or not differ or source not in accelerators:
        return source, target
    following = accelerators[(accelerators.index(source) + 1) % len(accelerators)]
    return source, following


def _unlinked(wanted: list[str], made: list[tuple[Link, Link]], platform: Platform) -> list[Ends]:
    """Pairs of accelerators that are to be joined through the host: one alone had no pair to copy."""
    if len(platform.accelerators()) > 1:
        return []
    there = {(k.source, k.target) for k, _ in made if k.memory != "local"}
    return [(a, b) for a in wanted for b in wanted if a != b and (a, b) not in there]


def _scaled_capacities(platform: Platform, like: Mapping[str, str], shared_factor: float) -> dict[str, float]:
    found = {n: rate * shared_factor for n, rate in platform.capacities.items() if not owner(platform, n)}
    for name, model in like.items():
        own = {n: rate for n, rate in platform.capacities.items() if owner(platform, n) == model}
        found |= {_renamed(n, {model: name}): rate for n, rate in own.items()}
    return found


def _scaled_tables(
    platform: Platform, like: Mapping[str, str], capacities: Mapping[str, float], shared_factor: float
) -> dict[str, CapacityTable]:
    """Tables of what is shared, and for each device those of the one it is like; none that counts links now gone."""
    found = {n: table.scaled(shared_factor) for n, table in platform.tables.items() if not owner(platform, n)}
    for device, model in like.items():
        for name, table in platform.tables.items():
            if owner(platform, name) == model:
                by = tuple(_renamed(other, {model: device}) for other in table.by)
                found[_renamed(name, {model: device})] = replace(table, by=by)
    return {name: table for name, table in found.items() if set(table.by) <= set(capacities)}


def _renamed(capacity: str, moved: Mapping[str, str]) -> str:
    device, slash, rest = capacity.partition("/")
    return moved.get(device, device) + slash + rest
