"""An operation inside a CUDA graph: what one in a row takes there, and what copies cost it.

Inputs are those of the measurement in streams; every output is kept, as those of a plan that is captured are. Rows
are plans of their own, see `calibration.graph_rows`.

Not modelled: operations of a millisecond or more, which take in a graph what they take in a stream; inputs that the
operation right before has just written.
"""

from __future__ import annotations

from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import Calls, replay_of, row_of
from graphsched.calibration.sampling import slowdowns

LONG_S = 1e-3
ROW_S, LONGEST_ROW, SHORTEST_ROW = 1.5e-3, 120, 6
ROW_BYTES = 10**9
PART = 4  # of the longer row that the shorter one has
LANE_S, LONGEST_LANE, SHORTEST_LANE = 1e-3, 32, 8
COPIES = (1, 2, 4, 8)


def in_graph(calls: Calls, device: int, alone_s: float, returned_bytes: int) -> float | None:
    """Seconds of an operation inside a graph; None for a long one, and one that cannot be captured.

    Args:
        calls: The same on different inputs.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        returned_bytes: What one returns.
    """
    many = row_length(alone_s, returned_bytes)
    if not many:
        return None
    few = many // PART
    try:  # the launch and the return of both rows are the same
        few_s, many_s = (_whole_s(calls, length, device, 1) for length in (few, many))
    except Exception:  # it has run in a stream: what it raises is about the capture, or about memory
        return None
    return each_s(few_s, many_s, many - few)


def row_length(alone_s: float, returned_bytes: int) -> int:
    """Operations in the longer graph: as many as take 1.5 ms and return 1 GB, from 6 to 120; 0 if too long or large.

    Example:
        >>> row_length(1e-6, 4), row_length(1e-4, 4), row_length(9e-4, 4), row_length(1e-3, 4), row_length(1e-6, 10**9)
        (120, 15, 6, 0, 0)
    """
    most = ROW_BYTES // max(returned_bytes, 1)
    if alone_s >= LONG_S or most < SHORTEST_ROW:
        return 0
    return max(SHORTEST_ROW, min(LONGEST_ROW, int(ROW_S / max(alone_s, 1e-9)), most))


def curve_in_graph(calls: Calls, device: int, alone_s: float) -> tuple[tuple[int, float], ...]:
    """How many times longer one takes in a graph with k lanes of it, in (k, slowdown) pairs; empty where it fails.

    From two lengths for each number of lanes, so that the launch, the return and the inputs' memory are the same.

    Args:
        calls: The same on different inputs.
        device: Number of the GPU.
        alone_s: What one in a row takes inside a graph: `TaskCost.graph_s`.
    """
    many = lane_length(alone_s)
    few = many // PART
    steps_s = []
    try:
        for k in COPIES:
            seconds = [_whole_s(calls, k * length, device, k) for length in (few, many)]
            steps_s.append((k, each_s(seconds[0], seconds[1], many - few)))
    except Exception:  # it has run in a stream: what it raises is about the capture, or about memory
        return ()
    return slowdowns(steps_s) if all(step_s for _, step_s in steps_s) else ()


def lane_length(alone_s: float) -> int:
    """Operations in each lane of a graph: as many as take 1 ms, from 8 to 32.

    Example:
        >>> lane_length(1e-6), lane_length(6e-5), lane_length(1.0)
        (32, 16, 8)
    """
    return max(SHORTEST_LANE, min(LONGEST_LANE, int(LANE_S / max(alone_s, 1e-9))))


def _whole_s(calls: Calls, length: int, device: int, lanes: int) -> float:
    with row_of(calls, length, device, lanes) as row:
        return replay_of(row).whole_s
