"""Keys of a running store: what was pushed, and what servers made of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsched.errors import GraphschedError, WorkloadError
from graphsched.executors.tensors import extent
from graphsched.kvstore.aggregates import Aggregate, Update
from graphsched.kvstore.requests import check_like, missing_text
from graphsched.kvstore.servers import Placed, Server
from graphsched.workload import TensorSpec, has_data


@dataclass
class Shard:
    """What one server has of a key.

    Attributes:
        server, elements: Where, and how many of the key.
        rounds: Values of complete rounds that are not added up yet, in the order in which they are to be added.
        value: What it has come to; a new tensor in each round, so that pulls may go on reading the last one.
        done: Rounds that are in `value`.
    """

    server: Server
    elements: int
    rounds: deque[list[Placed]] = field(default_factory=deque)
    value: Placed | None = None
    done: int = 0

    def next_value(self, aggregate: Aggregate, update: Update | None) -> Placed:
        """What the oldest round makes of the value.

        Raises:
            WorkloadError: It has another shape or type, which the functions without data did not tell.
        """
        given = [placed.taken() for placed in self.rounds[0]]
        total = aggregate.of(given)
        _check_made("the aggregate", total, given[0])
        if update is None:
            return Placed.made(total)
        assert self.value is not None
        stored = self.value.taken().clone()
        update(stored, total)
        _check_made("what is stored", stored, given[0])
        return Placed.made(stored)


@dataclass
class Entry:
    """A key.

    Attributes:
        name, spec: Its name; shape and type of all its values, contiguous.
        shards: In the order of elements.
        open: What was pushed in the present round, parts by worker in the order of arrival.
        priority: The highest of these pushes.
        pushes: Rounds that each worker has pushed.
        complete: Rounds that every worker has pushed.
        failure: What went wrong on a server; the key is of no use from then on.
        told: Whether somebody has been told of it.
    """

    name: str
    spec: TensorSpec
    shards: tuple[Shard, ...]
    pushes: list[int]
    open: dict[int, list[Placed]] = field(default_factory=dict)
    priority: float = 0
    complete: int = 0
    failure: GraphschedError | None = None
    told: bool = False

    def check(self) -> None:
        """Make sure that no server has failed.

        Raises:
            GraphschedError: One has.
        """
        if self.failure is not None:
            raise self.tell()

    def tell(self) -> GraphschedError:
        """The failure, of which somebody has been told from now on."""
        assert self.failure is not None
        self.told = True
        return self.failure

    def parts(self, tensor: Any) -> Sequence[Any]:
        """Views of the elements of each shard; the whole, where there is one."""
        if len(self.shards) == 1:
            return [tensor]
        parts: Sequence[Any] = tensor.reshape(-1).split([shard.elements for shard in self.shards])
        return parts

    def has(self, rounds: int) -> bool:
        """Whether all servers have come to the same round, this one or a later one, and have a value."""
        done = {shard.done for shard in self.shards}
        return len(done) == 1 and min(done) >= rounds and self.shards[0].value is not None

    def missing(self) -> list[int]:
        """Workers that have not pushed in the present round."""
        return [worker for worker in range(len(self.pushes)) if worker not in self.open]

    def stuck(self, rounds: int, timeout_s: float) -> str:
        """Why so many rounds were not over in time."""
        said = f"key {self.name!r}, round {rounds - 1}: "
        if self.complete >= rounds:
            return f"{said}the servers have not added it up after {timeout_s:g} s: give more timeout_s"
        return (
            f"{said}{missing_text(self.missing())} not pushed it after {timeout_s:g} s: every worker must push each "
            "key in each round; or give more timeout_s"
        )


def _check_made(what: str, made: Any, value: Any) -> None:
    found = TensorSpec.of(made) if hasattr(made, "untyped_storage") else type(made).__name__
    if not isinstance(found, TensorSpec) or (made.shape, made.dtype) != (value.shape, value.dtype):
        raise WorkloadError(f"{what} is {found}, and values are {TensorSpec.of(value)}: keep their shape and type")


def specification_of(key: str, who: str, tensor: Any) -> TensorSpec:
    """Shape and type of a tensor; the store makes it contiguous.

    Raises:
        WorkloadError: It is none, not a dense one, or has no data.
    """
    if not hasattr(tensor, "untyped_storage"):
        raise WorkloadError(f"{who} gives a {type(tensor).__name__} for key {key!r}: a tensor is needed")
    layout = str(tensor.layout).removeprefix("torch.")
    if layout != "strided":
        raise WorkloadError(f"{who} gives a {layout} tensor for key {key!r}: a dense one is needed, as of to_dense()")
    if not has_data(tensor):
        raise WorkloadError(f"{who} gives a tensor without data for key {key!r}: give one with elements")
    return TensorSpec(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def check_out(key: str, spec: TensorSpec, device: str | None, out: Any) -> None:
    """Make sure that a pull can fill `out`.

    Raises:
        WorkloadError: It is unlike the key, or a device is named beside it.
    """
    if out is None:
        return
    if device is not None:
        raise WorkloadError(f"key {key!r} is pulled to device {device!r} and into out: give one of them")
    check_like(key, "out", specification_of(key, "out", out), spec)
    if extent(TensorSpec.of(out)) is None:
        raise WorkloadError(f"key {key!r} is pulled into out, whose elements share memory: give its clone()")


def whole(entry: Entry, tensors: Sequence[Any], device: Any, out: Any) -> Any:
    """The parts put together, in a new tensor on `device` or in `out`."""
    import torch

    if out is not None:
        if len(tensors) == 1:
            return out.copy_(tensors[0])
        return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors]).view(entry.spec.shape))
    if len(tensors) == 1:
        return tensors[0].to(device, copy=True)
    return torch.cat([tensor.to(device) for tensor in tensors]).view(entry.spec.shape)
