"""Values cut in blocks that travel alone, and put together again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphsched.collectives.members import Members
from graphsched.collectives.operations import called, flat, memory_order, shaped, specification
from graphsched.workload import ITEM_BYTES, TensorSpec, Value

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
    """The whole value on `device`, a new tensor in the shape of `spec`; one block alone is the whole."""
    if len(blocks) == 1:
        return members.send(what, blocks[0], device)
    made: Value = members.run(what, device, shaped(called("cat", list(blocks)), spec))
    return made


def everywhere(members: Members, blocks: Sequence[Value], spec: TensorSpec) -> list[Value]:
    """The whole value on every device, each block straight from where it is."""
    return [join(members, f"sum/{k}", device, blocks, spec) for k, device in enumerate(members.devices)]
