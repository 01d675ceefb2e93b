"""Calls of functions as tasks: what they read, return and change, from fake tensors or as declared."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from graphsched.errors import SignatureError, WorkloadError
from graphsched.workload.durations import checked_duration
from graphsched.workload.inference import Inferred, infer, like
from graphsched.workload.signatures import lasting, operation_name, signature
from graphsched.workload.specs import TensorSpec
from graphsched.workload.tasks import Operation, Read, Slot, Task, Value

if TYPE_CHECKING:
    from graphsched.workload.builder import Workload

SLOTS = functools.lru_cache(maxsize=None)(Slot)
CONSTANTS = (int, bool, str, type(None))
"""Types of arguments that are equal where they mean the same to an operation, as 0.0 and -0.0 do not."""


class Called(NamedTuple):
    """An operation with what it returns, and what its cost is filed under."""

    operation: Operation
    signature: str
    inferred: Inferred


@dataclass(slots=True)
class Known:
    """What is known of operations, so that each is looked at once: most tasks of a workload are alike.

    Attributes:
        inferred: What they return, by signature and function.
        called: Calls of values and constants alone, by function, arguments and specifications of what they read, the
            first and the last by their `id`: what is here keeps them, so a copy of it begins empty.
        specs: One of all that are equal.
    """

    inferred: dict[tuple[str, int], Inferred] = field(default_factory=dict)
    called: dict[tuple[Any, ...], Called] = field(default_factory=dict)
    specs: dict[TensorSpec, TensorSpec] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[Known], tuple[()]]:
        return Known, ()

    def spec(self, spec: TensorSpec) -> TensorSpec:
        """The one that stands for all that are equal to `spec`."""
        return self.specs.setdefault(spec, spec)


def called_task(
    work: Workload,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    updates: tuple[Value, ...],
    devices: tuple[str, ...],
    outputs: int | Sequence[TensorSpec] | None,
    names: Sequence[str],
    duration_s: Any,
) -> Task:
    """The task of `Workload.task`."""
    values: dict[str, int] = {}
    pattern = _pattern(work, function, args, kwargs, values) if outputs is None else None
    template = _template(work, (args, kwargs), values) if pattern is None else None
    order, owned = work._order, work.values
    reads = tuple([order.read(owned[v]) for v in values])
    key = pattern and (*pattern, *[id(read.value.spec) for read in reads])
    called = work._known.called.get(key) if key else None
    if called is None:
        positional, named = template or _template(work, (args, kwargs), {})
        called = _called(work._known, name, function, positional, named, reads, outputs)
        if key:
            work._known.called[key] = called
    operation, filed, inferred = called
    if updates or inferred.updated:
        _check_updates(work, name, updates, values, inferred)
    own = _names_of_outputs(name, names, len(inferred.outputs))
    return Task(
        name=name,
        reads=reads,
        outputs=tuple([_output(work, name, each, i, inferred, reads, updates) for i, each in enumerate(own)]),
        updates=updates,
        operation=operation,
        signature=filed,
        devices=devices,
        duration_s=checked_duration(name, duration_s),
    )


def _pattern(
    work: Workload,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    values: dict[str, int],
) -> tuple[Any, ...] | None:
    """What tells this call from others but for what it reads; None: not known, and `values` is empty.

    It is known of functions whose name stays, if values and constants alone are given to them.
    """
    if not lasting(function):
        return None
    found: list[Any] = [id(function), tuple(kwargs)]
    for thing in (*args, *kwargs.values()):
        kind = type(thing)
        if kind is Value:
            found.append(values.setdefault(work._own(thing).name, len(values)))
        elif kind in CONSTANTS:
            found.append((kind, thing))
        elif kind is float:
            found.append((kind, thing.hex()))
        else:
            values.clear()
            return None
    return tuple(found)


def _template(work: Workload, thing: Any, values: dict[str, int]) -> Any:
    """`thing` with a `Slot` for each value in it; `values` gets their names and places."""
    if isinstance(thing, Value):
        return SLOTS(values.setdefault(work._own(thing).name, len(values)))
    if isinstance(thing, Operation):
        args, kwargs = _template(work, (thing.args, thing.kwargs), values)
        return replace(thing, args=args, kwargs=kwargs)
    if isinstance(thing, (list, tuple)):
        return like(thing, [_template(work, t, values) for t in thing])
    if isinstance(thing, Mapping):
        return {k: _template(work, t, values) for k, t in thing.items()}
    if hasattr(thing, "untyped_storage"):
        raise WorkloadError(
            f"a tensor of shape {tuple(thing.shape)} is among the arguments, and no plan could move it: "
            "make it a value with work.input(...) or work.state(...)"
        )
    return thing


def _called(
    known: Known,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    reads: tuple[Read, ...],
    outputs: int | Sequence[TensorSpec] | None,
) -> Called:
    operation = Operation(operation_name(function), function, args, kwargs)
    filed = signature(operation.name, args, kwargs, reads)
    inferred = _inferred(known.inferred, name, operation, reads, outputs, filed)
    inferred = replace(inferred, outputs=tuple(map(known.spec, inferred.outputs)))
    return Called(replace(operation, flops=inferred.flops), filed, inferred)


def _inferred(
    known: dict[tuple[str, int], Inferred],
    name: str,
    operation: Operation,
    reads: tuple[Read, ...],
    outputs: int | Sequence[TensorSpec] | None,
    filed: str,
) -> Inferred:
    """What the operation returns: as declared, as known of one of this signature, or as found on fake tensors."""
    if outputs is not None and not isinstance(outputs, int):
        _check_declared(name, outputs)
        return Inferred(tuple(outputs), (None,) * len(outputs), (), 0)
    specs = tuple(r.value.spec for r in reads)
    if None in specs:
        raise SignatureError(f"task {name!r} reads a value without a shape: declare outputs=[TensorSpec(...)]")
    key = filed, id(operation.function)
    if key not in known:
        known[key] = _found(name, operation, specs)  # type: ignore[arg-type]
    inferred = known[key]
    if outputs is not None and outputs != len(inferred.outputs):
        raise SignatureError(f"task {name!r} declares {outputs} outputs, its function returns {len(inferred.outputs)}")
    return inferred


def _check_declared(name: str, outputs: Any) -> None:
    if not isinstance(outputs, Sequence) or not all(isinstance(each, TensorSpec) for each in outputs):
        raise SignatureError(
            f"task {name!r} declares outputs {outputs!r}: a list such as outputs=[TensorSpec(shape, dtype)] is needed"
        )


def _found(name: str, operation: Operation, specs: Sequence[TensorSpec]) -> Inferred:
    if operation.function is None:
        raise SignatureError(f"task {name!r} calls None: give a function over tensors, or declare what it returns")
    try:
        return infer(operation.function, operation.args, operation.kwargs, specs)
    except SignatureError as error:
        raise SignatureError(f"task {name!r}: {operation.name}: {error}") from error
    except Exception as error:
        raise SignatureError(
            f"task {name!r}: {operation.name} failed on tensors of shapes "
            f"{', '.join(map(str, specs))} ({type(error).__name__}: {error}); if it cannot run without "
            "data, declare outputs=[TensorSpec(shape, dtype), ...]"
        ) from error


def _check_updates(
    work: Workload, name: str, updates: tuple[Value, ...], values: Mapping[str, int], inferred: Inferred
) -> None:
    """Make sure that the states changed in place are those declared; `values` are those read, in order."""
    declared = set()
    for value in updates:
        if work.values[work._own(value).root].kind != "state":
            raise SignatureError(
                f"task {name!r} updates {value.name!r}, which is no state: make it with work.state(...)"
            )
        if value.name not in values:
            raise SignatureError(f"task {name!r} updates {value.name!r}, which is not among its arguments")
        declared.add(value.root)
    names = list(values) if inferred.updated else []
    for i in inferred.updated:
        if work.values[names[i]].root not in declared:
            raise SignatureError(
                f"task {name!r} changes its argument {names[i]!r} in place: declare updates={names[i]} "
                "(a state), or use the function that returns a new tensor"
            )


def _names_of_outputs(task: str, names: Sequence[str], count: int) -> list[str]:
    if names and len(names) != count:
        raise SignatureError(f"task {task!r} names {len(names)} outputs, its function returns {count}")
    return list(names) or ([task] if count == 1 else [f"{task}.{i}" for i in range(count)])


def _output(
    work: Workload,
    task: str,
    name: str,
    i: int,
    inferred: Inferred,
    reads: tuple[Read, ...],
    updates: tuple[Value, ...],
) -> Value:
    spec, alias = inferred.outputs[i], inferred.aliases[i]
    if alias is None:
        return Value(name, "output", spec.nbytes, spec, producer=task)
    root = reads[alias].value.root
    born = work._order.versions(root) + any(v.root == root for v in updates)
    return Value(name, "output", spec.nbytes, spec, producer=task, root=root, born=born)
