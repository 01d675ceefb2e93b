"""A platform: devices, links, shared capacities, dispatch costs, and the costs kept with them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.files import write_text
from graphsched.platform import derived, larger
from graphsched.platform.capacity import CapacityTable
from graphsched.platform.checks import check_count, check_number
from graphsched.platform.dispatch import Dispatch
from graphsched.platform.fabric import Fabric
from graphsched.platform.pace import Pace
from graphsched.platform.parts import Device, Link, LinkMemory
from graphsched.platform.references import check_references


@dataclass(frozen=True)
class Platform:
    """What a plan runs on, as measured or as written by hand.

    Attributes:
        name: Of the host or file.
        devices: Processors; ``cpu`` among them.
        links: Ways between their memories.
        capacities: Shared capacities in bytes per second (a copy engine, a port, a bus), by name.
        dispatch: Costs of issuing and waiting.
        cores: Hardware threads of the host, shared by all CPU lanes.
        costs: Costs of operations measured on it.
        provenance: Where the figures come from: driver, versions, date, spread.
        tables: Those of the capacities that depend on which links are busy; `capacities` has their highest rates.
        fabric: Many hosts from a short description (`platform.topologies`): makes the links that `links` does not
            list when they are asked for.

    Example:
        >>> cpu, gpu = Device("cpu", "cpu"), Device("cuda:0", "cuda", "NVIDIA H200")
        >>> here = Platform("desk", (cpu, gpu), (Link("cpu", "cuda:0", "pinned", 1e-5, 5e10),))
        >>> here.accelerators(1)
        ('cuda:0',)
        >>> Platform.from_dict(here.to_dict()) == here
        True
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    capacities: Mapping[str, float] = field(default_factory=dict)
    dispatch: Dispatch = field(default_factory=Dispatch)
    cores: int = 1
    costs: Costs = field(default_factory=Costs)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, CapacityTable] = field(default_factory=dict)
    fabric: Fabric | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "cores", check_count(self.cores, "cores"))
        for name, rate in self.capacities.items():
            check_number(rate, f"capacity {name!r}", positive=True)
        check_references(self)
        object.__setattr__(self, "_devices", {d.name: d for d in self.devices})
        object.__setattr__(self, "_links", {(k.source, k.target, k.memory): k for k in self.links})
        object.__setattr__(self, "_made", {})
        object.__setattr__(self, "_matching", {})

    def __str__(self) -> str:
        """Name, devices and numbers of links and costs; `to_dict` has all figures."""
        kinds = Counter(d.model or d.kind for d in self.devices)
        devices = ", ".join(f"{count} × {model}" for model, count in kinds.items())
        links = f"{len(self.links)} links" if self.fabric is None else str(self.fabric)
        return f"Platform {self.name}: {devices}; {links}; costs of {len(self.costs)} operations"

    def at(self, now: Pace) -> Platform:
        """This platform with a dispatching thread and CPU lanes at this pace, see `Dispatch.at`.

        Example:
            >>> Platform("here", (), dispatch=Dispatch(call_s=6e-6, run_s=1e-6)).at(Pace(9e-6)).dispatch.run_s
            1.5e-06
        """
        return replace(self, dispatch=self.dispatch.at(now)) if now != Pace() else self

    def device(self, name: str) -> Device:
        """The device of this name.

        Raises:
            PlatformError: There is none.
        """
        found: Device | None = self._devices.get(name)  # type: ignore[attr-defined]
        if found is None:
            raise PlatformError(
                f"no device {name!r} on platform {self.name!r}: it has {', '.join(d.name for d in self.devices)}"
            )
        return found

    def link(self, source: str, target: str, memory: str = "pinned") -> Link:
        """The link for a copy; `memory` names the host side's kind where there is a choice.

        Raises:
            PlatformError: There is no such link.
        """
        for kind in (memory, "peer", "staged", "local", "pinned", "pageable", "network"):
            found: Link | None = self._links.get((source, target, kind))  # type: ignore[attr-defined]
            if found is not None:
                return found
        if self.fabric is not None and (made := self._link_made(self.fabric, source, target, memory)) is not None:
            return made
        ends = self.device(source), self.device(target)
        instead = "add a Link, or copy via cpu" if all(end.is_accelerator for end in ends) else "add a Link"
        if self.fabric is not None:
            instead = "hosts but the first have no CPU there, so leave out what takes data to it or from it"
        if source == target:
            instead = "leave out the copy, for the data is there, or add a Link of memory 'local'"
        raise PlatformError(f"no link from {source!r} to {target!r} on platform {self.name!r}: {instead}")

    def _link_made(self, fabric: Fabric, source: str, target: str, memory: str) -> Link | None:
        """A link of the fabric, made once."""
        made: dict[tuple[str, str, str], Link | None] = self._made  # type: ignore[attr-defined]
        key = source, target, memory
        if key not in made:
            made[key] = fabric.link(*key)
        return made[key]

    def accelerators(self, k: int | None = None) -> tuple[str, ...]:
        """Names of the first `k` accelerators (default all): GPUs, or workers where there are none.

        Raises:
            PlatformError: There are fewer, or `k` is no whole number.
        """
        names = tuple(d.name for d in self.devices if d.is_accelerator)
        if isinstance(k, bool) or (k is not None and not hasattr(k, "__index__")):
            raise PlatformError(f"{k!r} accelerators asked for: a whole number is needed")
        if k is not None and not 0 <= k <= len(names):
            raise PlatformError(
                f"{k} accelerators asked for, platform {self.name!r} has {len(names)} ({', '.join(names) or 'none'})"
            )
        return names[:k]

    def matching(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """Devices named by `patterns` (names or kinds), accelerators first; all for no patterns.

        Raises:
            PlatformError: A pattern names no device or kind here.
        """
        found: dict[tuple[str, ...], tuple[str, ...]] = self._matching  # type: ignore[attr-defined]
        if patterns not in found:
            ordered = sorted(self.devices, key=lambda d: not d.is_accelerator)
            for pattern in patterns:
                if not any(pattern in (d.name, d.kind) for d in ordered):
                    self.device(pattern)
            found[patterns] = tuple(d.name for d in ordered if not patterns or d.name in patterns or d.kind in patterns)
        return found[patterns]

    # -- derived platforms ----------------------------------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of figures predicted for this platform must know: that it is derived, and how."""
        return derived.notes(self)

    def with_link(
        self,
        source: str,
        target: str,
        *,
        memory: LinkMemory | None = None,
        bandwidth_bytes_per_s: float | None = None,
        latency_s: float | None = None,
        both_ways: bool = True,
    ) -> Platform:
        """This platform with the link between two devices changed, or a new one.

        What is not given stays; measured points are stretched with the rate. The engines and ports that serve these
        two devices alone change with it; a shared capacity that would be too small for it alone is raised to its
        rate, and under other loads as many times. A peer link takes the place of one staged through the host; one that
        is staged over a pinned link changes with it.

        Args:
            source, target: Device names.
            memory: Kind of link; default ``pinned`` with the host, ``peer`` between accelerators, else ``local``.
            bandwidth_bytes_per_s, latency_s: Rate of a large transfer, time of one of no bytes.
            both_ways: Change the link back too.

        Raises:
            PlatformError: There is no such device; or no such link, and one of both figures is not given.

        Example:
            >>> Platform.load("h200-x2").with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=2e11).notes
            ('figures of a derived platform: cuda:0<>cuda:1 (peer) 200 GB/s',)
        """
        figures: Any = {"bandwidth_bytes_per_s": bandwidth_bytes_per_s, "latency_s": latency_s}
        return derived.with_link(self, source, target, memory=memory, both_ways=both_ways, **figures)

    def without_link(
        self, source: str, target: str, *, memory: LinkMemory | None = None, both_ways: bool = True
    ) -> Platform:
        """This platform without a link; two accelerators are then joined through the host's pinned memory.

        Raises:
            PlatformError: There is no such device or link, or no way through the host.
        """
        return derived.without_link(self, source, target, memory=memory, both_ways=both_ways)

    def without_peer_links(self) -> Platform:
        """This platform with no NVLink or other peer access: copies between accelerators are staged through the host.

        Raises:
            PlatformError: There are no peer links, or no way through the host.

        Example:
            >>> Platform.load("h200-x2").without_peer_links().link("cuda:0", "cuda:1").memory
            'staged'
        """
        return derived.without_peer_links(self)

    def with_rates(self, memory: LinkMemory, factor: float, *, shared_factor: float = 1.0) -> Platform:
        """This platform with all links of one kind `factor` times as fast, and the engines and ports that they use.

        ``with_rates("pinned", 0.5)`` is a PCIe generation back, ``with_rates("peer", 2.0)`` the next NVLink. Links of
        other kinds are at most as fast as what they cross, within 2 %. So are these: with a factor above 1 they gain no
        more than what they share has for one of them, as `notes` then say; a larger `shared_factor` lets them through.
        Links staged over pinned ones gain what these gain. The way of CPU lanes into pinned memory stays as it is.

        Args:
            memory: Kind of links: ``pinned``, ``peer``, …
            factor: On their rates.
            shared_factor: On capacities that they share and that are no device's own (``host/h2d``).

        Raises:
            PlatformError: There are no such links, or a factor is not above 0.

        Example:
            >>> old, slow = Platform.load("h200-x1"), Platform.load("h200-x1").with_rates("pinned", 0.5)
            >>> slow.link("cpu", "cuda:0").duration_s(10**9) / old.link("cpu", "cuda:0").duration_s(10**9)
            1.99...
        """
        return derived.with_rates(self, memory, factor, shared_factor=shared_factor)

    def scaled(self, gpus: int, *, shared_factor: float = 1.0) -> Platform:
        """This platform with `gpus` accelerators like those it has: their links, engines and ports are copied.

        A pair that is not there is like the pair of those that its two are like (the k-th like the k-th modulo the
        number that there is; two like one another as that one and the next). One accelerator alone had no pair: its
        copies reach each other through the host.

        Args:
            gpus: How many; fewer than there are keeps the first.
            shared_factor: On capacities that are no device's own (``host/h2d``); 1: the host stays as it is.

        Raises:
            PlatformError: `gpus` is no whole number from 1 to 256, or there is no accelerator. More are in
                `platform.topologies`.

        Example:
            >>> Platform.load("h200-x4").scaled(8).accelerators()[-1]
            'cuda:7'
        """
        return larger.scaled(self, gpus, shared_factor=shared_factor)

    def with_costs(self, costs: Costs) -> Platform:
        """This platform with `costs` added to those it carries."""
        return replace(self, costs=self.costs.merged(costs))

    def digest(self) -> str:
        """Hash of devices, links, capacities and dispatch costs."""
        data = self.to_dict()
        for key in ("costs", "provenance", "name"):
            data.pop(key)
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; of a platform with a fabric, only what that does not make."""
        from graphsched.platform.serial import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Platform:
        """The platform of `to_dict`.

        Raises:
            FileFormatError: Another schema version, or entries are missing.
            PlatformError: Entries are negative, not finite or contradict each other.
        """
        from graphsched.platform.serial import from_dict

        return from_dict(data)

    @classmethod
    def of_fabric(cls, fabric: Fabric, *, name: str = "", **more: Any) -> Platform:
        """The platform of a fabric; dispatch and cores are those of its host, `more` are further attributes.

        Example:
            >>> from graphsched.platform import topologies
            >>> made = topologies.two_level(hosts=16)
            >>> Platform.of_fabric(made.fabric).devices == made.devices
            True
        """
        host = fabric.host
        return cls(
            name,
            fabric.devices(),
            capacities=fabric.capacities(),
            dispatch=host.dispatch,
            cores=host.cores,
            tables=fabric.tables(),
            fabric=fabric,
            **more,
        )

    def save(self, path: str | Path) -> None:
        """Write the platform as JSON, whole or not at all.

        Raises:
            OutputError: The file cannot be written.
        """
        write_text(path, json.dumps(self.to_dict(), indent=1) + "\n")

    @classmethod
    def load(cls, name: str | Path) -> Platform:
        """The platform of a JSON file, or one shipped with the package (``h200-x4``).

        Raises:
            PlatformError: There is no such file or shipped platform.
            FileFormatError: The file is truncated or of another version, or an entry is missing.
            GraphschedError: An entry is negative, not finite or contradicts another; the message names the file.
        """
        from graphsched.platform.serial import load

        return load(name)
