"""Calls of functions as tasks: what they read, return and change, from fake tensors or as declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphsched.errors import SignatureError, WorkloadError
from graphsched.workload.durations import checked_duration
from graphsched.workload.inference import Inferred, infer, like
from graphsched.workload.signatures import operation_name, signature
from graphsched.workload.tasks import Operation, Read, Slot, Task, TensorSpec, Value

if TYPE_CHECKING:
    from graphsched.workload.builder import Workload

Cache = dict[tuple[str, int], Inferred]
"""What operations return, by signature and function."""


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
    positional, named = _template(work, (args, kwargs), values)
    reads = tuple(work._order.read(work.values[v]) for v in values)
    operation = Operation(operation_name(function), function, positional, named)
    filed = signature(operation.name, positional, named, reads)
    inferred = _inferred(work._inferred, name, operation, reads, outputs, filed)
    _check_updates(work, name, updates, values, inferred)
    called = _names_of_outputs(name, names, len(inferred.outputs))
    return Task(
        name=name,
        reads=reads,
        outputs=tuple(_output(work, name, own, i, inferred, reads, updates) for i, own in enumerate(called)),
        updates=updates,
        operation=replace(operation, flops=inferred.flops),
        signature=filed,
        devices=devices,
        duration_s=checked_duration(name, duration_s),
    )


def _template(work: Workload, thing: Any, values: dict[str, int]) -> Any:
    """`thing` with a `Slot` for each value in it; `values` gets their names and places."""
    if isinstance(thing, Value):
        return Slot(values.setdefault(work._own(thing).name, len(values)))
    if isinstance(thing, Operation):
        args, kwargs = _template(work, (thing.args, thing.kwargs), values)
        return replace(thing, args=args, kwargs=kwargs)
    if isinstance(thing, (list, tuple)):
        return like(thing, (_template(work, t, values) for t in thing))
    if isinstance(thing, Mapping):
        return {k: _template(work, t, values) for k, t in thing.items()}
    if hasattr(thing, "untyped_storage"):
        raise WorkloadError(
            f"a tensor of shape {tuple(thing.shape)} is among the arguments, and no plan could move it: "
            "make it a value with work.input(...) or work.state(...)"
        )
    return thing


def _inferred(
    known: Cache,
    name: str,
    operation: Operation,
    reads: tuple[Read, ...],
    outputs: int | Sequence[TensorSpec] | None,
    filed: str,
) -> Inferred:
    """What the operation returns: as declared, as known of one of this signature, or as found on fake tensors."""
    if outputs is not None and not isinstance(outputs, int):
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


def _found(name: str, operation: Operation, specs: Sequence[TensorSpec]) -> Inferred:
    assert operation.function is not None
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
