"""One run of a workload, task after task, on clones of its inputs and states: where real arguments come from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphsched.calibration.choosing import allowed, needed_for
from graphsched.errors import TaskFailedError, error_text
from graphsched.executors.calls import nested, operation_call
from graphsched.executors.collectives import in_host_memory
from graphsched.executors.declared import check_outputs
from graphsched.executors.tensors import torch_device
from graphsched.platform import Platform
from graphsched.workload import Task, TensorSpec, Value, Workload, fill, returned_tensors


@dataclass(frozen=True)
class Step:
    """A task about to run: its device and the tensors that it reads, which are not to be changed."""

    task: Task
    device: str
    tensors: tuple[Any, ...]

    def bound(self, tensors: Sequence[Any] | None = None) -> Callable[[], Any]:
        """The task's call on `tensors`; None: on clones of those that it reads."""
        return bind(self.task, [clone(t) for t in self.tensors] if tensors is None else tensors)


def bind(task: Task, tensors: Sequence[Any]) -> Callable[[], Any]:
    """The task's function with its arguments in place; lists and operations among these are made anew in every call."""
    operation = task.operation
    assert operation is not None
    assert operation.function is not None
    if any(map(nested, (*operation.args, *operation.kwargs.values()))):
        return operation_call(operation, range(len(tensors)), list(tensors))
    return partial(operation.function, *fill(operation.args, tensors), **fill(operation.kwargs, tensors))


def clone(tensor: Any) -> Any:
    """A copy with the same strides that shares nothing and records no gradient."""
    import torch

    tensor = tensor.detach()
    made = tensor.clone()
    if made.stride() == tensor.stride() or 0 in tensor.stride():
        return made
    size = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    flat = torch.empty(size, dtype=tensor.dtype, device=tensor.device)
    return flat.as_strided(tensor.shape, tensor.stride()).copy_(tensor)


class SerialRun:
    """Runs what is needed for `wanted`, and shows each wanted task before it runs.

    Tasks run on `device`; those that may not, on the first device that they may run on. States live
    on `device`; a task that updates one elsewhere has the result copied back.
    """

    def __init__(self, work: Workload, platform: Platform, device: str, wanted: Sequence[Task]) -> None:
        self._work, self._platform, self._device = work, platform, device
        self._model = platform.device(device).model
        self._wanted = {t.name for t in wanted}
        self._tasks = needed_for(work, wanted)
        self._last = {r.value.name: t.name for t in self._tasks for r in t.reads}
        self._values: dict[str, Any] = {}

    def steps(self) -> Iterator[Step]:
        """Each wanted task, when its inputs are there.

        Raises:
            TaskFailedError: A task raised; names it, its device and its inputs' shapes.
        """
        for task in self._tasks:
            if task.kind == "copy":
                self._values[task.outputs[0].name] = clone(self._value(task.reads[0].value))
            elif task.kind == "collective":
                self._add_up(task)
            else:
                device = self._place(task)
                tensors = tuple(self._value(r.value).to(torch_device(device)) for r in task.reads)
                if task.name in self._wanted:
                    yield Step(task, device, tensors)
                self._run(task, device, tensors)
            for read in task.reads:
                if self._last[read.value.name] == task.name and read.value.kind == "output":
                    self._values.pop(read.value.name, None)

    def _add_up(self, task: Task) -> None:
        """A collective, all of whose values lie on one device here."""
        assert task.operation is not None
        results = in_host_memory(task.operation.name, [self._value(r.value) for r in task.reads])
        self._values.update(zip((value.name for value in task.outputs), results, strict=True))

    def _place(self, task: Task) -> str:
        devices = allowed(task, self._platform)
        if not devices or any(d.model == self._model for d in devices):
            return self._device
        return devices[0].name

    def _value(self, value: Value) -> Any:
        if value.name not in self._values:
            given = self._work.numbers(value.name)
            made = random_tensor(value) if given is None else given
            self._values[value.name] = clone(made).to(torch_device(self._device))
        return self._values[value.name]

    def _run(self, task: Task, device: str, tensors: tuple[Any, ...]) -> None:
        with failures_named(task, device):
            results = returned_tensors(bind(task, tensors)())
            check_outputs(task.name, results, task.outputs, torch_device(device))
        for value in task.updates:
            i = [r.value.name for r in task.reads].index(value.name)
            if tensors[i] is not self._values[value.name]:
                self._values[value.name].copy_(tensors[i])
        for value, result in zip(task.outputs, results, strict=True):
            if value.name in self._last:
                self._values[value.name] = result


@contextlib.contextmanager
def failures_named(task: Task, device: str) -> Iterator[None]:
    """Turn what a task raises into `TaskFailedError` with its name, device and inputs."""
    try:
        yield
    except TaskFailedError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{r}: {r.value.spec}" for r in task.reads) or "none"
        text = error_text(error)
        raise TaskFailedError(f"task {task.name!r} failed on {device} with inputs {shapes}: {text}") from error


def random_tensor(value: Value) -> Any:
    """Random data for a value that was given by its specification only: zeros would be too fast."""
    import torch

    spec = value.spec or TensorSpec((value.nbytes,), "uint8")
    dtype, random = getattr(torch, spec.dtype), torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.rand(spec.shape, generator=random).to(dtype)
    return torch.randint(0, 2, spec.shape, generator=random).to(dtype)
