"""Platforms as JSON objects and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from graphsched.costs import Costs
from graphsched.errors import FileFormatError, GraphschedError, PlatformError
from graphsched.files import read_json
from graphsched.platform.capacity import CapacityTable
from graphsched.platform.consistency import check_consistent
from graphsched.platform.dispatch import Dispatch
from graphsched.platform.fabric import Fabric
from graphsched.platform.host import Platform
from graphsched.platform.parts import Device, Link
from graphsched.platform.reading import check_entries, read_cores, read_name, read_part, read_parts, read_provenance

SCHEMA = 1
ENTRIES = ("name", "devices", "links", "capacities", "dispatch", "cores", "costs", "provenance")


def to_dict(platform: Platform) -> dict[str, Any]:
    """The object of `Platform.to_dict`."""
    devices, capacities, tables = platform.devices, platform.capacities, platform.tables
    if platform.fabric is not None:
        made = Platform.of_fabric(platform.fabric, name=platform.name)
        devices = tuple(d for d in devices if d not in set(made.devices))
        capacities = {name: rate for name, rate in capacities.items() if made.capacities.get(name) != rate}
        tables = {name: table for name, table in tables.items() if made.tables.get(name) != table}
    data = {
        "schema": SCHEMA,
        "name": platform.name,
        "devices": [asdict(d) for d in devices],
        "links": [asdict(k) for k in platform.links],
        "capacities": dict(capacities),
        "tables": {name: asdict(table) for name, table in tables.items()},
        "dispatch": asdict(platform.dispatch),
        "cores": platform.cores,
        "costs": platform.costs.to_dict(),
        "provenance": dict(platform.provenance),
    }
    return data if platform.fabric is None else data | {"fabric": platform.fabric.to_dict()}


def from_dict(data: Any) -> Platform:
    """The platform of `Platform.from_dict`."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise FileFormatError(f"not a platform of schema {SCHEMA} (found {found!r}): measure the host again")
    check_entries(data, ENTRIES)
    try:
        fabric = _read_fabric(data["fabric"]) if "fabric" in data else None
        made = Platform("", ()) if fabric is None else Platform.of_fabric(fabric)
        devices = {d.name: d for d in made.devices}
        read = read_parts(Device, data["devices"], "devices")
        tables = {name: CapacityTable.from_dict(row) for name, row in data.get("tables", {}).items()}
        return Platform(
            name=read_name(data["name"]),
            devices=tuple((devices | {d.name: d for d in read}).values()) if fabric is not None else read,
            links=read_parts(Link, data["links"], "links"),
            capacities={**made.capacities, **data["capacities"]},
            tables={**made.tables, **tables},
            fabric=fabric,
            dispatch=read_part(Dispatch, data["dispatch"], "dispatch"),
            cores=read_cores(data["cores"]),
            costs=Costs.from_dict(data["costs"]),
            provenance=read_provenance(data["provenance"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"not a platform: {type(error).__name__}: {error}") from error


def _read_fabric(row: Any) -> Fabric:
    if not isinstance(row, Mapping) or "host" not in row:
        raise FileFormatError("not a platform: 'fabric' must be an object that has a 'host'")
    return Fabric.read(row, from_dict(row["host"]))


def load(name: str | Path) -> Platform:
    """The platform of `Platform.load`."""
    shipped = resources.files("graphsched") / "platforms"
    files = [p.name for p in shipped.iterdir()] if shipped.is_dir() else []
    names = sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))
    path = Path(str(shipped / f"{name}.json")) if str(name) in names else Path(name)
    if not path.is_file():
        raise PlatformError(f"no platform {str(name)!r}: a JSON file, or one of {', '.join(names) or '(none shipped)'}")
    content = read_json(path)
    try:
        platform = from_dict(content)
        check_consistent(platform)
    except GraphschedError as error:
        raise type(error)(f"{path}: {error}") from error
    return platform
