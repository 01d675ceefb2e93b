"""How much of a GPU's cache an operation pushes out: told by what a tiny node of a graph takes behind it.

Nodes of a graph are data themselves. Where the cache holds them when the graph is replayed a tiny one takes 1.10 µs on
an H200, 1.29 where what ran in between has filled the cache with other lines. Most operations push out what they work
on. Convolutions push out more: one that reads, writes and needs 4 MB makes nodes as slow as a fill of 37 does.

What nodes take changes from one second to the next by a third of that, so that small operations seemed to push out 35
MB, and a convolution that pushed out 44 on one host nothing on the next. So an operation is held against both levels
in turns.

Not modelled: that lines which are only read push out fewer than lines which are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.graph_operations import HELD, LONG_S, LOST, PART, cache_bytes, spilling
from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS, replay_of, row_of
from graphsched.executors.program import Program

NODES = 200  # tiny ones, of the longer row
LEAST_S = 5e-6  # that a kernel takes to write half a cache
TOLD = 0.3  # of the way from one level to the other: less is taken for noise
TURNS, TURN_S = 5, 5e-3  # of each row of a turn

Call = Callable[[], Any]


class Turn(NamedTuple):
    """Seconds of a tiny node behind nothing, behind the operation, and behind a fill of the cache."""

    held_s: float
    node_s: float
    lost_s: float

    @property
    def share(self) -> float:
        """Of the way from the one level to the other; 0 where they cannot be told apart."""
        return (self.node_s - self.held_s) / (self.lost_s - self.held_s) if self.lost_s > self.held_s else 0.0


def pushed_bytes(call: Call, device: int, alone_s: float, nbytes: int) -> int:
    """As a fill of how many bytes an operation makes the nodes of its graph; 0: no more than by what it works on.

    Args:
        call: The operation.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        nbytes: What it works on.
    """
    cache = cache_bytes(device)
    if not LEAST_S <= alone_s < LONG_S or nbytes >= HELD * cache:
        return 0
    return filled_bytes(_turns(device, call), cache)


def filled_bytes(turns: Sequence[Turn], cache: int) -> int:
    """The fill that nodes are behind, by the median of some turns.

    Args:
        turns: Seconds of nodes.
        cache: Its bytes.

    Example:
        >>> [filled_bytes([Turn(1.0, seconds, 2.0)], 400) for seconds in (1.1, 1.5, 3.0)]
        [0, 250, 300]
        >>> filled_bytes([Turn(1.0, 1.5, 2.0), Turn(1.0, 1.1, 2.0), Turn(1.5, 1.5, 1.5)], 400)
        0
    """
    share = median([turn.share for turn in turns])
    return int((HELD + (LOST - HELD) * min(share, 1.0)) * cache) if share >= TOLD else 0


def _turns(device: int, call: Call) -> list[Turn]:
    """Nodes behind nothing, `call` and a fill, of rows that are replayed in turn."""
    few = NODES // PART
    with ExitStack() as stack:

        def rows(before: Call | None) -> tuple[Program, Program]:
            made = [stack.enter_context(row_of([_tiny(device)], n, device, before=before)) for n in (few, NODES)]
            return made[0], made[1]

        pairs = [rows(before) for before in (None, call, spilling(device))]
        return [Turn(*[_node_s(*pair, NODES - few) for pair in pairs]) for _ in range(TURNS)]


def _node_s(short: Program, long: Program, more: int) -> float:
    """Each row follows one of its own: what runs before it decides what the cache holds."""
    short_s, long_s = (replay_of(row, at_most_s=TURN_S).whole_s for row in (short, long))
    return each_s(short_s, long_s, more)


def _tiny(device: int) -> Call:
    import torch

    return partial(torch.neg, torch.zeros(TINY_ELEMENTS, device=f"cuda:{device}"))
