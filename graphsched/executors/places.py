"""Operations whose result goes to memory that is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphsched.plan.joins import SUM, SUM_IN_PLACE
from graphsched.workload import Operation


def into(operation: Operation, place: Any) -> Operation:
    """A sum or a clone that `plan.joins.is_made_in_place`, written to `place`."""
    import torch

    first = operation.args[0]
    if operation.name == SUM_IN_PLACE:
        assert isinstance(first, Operation)
        return replace(operation, args=(into(first, place), *operation.args[1:]))
    if operation.name == SUM:
        return Operation("torch.ops.aten.add.out", torch.ops.aten.add.out, operation.args, {"out": place})
    return Operation("torch.ops.aten.copy_.default", torch.ops.aten.copy_.default, (place, first))


def as_operation(thing: Any) -> Operation:
    """An operation, or one that returns a view of the tensor `thing`."""
    import torch

    if isinstance(thing, Operation):
        return thing
    return Operation("torch.ops.aten.alias.default", torch.ops.aten.alias.default, (thing,))
