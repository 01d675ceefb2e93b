"""What an operation takes longer or shorter where a GPU's caches hold other things than for a row of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose

from graphsched.costs.checks import check_figure, check_finite
from graphsched.errors import CostError


@dataclass(frozen=True, slots=True)
class CacheStates:
    """Seconds of an operation inside a CUDA graph beyond those of the same in a row of its own, each measured alone.

    In a row it reads the same inputs again and again: small ones lie in the cache, large ones do not.

    Attributes:
        written_s: Where other kernels have just written its inputs: below 0 where these are so large that in a row
            they come from memory.
        lost_s: Where the cache holds none of its inputs; no less than `written_s`.
        company_s: Behind kernels of `COMPANY_KINDS` other kinds, so that its code must be fetched again.
        footprint: Part of the instruction cache that its code takes, and that others lose to it; None: not known.
        code_lost_s: Beyond `company_s`, where the cache of data has lost its code too, so that it comes from memory.
        beside_s: What it takes longer without its code where it starts together with a kernel of other code, which it
            must fetch, too, on another lane.
        beside_lost_s: Beyond `beside_s`, where the cache of data has lost its code too.
        pushed_bytes: As a fill of how many bytes it pushes others' lines out of the cache of data; 0: as much as it
            works on.
        shares: Part of each input, in the order in which they are read, in what `lost_s` is above `written_s`; empty:
            as their bytes. One that has none is not read, or not waited for.
    """

    written_s: float = 0.0
    lost_s: float = 0.0
    company_s: float = 0.0
    footprint: float | None = None
    code_lost_s: float = 0.0
    beside_s: float = 0.0
    beside_lost_s: float = 0.0
    pushed_bytes: int = 0
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("company_s", "code_lost_s", "beside_s", "beside_lost_s", "pushed_bytes"):
            check_figure(getattr(self, name), f"{name} of cache states")
        if self.footprint is not None:
            check_figure(self.footprint, "footprint of cache states")
            if self.footprint > 1.0:
                raise CostError(f"footprint is {self.footprint!r}: a part of the cache, no more than 1, is needed")
        for name in ("written_s", "lost_s"):
            check_finite(getattr(self, name), name)
        if self.lost_s < self.written_s:
            raise CostError(f"lost_s is {self.lost_s!r}: no less than written_s, {self.written_s!r}, is needed")
        for share in self.shares:
            check_figure(share, "a share of cache states")
        if self.shares and not isclose(sum(self.shares), 1.0, abs_tol=1e-6):
            raise CostError(f"shares are {self.shares!r}: parts of the inputs, 1 in all, are needed")

    def inputs_s(self, written: float, lost: float) -> float:
        """What its inputs make it longer; negative: shorter.

        Args:
            written: Part of its inputs (`weights`) that kernels of the graph have written and the cache holds.
            lost: Part that the cache does not hold. The rest is there since a run before.

        Example:
            >>> small, large = CacheStates(1.0, 3.0), CacheStates(-4.0, 0.5)
            >>> small.inputs_s(1.0, 0.0), small.inputs_s(0.5, 0.5), small.inputs_s(0.0, 0.0)
            (1.0, 2.0, 0.0)
            >>> large.inputs_s(1.0, 0.0), large.inputs_s(0.0, 0.0), large.inputs_s(0.0, 1.0)
            (-4.0, -4.0, 0.5)
        """
        there = 1.0 - written - lost
        return written * self.written_s + lost * self.lost_s + there * min(0.0, self.written_s)

    def weights(self, nbytes: Sequence[int]) -> Sequence[float]:
        """How much each input counts in `inputs_s`: its share, or its bytes where shares are not known.

        Args:
            nbytes: Of each input.

        Example:
            >>> CacheStates(shares=(1.0, 0.0)).weights([3, 13]), CacheStates().weights([3, 13])
            ((1.0, 0.0), [3, 13])
        """
        return self.shares if len(self.shares) == len(nbytes) else nbytes
