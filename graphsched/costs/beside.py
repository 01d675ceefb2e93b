"""How one operation fares beside one other on the same device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphsched.costs.checks import check_count, check_figure
from graphsched.costs.points import check_points
from graphsched.errors import CostError

PAIR, MOST_COPIES = 2, 1024


@dataclass(frozen=True, slots=True)
class Beside:
    """How an operation fares beside one other on the same device.

    Attributes:
        slowdown: Its time over its time alone, with the other beside it all the while.
        in_flight: The part of that which is not waiting for room: how much longer its blocks take where
            all blocks of both are placed. None: not told apart.
        samples: Number of measurements behind the median.
        copies: Of an operation beside itself, (k, what it has for `in_flight` where k of it run side by side), so
            that the simulator gives its curve; empty: `in_flight`, whatever their number.
        graph_copies: The same inside a CUDA graph; empty: `copies`.
    """

    slowdown: float
    in_flight: float | None = None
    samples: int = 0
    copies: tuple[tuple[int, float], ...] = ()
    graph_copies: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        check_figure(self.slowdown, "slowdown beside another operation")
        if self.in_flight is not None:
            check_figure(self.in_flight, "in_flight")
        check_count(self.samples, "samples")
        for name in ("copies", "graph_copies"):
            points = getattr(self, name)
            check_points(points, name, "numbers of copies", "factors", PAIR)
            if points and not PAIR == points[0][0] <= points[-1][0] <= MOST_COPIES:
                raise CostError(f"{name} is {points!r}: numbers of copies from {PAIR} to {MOST_COPIES} are needed")

    @property
    def contention(self) -> float:
        """How many times longer its blocks take with all of the other's in flight, as far as that is known.

        Example:
            >>> Beside(1.5).contention, Beside(1.5, 1.2).contention, Beside(1.5, 1.2, copies=((2, 1.3),)).contention
            (1.5, 1.2, 1.3)
        """
        if self.copies:
            return self.copies[0][1]
        return self.slowdown if self.in_flight is None else self.in_flight

    def in_graph(self) -> Beside:
        """The same inside a CUDA graph.

        Example:
            >>> Beside(1.5, 1.2, copies=((2, 1.2),), graph_copies=((2, 1.3),)).in_graph().copies
            ((2, 1.3),)
        """
        return replace(self, copies=self.graph_copies) if self.graph_copies else self
