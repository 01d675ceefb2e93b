"""Values as rows: split along their first dimension, and put together along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphsched.collectives.members import Members
from graphsched.collectives.operations import called, specification
from graphsched.workload import Value


def row_counts(rows: int, parts: int) -> list[int]:
    """Rows of each part, the first ones a row longer where they do not divide, as ``torch.tensor_split`` has them.

    Example:
        >>> row_counts(7, 3), row_counts(2, 3)
        ([3, 2, 2], [1, 1, 0])
    """
    return [rows // parts + (part < rows % parts) for part in range(parts)]


def cut_rows(members: Members, values: Sequence[Value]) -> list[list[Value]]:
    """The rows of each value, in a part for each member: views where they are contiguous."""
    return [_parts(members, k, value) for k, value in enumerate(values)]


def _parts(members: Members, k: int, value: Value) -> list[Value]:
    spec = specification(value)
    counts = row_counts(spec.shape[0], len(members))
    rows: Any = value if spec.stride is None else called("contiguous", value)
    more = {"duration_s": 0.0} if spec.stride is None else {}
    made = members.run(f"cut/{k}", members.devices[k], called("split", rows, counts), **more)
    return list(made) if isinstance(made, tuple) else [made]


def joined(members: Members, what: str, k: int, parts: Sequence[Value]) -> Value:
    """All rows of `parts` on device k; parts without rows stay where they are, but for its own."""
    device = members.devices[k]
    moved = [part for i, part in enumerate(parts) if specification(part).shape[0] or i == k]
    made: Value = members.run(f"{what}/{k}", device, called("cat", moved))
    return made
