"""Names of tasks and values, each once in a workload, and of what is the project's own."""

from __future__ import annotations

from collections.abc import Container

from graphsched.errors import DuplicateNameError

NAMESPACE = "graphsched"
"""Of operators of the project's own: ``torch.ops.graphsched``."""


def taken(name: str) -> DuplicateNameError:
    """The error about a name that there is already."""
    return DuplicateNameError(f"name {name!r} is taken in this workload: give another name=")


def numbered(stem: str, number: int, *known: Container[str]) -> str:
    """A name made of `stem` and `number`, or the next number of which none is `known`.

    Example:
        >>> numbered("<lambda>", 3, {"lambda3"}), numbered("…", 0)
        ('lambda4', 'task0')
    """
    stem = "".join(c if c.isalnum() or c in "._-" else "_" for c in stem).strip("_") or "task"
    while any(f"{stem}{number}" in names for names in known):
        number += 1
    return f"{stem}{number}"
