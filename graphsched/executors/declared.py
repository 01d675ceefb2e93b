"""What tasks return, held against what they declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphsched.errors import SignatureError
from graphsched.workload import LEFT_BEHIND, TensorSpec, Value, has_data

KEPT_BY_OPERATORS = (0,), "uint8"


def check_outputs(task: str, results: list[Any], outputs: tuple[Value, ...], device: Any) -> None:
    """Make sure that a task returned what it declares, on the torch device `device`.

    Bytes that an operator keeps for its gradient, declared as none (``uint8[0]``), are as many as its library wants.

    Raises:
        SignatureError: Count, shape, type or device differ, or a tensor is sparse or has no data.
    """
    import torch

    if len(results) != len(outputs):
        raise SignatureError(f"task {task!r} declares {len(outputs)} outputs and returned {len(results)}")
    for result, value in zip(results, outputs, strict=True):
        if result.layout is not torch.strided:
            raise SignatureError(f"task {task!r} returned {value.name} as {result.layout}: return a dense tensor")
        spec = TensorSpec.of(result)
        if value.spec is not None and not fits(spec, value.spec):
            raise SignatureError(f"task {task!r} declares {value.name}: {value.spec} and returned {spec}")
        if result.device != device:
            raise SignatureError(
                f"task {task!r} ran on {device} and returned {value.name} on {result.device}: "
                "values change their device by work.copy(...)"
            )
        if not has_data(result):
            raise SignatureError(f"task {task!r} returned {value.name} as a tensor {LEFT_BEHIND}")


def fits(found: TensorSpec, declared: TensorSpec) -> bool:
    """Whether a tensor that was returned is what its task declares, whatever its strides."""
    if (declared.shape, declared.dtype) == KEPT_BY_OPERATORS:
        return found.dtype == declared.dtype
    return (found.shape, found.dtype) == (declared.shape, declared.dtype)


def as_declared(value: Value, slots: Sequence[Any], slot: int) -> Callable[[], Any]:
    """A function that returns what lies in `slot`, where bytes of `value` are to be moved.

    It raises `SignatureError` where shape or type are not the declared ones: `check_outputs` sees the first run alone.
    """
    import torch

    spec = value.spec
    assert spec is not None
    declared = torch.Size(spec.shape), getattr(torch, spec.dtype)

    def take() -> Any:
        found = slots[slot]
        if (found.shape, found.dtype) != declared:
            of_task = f" of task {value.producer!r}" if value.producer else ""
            raise SignatureError(
                f"{value.kind} {value.name!r}{of_task} is declared as {spec} and has become {TensorSpec.of(found)}: "
                "what a task returns must have one shape and type in all runs"
            )
        return found

    return take


def check_same(read: Any, made: Any) -> None:
    """Make sure that a result fits the memory that GPUs read it from.

    Raises:
        RuntimeError: It has become another.
    """
    if (made.shape, made.dtype) != (read.shape, read.dtype):
        was, now = (f"{t.dtype} {tuple(t.shape)}" for t in (read, made))
        raise RuntimeError(f"GPUs read {was} of it, which has become {now}")
