"""Which memory a traced tensor looks into: an origin, seen through a chain of views.

A view (``t``, ``view``, ``slice``, …) is no task of its own: what reads it calls the view first, on the tensor that
owns the memory. So a change of that memory is seen by every view of it, as in PyTorch.

Not modelled: tensors that look into the memory of several.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graphsched.errors import TraceError
from graphsched.workload import Operation, like, operation_name


@dataclass(eq=False, slots=True)
class Origin:
    """A tensor that is given (inputs, states, constants) or made by a call; a leaf of calls' arguments.

    Attributes:
        name: Of what is given; empty for what a call makes.
        is_state: It lives across runs and may be changed in place.
    """

    name: str = ""
    is_state: bool = False


@dataclass(eq=False, slots=True)
class Memory:
    """Memory of one tensor: what it holds now (an origin, or a view of one), and the fake tensor that owns it.

    Memory that is fresh is made anew in every run, even where it begins with what a state holds.
    """

    now: Any
    owner: Any
    is_fresh: bool = False

    @property
    def is_state(self) -> bool:
        """Whether it lives across runs."""
        return isinstance(self.now, Origin) and self.now.is_state and not self.is_fresh


@dataclass(frozen=True, slots=True)
class Step:
    """A view of what comes in the place of `BASE` among the arguments; of several views the one of `number`."""

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    number: int | None = None


class _Base:
    """Stands for the tensor that a view looks at."""


BASE = _Base()


@dataclass(frozen=True, slots=True)
class Sight:
    """How a tensor looks into a memory."""

    memory: Memory
    steps: tuple[Step, ...] = ()

    def argument(self) -> Any:
        """What stands for the tensor among a call's arguments: an origin, or views of it."""
        found: Any = self.memory.now
        for step in self.steps:
            args, kwargs = _with_base((step.args, step.kwargs), found)
            found = Operation(operation_name(step.function), step.function, args, kwargs)
            if step.number is not None:
                found = Operation("operator.getitem", operator.getitem, (found, step.number))
        return found


def _with_base(template: Any, base: Any) -> Any:
    if template is BASE:
        return base
    if isinstance(template, (list, tuple)):
        return like(template, (_with_base(part, base) for part in template))
    return {key: _with_base(part, base) for key, part in template.items()} if isinstance(template, dict) else template


def replaced(template: Any, by: Callable[[Origin], Any]) -> Any:
    """A call's arguments with what `by` gives in the place of each origin."""
    if isinstance(template, Origin):
        return by(template)
    if isinstance(template, Operation):
        args, kwargs = replaced((template.args, template.kwargs), by)
        return replace(template, args=args, kwargs=kwargs)
    if isinstance(template, (list, tuple)):
        return like(template, (replaced(part, by) for part in template))
    return {key: replaced(part, by) for key, part in template.items()} if isinstance(template, Mapping) else template


def origins(template: Any) -> list[Origin]:
    """The origins among the arguments of a call, each once, in order of appearance."""
    found: dict[int, Origin] = {}
    replaced(template, lambda origin: found.setdefault(id(origin), origin))
    return list(found.values())


@dataclass(eq=False)
class Aliases:
    """The sights of all tensors seen so far, by identity."""

    sights: dict[int, Sight] = field(default_factory=dict)
    _alive: list[Any] = field(default_factory=list)

    def sight(self, tensor: Any) -> Sight | None:
        """How `tensor` looks into memory; None if it has not been seen."""
        return self.sights.get(id(tensor))

    def own(self, tensor: Any, origin: Origin) -> None:
        """`tensor` has memory of its own."""
        self._see(tensor, Sight(Memory(origin, tensor)))

    def same(self, tensor: Any, other: Sight) -> None:
        """`tensor` looks as `other` does."""
        self._see(tensor, other)

    def fresh(self, tensor: Any, other: Sight) -> None:
        """`tensor` begins in every run with what `other` looks at, in memory of its own."""
        self._see(tensor, Sight(Memory(other.argument(), tensor, is_fresh=True)))

    def view(self, tensor: Any, of: Sight, step: Step) -> None:
        """`tensor` is a view of what is seen by `of`."""
        back = of.steps and step.function._schema.name == of.steps[-1].function._schema.name == "aten::t"
        self._see(tensor, Sight(of.memory, of.steps[:-1] if back else (*of.steps, step)))

    def _see(self, tensor: Any, sight: Sight) -> None:
        self.sights[id(tensor)] = sight
        self._alive.append(tensor)  # so that no other tensor gets its identity


def functional(function: Any) -> Any:
    """The operator that returns what `function` would leave in the arguments that it changes, after its own results.

    Raises:
        TraceError: There is none.

    Example:
        >>> import torch
        >>> functional(torch.ops.aten.relu_.default), functional(torch.ops.aten.bernoulli_.float)
        (<OpOverload(op='aten.relu', overload='default')>, <OpOverload(op='aten.bernoulli', overload='p')>)
    """
    schema = function._schema
    name = schema.name.removeprefix("aten::").removesuffix("_")
    wanted = [str(argument.type) for argument in schema.arguments]
    kept = [str(returned.type) for returned in schema.returns if returned.alias_info is None]
    changed = [str(a.type) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    for packet in (name, f"{name}_functional"):
        for overload in _overloads(packet):
            types = [str(argument.type) for argument in overload._schema.arguments]
            returns = [str(returned.type) for returned in overload._schema.returns]
            if not overload._schema.is_mutable and types == wanted and returns == kept + changed:
                return overload
    raise TraceError(
        f"{function} changes a tensor in place that is no parameter, buffer or state, and PyTorch has no operator that "
        "returns the changed tensor instead: write it out of place"
    )


def _overloads(name: str) -> list[Any]:
    import torch

    packet = getattr(torch.ops.aten, name, None)
    return [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]
