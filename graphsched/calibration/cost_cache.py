"""Costs kept between processes, each valid under the settings that it was measured with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphsched.calibration.cache import cache_folder, keep, load_kept, locked
from graphsched.costs import Costs
from graphsched.errors import FileFormatError
from graphsched.platform import Platform

SCHEMA = 1
Groups = dict[str, Costs]


def costs_path() -> Path:
    """The file that measured costs are kept in."""
    return cache_folder() / "costs.json"


def settings() -> str:
    """Software versions and arithmetic flags that the time of an operation depends on, as one text."""
    import torch

    parts = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "precision": torch.get_float32_matmul_precision(),
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    return " ".join(f"{k}={v}" for k, v in parts.items())


def kept_costs(platform: Platform) -> Costs:
    """Costs kept in the cache that hold now for devices of `platform`'s models.

    Those measured with other software versions or arithmetic flags are left out.
    """
    groups: Groups = load_kept(costs_path(), parse_groups) or {}
    models = {d.model for d in platform.devices}
    kept = groups.get(settings(), Costs())
    return Costs({key: kept[key] for key in kept if key[1] in models})


def keep_costs(costs: Costs) -> None:
    """Add `costs` to the cache under the present settings; those of other processes stay."""
    path = costs_path()
    with locked(path):
        groups: Groups = load_kept(path, parse_groups) or {}
        groups[settings()] = groups.get(settings(), Costs()).merged(costs)
        keep(path, {"schema": SCHEMA, "groups": {k: v.to_dict() for k, v in sorted(groups.items())}})


def parse_groups(data: Any) -> Groups:
    """Costs by settings, from the file's object.

    Raises:
        FileFormatError: It is something else.
    """
    groups = data.get("groups") if isinstance(data, Mapping) and data.get("schema") == SCHEMA else None
    if not isinstance(groups, Mapping):
        raise FileFormatError(f"not a cache of costs of schema {SCHEMA}")
    return {str(name): Costs.from_dict(rows) for name, rows in groups.items()}
