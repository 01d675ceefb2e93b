"""Memory of a GPU as torch's caching allocator deals it out, and of hosts, where a tensor takes what it needs.

`torch.cuda.max_memory_allocated` counts blocks, not tensors. Sizes are rounded up to 512 bytes. Blocks are cut from
segments: small ones (up to 1 MiB) from segments of 2 MiB, those below 10 MiB from segments of 20 MiB, larger ones have
a segment of their own, a multiple of 2 MiB. The smallest free block of the stream that is large enough is taken, and
its rest stays free only if it is worth while: so a block may hold up to 1 MiB more than its tensor.

Not modelled: what the process has taken and given back before; another configuration (``PYTORCH_CUDA_ALLOC_CONF``);
segments given back to the driver where memory runs out.

Source: c10/cuda/CUDACachingAllocator.cpp and c10/core/CachingDeviceAllocator.h of PyTorch 2.x.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from operator import attrgetter

MIB = 2**20
GRAIN = 512
SMALL, SMALL_SEGMENT = MIB, 2 * MIB
LARGE, LARGE_SEGMENT, LARGE_GRAIN = 10 * MIB, 20 * MIB, 2 * MIB

Pool = tuple[Hashable, bool]
"""Where free blocks wait: whose they are (a stream, in a graph or not), and whether they are small."""


@dataclass(eq=False, slots=True)
class Block:
    """Part of a segment; `order` sorts free blocks by size, then by place."""

    nbytes: int
    place: tuple[int, int]
    pool: Pool
    free: bool = False
    before: Block | None = None
    after: Block | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """What the allocator looks for: the smallest that is large enough, then the first."""
        return (self.nbytes, *self.place)


class CachingAllocator:
    """The memory of one GPU.

    Attributes:
        allocated_bytes: Of blocks in use, as `torch.cuda.memory_allocated` tells.

    Example:
        >>> gpu = CachingAllocator()
        >>> small, large = gpu.take(1000), gpu.take(11 * 2**20 + 1)
        >>> small.nbytes, large.nbytes / 2**20
        (1024, 12.0)
        >>> gpu.give_back(large)
        >>> gpu.allocated_bytes
        1024
    """

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self._segments = 0
        self._free: dict[Pool, list[Block]] = defaultdict(list)

    def take(self, nbytes: int, owner: Hashable = "") -> Block | None:
        """A block for a tensor of `nbytes`, on the stream `owner`; None for one without elements."""
        if not nbytes:
            return None
        size = _up(nbytes, GRAIN)
        pool = (owner, size <= SMALL)
        block = self._found(pool, size) or self._new(pool, size)
        if block.nbytes - size >= (GRAIN if size <= SMALL else SMALL + 1):
            self._cut(block, size)
        self.allocated_bytes += block.nbytes
        return block

    def give_back(self, block: Block) -> None:
        """The block is free for its stream, joined with free neighbours."""
        self.allocated_bytes -= block.nbytes
        block.free = True
        if block.before is not None and block.before.free:
            block = self._joined(self._unlisted(block.before), block)
        if block.after is not None and block.after.free:
            block = self._joined(block, self._unlisted(block.after))
        insort(self._free[block.pool], block, key=attrgetter("order"))

    def _found(self, pool: Pool, size: int) -> Block | None:
        listed = self._free[pool]
        at = bisect_left(listed, (size,), key=attrgetter("order"))
        if at == len(listed):
            return None
        block = listed.pop(at)
        block.free = False
        return block

    def _new(self, pool: Pool, size: int) -> Block:
        self._segments += 1
        whole = SMALL_SEGMENT if size <= SMALL else LARGE_SEGMENT if size < LARGE else _up(size, LARGE_GRAIN)
        return Block(whole, (self._segments, 0), pool)

    def _cut(self, block: Block, size: int) -> None:
        """The block keeps `size`; the rest becomes a free one behind it."""
        segment, offset = block.place
        rest = Block(block.nbytes - size, (segment, offset + size), block.pool, True, block, block.after)
        if rest.after is not None:
            rest.after.before = rest
        block.nbytes, block.after = size, rest
        insort(self._free[block.pool], rest, key=attrgetter("order"))

    def _unlisted(self, block: Block) -> Block:
        listed = self._free[block.pool]
        del listed[bisect_left(listed, block.order, key=attrgetter("order"))]
        return block

    def _joined(self, first: Block, second: Block) -> Block:
        first.nbytes, first.after = first.nbytes + second.nbytes, second.after
        if first.after is not None:
            first.after.before = first
        return first


class HostAllocator:
    """Memory of a host: a tensor takes its bytes.

    Attributes:
        allocated_bytes: Of tensors in use.
    """

    def __init__(self) -> None:
        self.allocated_bytes = 0

    def take(self, nbytes: int, owner: Hashable = "") -> Block | None:  # noqa: ARG002 - as that of a GPU
        """Room for a tensor of `nbytes`; None for one without elements."""
        self.allocated_bytes += nbytes
        return Block(nbytes, (0, 0), ("", False)) if nbytes else None

    def give_back(self, block: Block) -> None:
        """The tensor is gone."""
        self.allocated_bytes -= block.nbytes


def _up(nbytes: int, grain: int) -> int:
    return grain * -(-nbytes // grain)
