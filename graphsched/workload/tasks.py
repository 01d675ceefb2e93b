"""The parts of a workload: values, reads and tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from graphsched.errors import DuplicateNameError, WorkloadError
from graphsched.workload.specs import TensorSpec

TaskKind = Literal["run", "copy", "barrier", "collective"]
ValueKind = Literal["input", "state", "output"]
Memory = Literal["pinned", "pageable", "fresh"]

_PLAIN = re.compile(r"[\w.:/-]+", re.ASCII)
RESERVED = re.compile(r"[@>,;#\s]")
"""What no name may hold: plans as text use it."""


def check_name(name: str) -> str:
    """Return `name` if it may name a task or value.

    Names are non-empty, hold no white space and none of ``@ > , ; #``, which the text form of a
    plan uses.

    Raises:
        DuplicateNameError: The name is empty or holds a reserved character.
    """
    if isinstance(name, str) and _PLAIN.fullmatch(name):
        return name
    if not isinstance(name, str) or not name:
        raise DuplicateNameError(f"a name must be a non-empty string, got {name!r}")
    if RESERVED.search(name) or not name.isprintable():
        raise DuplicateNameError(
            f"name {name!r} holds white space or one of '@ > , ; #', which plans reserve: use letters, "
            "digits, '.', '_', '-', ':' or '/'"
        )
    return name


def check_device(device: Any) -> str:
    """Return `device` if it is the name of a device or kind, which only a plan's platform can tell.

    Raises:
        WorkloadError: It is something else, such as a ``torch.device``.
    """
    if isinstance(device, str):
        return device
    raise WorkloadError(f"device {device!r} is a {type(device).__name__}: a name such as 'cuda:0' or 'cpu' is needed")


def check_devices(devices: Any) -> tuple[str, ...]:
    """Names of devices or kinds, of which one alone may be given as it is.

    Raises:
        WorkloadError: One is no name.

    Example:
        >>> check_devices("cuda"), check_devices(["cuda:0", "cuda:1"]), check_devices(())
        (('cuda',), ('cuda:0', 'cuda:1'), ())
    """
    several = devices if isinstance(devices, Iterable) and not isinstance(devices, str) else (devices,)
    return tuple(map(check_device, several))


def check_dense(kind: ValueKind, name: str, tensor: Any) -> None:
    """Make sure that `tensor`, given for the value `name`, has its elements in memory by strides.

    Raises:
        WorkloadError: It is sparse, nested, or in a layout of a library.

    Example:
        >>> import torch
        >>> check_dense("input", "x", torch.ones(3).to_sparse())
        Traceback (most recent call last):
        ...
        graphsched.errors.WorkloadError: input 'x' must be dense, got a sparse_coo tensor: call .to_dense() on it
    """
    import torch

    if tensor.layout is torch.strided and not tensor.is_nested:
        return
    found = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.").lstrip("_")
    way = "to_padded_tensor(0.0)" if tensor.is_nested else "to_dense()"
    raise WorkloadError(f"{kind} {name!r} must be dense, got a {found} tensor: call .{way} on it")


def check_data(kind: ValueKind, name: str, tensor: Any) -> None:
    """Make sure that `tensor`, given for the value `name` of a run, has elements.

    Raises:
        WorkloadError: It has none (`has_data`).
    """
    if not has_data(tensor):
        found = "tensor on meta" if tensor.is_meta else "fake tensor"
        raise WorkloadError(f"{kind} {name!r} has no data, got a {found}: give one with elements")


def has_data(tensor: Any) -> bool:
    """Whether `tensor` has elements: not so on ``meta``, and where ``FakeTensorMode`` made it.

    Example:
        >>> import torch
        >>> has_data(torch.ones(3)), has_data(torch.ones(3, device="meta"))
        (True, False)
    """
    import torch

    if type(tensor) is torch.Tensor:  # at once, for it is asked of every input of a run
        return not tensor.is_meta
    from torch._subclasses.fake_tensor import is_fake

    return not (tensor.is_meta or is_fake(tensor))


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """An input, a state tensor or an output of a task; pass it to a task to make an edge.

    Attributes:
        name: Unique in its workload. A task's only output is named after the task, one of several
            ``task.0``, ``task.1``, …
        kind: ``input``, ``state`` or ``output``.
        nbytes: Size in bytes.
        spec: Shape and type; None in model-only workloads.
        producer: Name of the task that makes it; None for inputs and states.
        root: Name of the value that owns the storage: itself, unless it is a view.
        born: Number of updates that the root had seen when this value was made.
        device: Where it lives before time 0 (inputs, states) or is put (copies); None: the plan decides.
    """

    name: str
    kind: ValueKind
    nbytes: int
    spec: TensorSpec | None = None
    producer: str | None = None
    root: str = ""
    born: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        if not self.root:
            object.__setattr__(self, "root", self.name)

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.spec or f'{self.nbytes} bytes'})"


@dataclass(frozen=True, slots=True)
class Read:
    """A value as a task sees it: `version` counts the updates of its storage so far.

    `source` is the task that wrote what is read: the producer or the last updater; None where the
    value is there before time 0.
    """

    value: Value
    version: int = 0
    source: str | None = None

    def __str__(self) -> str:
        return f"{self.value.name}@{self.version}" if self.version else self.value.name


@dataclass(frozen=True, slots=True)
class Slot:
    """Placeholder in an operation's arguments for the task's read number `index`."""

    index: int


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """A callable with its arguments, values replaced by `Slot`s.

    An argument may itself be an `Operation`, mostly a view of a value (``torch.mm(x, w.t())``): it is called first.

    Attributes:
        name: Where the function is found again: ``torch.mm``, ``package.module.function``; for a
            function without such a place its qualified name and a hash of its code.
        function: The callable; None in a workload read from a file.
        args, kwargs: Arguments; nested lists, tuples, dicts and operations may hold `Slot`s.
        flops: Floating-point operations, where torch's counter knows them.
    """

    name: str
    function: Callable[..., Any] | None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    flops: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Task:
    """One unit of work of a workload.

    Attributes:
        name: Unique in its workload.
        kind: ``run`` (an operation), ``copy`` (moves a value), ``barrier`` (the dispatching thread waits) or
            ``collective`` (of several devices at once: read and output k are on ``devices[k]``).
        reads: Distinct values read, in order of appearance.
        outputs: Values made.
        updates: Values changed in place (states or views of states); all are also among `reads`.
        after: Tasks that must come before without passing data (write-after-read and -write, barriers).
        operation: What runs; None for copies, barriers and model-only tasks; of a collective its name alone.
        signature: What the measured cost is filed under: operation, constants, shapes, strides, types.
        devices: Where it may run: device names (``cuda:0``) or kinds (``cuda``); empty: anywhere. Of a collective: who
            takes part.
        memory: Of a copy: kind of host memory, ``pinned``, ``pageable`` (warm) or ``fresh``.
        duration_s: Given duration in seconds, for all devices or by device name or kind.
    """

    name: str
    kind: TaskKind = "run"
    reads: tuple[Read, ...] = ()
    outputs: tuple[Value, ...] = ()
    updates: tuple[Value, ...] = ()
    after: tuple[str, ...] = ()
    operation: Operation | None = None
    signature: str = ""
    devices: tuple[str, ...] = ()
    memory: Memory = "pinned"
    duration_s: float | Mapping[str, float] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes read and written, each value once."""
        return sum(r.value.nbytes for r in self.reads) + sum(v.nbytes for v in self.outputs)

    def reads_on(self, device: str) -> Iterable[tuple[Read, str]]:
        """What it reads, and where: on its `device`; a collective on those of its members."""
        if self.kind == "collective":
            return zip(self.reads, self.devices, strict=True)
        return ((read, device) for read in self.reads)

    def __repr__(self) -> str:
        return f"Task({self.name}: {self.kind} {self.signature or ''})".replace(" )", ")")
