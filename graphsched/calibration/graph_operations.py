"""An operation inside a CUDA graph: what one in a row takes there, how many nodes it makes, and what copies cost it.

Inputs are those of the measurement in streams; every output is kept, as those of a plan that is captured are. Rows
are plans of their own, see `calibration.graph_rows`.

Not modelled: operations of a millisecond or more, which take in a graph what they take in a stream; inputs that the
operation right before has just written.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any, NamedTuple

from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.graph_replays import captured, each_s
from graphsched.calibration.graph_rows import Calls, replay_of, row_of
from graphsched.calibration.sampling import slowdowns
from graphsched.executors.lanes import stream_pool

LONG_S = 1e-3
ROW_S, LONGEST_ROW, SHORTEST_ROW = 1.5e-3, 120, 6
ROW_BYTES = 10**9
PART = 4  # of the longer row that the shorter one has
LANE_S, LONGEST_LANE, SHORTEST_LANE = 1e-3, 32, 8
COPIES = (1, 2, 4, 8)
COUNTED = 1, 3  # calls of the graphs whose nodes are counted


class InGraph(NamedTuple):
    """The fields of `TaskCost`."""

    graph_s: float | None
    graph_nodes: int


UNKNOWN = InGraph(None, 0)


def in_graph(calls: Calls, spinner: Spinner, alone_s: float, returned_bytes: int) -> InGraph:
    """What an operation costs inside a graph; unknown for a long one, and one that cannot be captured.

    Args:
        calls: The same on different inputs.
        spinner: Of the GPU.
        alone_s: Device seconds of one.
        returned_bytes: What one returns.
    """
    many = row_length(alone_s, returned_bytes)
    if not many:
        return UNKNOWN
    try:
        return _in_rows(calls, spinner, many // PART, many)
    except Exception:  # it has run in a stream: what it raises is about the capture, or about memory
        return UNKNOWN


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


def _in_rows(calls: Calls, spinner: Spinner, few: int, many: int) -> InGraph:
    """From two rows; their launch and return are the same."""
    seconds = [_whole_s(calls, length, spinner.device, 1) for length in (few, many)]
    return InGraph(each_s(seconds[0], seconds[1], many - few), _nodes_each(calls, spinner))


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


def _nodes_each(calls: Calls, spinner: Spinner) -> int:
    """Nodes of one call, from two graphs that are never launched; 0 if unknown."""
    stream, kept = stream_pool(spinner.device)[0], list[Any]()  # where the rows have made what libraries need
    few, many = (nodes_of(captured([stream], partial(_issue, calls, n, kept), _new_graph())) for n in COUNTED)
    return round(each_s(few, many, COUNTED[1] - COUNTED[0])) if few and many else 0


def _issue(calls: Calls, length: int, kept: list[Any]) -> None:
    kept.extend(calls[i % len(calls)]() for i in range(length))


def _new_graph() -> Any:
    """A graph whose nodes can be counted, where torch keeps these."""
    import torch

    make: Any = torch.cuda.CUDAGraph
    try:
        return make(keep_graph=True)
    except TypeError:  # of a torch before 2.8
        return make()


def nodes_of(graph: Any) -> int:
    """Nodes of a captured graph; 0 if it does not tell."""
    count = ctypes.c_size_t()
    try:
        call = ctypes.CDLL("libcuda.so.1").cuGraphGetNodes
        call.argtypes, call.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p), ctypes.c_int
        status = call(graph.raw_cuda_graph(), None, ctypes.byref(count))
    except (AttributeError, OSError, RuntimeError):
        return 0
    return 0 if status else int(count.value)
