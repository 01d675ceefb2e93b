"""Values cut in blocks that travel alone, and put together again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphsched.collectives.members import Members, location
from graphsched.collectives.operations import called, flat, memory_order, shaped, specification
from graphsched.plan.joins import is_made_in_place
from graphsched.workload import ITEM_BYTES, TensorSpec, Value, Workload

ALIGNED_BYTES = 16
"""Blocks begin where kernels can load several elements at once."""


def block_sizes(spec: TensorSpec, blocks: int) -> list[int]:
    """Elements of each block: even, but aligned; fewer blocks where there is too little.

    Example:
        >>> block_sizes(TensorSpec((1000,)), 3), block_sizes(TensorSpec((5,)), 3), block_sizes(TensorSpec((3,)), 3)
        ([336, 336, 328], [4, 1], [3])
    """
    return part_sizes(math.prod(spec.shape), blocks, ITEM_BYTES[spec.dtype])


def part_sizes(elements: int, blocks: int, item_bytes: int) -> list[int]:
    """The same for so many elements of so many bytes."""
    step = max(1, ALIGNED_BYTES // item_bytes)
    size = max(1, math.ceil(elements / blocks / step)) * step
    return [min(size, elements - start) for start in range(0, max(elements, 1), size)]


def cut(members: Members, values: Sequence[Value], sizes: Sequence[int]) -> list[list[Value]]:
    """Blocks of the value of each member: views of it, so that no kernel runs where it is dense.

    One block alone is the value itself. The seconds of a view are given (0 on the device), as estimates go by bytes.
    """
    if len(sizes) == 1:
        return [[value] for value in values]
    return [cut_one(members, k, value, sizes) for k, value in enumerate(values)]


def cut_one(members: Members, k: int, value: Value, sizes: Sequence[int]) -> list[Value]:
    """Two blocks or more of the value of member k."""
    spec = specification(value)
    is_view = spec.stride is None or memory_order(spec) is not None
    operation = called("split", flat(value), list(sizes))
    more = {"duration_s": 0.0} if is_view else {}
    return list(members.run(f"cut/{k}", members.devices[k], operation, **more))


def join(members: Members, what: str, device: str, blocks: Sequence[Value], spec: TensorSpec) -> Value:
    """The whole value on `device`, a new tensor in the shape of `spec`; one block alone is the whole.

    Where all blocks can be made in their places, it takes no time: see `plan.joins`.
    """
    if len(blocks) == 1:
        return members.send(what, blocks[0], device)
    more = {"duration_s": 0.0} if are_made_in_place(members.work, blocks, device) else {}
    made: Value = members.run(what, device, shaped(called("cat", list(blocks)), spec), **more)
    return made


def are_made_in_place(work: Workload, blocks: Sequence[Value], device: str) -> bool:
    """Whether all blocks are copied to `device`, or made there, into memory that may be given: see `plan.joins`."""
    return all(_may_lie_there(work, block, device) for block in blocks)


def _may_lie_there(work: Workload, block: Value, device: str) -> bool:
    """Whether a block on `device` is a copy, or made by a task that may be told where to put it."""
    if location(work, block) != device:
        return location(work, block) is not None
    if block.producer is None:
        return False
    task = work[block.producer]
    return task.kind == "copy" or (len(task.outputs) == 1 and is_made_in_place(task.operation))


def everywhere(members: Members, blocks: Sequence[Value], spec: TensorSpec) -> list[Value]:
    """The whole value on every device, each block straight from where it is."""
    return [join(members, f"sum/{k}", device, blocks, spec) for k, device in enumerate(members.devices)]
