"""Collectives in one process: by NCCL on a stream of each GPU, by plain sums in host memory.

On GPUs the stream of the first device waits for all that the action waits for; the others begin behind it and it ends
behind them, so that its events stand for all. In host memory values are added from first to last, the same bits in
every run.

Not modelled: other operations than sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import Call
from graphsched.executors.clocks import new_event
from graphsched.executors.declared import as_declared
from graphsched.executors.lanes import CudaLane
from graphsched.executors.tensors import new_tensor
from graphsched.workload import Task


def in_host_memory(operation: str, tensors: Sequence[Any]) -> list[Any]:
    """What each device gets, in memory of its own, where all values are at hand.

    Example:
        >>> import torch
        >>> in_host_memory("reduce_scatter", [torch.tensor([1, 2]), torch.tensor([10, 20])])
        [tensor([11]), tensor([22])]
    """
    import torch

    if operation == "all_gather":
        whole = torch.cat(list(tensors))
    else:
        whole = tensors[0].clone()
        for tensor in tensors[1:]:
            whole += tensor
    if operation == "reduce_scatter":
        return [part.clone() for part in whole.tensor_split(len(tensors))]
    return [whole, *(whole.clone() for _ in tensors[1:])]


def collective_call(task: Task, lanes: Sequence[CudaLane], buffers: Buffers) -> Call:
    """A function that carries out a collective: on the streams of `lanes`, or in host memory where there are none."""
    assert task.operation is not None
    slots, operation = buffers.slots, task.operation.name
    given = [
        as_declared(read.value, slots, buffers.slot(buffers.plan.buffer(read, device)))
        for read, device in task.reads_on("")
    ]
    outputs = [buffers.slot(value.name) for value in task.outputs]
    if lanes:
        return _on_streams(task, lanes, slots, given, outputs)

    def on_host() -> None:
        for slot, tensor in zip(outputs, in_host_memory(operation, [take() for take in given]), strict=True):
            slots[slot] = tensor

    return on_host


def _on_streams(
    task: Task,
    lanes: Sequence[CudaLane],
    slots: list[Any],
    takes: Sequence[Callable[[], Any]],
    outputs: Sequence[int],
) -> Call:
    """NCCL's call for all devices at once; results come from the memory of each device's stream."""
    import torch
    from torch.cuda import nccl

    assert task.operation is not None
    call: Any = getattr(nccl, task.operation.name)
    streams = [lane.stream for lane in lanes]
    first, others = streams[0], streams[1:]
    fork, joins = new_event(), [new_event() for _ in others]
    members = [*zip(streams, takes, outputs, task.outputs, strict=True)]

    def together() -> None:
        fork.record(first)
        for stream in others:
            stream.wait_event(fork)
        given: list[Any] = []
        made: list[Any] = []
        for stream, take, output, value in reversed(members):  # the first one's stream is the lane's own
            torch.cuda.set_stream(stream)
            given.insert(0, take().contiguous())
            made.insert(0, new_tensor(value.spec, str(value.device)))
            slots[output] = made[0]
        call(given, made, streams=streams)
        for stream, join in zip(others, joins, strict=True):
            join.record(stream)
            first.wait_event(join)

    return together
