"""Operators of one layer as one task, for readable charts.

Not modelled: saving a plan with blocks to a file: another process would not find them by name.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.tracing.aliases import Origin, origins, replaced
from graphsched.tracing.recorder import Call
from graphsched.workload import Operation, Slot, fill, operation_name, returned_tensors, signature


@dataclass(frozen=True)
class Block:
    """Operations called one after another, as one function of tensors.

    Attributes:
        steps: Operations; their slots are the function's arguments, then what the steps before have returned.
        outputs: Which of these are returned.

    Example:
        >>> import torch
        >>> negated = Operation("torch.neg", torch.neg, (Slot(0),))
        >>> Block((negated, Operation("torch.add", torch.add, (Slot(0), Slot(1)))), (2,))(torch.ones(2))
        [tensor([0., 0.])]
    """

    steps: tuple[Operation, ...]
    outputs: tuple[int, ...]

    @property
    def operation_name(self) -> str:
        """Named by what its steps call, with which arguments: the same on every host and under every Python."""
        steps = [signature(step.name, step.args, step.kwargs, ()) for step in self.steps]
        return f"block.{hashlib.sha256(repr((steps, self.outputs)).encode()).hexdigest()[:16]}"

    def __call__(self, *tensors: Any) -> list[Any]:
        """Call the steps; what `outputs` names is returned."""
        values = list(tensors)
        for step in self.steps:
            values += returned_tensors(fill(step, values))
        return [values[i] for i in self.outputs]


def block_of(calls: Sequence[Call], wanted: Iterable[int]) -> tuple[Block, list[Origin], list[Origin]]:
    """`calls` as a block, the origins that are its arguments, and those that it returns.

    Args:
        calls: One after another.
        wanted: Identities of origins that others need.
    """
    made = {id(origin) for call in calls for origin, _ in call.outputs}
    used = origins([(call.args, call.kwargs) for call in calls])
    arguments = [origin for origin in used if id(origin) not in made]
    slots = {id(origin): Slot(i) for i, origin in enumerate(arguments)}
    results: list[Origin] = []
    steps, needed = [], set(wanted)
    number = len(arguments)
    for call in calls:
        args, kwargs = replaced((call.args, call.kwargs), lambda origin: slots[id(origin)])
        steps.append(Operation(operation_name(call.function), call.function, args, kwargs))
        if returns_itself(call):
            number += 1  # a state comes back that the step has changed
        for origin, _ in call.outputs:
            slots[id(origin)] = Slot(number)
            number += 1
            if id(origin) in needed:
                results.append(origin)
    return Block(tuple(steps), tuple(slots[id(origin)].index for origin in results)), arguments, results


def returns_itself(call: Call) -> bool:
    """Whether the operator returns the state that it changes."""
    return bool(call.updates) and not call.outputs and bool(call.function._schema.returns)


def by_module(calls: Sequence[Call]) -> list[list[Call]]:
    """Calls that follow each other in one phase of one module."""
    return [list(group) for _, group in itertools.groupby(calls, key=lambda call: (call.phase, layer(call)))]


def layer(call: Call) -> str:
    """The module of `call`; of an update that of the parameter."""
    if call.phase != "update":
        return call.module
    states = [o.name for o in (*call.updates, *origins((call.args, call.kwargs))) if o.is_state]
    return states[0].partition("/")[0].rpartition(".")[0] if states else ""
