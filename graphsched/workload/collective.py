"""Collectives as tasks: one operation of several devices at once, each of which gives a value and gets one.

All devices must come before any can go on: so it is one task, and a plan makes one action of it that occupies a lane of
each device. A broadcast or a reduction to one device, where the first may leave before the last has come, is made of
copies and sums in `graphsched.collectives`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from graphsched.errors import WorkloadError
from graphsched.workload.durations import checked_duration
from graphsched.workload.specs import TensorSpec
from graphsched.workload.tasks import Operation, Task, Value

if TYPE_CHECKING:
    from graphsched.workload.builder import Workload

Collective = Literal["all_reduce", "all_gather", "reduce_scatter"]

CARRIED = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
"""Element types that both NCCL and Gloo know."""


def collective(
    work: Workload,
    operation: Collective,
    values: Sequence[Value],
    devices: Sequence[str],
    name: str | None,
    duration_s: float | Mapping[str, float] | None,
) -> tuple[Value, ...]:
    """The values of `Workload.collective`, one a device."""
    if operation not in get_args(Collective):
        raise WorkloadError(f"no collective {operation!r}: there are {', '.join(get_args(Collective))}")
    name = work._name(name, operation)
    spec = _checked(work, operation, name, values, devices)
    made = result_spec(operation, spec, len(devices))
    task = Task(
        name=name,
        kind="collective",
        reads=tuple(work._order.read(value) for value in values),
        outputs=tuple(
            Value(f"{name}.{k}", "output", made.nbytes, made, producer=name, device=device)
            for k, device in enumerate(devices)
        ),
        operation=Operation(operation, None),
        signature=collective_signature(operation, spec, len(devices)),
        devices=tuple(devices),
        duration_s=checked_duration(name, duration_s),
    )
    work._add(task)
    return task.outputs


def collective_signature(operation: str, spec: TensorSpec, devices: int) -> str:
    """What the cost of a collective is filed under.

    Example:
        >>> collective_signature("all_reduce", TensorSpec((8,)), 4)
        'all_reduce(float32[8] on 4 devices)'
    """
    return f"{operation}({spec} on {devices} devices)"


def result_spec(operation: str, spec: TensorSpec, devices: int) -> TensorSpec:
    """What every device gets where each gives a tensor like `spec`; rows are put one behind the other, and cut.

    Example:
        >>> [str(result_spec(name, TensorSpec((6, 4)), 3)) for name in get_args(Collective)]
        ['float32[6,4]', 'float32[18,4]', 'float32[2,4]']
    """
    if operation == "all_reduce":
        return spec
    rows = spec.shape[0] * devices if operation == "all_gather" else spec.shape[0] // devices
    return TensorSpec((rows, *spec.shape[1:]), spec.dtype)


def _checked(work: Workload, operation: str, name: str, values: Sequence[Value], devices: Sequence[str]) -> TensorSpec:
    """The specification that all `values` have."""
    own = [work._own(value) for value in values]
    listed = isinstance(devices, Sequence) and not isinstance(devices, str)
    if not listed or not all(isinstance(device, str) for device in devices) or not 2 <= len({*devices}) == len(devices):
        raise WorkloadError(f"collective {name!r} is on {devices!r}: name two devices or more, each once")
    if len(own) != len(devices) or len({value.name for value in own}) < len(own):
        raise WorkloadError(
            f"collective {name!r} has {len(own)} values for {len(devices)} devices: give a value of its own for each"
        )
    spec = own[0].spec
    for value in own:
        if value.spec is None or value.spec != spec:
            raise WorkloadError(
                f"collective {name!r}: value {value.name!r} is {value.spec or 'without a shape'}, {own[0].name!r} is "
                f"{spec or 'without a shape'}: values of one shape and type are needed"
            )
    assert spec is not None
    _check_spec(operation, name, spec, len(devices))
    return spec


def _check_spec(operation: str, name: str, spec: TensorSpec, devices: int) -> None:
    wrong: Any = None
    if spec.stride is not None:
        wrong = "not contiguous: make it so in a task (torch.Tensor.contiguous)"
    elif spec.dtype not in CARRIED:
        wrong = f"of a type that does not travel: convert it in a task to one of {', '.join(CARRIED)}"
    elif operation != "all_reduce" and not spec.shape:
        wrong = "without rows: reshape it to [1] or more in a task"
    elif operation == "reduce_scatter" and spec.shape[0] % devices:
        wrong = f"not to be cut in {devices} equal parts: fill its rows up to a multiple of {devices}"
    if wrong is not None:
        raise WorkloadError(f"collective {name!r} of {spec} values: they are {wrong}")
