"""Costs kept between processes, each valid under the settings that it was measured with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphsched.calibration.cache import cache_folder, keep, load_kept, locked
from graphsched.calibration.host import changes, freed_memory, installed_driver, wait_policy
from graphsched.costs import Costs
from graphsched.errors import FileFormatError
from graphsched.platform import Platform

SCHEMA = 1
Groups = dict[str, Costs]


def costs_path() -> Path:
    """The file that measured costs are kept in."""
    return cache_folder() / "costs.json"


METHOD = 19
"""Of measuring operations: one more for each change that makes other figures. 1: beside a profiler, which made calls
and nodes take longer. 2: what code costs told by two programs, of which each had times of its own. 3: what others
lose to an operation counted as its own. 4: calls timed behind functions, however they are called themselves. 5:
company of calls milliseconds behind their last one alone, without how cold calls were meanwhile. 6: fills in graphs
were no kernels. 7: rows in graphs were replayed one after the other, so that a slow moment counted as the
operation's. 8: of two chains side by side either came first, and blocks that have a multiprocessor to themselves went
faster beside fewer. 9: what an operation gains by inputs that are there was told behind written lines alone, and shared
out among its inputs by their bytes; large ones had no company. 10: the memory of large results on CPUs was the
system's again after each call. 11: threads of CPU lanes slept between any two parallel parts, beside another team.
12: CPU lanes beside GPUs read operands that their cores had read before, and wrote results where the last had been.
13: what goes with the memory's speed on CPU lanes of several threads went with the cores'. 14: what others on the host
hold up counted on such lanes only where it was every second task. 15: the middle of samples on such lanes and that of
sweeps could be of different speeds. 16: what comes right behind another on such a lane was timed as behind 0.3 ms.
17: collectives on GPUs held the time in which the thread launched them. 18: what CPU lanes take was not timed where
caches hold all that they read and write."""


def settings() -> str:
    """Versions of software, driver and method, and arithmetic flags, that a measured time depends on, as one text."""
    import torch

    parts = {
        "method": METHOD,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": installed_driver(),
        "freed_memory": freed_memory(),
        "wait_policy": wait_policy(),
        "precision": torch.get_float32_matmul_precision(),
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    return " ".join(f"{k}={v}" for k, v in parts.items())


def kept_costs(platform: Platform) -> Costs:
    """Costs kept in the cache that hold now for devices of `platform`'s models.

    Those measured with another driver, other software versions or arithmetic flags are left out: see `left_out`.
    """
    groups: Groups = load_kept(costs_path(), parse_groups) or {}
    return _of_models(groups.get(settings(), Costs()), platform)


def left_out(platform: Platform) -> str | None:
    """How many kept costs for `platform` do not hold now, and why, in a line; None if there are none.

    Costs that were measured again since then are not counted.
    """
    groups: Groups = load_kept(costs_path(), parse_groups) or {}
    now = settings()
    valid = set(_of_models(groups.get(now, Costs()), platform))
    old = {name: set(_of_models(costs, platform)) - valid for name, costs in groups.items() if name != now}
    count = len({key for keys in old.values() for key in keys})
    if not count:
        return None
    why = sorted({change for name, keys in old.items() if keys for change in _changes(name, now)})
    return f"{count} kept costs are not used, they hold for other versions or settings: {'; '.join(why)}"


def _of_models(costs: Costs, platform: Platform) -> Costs:
    models = {d.model for d in platform.devices}
    return costs.chosen(key for key in costs if key[1] in models)


def _changes(then: str, now: str) -> list[str]:
    """What differs between two texts of `settings`.

    Example:
        >>> _changes("torch=2.11 driver=570.1", "torch=2.11 driver=580.2")
        ['driver was 570.1, is 580.2']
    """
    before, after = (dict(part.partition("=")[::2] for part in text.split()) for text in (then, now))
    return changes(before, after)


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
