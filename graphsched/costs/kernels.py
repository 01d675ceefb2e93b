"""What kernels take of a GPU, and what it has room for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from graphsched.costs.checks import check_count, check_figure
from graphsched.errors import CostError

RELIEF = 0.5
"""The relief of kernels of which nothing else is known."""


@dataclass(frozen=True, slots=True)
class Multiprocessors:
    """What a GPU places blocks of kernels on: how many there are, and what one of them has room for.

    Attributes:
        count: Multiprocessors of the device.
        registers, threads, shared_bytes, blocks: Room on each.
    """

    count: int
    registers: int
    threads: int
    shared_bytes: int
    blocks: int

    def __post_init__(self) -> None:
        _check_counts(self, least=1)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of an operation: its blocks, and what each of them takes of a multiprocessor.

    Attributes:
        blocks: Blocks of its grid.
        registers, threads, shared_bytes: Of one block, as they are allocated.
        share: Its part of the operation's time on the device.
        code: Which code it is, a digest of its name; empty: not known.
        relief: Time of a block with next to none of the others in flight, over its time with all of them there: 1 where
            each has a multiprocessor to itself in any case.
    """

    blocks: int
    registers: int
    threads: int
    shared_bytes: int
    share: float = 1.0
    code: str = ""
    relief: float = RELIEF

    def __post_init__(self) -> None:
        _check_counts(self, least=0)
        if self.blocks < 1:
            raise CostError(f"a kernel of {self.blocks!r} blocks: at least 1 is needed")
        check_figure(self.share, "share of a kernel")
        if not isinstance(self.code, str):
            raise CostError(f"code of a kernel is {self.code!r}: text is needed")
        check_figure(self.relief, "relief of a kernel")
        if not 0.0 < self.relief <= 1.0:
            raise CostError(f"relief of a kernel is {self.relief!r}: above 0 and at most 1 is needed")


def _check_counts(sizes: Multiprocessors | Kernel, least: int) -> None:
    for field in fields(sizes):
        if field.name not in {"share", "code", "relief"}:
            check_count(getattr(sizes, field.name), f"{field.name} of {type(sizes).__name__}", least)
