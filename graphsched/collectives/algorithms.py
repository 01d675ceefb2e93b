"""The algorithms of all-reduce by name, and what each may be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphsched.collectives.direct import central, sharded
from graphsched.collectives.halving import halving
from graphsched.collectives.hierarchical import hierarchical
from graphsched.collectives.library import library
from graphsched.collectives.members import Members
from graphsched.collectives.requests import check_blocks, check_known
from graphsched.collectives.ring import ring, rings
from graphsched.collectives.tree import tree
from graphsched.errors import WorkloadError
from graphsched.workload import Value

Groups = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Options:
    """What algorithms are told; None: what they do when they are told nothing.

    Attributes:
        blocks: Pieces that travel alone.
        server: The device that sums.
        groups: Devices that are near each other.
        between: Algorithm among groups.
    """

    blocks: int | None = None
    server: str | None = None
    groups: Groups | None = None
    between: str | None = None

    def given(self) -> list[str]:
        """Names of those that are told."""
        return [name for name in ("blocks", "server", "groups", "between") if getattr(self, name) is not None]


@dataclass(frozen=True)
class Algorithm:
    """One way to sum.

    Attributes:
        build: Adds the tasks of all members; the sum on each device.
        takes: Options that it may be told.
        tried: Numbers of blocks that ``auto`` tries among so many members; of none: it has no such number.
    """

    build: Callable[[Members, Sequence[Value], Options], list[Value]]
    takes: tuple[str, ...] = ()
    tried: Callable[[int], tuple[int, ...]] = lambda _: ()


def _gather(members: Members, values: Sequence[Value], _: Options) -> list[Value]:
    return central(members, values, members.devices[0], 1)


def _cpu(members: Members, values: Sequence[Value], options: Options) -> list[Value]:
    return central(members, values, "cpu", options.blocks or 1)


def _server(members: Members, values: Sequence[Value], options: Options) -> list[Value]:
    return central(members, values, options.server or members.devices[0], options.blocks or len(members))


def _sharded(members: Members, values: Sequence[Value], _: Options) -> list[Value]:
    return sharded(members, values)


def _ring(members: Members, values: Sequence[Value], options: Options) -> list[Value]:
    return ring(members, values, options.blocks or len(members))


def _rings(members: Members, values: Sequence[Value], options: Options) -> list[Value]:
    return rings(members, values, options.blocks or len(members))


def _tree(members: Members, values: Sequence[Value], options: Options) -> list[Value]:
    return tree(members, values, options.blocks or 1)


def _halving(members: Members, values: Sequence[Value], _: Options) -> list[Value]:
    return halving(members, values)


def _library(members: Members, values: Sequence[Value], _: Options) -> list[Value]:
    return library(members, values)


def _hierarchical(members: Members, values: Sequence[Value], options: Options) -> list[Value]:
    between = options.between or "sharded"
    inner = ALL_REDUCE[between]

    def among(firsts: Members, totals: Sequence[Value]) -> list[Value]:
        return inner.build(firsts, totals, Options(blocks=options.blocks if "blocks" in inner.takes else None))

    return hierarchical(members, values, options.groups or (), among, between)


def _few(_: int) -> tuple[int, ...]:
    return 1, 4


def _rounds(k: int) -> tuple[int, ...]:
    return k, 2 * k, 4 * k


ALL_REDUCE: Mapping[str, Algorithm] = {
    "gather": Algorithm(_gather),
    "cpu": Algorithm(_cpu, ("blocks",), _few),
    "server": Algorithm(_server, ("blocks", "server"), _few),
    "sharded": Algorithm(_sharded),
    "ring": Algorithm(_ring, ("blocks",), _rounds),
    "rings": Algorithm(_rings, ("blocks",), _rounds),
    "tree": Algorithm(_tree, ("blocks",), _few),
    "halving": Algorithm(_halving),
    "hierarchical": Algorithm(_hierarchical, ("groups", "between", "blocks")),
    "library": Algorithm(_library),
}

BETWEEN = tuple(name for name in ALL_REDUCE if name not in ("cpu", "hierarchical", "library"))
"""What may run among groups."""


def check_options(algorithm: str, options: Options, devices: Sequence[str]) -> None:
    """Make sure that `algorithm` takes what it is told.

    Raises:
        WorkloadError: It takes no such option, or the option is wrong.
    """
    takes = ALL_REDUCE[algorithm].takes
    for name in options.given():
        if name not in takes:
            others = [other for other, found in ALL_REDUCE.items() if name in found.takes]
            raise WorkloadError(f"algorithm {algorithm!r} takes no {name}: {', '.join(others)} do, leave it out here")
    if options.blocks is not None:
        check_blocks(options.blocks)
    if options.server is not None:
        check_known("server among the devices of the values", options.server, devices)
    if options.between is not None:
        check_known("algorithm between groups", options.between, BETWEEN)
        if options.blocks is not None and "blocks" not in ALL_REDUCE[options.between].takes:
            raise WorkloadError(f"algorithm {options.between!r} between groups takes no blocks: leave them out")


def tried(k: int, groups: Groups) -> Iterator[tuple[str, int | None]]:
    """Algorithms and numbers of blocks that ``auto`` tries; hierarchical where there are groups of several devices.

    Not among them is ``library``, which it tries where it was measured.

    Example:
        >>> [name for name, blocks in tried(2, [["cuda:0", "cuda:1"]]) if blocks is None]
        ['gather', 'sharded', 'halving']
    """
    for name, algorithm in ALL_REDUCE.items():
        if name not in ("hierarchical", "library"):
            yield from ((name, blocks) for blocks in algorithm.tried(k) or (None,))
        elif name == "hierarchical" and 1 < len(groups) < k:
            yield name, None
