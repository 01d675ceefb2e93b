"""Whether tasks return what their workload says, found on fake tensors: no kernel runs, and no memory is taken.

A plan's file may have been edited. An operator that is given other shapes than it takes mostly says so when it runs;
some kernels end the process.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from graphsched.errors import SignatureError
from graphsched.executors.declared import fits
from graphsched.executors.strict_shapes import strict
from graphsched.workload import Operation, Task, TensorSpec, Value, Workload
from graphsched.workload.collective import Collective, result_spec
from graphsched.workload.inference import fake_mode, fill, returned_tensors


def check_tasks(work: Workload, same: Callable[[Task], str]) -> None:
    """Make sure that every task of `work` returns what it declares for what it reads.

    Args:
        work: Of tasks with code.
        same: A text that is the same for two tasks only where these call the same function with the same constants:
            each such call is tried once for each shape of what it reads.

    Raises:
        SignatureError: One returns something else or cannot be called; names the task, and what it is given.

    Not modelled: operators whose results depend on values, as ``torch.nonzero``: they are not looked at.
    """
    for value in work.values.values():
        _check_bytes(value)
    known: dict[tuple[Any, ...], tuple[TensorSpec, ...] | None] = {}
    with _fake():
        for task in work.tasks:
            reads = tuple(_spec(task, read.value) for read in task.reads)
            if task.kind == "run":
                key = same(task), reads
                if key not in known:
                    known[key] = _returned(task, reads)
                _check(task, known[key])
            elif task.kind == "copy":
                _check(task, reads)
            elif task.kind == "collective":
                _check(task, _carried(task, reads))


def _check_bytes(value: Value) -> None:
    if value.spec is not None and value.nbytes != value.spec.nbytes:
        raise SignatureError(f"{value.name!r} is {value.spec}, which has {value.spec.nbytes} bytes, not {value.nbytes}")


def _spec(task: Task, value: Value) -> TensorSpec:
    if value.spec is None:
        raise SignatureError(f"task {task.name!r} has to do with {value.name!r}, which has no shape")
    return value.spec


def _check(task: Task, found: Sequence[TensorSpec] | None) -> None:
    declared = [_spec(task, value) for value in task.outputs]
    if found is None or (len(found) == len(declared) and all(map(fits, found, declared))):
        return
    raise SignatureError(f"task {task.name!r} of {_given(task)} returns {_listed(found)}, not {_listed(declared)}")


def _returned(task: Task, reads: Sequence[TensorSpec]) -> tuple[TensorSpec, ...] | None:
    """What a task returns; None: that depends on values."""
    from torch._subclasses import fake_tensor

    unknown = (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedOperatorException,
    )
    call = task.operation
    assert call is not None
    try:
        return tuple(map(TensorSpec.of, _called(call, reads)))
    except unknown:
        return None
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise SignatureError(f"task {task.name!r} cannot be called with {_given(task)}: {reason}") from error


def _called(call: Operation, reads: Sequence[TensorSpec]) -> list[Any]:
    import torch

    fakes = [
        torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
        if spec.stride is None
        else torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype))
        for spec in reads
    ]
    assert call.function is not None
    with strict():
        return returned_tensors(call.function(*fill(call.args, fakes), **fill(call.kwargs, fakes)))


def _carried(task: Task, reads: Sequence[TensorSpec]) -> list[TensorSpec]:
    """What a collective gives each of its devices."""
    name = task.operation.name if task.operation else ""
    if name not in get_args(Collective) or len({*reads}) != 1 or not (reads[0].shape or name == "all_reduce"):
        raise SignatureError(f"collective {task.name!r} is {name!r} of {_given(task)}: values of one shape are needed")
    return [result_spec(name, reads[0], len(reads))] * len(reads)


def _given(task: Task) -> str:
    return ", ".join(f"{read.value.name}: {read.value.spec}" for read in task.reads) or "nothing"


def _listed(specs: Sequence[TensorSpec] | None) -> str:
    return ", ".join(map(str, specs or ())) or "nothing"


@contextlib.contextmanager
def _fake() -> Iterator[None]:
    """Fake tensors, and nothing said of what fails there: it is reported here."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        with fake_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before
