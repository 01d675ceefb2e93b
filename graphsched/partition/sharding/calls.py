"""Operators of an unsplit workload, and the tasks in whose place they run on each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.partition.sharding.layouts import Kind, Layout, Split
from graphsched.partition.sharding.spread import Seen, Spread


@dataclass(frozen=True, eq=False)
class Call:
    """A task of the unsplit workload: operator, arguments with `Seen` in the place of tensors, result shapes."""

    spread: Spread
    name: str
    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    updates: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def tensors(self) -> list[Seen]:
        """The tensors among the arguments."""
        return [argument for argument in self.args if isinstance(argument, Seen)]

    def wanted(self, layouts: Sequence[Layout | None], i: int, **others: Any) -> list[Any]:
        """Arguments on device `i`: tensors in these layouts, by place (None: as they are); `others`: by ``_place``."""
        made = []
        for place, argument in enumerate(self.args):
            layout = layouts[place] if place < len(layouts) else None
            made.append(others[f"_{place}"] if f"_{place}" in others else self.spread.wanted(argument, layout, i))
        return made


@dataclass(frozen=True, eq=False)
class Local:
    """A task on each device.

    Attributes:
        args: Arguments, by device.
        layouts: Of the results.
        functions: By device; empty: that of the unsplit task.
        missing: Results that only the first device makes (their layout is whole).
    """

    args: Sequence[list[Any]]
    layouts: Sequence[Layout]
    functions: tuple[Any, ...] = ()
    missing: tuple[int, ...] = ()


def split_of(seen: Any, *dims: int) -> Split | None:
    """The layout of an argument that is split, along one of `dims` if there are any."""
    found = seen.layout if isinstance(seen, Seen) and isinstance(seen.layout, Split) else None
    return None if found is None or (dims and found.dim not in dims) else found


def devices(call: Call) -> range:
    """Numbers of the devices."""
    return range(call.spread.count)


def aligned(seen: Seen, shape: Sequence[int], layout: Layout) -> Layout:
    """Layout of an argument that is broadcast to `shape` in `layout`."""
    if not isinstance(layout, Split):
        return layout if layout is Kind.PARTIAL else Kind.WHOLE
    dim = layout.dim - len(shape) + len(seen.shape)
    return layout.at(dim) if dim >= 0 and seen.shape[dim] == shape[layout.dim] else Kind.WHOLE
