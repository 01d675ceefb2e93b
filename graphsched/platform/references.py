"""Names in a platform: each once, and of a device or capacity that there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from graphsched.errors import PlatformError

if TYPE_CHECKING:
    from graphsched.platform.host import Platform


def check_references(platform: Platform) -> None:
    """Make sure that no device or link is there twice, and that links and tables name what is there.

    Raises:
        PlatformError: They do not.
    """
    _check_distinct((d.name for d in platform.devices), f"platform {platform.name!r} has two devices")
    _check_distinct(map(str, platform.links), f"platform {platform.name!r} has two links")
    _check_links(platform)
    for name, table in platform.tables.items():
        for other in (name, *table.by):
            if other not in platform.capacities:
                raise PlatformError(f"the table of capacity {name!r} names {other!r}, which has no entry in capacities")


def _check_distinct(names: Iterable[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise PlatformError(f"{what} {twice[0]!r}: leave one out")


def _check_links(platform: Platform) -> None:
    names = dict.fromkeys(d.name for d in platform.devices)
    for link in platform.links:
        for end in (link.source, link.target):
            if end not in names:
                raise PlatformError(
                    f"link {link} leads to {end!r}, which is no device: {', '.join(names)}: add it, or leave out "
                    "the link"
                )
        for name in link.crosses:
            if name not in platform.capacities:
                raise PlatformError(f"link {link} crosses capacity {name!r}, which has no entry: add it")
