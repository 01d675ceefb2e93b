"""Replays of CUDA graphs: what a launch costs, and what nodes, edges, events and copies add on the device.

Rows of tiny operations are plans, run as those of users are (`calibration.graph_rows`):

- rows in one lane, of several lengths: a node, and all that a launch takes beyond its nodes
- rows side by side: how close nodes of several lanes follow each other, and what starting more lanes takes; as many
  nodes in one lane and side by side: what launching more nodes that wait for nothing takes the thread
- rows in one lane with stamps around every node: a stamp
- rows with timing events: see `calibration.graph_events`
- joins with copies that are over: see `calibration.graph_joins`

The rest comes from graphs that differ in one thing:

- a chain to and fro between two lanes, beside one in a single lane: an edge of a chain
- diamonds one after another: an edge where a branch leaves a lane or comes back
- chains in one lane and between two, of operations of some microseconds, with timing events around every node

Not modelled: starts on several GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.graph_copies import copy_figures
from graphsched.calibration.graph_events import LANES, event_figures
from graphsched.calibration.graph_joins import copy_join_s
from graphsched.calibration.graph_operations import HELD, LOST, cache_bytes
from graphsched.calibration.graph_replays import captured, device_s, each_s, return_s
from graphsched.calibration.graph_rows import TURNS, Launches, stamped_s, tiny_replays
from graphsched.errors import ExecutionError
from graphsched.executors.clocks import new_event
from graphsched.executors.lanes import stream_pool

SIZES = (1, 2, 4, 10, 30, 100, 300, 1000, 2000)  # nodes of the rows whose launches are timed
SAMPLED_SIZES = (10, 100, 1000)
FEW, MANY = 100, 1000  # of those whose difference tells what a node takes
CHAIN_NODES = 100, 300  # of the two chains whose difference tells what an edge takes
HOST_SIZES = 10, 1000
DIAMONDS = 10, 60
LANE_NODES = 20, 80  # nodes of each lane
ROOT_NODES = 40  # of all lanes
TINY_ELEMENTS, SHORT_ELEMENTS = 64, 2**23  # of additions of about 2 and 15 µs
TIMED_NODES = 10, 50  # of each lane
FLOAT_BYTES = 4


def graph_figures(spinner: Spinner, launches: Launches) -> dict[str, Any]:
    """Fields of `Dispatch` about replayed graphs, in seconds; tables as pairs of a number and seconds.

    Args:
        launches: What launches are told for, on one GPU.
    """
    bench = GraphBench(spinner)
    device, back_s = spinner.device, return_s(bench.streams[0])
    launch = launch_figures(device, back_s, launches)
    found = edge_figures(bench) | launch | lane_figures(device, launch, back_s, launches)
    found |= stamp_figures(device, launch)
    found |= event_figures(device, launches) | {"graph_copy_join_s": copy_join_s(device)}
    return found | copy_figures(spinner, bench.streams[0])


def sampled_figures(spinner: Spinner, launches: Launches) -> dict[str, Any]:
    """Some of `graph_figures`, in a fifth of the time: launches, nodes, edges, events, stamps and copies of one lane.

    Its table of starts is coarse.
    """
    bench = GraphBench(spinner)
    launch = launch_figures(spinner.device, return_s(bench.streams[0]), launches, SAMPLED_SIZES)
    stamp_s = _stamp_or_none_s(TINY_ELEMENTS, spinner.device, launch, turns=1)
    return edge_figures(bench) | launch | {"graph_stamp_s": stamp_s} | copy_figures(spinner, bench.streams[0])


class GraphBench:
    """Tiny operations on streams of one GPU, from which graphs are made.

    Attributes:
        streams: One for each lane.
    """

    def __init__(self, spinner: Spinner) -> None:
        import torch

        self.spinner, self.streams = spinner, stream_pool(spinner.device)[:2]
        self._tiny = [torch.zeros(TINY_ELEMENTS, device=self.streams[0].device) for _ in self.streams]
        self._short = torch.zeros(SHORT_ELEMENTS, device=self.streams[0].device)
        self._events: list[Any] = []
        for tensor in (*self._tiny, self._short):
            tensor.add_(1)
        torch.cuda.synchronize(spinner.device)

    def slope_s(self, make: Callable[[int], Any], numbers: tuple[int, int]) -> float:
        """Device seconds that one more adds to a graph made with a number: from the two of `numbers`."""
        few, many = (device_s(make(n), self.spinner, self.streams[0]) for n in numbers)
        return each_s(few, many, numbers[1] - numbers[0])

    def row(self, nodes: int, *, lanes: int = 1, timed: bool = False, tensor: Any = None) -> Any:
        """A graph of a chain of `nodes` operations, in turn on `lanes`; `timed` with an event before and after each."""

        def issue() -> None:
            for i in range(nodes):
                here, before = self.streams[i % lanes], self.streams[(i - 1) % lanes]
                if i and here is not before:
                    here.wait_stream(before)
                self._node(here, self._tiny[0] if tensor is None else tensor, timed=timed)

        return captured(self.streams[:lanes], issue)

    def diamonds(self, number: int) -> Any:
        """A graph of a ──▶ (b, c) ──▶ d again and again; c is on a lane of its own."""
        first, second = self.streams[:2]

        def issue() -> None:
            for _ in range(number):
                self._node(first, self._tiny[0])
                second.wait_stream(first)
                self._node(second, self._tiny[1])
                self._node(first, self._tiny[0])
                first.wait_stream(second)
                self._node(first, self._tiny[0])

        return captured([first, second], issue)

    def _node(self, stream: Any, tensor: Any, *, timed: bool = False) -> None:
        import torch

        torch.cuda.set_stream(stream)
        if timed:
            self._event(stream)
        tensor.add_(1)
        if timed:
            self._event(stream)

    def _event(self, stream: Any) -> None:
        event = new_event(timing=True, external=True)
        event.record(stream)
        self._events.append(event)  # it lives as long as the graph

    def timed_row_s(self, *, timed: bool, lanes: int = 1) -> float:
        """Device seconds a node of a chain of short operations."""
        return self.slope_s(partial(self.row, timed=timed, lanes=lanes, tensor=self._short), TIMED_NODES)


def edge_figures(bench: GraphBench) -> dict[str, Any]:
    """Edges of chains and of branches, and timing events.

    A diamond takes three nodes and two edges. Timing events stand around operations of some microseconds, in chains:
    beside tiny ones, and where branches have theirs at once, they are the limit.
    """
    node_s, across_s = (bench.slope_s(partial(bench.row, lanes=lanes), CHAIN_NODES) for lanes in (1, 2))
    fork_s = max(0.0, bench.slope_s(bench.diamonds, DIAMONDS) - 3 * node_s) / 2
    plain_s, timed_s = (bench.timed_row_s(timed=timed) for timed in (False, True))
    edges_s = bench.timed_row_s(timed=True, lanes=2) - bench.timed_row_s(timed=False, lanes=2)
    return {
        "graph_wait_s": max(0.0, across_s - node_s),
        "graph_fork_s": fork_s,
        "graph_event_s": max(0.0, timed_s - plain_s) / 2,
        "graph_timed_edge_s": max(0.0, edges_s - (timed_s - plain_s)),
    }


def launch_figures(device: int, back_s: float, launches: Launches, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """A node, the launch for the thread, and the time before the first node by the number of nodes.

    What a run takes until the thread sees its end, less its nodes and the return of `back_s`, is all put before the
    first node.
    """
    found = dict(zip(sizes, tiny_replays(device, [(n, 1) for n in sizes], launches), strict=True))
    node_s = each_s(found[FEW].whole_s, found[MANY].whole_s, MANY - FEW)
    few, many = HOST_SIZES
    each = each_s(found[few].host_s, found[many].host_s, many - few)
    return {
        "graph_launch_s": max(0.0, found[few].host_s - few * each),
        "graph_launch_node_s": each,
        "graph_node_s": node_s,
        "graph_starts": tuple((n, max(0.0, found[n].whole_s - n * node_s - back_s)) for n in sizes),
    }


def lane_figures(device: int, launch: dict[str, Any], back_s: float, launches: Launches) -> dict[str, Any]:
    """How close nodes of several lanes follow each other, what each more lane adds to the `launch`, and what each more
    node that waits for nothing takes the thread."""
    from graphsched.platform import Dispatch

    few, many = LANE_NODES
    rows = [(lanes * n, lanes) for lanes in LANES for n in LANE_NODES]
    *timed, alone, beside = tiny_replays(device, [*rows, (ROOT_NODES, 1), (ROOT_NODES, LANES[-1])], launches)
    root_s = max(0.0, beside.host_s - alone.host_s) / (LANES[-1] - 1)
    whole_s = iter([seen.whole_s for seen in timed])
    rates = []
    for lanes, short_s, long_s in zip(LANES, whole_s, whole_s, strict=True):
        rates.append((lanes, each_s(short_s, long_s, lanes * (many - few))))
    lanes, rate_s = rates[-1]  # short_s is of these, too
    alone_s = Dispatch(graph_starts=launch["graph_starts"]).graph_start_s(lanes * few) + back_s
    more_s = short_s - alone_s - few * max(launch["graph_node_s"], lanes * rate_s)
    return {"graph_rates": tuple(rates), "graph_lane_s": max(0.0, more_s / (lanes - 1)), "graph_root_s": root_s}


def stamp_figures(device: int, launch: dict[str, Any]) -> dict[str, Any]:
    """A stamp in its lane, seconds: in a row of a tiny operation, and in one of an operation that fills the cache.

    0 where there can be none. It does not take less where a graph works on more than the cache holds.
    """
    cache = cache_bytes(device)
    held_s = _stamp_or_none_s(TINY_ELEMENTS, device, launch)
    if not held_s:
        return {"graph_stamp_s": 0.0}
    lost_s = _stamp_s(int(LOST * cache) // FLOAT_BYTES, device, launch) if cache else held_s
    points = ((int(HELD * cache), held_s), (int(LOST * cache), max(held_s, lost_s))) if cache else ()
    return {"graph_stamp_s": held_s, "graph_stamps": points}


def _stamp_or_none_s(elements: int, device: int, launch: dict[str, Any], turns: int = TURNS) -> float:
    """A stamp, or 0 where there can be none."""
    try:
        return _stamp_s(elements, device, launch, turns)
    except ExecutionError:
        return 0.0


def _stamp_s(elements: int, device: int, launch: dict[str, Any], turns: int = TURNS) -> float:
    """Median of some turns: where noise makes it 0, no stamp is taken."""
    return median([_stamp_once_s(elements, device, launch) for _ in range(turns)])


def _stamp_once_s(elements: int, device: int, launch: dict[str, Any]) -> float:
    """From rows of two lengths; one with stamps has three nodes for one, and starts later as the `launch` says."""
    import torch

    from graphsched.platform import Dispatch

    call = partial(torch.zeros(elements, device=f"cuda:{device}").add_, 1)
    torch.cuda.synchronize(device)
    start_s = Dispatch(graph_starts=launch["graph_starts"]).graph_start_s
    added_s = []
    for nodes in TIMED_NODES:
        plain_s, with_s = stamped_s(call, nodes, device)
        added_s.append(with_s - plain_s - start_s(3 * nodes) + start_s(nodes))
    return each_s(added_s[0], added_s[1], 2 * (TIMED_NODES[1] - TIMED_NODES[0]))
