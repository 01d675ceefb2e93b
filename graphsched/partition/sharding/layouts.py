"""How a tensor of the unsplit workload lies on the devices of a split one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class Kind(Enum):
    """Layouts in which no part of the tensor is missing."""

    WHOLE = "on the first device"
    COPIES = "the same on each device"
    PARTIAL = "a summand on each device"
    FREE = "a state that has no place yet"


@dataclass(frozen=True, slots=True)
class Split:
    """Runs of one dimension, one on each device.

    Attributes:
        dim: The dimension.
        sizes: Lengths of the runs, in the order of the devices.
        outer: So many times these runs follow each other along `dim`: 3 of the packed projections of attention.

    Example:
        >>> Split(1, (2, 1)).local((4, 3), 1)
        (4, 1)
    """

    dim: int
    sizes: tuple[int, ...]
    outer: int = 1

    def local(self, shape: Sequence[int], i: int) -> tuple[int, ...]:
        """Shape of the part of device `i` of a tensor of this shape."""
        return (*shape[: self.dim], self.outer * self.sizes[i], *shape[self.dim + 1 :])

    def at(self, dim: int) -> Split:
        """The same runs along another dimension."""
        return replace(self, dim=dim)

    def length(self) -> int:
        """Of the dimension."""
        return self.outer * sum(self.sizes)

    def bounds(self, i: int) -> tuple[int, int]:
        """Begin and end of the run of device `i`."""
        ends = list(itertools.accumulate(self.sizes, initial=0))
        return ends[i], ends[i + 1]


Layout = Kind | Split


def even(length: int, count: int, unit: int = 1) -> tuple[int, ...]:
    """Lengths of `count` runs of whole units, as even as they can be, longer ones first.

    Example:
        >>> even(10, 4), even(12, 2, unit=4)
        ((3, 3, 2, 2), (8, 4))
    """
    least, more = divmod(length // unit, count)
    return tuple(unit * (least + (i < more)) for i in range(count))


def part(tensor: Any, layout: Split, i: int) -> Any:
    """A copy of the part of device `i`.

    Example:
        >>> import torch
        >>> part(torch.arange(6), Split(0, (2, 1), outer=2), 0)
        tensor([0, 1, 3, 4])
    """
    shape, (begin, end) = tensor.shape, layout.bounds(i)
    runs = tensor.reshape(*shape[: layout.dim], layout.outer, sum(layout.sizes), *shape[layout.dim + 1 :])
    return runs.narrow(layout.dim + 1, begin, end - begin).reshape(layout.local(shape, i)).clone()


def joined(parts: Sequence[Any], layout: Split) -> Any:
    """The whole tensor, on the device of the first part.

    Example:
        >>> import torch
        >>> joined([torch.tensor([0, 1, 3, 4]), torch.tensor([2, 5])], Split(0, (2, 1), outer=2))
        tensor([0, 1, 2, 3, 4, 5])
    """
    import torch

    dim = layout.dim
    runs = [tensor.to(parts[0].device).unflatten(dim, (layout.outer, -1)) for tensor in parts]
    return torch.cat(runs, dim + 1).flatten(dim, dim + 1)
