"""Keys on servers: whole, so that all servers have about as many bytes, or each key cut in as many parts as there are.

Not modelled: how fast servers are, or how near.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphsched.collectives.blocks import block_sizes
from graphsched.collectives.requests import check_known
from graphsched.errors import WorkloadError
from graphsched.workload import ITEM_BYTES, TensorSpec

SHARDS = ("keys", "elements")
CUT_FROM_BYTES = 256 * 1024
"""Smaller keys stay whole: on an NVLink of 300 GB/s they take a microsecond, and each of their copies several."""


@dataclass(frozen=True)
class Part:
    """Elements of a key, in the order of memory, that one server has.

    Attributes:
        server: Its name.
        elements: How many; those of the parts before it come first.
    """

    server: str
    elements: int


class Sharding:
    """Which server has what, for all keys that were placed.

    Keys that are placed together go largest first, each to the servers with the fewest bytes so far; ties go to the
    server that was named first, and to the key first in the alphabet. Keys stay where they are.

    Args:
        servers: Their names.
        shard: ``keys``: each is on one server; ``elements``: each is cut in as many parts as there are servers.
        cut_from_bytes: Keys of fewer bytes stay whole; 0: all are cut.

    Raises:
        WorkloadError: There is no such way, or no such number of bytes.

    Source: Graham, Bounds on Multiprocessing Timing Anomalies, SIAM Journal on Applied Mathematics 17, 1969 (largest
    first: the fullest server has 4/3 - 1/(3n) of the least possible at most). MXNet cuts arrays from a size on.

    Example:
        >>> sharding = Sharding(["a", "b"], "keys")
        >>> sharding.place({"bias": TensorSpec((10,)), "out": TensorSpec((50,)), "weight": TensorSpec((60,))})
        >>> {key: parts[0].server for key, parts in sharding.parts.items()}
        {'weight': 'a', 'out': 'b', 'bias': 'b'}
        >>> sharding.nbytes
        {'a': 240, 'b': 240}
    """

    def __init__(self, servers: Sequence[str], shard: str, cut_from_bytes: int = CUT_FROM_BYTES) -> None:
        if isinstance(cut_from_bytes, bool) or not isinstance(cut_from_bytes, int) or cut_from_bytes < 0:
            raise WorkloadError(f"cut_from_bytes is {cut_from_bytes!r}: a whole number of bytes, 0 or more, is needed")
        self.pieces = len(servers) if check_known("way to shard", shard, SHARDS) == "elements" else 1
        self.cut_from_bytes = cut_from_bytes
        self.nbytes = dict.fromkeys(servers, 0)
        self.parts: dict[str, tuple[Part, ...]] = {}

    def sizes(self, spec: TensorSpec) -> list[int]:
        """Elements of each part of a key; parts begin at multiples of 16 bytes, so that there may be fewer."""
        cut = self.pieces > 1 and spec.nbytes >= self.cut_from_bytes
        return block_sizes(spec, self.pieces) if cut else [math.prod(spec.shape)]

    def place(self, keys: Mapping[str, TensorSpec]) -> None:
        """Choose servers for `keys`, which have none yet."""
        for key, spec in sorted(keys.items(), key=lambda item: (-item[1].nbytes, item[0])):
            free = sorted(self.nbytes, key=self.nbytes.__getitem__)
            self.parts[key] = tuple(Part(*pair) for pair in zip(free, self.sizes(spec), strict=False))
            for part in self.parts[key]:
                self.nbytes[part.server] += part.elements * ITEM_BYTES[spec.dtype]
