"""Tasks of this program's own files: what each refers to must stand above it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from graphsched.errors import FileFormatError
from graphsched.formats.entries import entry, listed, texts


def check_order(data: Any) -> None:
    """Make sure that the tasks of a file's object read values, and come after tasks, that stand above them.

    Raises:
        FileFormatError: One does not: names the task, and what it refers to.

    Example:
        >>> check_order({"given": [], "tasks": [{"name": "b", "reads": [["a", 0, None]]}]})
        Traceback (most recent call last):
        ...
        graphsched.errors.FileFormatError: task 'b' refers to value 'a', and there is none: add it to what is given, ...
    """
    tasks = [(entry(row, "name", str, f"tasks[{i}]"), row) for i, row in enumerate(listed(data, "tasks", "the file"))]
    names = {task for task, _ in tasks}
    makers = {value: task for task, row in tasks for value in _outputs(task, row)}
    values = {entry(row, "name", str, f"given[{i}]") for i, row in enumerate(listed(data, "given", "the file"))}
    above: set[str] = set()
    for task, row in tasks:
        reads = list(_reads(task, row))
        for value in (*(value for value, _ in reads), *texts(row, "updates", f"task {task!r}")):
            if value not in values:
                raise FileFormatError(f"task {task!r} refers to value {value!r}, {_lost_value(makers.get(value))}")
        for before in (*(source for _, source in reads if source is not None), *texts(row, "after", f"task {task!r}")):
            if before not in above:
                raise FileFormatError(f"task {task!r} comes after task {before!r}, {_lost_task(before in names)}")
        above.add(task)
        values.update(_outputs(task, row))


def _lost_value(maker: str | None) -> str:
    if maker is None:
        return "and there is none: add it to what is given, or the task that makes it"
    return f"which task {maker!r} makes, and that does not stand above it: put it there"


def _lost_task(stands_below: bool) -> str:
    return "which does not stand above it: put it there" if stands_below else "and there is no such task: add it"


def _reads(task: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Values that a task reads, each with the task that it comes after by that, if any."""
    for i, read in enumerate(entry(row, "reads", list, f"task {task!r}") if "reads" in row else ()):
        match read:
            case [str(value), _, str() | None as source]:
                yield value, source
            case _:
                raise FileFormatError(
                    f"reads[{i}] of task {task!r} is {reprlib.repr(read)}: a value, its version, and a task or null "
                    "are needed"
                )


def _outputs(task: str, row: Mapping[str, Any]) -> list[str]:
    rows = listed(row, "outputs", f"task {task!r}", needed=False)
    return [entry(value, "name", str, f"outputs[{i}] of task {task!r}") for i, value in enumerate(rows)]
