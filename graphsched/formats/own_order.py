"""Tasks of this program's own files: what each refers to must stand above it, and be as it says."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from graphsched.errors import FileFormatError
from graphsched.formats.entries import entry, listed, texts
from graphsched.workload import Workload
from graphsched.workload.ordering import Ordering
from graphsched.workload.tasks import Task, Value


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
        texts(row, "devices", f"task {task!r}")
        for before in (*(source for _, source in reads if source is not None), *texts(row, "after", f"task {task!r}")):
            if before not in above:
                raise FileFormatError(f"task {task!r} comes after task {before!r}, {_lost_task(before in names)}")
        above.add(task)
        values.update(_outputs(task, row))


def check_values(work: Workload) -> None:
    """Make sure that values are as large as their elements, that tasks read what values hold by then, and change
    states that they read.

    Raises:
        FileFormatError: It is not so; names the task or the value.
    """
    order = Ordering(work.values)
    for value in work.values.values():
        if value.spec is not None and value.spec.nbytes != value.nbytes:
            raise FileFormatError(
                f"value {value.name!r} has {value.nbytes} bytes, and its elements {value.spec.nbytes}: correct one"
            )
    for task in work.tasks:
        for read in task.reads:
            held = order.read(read.value)
            if read != held:
                name = read.value.name
                raise FileFormatError(
                    f"task {task.name!r} reads {name!r} in version {read.version} of {_written_by(read.source)}, and "
                    f"by then it is version {held.version} of {_written_by(held.source)}: correct its entry in 'reads'"
                )
        for value in task.updates:
            _check_update(work, task, value)
        if task.kind == "copy" and task.outputs[0].device is None:
            raise FileFormatError(f"copy {task.name!r} does not say where to: give its output a 'device'")
        order.remember(task)
    for name in sorted(work.kept - work.values.keys()):
        raise FileFormatError(f"'kept' of the file has {name!r}, and there is no such value: add it, or leave it out")


def _written_by(task: str | None) -> str:
    return "what is there at the beginning" if task is None else f"task {task!r}"


def _check_update(work: Workload, task: Task, value: Value) -> None:
    if work.values[value.root].kind != "state":
        raise FileFormatError(
            f"task {task.name!r} changes {value.name!r}, which is no state: make it one, or leave it out of 'updates'"
        )
    if all(read.value is not value for read in task.reads):
        raise FileFormatError(f"task {task.name!r} changes {value.name!r} and does not read it: add it to 'reads'")


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
