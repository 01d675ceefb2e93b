"""A platform: devices, links, shared capacities, dispatch costs, and the costs kept with them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from graphsched.costs import Costs
from graphsched.errors import FileFormatError, PlatformError
from graphsched.files import read_json, write_text
from graphsched.platform.parts import Device, Dispatch, Link, check_number

SCHEMA = 1


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

    def __post_init__(self) -> None:
        names = [d.name for d in self.devices]
        _check_distinct(names, f"platform {self.name!r} has two devices")
        _check_distinct([str(k) for k in self.links], f"platform {self.name!r} has two links")
        check_number(self.cores, "cores", positive=True)
        for name, rate in self.capacities.items():
            check_number(rate, f"capacity {name!r}", positive=True)
        for link in self.links:
            for end in (link.source, link.target):
                if end not in names:
                    raise PlatformError(f"link {link} leads to {end!r}, which is no device: {', '.join(names)}")
            for name in link.crosses:
                if name not in self.capacities:
                    raise PlatformError(f"link {link} crosses capacity {name!r}, which has no entry")
        object.__setattr__(self, "_devices", {d.name: d for d in self.devices})
        object.__setattr__(self, "_links", {(k.source, k.target, k.memory): k for k in self.links})
        object.__setattr__(self, "_matching", {})

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
        for kind in (memory, "peer", "staged", "local", "pinned", "pageable"):
            found: Link | None = self._links.get((source, target, kind))  # type: ignore[attr-defined]
            if found is not None:
                return found
        self.device(source), self.device(target)
        raise PlatformError(
            f"no link from {source!r} to {target!r} on platform {self.name!r}: add a Link, or copy via cpu"
        )

    def accelerators(self, k: int | None = None) -> tuple[str, ...]:
        """Names of the first `k` accelerators (default all): GPUs, or workers where there are none.

        Raises:
            PlatformError: There are fewer.
        """
        names = tuple(d.name for d in self.devices if d.is_accelerator)
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
        """For JSON."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "devices": [asdict(d) for d in self.devices],
            "links": [asdict(k) for k in self.links],
            "capacities": dict(self.capacities),
            "dispatch": asdict(self.dispatch),
            "cores": self.cores,
            "costs": self.costs.to_dict(),
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Platform:
        """The platform of `to_dict`.

        Raises:
            FileFormatError: Another schema version, or entries are missing.
            PlatformError: Entries are negative, not finite or contradict each other.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
            raise FileFormatError(f"not a platform of schema {SCHEMA} (found {found!r}): measure the host again")
        try:
            return cls(
                name=data["name"],
                devices=tuple(Device(**d) for d in data["devices"]),
                links=tuple(_link(row) for row in data["links"]),
                capacities=dict(data["capacities"]),
                dispatch=Dispatch(**data["dispatch"]),
                cores=int(data["cores"]),
                costs=Costs.from_dict(data["costs"]),
                provenance=dict(data["provenance"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"not a platform: {type(error).__name__}: {error}") from error

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
            FileFormatError: The file is truncated or of another version.
        """
        shipped = resources.files("graphsched") / "platforms"
        files = [p.name for p in shipped.iterdir()] if shipped.is_dir() else []
        names = sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))
        path = Path(str(shipped / f"{name}.json")) if str(name) in names else Path(name)
        if not path.is_file():
            raise PlatformError(
                f"no platform {str(name)!r}: a JSON file, or one of {', '.join(names) or '(none shipped)'}"
            )
        content = read_json(path)
        try:
            return cls.from_dict(content)
        except FileFormatError as error:
            raise FileFormatError(f"{path}: {error}") from error


def _link(row: Mapping[str, Any]) -> Link:
    columns: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    return Link(**columns)


def _check_distinct(names: list[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise PlatformError(f"{what} {twice[0]!r}: leave one out")
