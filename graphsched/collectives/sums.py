"""`all_reduce`: the sum of values on every one of their devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from graphsched.collectives.algorithms import ALL_REDUCE, Groups, Options, check_options, tried
from graphsched.collectives.choosing import Build, Choice, Way, checked_platform, fastest
from graphsched.collectives.library import is_measured
from graphsched.collectives.operations import called, specification
from graphsched.collectives.requests import (
    check_devices,
    check_known,
    checked_devices,
    checked_groups,
    named_members,
)
from graphsched.costs import Costs
from graphsched.platform import Platform
from graphsched.workload import Value, Workload


def all_reduce(
    work: Workload,
    values: Sequence[Value],
    *,
    algorithm: str = "sharded",
    blocks: int | None = None,
    server: str | None = None,
    groups: Groups | None = None,
    between: str | None = None,
    platform: Platform | None = None,
    costs: Costs | None = None,
    mode: str = "eager",
    name: str | None = None,
) -> list[Value]:
    """The sum of `values`, one on each of k devices, on every one of these devices.

    ================ ============================== ============================== ============= ======================
    algorithm        adds an element in the order    busiest device, in; out        hops          kernels there
    ================ ============================== ============================== ============= ======================
    ``gather``       0, 1, …, k-1                    (k-1) n; (k-1) n               2             k-1 sums
    ``cpu``          0, 1, …, k-1                    host: k n; k n                 2             (k-1) B sums
    ``server``       0, 1, …, k-1                    (k-1) n; (k-1) n               2             (k-1) B sums
    ``sharded``      0, 1, …, k-1                    2 (k-1)/k n; the same          2             k-1 sums
    ``ring``         b+1, b+2, …, b+k for block b    2 (k-1)/k n; the same          2 (k-1)       (k-1)/k B sums
    ``rings``        half so, half backwards         2 (k-1)/k n; the same          2 (k-1)       2 (k-1)/k B sums
    ``tree``         pairs, pairs of pairs, …        ⌈log2 k⌉ n; the same           2 ⌈log2 k⌉    ⌈log2 k⌉ B sums
    ``halving``      pairs, furthest first           2 (k-1)/k n; the same          2 log2 k      log2 k sums and cats
    ``hierarchical`` inside groups, then between     see `collectives.hierarchical`
    ``library``      as NCCL or Gloo does; on        as NCCL or Gloo does           one task      one of the library
                     CPU threads 0, 1, …, k-1
    ================ ============================== ============================== ============= ======================

    Values have n bytes, in B blocks. Figures of ``ring`` and ``sharded`` hold where k, or the number of blocks, divides
    the elements, those of ``halving`` for powers of two: see the modules. All devices get the same bits, in every run.
    The sums are new tensors, with the shape and order of memory of the values. One device, or values of no elements:
    a copy of its own.

    A value is where its input, state or copy was put, or where its task may run alone (``device="cuda:0"``). Nothing is
    added to the workload where the request is refused. Tasks are called ``NAME.ALGORITHM/…``.

    Args:
        work: The workload of the values; tasks are added to it.
        values: One on each device, of one shape, type and order of memory.
        algorithm: One of the table; or ``auto``: the one predicted to be fastest alone on `platform`, see `choose`.
            ``library`` is one collective (`Workload.collective`), for modes ``eager`` and ``distributed``.
        blocks: Pieces that travel alone, so that one is summed while the next is on its way; fewer where there are too
            few elements. Default k with ``server``, ``ring`` and ``rings`` (for each of the two), else 1.
        server: Where ``server`` sums; default the first device.
        groups: For ``hierarchical``: devices near each other; default those of each host of `platform`.
        between: For ``hierarchical``: algorithm among the first devices of the groups; default ``sharded``.
        platform: For ``auto`` and ``hierarchical``.
        costs: For ``auto``: costs of tasks; default those of the platform.
        mode: For ``auto``: how the plan is to run, ``eager`` or ``graph``.
        name: Of its tasks; default ``all_reduce``, numbered where there are several.

    Returns:
        The sum on each device, in the order of `values`.

    Raises:
        ForeignValueError: A value is of another workload.
        DuplicateNameError: The name is taken.
        WorkloadError: Values differ, two are on one device, or one is on none; an algorithm, device or option does not
            exist or does not fit.

    Example:
        >>> import torch
        >>> work = Workload("sum")
        >>> values = [work.input(f"x{k}", torch.full((6,), float(k)), device=f"cuda:{k}") for k in range(3)]
        >>> sums = all_reduce(work, values, algorithm="tree")
        >>> [(task.name, task.kind) for task in work.tasks][:2]
        [('all_reduce.tree/add/0.0.1', 'run'), ('all_reduce.tree/add/0.0.2', 'run')]
        >>> sums
        [Value(all_reduce.tree/add/0.0.2: float32[6]), Value(...), Value(...)]

    Not modelled: sums in the network; a mean (divide in the task that reads the sum).
    """
    devices = checked_devices(work, values)
    options = Options(blocks, server, groups, between)
    check_known("algorithm of all_reduce", algorithm, (*ALL_REDUCE, "auto"))
    if algorithm == "auto":
        chosen = _chosen(values, devices, options, platform, costs, mode)
        algorithm, options = chosen.algorithm, _taken(chosen, options)
    check_options(algorithm, options, devices)
    check_devices(devices, platform)
    if algorithm == "hierarchical":
        options = replace(options, groups=checked_groups(options.groups, devices, platform))
    members = named_members(work, devices, name, "all_reduce", algorithm)
    if len(devices) == 1 or not math.prod(specification(values[0]).shape):
        return [
            members.run(f"sum/{k}", d, called("clone", v)) for k, (d, v) in enumerate(zip(devices, values, strict=True))
        ]
    return ALL_REDUCE[algorithm].build(members, values, options)


def choose(
    work: Workload,
    values: Sequence[Value],
    *,
    platform: Platform,
    server: str | None = None,
    groups: Groups | None = None,
    between: str | None = None,
    costs: Costs | None = None,
    mode: str = "eager",
) -> Choice:
    """What ``all_reduce(..., algorithm="auto")`` takes, and what it predicts for all others; adds nothing.

    Each algorithm is simulated alone on `platform`, with the numbers of blocks that it may have: k, 2 k and 4 k with
    ``ring`` and ``rings``, 1 and 4 with others. ``library`` is among them where it was measured (`graphsched.profile`
    does so) and `mode` is ``eager``: an estimate of a library that is not there would win against what is measured.

    Raises:
        WorkloadError: As `all_reduce`.
        ScheduleError, PlatformError, CostError: No algorithm makes a plan there.

    Example:
        >>> from graphsched.workload import TensorSpec
        >>> work, large = Workload("sum"), TensorSpec((40_000_000,))
        >>> values = [work.input(f"x{k}", large, device=f"cuda:{k}") for k in range(4)]
        >>> found = choose(work, values, platform=Platform.load("h200-x4"), mode="graph")
        >>> found.seconds["gather"] > 2 * found.seconds["ring, 4 blocks"]
        True
    """
    return _chosen(values, checked_devices(work, values), Options(None, server, groups, between), platform, costs, mode)


def _chosen(
    values: Sequence[Value],
    devices: Sequence[str],
    options: Options,
    platform: Platform | None,
    costs: Costs | None,
    mode: str,
) -> Choice:
    platform = checked_platform(platform, devices, options.blocks)
    for name in ("server", "hierarchical"):
        told = {option: getattr(options, option) for option in ALL_REDUCE[name].takes if option != "groups"}
        check_options(name, Options(**told), devices)
    options = replace(options, groups=checked_groups(options.groups, devices, platform))
    ways: dict[Way, Build] = {}
    for algorithm, blocks in tried(len(devices), options.groups or ()):
        told = {name: getattr(options, name) for name in ALL_REDUCE[algorithm].takes} | {"blocks": blocks}
        ways[algorithm, blocks] = partial(all_reduce, algorithm=algorithm, **told)
    if mode == "eager" and is_measured(values, devices, platform, costs):
        ways["library", None] = partial(all_reduce, algorithm="library")
    return fastest([specification(value) for value in values], devices, ways, platform, costs, mode)


def _taken(chosen: Choice, options: Options) -> Options:
    told = {name: getattr(options, name) for name in ALL_REDUCE[chosen.algorithm].takes}
    return Options(**told | {"blocks": chosen.blocks})
