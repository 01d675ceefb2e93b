"""Blocks of kernels on the multiprocessors of a GPU: which fit where.

A block goes to a multiprocessor that has registers, threads, shared memory and a place for it; of those the
ones with the most room for such blocks come first, then those with the lower number.

Not modelled: clusters of blocks; a multiprocessor that must be empty before its shared memory is divided
anew; multiprocessors that a driver keeps for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsched.costs import Kernel, Multiprocessors

MOST_WAVES = 32
"""A kernel of more waves is simulated as one of so many, each longer."""


MOST_KNOWN = 10_000  # placements and states that are remembered


@dataclass(frozen=True, eq=False)
class Shape:
    """A kernel as it is placed.

    Attributes:
        blocks: Blocks to place.
        need: Registers, threads, shared bytes and places that one takes.
        resident: Blocks in flight at once when it is alone.
        share: Its part of the operation's time.
    """

    blocks: int
    need: Any
    resident: int
    share: float

    def waves(self, relief: float) -> float:
        """Time alone over the time of one wave; a wave of few blocks takes its part of that, at least `relief`.

        Example:
            >>> Shape(25, None, 10, 1.0).waves(0.2), Shape(21, None, 10, 1.0).waves(0.2)
            (2.5, 2.2)
        """
        whole, rest = divmod(self.blocks, self.resident)
        return whole + (max(relief, rest / self.resident) if rest else 0.0)


def shape_of(kernel: Kernel, processors: Multiprocessors) -> Shape:
    """The shape of `kernel` on a device; one that asks for more than there is gets all there is.

    Example:
        >>> shape = shape_of(Kernel(100, 32768, 128, 0), Multiprocessors(4, 65536, 2048, 233472, 32))
        >>> shape.blocks, shape.resident
        (100, 8)
    """
    room = _room(processors)
    need = np.minimum([kernel.registers, kernel.threads, kernel.shared_bytes, 1], room)
    most = int(_fit(room[:, None], need)[0]) * processors.count
    return Shape(min(kernel.blocks, MOST_WAVES * most), need, min(kernel.blocks, most), kernel.share)


def _room(processors: Multiprocessors) -> Any:
    return np.array(
        [processors.registers, processors.threads, processors.shared_bytes, processors.blocks], dtype=np.int64
    )


class Floor:
    """The multiprocessors of one device, and what is free on each.

    Example:
        >>> processors = Multiprocessors(4, 65536, 2048, 233472, 32)
        >>> shape = shape_of(Kernel(100, 32768, 128, 0), processors)
        >>> floor = Floor(processors)
        >>> floor.place(shape, 3).tolist(), floor.place(shape, 100).tolist(), floor.place(shape, 1)
        ([1, 1, 1, 0], [1, 1, 1, 2], None)
    """

    def __init__(self, processors: Multiprocessors) -> None:
        self._free = np.repeat(_room(processors)[:, None], processors.count, axis=1)
        self._known: dict[tuple[Shape, int, bytes], Any] = {}

    def place(self, shape: Shape, blocks: int) -> Any:
        """Place up to `blocks` blocks; how many on each multiprocessor, or None if there is room for none."""
        key = (shape, blocks, self._free.tobytes())
        if key not in self._known:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            self._known[key] = _spread(self._free, shape.need, blocks)
        counts = self._known[key]
        if counts is not None:
            self._free -= shape.need[:, None] * counts
        return counts

    def clear(self, shape: Shape, counts: Any) -> None:
        """Take away what `place` has placed."""
        self._free += shape.need[:, None] * counts


def _fit(free: Any, need: Any) -> Any:
    """How many blocks each multiprocessor has room for."""
    takes = need > 0
    return np.min(free[takes] // need[takes][:, None], axis=0)


def _spread(free: Any, need: Any, blocks: int) -> Any:
    fit = _fit(free, need)
    total = int(fit.sum())
    if total <= blocks:
        return fit if total else None
    counts, left = np.zeros_like(fit), blocks
    for level in range(int(fit.max()), 0, -1):
        places = np.flatnonzero(fit >= level)[:left]
        counts[places] += 1
        left -= len(places)
        if not left:
            break
    return counts
