"""Concatenations that cost nothing, since their parts are made where they are to lie.

A task that concatenates and is said to take no time (``duration_s=0.0``) is a join, if each of its parts is flat and a
copy to its device, or a sum or a clone made there: the executors give the parts memory one behind the other, which is
the result. It stays the program's from run to run; what is returned is a clone.

Not modelled: parts of joins that other joins concatenate too, which are concatenated as usual by the later one. Mode
``distributed``, whose ranks receive parts in memory of their own and concatenate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphsched.workload import Operation, Slot, Task

if TYPE_CHECKING:
    from graphsched.plan.model import Plan

CAT = "torch.ops.aten.cat.default"
SUM, SUM_IN_PLACE, CLONE = "torch.ops.aten.add.Tensor", "torch.ops.aten.add_.Tensor", "torch.ops.aten.clone.default"
VIEWS = "torch.ops.aten.view.default", "torch.ops.aten.permute.default"  # of all elements, and of one tensor


@dataclass(frozen=True, slots=True)
class Join:
    """One of them.

    Attributes:
        task: Its name.
        device: Where it is.
        starts: First element of each part, by the name of its value or inserted copy, in order.
        elements, dtype: Of all of them.
    """

    task: str
    device: str
    starts: Mapping[str, int]
    elements: int
    dtype: str


def joins(plan: Plan) -> list[Join]:
    """Those of a plan, in plan order."""
    if plan.mode == "distributed":
        return []
    taken: set[str] = set()
    found = []
    for i, kind in enumerate(plan.kinds):
        task = plan.task(i) if kind == "run" else None
        join = None if task is None else _join(plan, task, plan.lanes[plan.lane_of[i]].device)
        if join is not None and taken.isdisjoint(join.starts):
            taken.update(join.starts)
            found.append(join)
    return found


def concatenation(operation: Operation | None) -> Operation | None:
    """The concatenation that an operation is, or is a view of."""
    while operation is not None and operation.name in VIEWS:
        operation = _first(operation)
    return operation if operation is not None and operation.name == CAT else None


def is_made_in_place(operation: Operation | None) -> bool:
    """Whether the result may be written into memory that is given: a sum of tensors, or a clone."""
    while operation is not None and operation.name == SUM_IN_PLACE:
        operation = _first(operation)
    return operation is not None and operation.name in (SUM, CLONE) and not operation.kwargs


def replaced(operation: Operation, old: Operation, new: Any) -> Any:
    """`operation` with `new` in the place of `old`, which is it or what it begins with."""
    if operation is old:
        return new
    first = operation.args[0]
    assert isinstance(first, Operation)
    return replace(operation, args=(replaced(first, old, new), *operation.args[1:]))


def _first(operation: Operation) -> Operation | None:
    """The operation that an operation begins with, if any."""
    first = operation.args[0] if operation.args else None
    return first if isinstance(first, Operation) else None


def _join(plan: Plan, task: Task, device: str) -> Join | None:
    cat = concatenation(task.operation) if task.duration_s == 0.0 else None
    if cat is None or len(cat.args) != 1 or not all(isinstance(part, Slot) for part in cat.args[0]):
        return None
    starts: dict[str, int] = {}
    elements, dtypes = 0, set[str]()
    for part in cat.args[0]:
        read = task.reads[part.index]
        name, spec = plan.buffer(read, device), read.value.spec
        if name in starts or spec is None or len(spec.shape) != 1 or spec.stride is not None:
            return None
        if not _is_made_there(plan, name, device):
            return None
        starts[name] = elements
        elements += spec.shape[0]
        dtypes.add(spec.dtype)
    return Join(task.name, device, starts, elements, *dtypes) if len(dtypes) == 1 else None


def _is_made_there(plan: Plan, name: str, device: str) -> bool:
    """Whether a value or inserted copy is written to `device` by a copy, or by a task that may be told where to."""
    copy = plan.copies.get(plan.index_of.get(name, -1))
    if copy is not None:
        return copy.target == device and copy.memory != "fresh"
    value = plan.work.values.get(name)
    if value is None or value.producer is None or value.producer not in plan.work.graph:
        return False
    task = plan.work[value.producer]
    return task.kind == "run" and len(task.outputs) == 1 and not task.updates and is_made_in_place(task.operation)
