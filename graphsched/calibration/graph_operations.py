"""An operation inside a CUDA graph: what one in a row takes there, and what copies cost it.

Inputs are those of the measurement in streams; every output is kept, as those of a plan that is captured are. Rows
are plans of their own, see `calibration.graph_rows`.

A replay writes all outputs again, each to its own place. Where the cache holds all of them, the lines that a kernel
writes are there; else it has to take them from others first, which makes it longer. So rows are measured in both
states: such whose outputs the cache holds, and such that begin with a kernel that fills the cache with other lines.
Each difference of two rows is of one state only.

Not modelled: operations of a millisecond or more, which take in a graph what they take in a stream; inputs that the
operation right before has just written.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from graphsched.calibration.graph_rows import Calls, each_in_turns_s, row_of
from graphsched.calibration.sampling import slowdowns

LONG_S = 1e-3
ROW_S, LONGEST_ROW, SHORTEST_ROW = 1.5e-3, 240, 6
ROW_BYTES = 10**9
ROUNDS_S, FEWEST_ROUNDS = 4e-3, 3
PART = 4  # of the longer row that the shorter one has
LANE_S, IN_LANES, SHORTEST_LANE = 1e-3, 256, 8
COPIES = (1, 2, 4, 8)
HELD, LOST = 0.5, 0.75  # of the cache, what a graph works on: all of it stays there, nothing of it does
SPILL = 2.0  # of the cache, what fills it with other lines


def in_graph(calls: Calls, device: int, alone_s: float, returned_bytes: int) -> tuple[tuple[int, float], ...]:
    """Seconds of an operation inside a graph, by the bytes that the graph works on, in (bytes, seconds) pairs.

    Empty for a long one, one of which six return more than `ROW_BYTES`, and one that cannot be captured. One pair where
    a cache is not known, or where it does not hold the outputs of a row; else the seconds do not fall.

    Args:
        calls: The same on different inputs.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        returned_bytes: What one returns.
    """
    longest, cache = row_length(alone_s, returned_bytes), cache_bytes(device)
    if not longest:
        return ()
    held = min(longest, int(HELD * cache) // max(returned_bytes, 1)) if cache else longest
    found: list[tuple[int, float]] = []
    try:
        if held >= SHORTEST_ROW:
            found.append((int(HELD * cache), one_s(calls, held, device)))
        if cache:
            seconds = one_s(calls, longest, device, spilling(device))
            found.append((int(LOST * cache), max([seconds, *(held_s for _, held_s in found)])))
    except Exception:  # it has run in a stream: what it raises is about the capture, or about memory
        return tuple(found)
    return tuple(found)


def cache_bytes(device: int) -> int:
    """Size of a GPU's L2 cache; 0: unknown."""
    import torch

    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))


def spilling(device: int) -> Callable[[], Any]:
    """A call that fills the L2 cache of a GPU with what no other call reads or writes."""
    import torch

    return partial(torch.full, (int(SPILL * cache_bytes(device)),), 1, dtype=torch.uint8, device=f"cuda:{device}")


def one_s(calls: Calls, many: int, device: int, before: Callable[[], Any] | None = None, lanes: int = 1) -> float:
    """Seconds of one more in each of the lanes, which then have `many`, from a longer and a shorter row.

    The launch and the return of both are the same, and what they begin with and follow.
    """
    few = many // PART
    with ExitStack() as stack:
        short, long = (stack.enter_context(row_of(calls, lanes * n, device, lanes, before=before)) for n in (few, many))
        return each_in_turns_s(short, long, many - few)


def row_length(alone_s: float, returned_bytes: int) -> int:
    """Operations in the longer graph: as many as take 1.5 ms and return 1 GB, from 6 to 240; 0 if too long or large.

    Example:
        >>> row_length(1e-6, 4), row_length(1e-4, 4), row_length(9e-4, 4), row_length(1e-3, 4), row_length(1e-6, 10**9)
        (240, 15, 6, 0, 0)
    """
    most = ROW_BYTES // max(returned_bytes, 1)
    if alone_s >= LONG_S or most < SHORTEST_ROW:
        return 0
    return max(SHORTEST_ROW, min(LONGEST_ROW, int(ROW_S / max(alone_s, 1e-9)), most))


def rounds_wanted(alone_s: float, returned_bytes: int, most: int, calls: int = 1) -> int:
    """Rounds of a sequence, each with so many `calls` of an operation: some 4 ms of it, 3 to `most`.

    0 if one takes too long or returns too much.

    Example:
        >>> [rounds_wanted(seconds, 4, most=6, calls=4) for seconds in (1e-6, 2e-4, 9e-4, 1e-3)]
        [6, 5, 3, 0]
        >>> rounds_wanted(1e-6, 10**9, most=6)
        0
    """
    room = ROW_BYTES // (calls * max(returned_bytes, 1))
    if alone_s >= LONG_S or room < FEWEST_ROUNDS:
        return 0
    return max(FEWEST_ROUNDS, min(most, int(ROUNDS_S / (calls * max(alone_s, 1e-9))), room))


def curve_in_graph(calls: Calls, device: int, alone_s: float) -> tuple[tuple[int, float], ...]:
    """How many times longer one takes in a graph with k lanes of it, in (k, slowdown) pairs; empty where it fails.

    From two lengths for each number of lanes, so that the launch, the return and the inputs' memory are the same. All
    are of one state of the cache: that of the row with most outputs.

    Args:
        calls: The same on different inputs.
        device: Number of the GPU.
        alone_s: What one in a row takes inside a graph: `TaskCost.graph_s`.
    """
    longest = {k: lane_length(alone_s, k) for k in COPIES}
    steps_s = []
    try:
        outputs = max(k * many for k, many in longest.items())
        spills = 0 < HELD * cache_bytes(device) < outputs * _bytes_of(calls[0]())
        before = spilling(device) if spills else None
        for k, many in longest.items():
            steps_s.append((k, one_s(calls, many, device, before, lanes=k)))
    except Exception:  # it has run in a stream: what it raises is about the capture, or about memory
        return ()
    return slowdowns(steps_s) if all(step_s for _, step_s in steps_s) else ()


def lane_length(alone_s: float, lanes: int) -> int:
    """Operations in each of so many lanes of a graph: as many as take 1 ms alone, from 8 to 256 in all lanes.

    Example:
        >>> [lane_length(4e-6, lanes) for lanes in (1, 2, 8)], lane_length(6e-5, 2), lane_length(1.0, 1)
        ([250, 128, 32], 16, 8)
    """
    return max(SHORTEST_LANE, min(IN_LANES // lanes, int(LANE_S / max(alone_s, 1e-9))))


def _bytes_of(returned: Any) -> int:
    tensors = returned if isinstance(returned, tuple | list) else (returned,)
    return sum(int(tensor.nbytes) for tensor in tensors if hasattr(tensor, "nbytes"))
