"""Whether a network computes the same on fewer rows: its operators in order, with their phases, modules and results.

Tensors that no input changes are left out: a trace has them as states up to a size, and as tasks above it. Parts of one
row are judged by two rows, because PyTorch itself calls other operators where a dimension is 1 (``mm`` and ``add``
instead of ``addmm``, no copies, no sums over broadcast rows).

Not modelled: numbers among the arguments, which may count rows (a mean's do); networks that are special for one row.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import NamedTuple

from graphsched.errors import WorkloadError
from graphsched.partition.batches import batch_size, rows_of
from graphsched.tracing.emitting import BY_SHAPE
from graphsched.workload import Task, Workload


class Called(NamedTuple):
    """What a task calls, and the results that it makes."""

    phase: str
    module: str
    operator: str
    results: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " for ".join(filter(None, [self.operator, ", ".join(map(repr, self.results))]))


END = "the end", Called("", "", "nothing")


def check_alike(part: Workload, whole: Workload, rows: int, uncut: Collection[str] = ()) -> None:
    """Make sure that the step `part`, of so many rows, calls the operators of the `whole` step and returns as much.

    Inputs that are `uncut` are the same in both.

    Raises:
        WorkloadError: It does not.
    """
    batch = batch_size(whole.source.inputs, uncut)
    if rows == 1 and batch > 2:
        rows, part = 2, _of_two_rows(whole, uncut)
    if rows in (1, batch):
        return
    for (task, ours), (_, theirs) in itertools.zip_longest(_called(part), _called(whole), fillvalue=END):
        if ours != theirs:
            raise WorkloadError(
                f"with {rows} of the rows the network computes otherwise than on the whole batch, first in {task!r} "
                f"({ours} instead of {theirs}): choose parts of other sizes, or trace a network that does not depend "
                "on them"
            )


def by_operator(work: Workload) -> Workload:
    """`work`, traced anew with a task for each operator if it has one for each module."""
    if work.source.grain == "operator":
        return work
    traced: Workload = work.source.again(grain="operator").trace()
    return traced


def _of_two_rows(whole: Workload, uncut: Collection[str]) -> Workload:
    source = whole.source
    traced: Workload = source.again(inputs=rows_of(source.inputs, 0, 2, whole=uncut)).trace()
    return traced


def _called(work: Workload) -> list[tuple[str, Called]]:
    """Each task that an input or a state that changes has a part in, or that is random, and what it calls."""
    work = by_operator(work)
    changed = {value.root for task in work.tasks for value in task.updates}
    same = {value.name for value in work.values.values() if value.kind == "state" and value.root not in changed}
    found = []
    for task in work.tasks:
        if _is_same(task, same):
            same.update(value.name for value in task.outputs)
        else:
            node = work.graph.nodes[task.name]
            results = tuple(value.name for value in task.outputs if value.name in work.kept)
            found.append((task.name, Called(node["phase"], node["module"], _operator(task), results)))
    return found


def _is_same(task: Task, same: set[str]) -> bool:
    """Whether `task` makes the same in every run, as the values named in `same` are."""
    import torch

    assert task.operation is not None
    is_random = torch.Tag.nondeterministic_seeded in getattr(task.operation.function, "tags", ())
    takes_after = _operator(task).removeprefix("aten.").partition(".")[0] in BY_SHAPE
    return not (task.updates or is_random) and (takes_after or all(read.value.name in same for read in task.reads))


def _operator(task: Task) -> str:
    assert task.operation is not None
    return task.operation.name.removeprefix("torch.ops.")
