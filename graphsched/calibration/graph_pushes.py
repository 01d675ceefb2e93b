"""How much of a GPU's cache an operation pushes out: told by what a tiny node of a graph takes behind it.

Nodes of a graph are data themselves. Where the cache holds them when the graph is replayed a tiny one takes 1.10 µs on
an H200, 1.29 where what ran in between has filled the cache with other lines. Most operations push out what they work
on. Convolutions push out more: one that reads, writes and needs 4 MB makes nodes as slow as a fill of 37 does.

Not modelled: what of the data of other tasks an operation pushes out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

from graphsched.calibration.graph_operations import HELD, LONG_S, LOST, cache_bytes, one_s, spilling
from graphsched.calibration.graph_rows import TINY_ELEMENTS

NODES = 200  # tiny ones, of the longer row
LEAST_S = 5e-6  # that a kernel takes to write half a cache
TOLD = 0.3  # of the way from one level to the other: less is taken for noise


def pushed_bytes(call: Callable[[], Any], device: int, alone_s: float, nbytes: int) -> int:
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
    return filled_bytes(_node_s(device, call), *_levels_s(device), cache)


def filled_bytes(node_s: float, held_s: float, lost_s: float, cache: int) -> int:
    """The fill that nodes of `node_s` seconds are behind.

    Args:
        held_s: Seconds of one that the cache holds.
        lost_s: Seconds of one that it has lost.
        cache: Its bytes.

    Example:
        >>> [filled_bytes(seconds, 1.0, 2.0, 400) for seconds in (1.1, 1.5, 3.0)], filled_bytes(3.0, 2.0, 2.0, 400)
        ([0, 250, 300], 0)
    """
    share = (node_s - held_s) / (lost_s - held_s) if lost_s > held_s else 0.0
    return int((HELD + (LOST - HELD) * min(share, 1.0)) * cache) if share >= TOLD else 0


@functools.cache
def _levels_s(device: int) -> tuple[float, float]:
    return _node_s(device), _node_s(device, spilling(device))


def _node_s(device: int, before: Callable[[], Any] | None = None) -> float:
    import torch

    value = torch.zeros(TINY_ELEMENTS, device=f"cuda:{device}")
    return one_s([partial(torch.neg, value)], NODES, device, before)
