"""Tasks and copies as functions of no arguments over the slots of a program's buffers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any

from graphsched.errors import ExecutionError, TaskFailedError
from graphsched.executors.buffers import Buffers
from graphsched.executors.clocks import new_event
from graphsched.executors.declared import as_declared, check_outputs, check_same
from graphsched.executors.lanes import CudaLane, is_cuda
from graphsched.executors.peer_copies import allow_access, driver_copy, is_plain
from graphsched.executors.places import as_operation, into
from graphsched.executors.tensors import new_tensor, torch_device
from graphsched.plan import Copy
from graphsched.plan.joins import concatenation, replaced
from graphsched.workload import Operation, Read, Slot, Task, TensorSpec, fill, like, returned_tensors

Call = Callable[[], None]
NOT_ONE = tuple, list, NoneType


def task_call(task: Task, device: str, buffers: Buffers) -> Call:
    """A function that runs `task` on `device`: arguments from their slots, results into theirs.

    Its first call makes sure that the task returns what it declares; later ones, that it returns as many tensors.
    """
    assert task.operation is not None
    slots = buffers.slots
    reads = [buffers.slot(buffers.plan.buffer(r, device)) for r in task.reads]
    outputs = [buffers.slot(v.name) for v in task.outputs]
    result = operation_call(_in_place(task, buffers), reads, slots)
    where, checked = torch_device(device), [False]

    def store_first(out: Any) -> None:
        results = returned_tensors(out)
        check_outputs(task.name, results, task.outputs, where)
        for slot, tensor in zip(outputs, results, strict=True):
            slots[slot] = tensor
        checked[0] = True

    def one() -> None:
        out = result()
        if checked[0] and out.__class__ not in NOT_ONE:
            slots[output] = out
        else:
            store_first(out)

    def several() -> None:
        out = result()
        results = [t for t in out if t is not None] if checked[0] and isinstance(out, (tuple, list)) else ()
        if len(results) == len(outputs):
            for slot, tensor in zip(outputs, results, strict=True):
                slots[slot] = tensor
        else:
            store_first(out)

    def none() -> None:
        out = result()
        if not checked[0]:
            store_first(out)

    if len(outputs) == 1:
        output = outputs[0]
        return one
    return several if outputs else none


def pinning_call(call: Call, reads: Sequence[Read], buffers: Buffers) -> Call:
    """A function that makes `call`, of a task on the CPU, and copies what it wrote of these into pinned memory."""
    slots = buffers.slots
    ends = [(buffers.slot(read.value.name), buffers.pinned(read)) for read in reads]

    def call_and_pin() -> None:
        call()
        for source, target in ends:
            made, pinned = slots[source], slots[target]
            check_same(pinned, made)
            pinned.copy_(made)

    return call_and_pin


def _in_place(task: Task, buffers: Buffers) -> Operation:
    """The operation of `task`; of a join without the concatenation, of a part of one to its place in it."""
    operation = task.operation
    assert operation is not None
    if task.name in buffers.joined:
        cat = concatenation(operation)
        assert cat is not None
        return as_operation(replaced(operation, cat, buffers.joined[task.name]))
    place = buffers.places.get(task.outputs[0].name) if len(task.outputs) == 1 else None
    return operation if place is None else into(operation, place)


def operation_call(operation: Operation, reads: Sequence[int], slots: list[Any]) -> Callable[[], Any]:
    """A function that carries out `operation`, and every time those among its arguments; the flat case in few steps.

    Args:
        operation: What to call.
        reads: By number of a `Slot` of the operation, the place in `slots` where its tensor lies at the call.
        slots: Constants are appended.
    """
    assert operation.function is not None
    function: Callable[..., Any] = operation.function
    args, kwargs = operation.args, operation.kwargs
    if any(nested(a) for a in (*args, *kwargs.values())):
        of_args = [_getter(a, reads, slots) for a in args]
        of_kwargs = {key: _getter(v, reads, slots) for key, v in kwargs.items()}
        return lambda: function(*[get() for get in of_args], **{key: get() for key, get in of_kwargs.items()})
    where = [reads[a.index] if isinstance(a, Slot) else _constant(a, slots) for a in args]
    if any(isinstance(v, Slot) for v in kwargs.values()):
        return lambda: function(*[slots[i] for i in where], **fill(kwargs, [slots[i] for i in reads]))
    if kwargs:
        function = functools.partial(function, **kwargs)
    if not where:
        return function
    if len(where) == 1:
        first = where[0]
        return lambda: function(slots[first])
    arguments = itemgetter(*where)
    return lambda: function(*arguments(slots))


def _constant(thing: Any, slots: list[Any]) -> int:
    slots.append(thing)
    return len(slots) - 1


def _getter(argument: Any, reads: Sequence[int], slots: list[Any]) -> Callable[[], Any]:
    """A function that returns `argument` with its slots looked up and its operations called."""
    if isinstance(argument, Slot):
        slot = reads[argument.index]
        return lambda: slots[slot]
    if isinstance(argument, Operation):
        return operation_call(argument, reads, slots)
    if not nested(argument):
        return lambda: argument
    if isinstance(argument, Mapping):
        by_key = {key: _getter(part, reads, slots) for key, part in argument.items()}
        return lambda: {key: get() for key, get in by_key.items()}
    parts = [_getter(part, reads, slots) for part in argument]
    return lambda: like(argument, [get() for get in parts])


def nested(argument: Any) -> bool:
    """Whether something has to be called or put together for `argument` at every call."""
    if isinstance(argument, Operation):
        return True
    parts = argument.values() if isinstance(argument, Mapping) else argument
    if not isinstance(argument, (list, tuple, Mapping)):
        return False
    return any(isinstance(p, Slot) or nested(p) for p in parts)


def copy_call(name: str, copy: Copy, buffers: Buffers) -> Call:
    """A function that makes copy `name`, on the current streams of its devices."""
    slots = buffers.slots
    source = buffers.source(copy)
    output = buffers.slot(name)
    place = buffers.places.get(name)
    if place is not None:
        return _to_place(buffers, source, output, copy, place)
    if is_cuda(copy.target):
        return _to_cuda(slots, source, output, copy)
    if copy.memory == "fresh":

        def fresh() -> None:
            slots[output] = slots[source].to("cpu", copy=True)

        return fresh
    assert copy.read.value.spec is not None
    take, lets_go = as_declared(copy.read.value, slots, source), _lets_go(copy)
    pair = buffers.host_pair(copy.read.value.spec, pinned=copy.memory == "pinned")
    if not copy.task:
        buffers.keep(pair)
    turns = itertools.cycle(pair)

    def to_host() -> None:
        target = next(turns)
        target.copy_(take(), non_blocking=lets_go)
        slots[output] = target

    return to_host


def _to_place(buffers: Buffers, source: int, output: int, copy: Copy, place: Any) -> Call:
    slots = buffers.slots
    take, lets_go = as_declared(copy.read.value, slots, source), _lets_go(copy)

    def to_place() -> None:
        slots[output] = place.copy_(take(), non_blocking=lets_go)

    return to_place


def _lets_go(copy: Copy) -> bool:
    """Whether a stream makes the copy while its thread goes on.

    From a worker it is made by that lane's thread, which says that it is over when the call returns.
    """
    to_or_from_gpu = is_cuda(copy.source) or (copy.source == "cpu" and is_cuda(copy.target))
    return copy.memory == "pinned" and to_or_from_gpu


def _to_cuda(slots: list[Any], source: int, output: int, copy: Copy) -> Call:
    device = torch_device(copy.target)
    lets_go = _lets_go(copy)

    def to_cuda() -> None:
        slots[output] = slots[source].to(device, non_blocking=lets_go, copy=True)

    return to_cuda


def peer_call(name: str, copy: Copy, lane: CudaLane, buffers: Buffers) -> Call:
    """A copy between GPUs with peer access, on the lane's stream alone.

    Memory for it comes from the stream that is current on the target. Tensors with gaps, and those without elements,
    which have no address, go by torch's copy.
    """
    spec, slots = copy.read.value.spec, buffers.slots
    assert spec is not None
    source, output = buffers.slot(copy.read.value.name), buffers.slot(name)
    allow_access(copy.source, copy.target)
    copy_bytes, stream = driver_copy(), lane.stream.cuda_stream
    place, nbytes = buffers.places.get(name), spec.nbytes
    make: Callable[[], Any] = functools.partial(new_tensor, TensorSpec(spec.shape, spec.dtype), copy.target)
    take, by_torch = as_declared(copy.read.value, slots, source), _to_cuda(slots, source, output, copy)
    if place is not None:
        make, by_torch = lambda: place, _to_place(buffers, source, output, copy, place)
    if not nbytes:
        return by_torch

    def across() -> None:
        there = take()
        if is_plain(there):
            here = make()
            copy_bytes(here.data_ptr(), there.data_ptr(), nbytes, stream)
            slots[output] = here
        else:
            by_torch()

    return across


def staged_calls(name: str, copy: Copy, lane: CudaLane, buffers: Buffers) -> Call:
    """A copy between GPUs without peer access: through pinned host memory."""
    slots = buffers.slots
    source, output = buffers.slot(copy.read.value.name), buffers.slot(name)
    assert copy.read.value.spec is not None
    turns = itertools.cycle(buffers.host_pair(copy.read.value.spec, pinned=True))
    take = as_declared(copy.read.value, slots, source)
    target, device = lane.targets[copy.target], torch_device(copy.target)
    place = buffers.places.get(name)
    out, there = new_event(), new_event()  # an event belongs to the device that records it first

    def staged() -> None:
        middle = next(turns)
        middle.copy_(take(), non_blocking=True)
        out.record(lane.stream)
        target.wait_event(out)
        if place is None:
            slots[output] = middle.to(device, non_blocking=True, copy=True)
        else:
            slots[output] = place.copy_(middle, non_blocking=True)
        there.record(target)
        lane.stream.wait_event(there)

    return staged


def failure_of(error: BaseException, name: str, task: Task | None, lane: str) -> BaseException:
    """The error of an action that raised: it names the action, its lane and its inputs' shapes."""
    if not isinstance(error, Exception) or isinstance(error, ExecutionError):
        return error
    shapes = ", ".join(f"{r}: {r.value.spec}" for r in task.reads) if task else ""
    text = _text_of(error)
    late = " (CUDA reports errors of earlier work late)" if "CUDA error" in text else ""
    failed = TaskFailedError(
        f"{name!r} failed on lane {lane}{f' with inputs {shapes}' if shapes else ''}: "
        f"{type(error).__name__}: {text}{late}"
    )
    failed.__cause__ = error
    return failed


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception as of_text:  # the user's: a lane must not end by it
        return f"no message ({type(of_text).__name__} in its __str__)"
