"""Edges between kernels and copies of a GPU, with the host and to another GPU, in streams and in CUDA graphs.

Kernels, copies in, copies out and those to other GPUs are the work of engines of their own, and what follows the work
of another engine starts later than what follows its own. A chain that goes to and fro between two lanes takes what its
links take in rows of their own, and two edges.

Not modelled: that an edge takes another time one way than the other; copies on a lane of tasks; edges between copies
with the host and copies to another GPU; what the sizes of kernels and copies have to do with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.cuda_clock import CALL_S, Spinner, elapsed_s, new_stream, on_streams
from graphsched.calibration.graph_replays import captured, device_s, each_s
from graphsched.executors.clocks import new_event
from graphsched.executors.lanes import stream_pool
from graphsched.executors.peer_copies import allow_access, driver_copy

ELEMENTS, COPIED_BYTES = 2**23, 2**20  # of additions of about 15 µs and copies of about 22 µs on an H200
PEER_BYTES = 2**23  # of copies of some 21 µs between H200s
ROUNDS, GRAPH_ROUNDS = 50, (10, 60)
REPEATS, COLD_REPEATS = 11, 2


class Link(NamedTuple):
    """What a chain is made of: `call` issues it on `stream`, which is current then."""

    stream: Any
    call: Callable[[], object]


class Links(NamedTuple):
    """A kernel, a copy from the host's pinned memory and one to it, on lanes of their own."""

    kernel: Link
    into: Link
    out: Link


Measure = Callable[[tuple[Link, ...]], float]


def copy_edge_figures(spinners: Sequence[Spinner]) -> dict[str, float]:
    """Fields of `Dispatch` about edges to and from copies, in seconds; of those between GPUs, if the first has access
    to another."""
    spinner = spinners[0]
    in_streams = links_on([new_stream(spinner.device) for _ in Links._fields])
    in_graphs = links_on(stream_pool(spinner.device)[: len(Links._fields)])
    in_stream_s, in_graph_s = cache(partial(round_s, spinner)), cache(partial(graph_round_s, spinner))
    tasks_s, copies_s = edges_s(in_stream_s, in_streams)
    graph_tasks_s, graph_copies_s = edges_s(in_graph_s, in_graphs)
    figures = {
        "copy_edge_s": tasks_s,
        "copies_edge_s": copies_s,
        "graph_copy_edge_s": graph_tasks_s,
        "graph_copies_edge_s": graph_copies_s,
    }
    linked = _linked([spinner.device for spinner in spinners])
    if linked:
        peers = [across(links.out.stream, linked[0]) for links in (in_streams, in_graphs)]
        figures["peer_edge_s"] = edge_s(in_stream_s, in_streams.kernel, peers[0])
        figures["graph_peer_edge_s"] = edge_s(in_graph_s, in_graphs.kernel, peers[1])
    return figures


def _linked(devices: Sequence[int]) -> list[int]:
    """Those that the first has access to; copies to others are staged through the host."""
    import torch

    first, *others = devices
    return [device for device in others if torch.cuda.can_device_access_peer(first, device)]


def across(stream: Any, other: int) -> Link:
    """A copy to GPU `other` on a stream of its source, by the driver, as the executors make it."""
    import torch

    there = f"cuda:{other}"
    allow_access(str(stream.device), there)
    source = torch.zeros(PEER_BYTES, dtype=torch.uint8, device=stream.device)
    target = torch.zeros(PEER_BYTES, dtype=torch.uint8, device=there)
    for device in (stream.device, there):
        torch.cuda.synchronize(device)
    copy = partial(driver_copy(), target.data_ptr(), source.data_ptr(), PEER_BYTES, stream.cuda_stream)
    return Link(stream, lambda: (copy(), source, target))  # which are held as long as the call is


def links_on(streams: Sequence[Any]) -> Links:
    """Links on these three streams of one GPU, that work on different memory."""
    import torch

    device = streams[0].device
    values = torch.zeros(ELEMENTS, device=device)
    hosts = [torch.empty(COPIED_BYTES, dtype=torch.uint8, pin_memory=True).fill_(1) for _ in range(2)]
    theirs = [torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device) for _ in hosts]
    torch.cuda.synchronize(device)
    calls = (
        partial(values.add_, 1),
        partial(theirs[0].copy_, hosts[0], non_blocking=True),
        partial(hosts[1].copy_, theirs[1], non_blocking=True),
    )
    return Links(*map(Link, streams, calls))


def edges_s(measure: Measure, links: Links) -> tuple[float, float]:
    """Seconds of an edge between a kernel and a copy, the mean of both directions of copies; and between copies.

    Args:
        measure: Seconds of one round of a chain through the links that it is given.
        links: To make chains of.

    Example:
        >>> alone, edge = {"k": 15.0, "in": 22.0, "out": 21.0}, {"k": 2.0, "in": 3.0, "out": 4.0}
        >>> def measure(chain):
        ...     names = [link.stream for link in chain]
        ...     return sum(alone[n] + (edge[n] if len(names) > 1 else 0.0) for n in names)
        >>> edges_s(measure, Links(*(Link(name, print) for name in alone)))
        (2.75, 3.5)
    """
    tasks_s = [edge_s(measure, links.kernel, copy) for copy in (links.into, links.out)]
    return sum(tasks_s) / 2, edge_s(measure, links.into, links.out)


def edge_s(measure: Measure, first: Link, second: Link) -> float:
    """Seconds of an edge between these two, the mean of there and back; not below 0."""
    return max(0.0, measure((first, second)) - measure((first,)) - measure((second,))) / 2


def round_s(spinner: Spinner, chain: Sequence[Link]) -> float:
    """Seconds of one round of `chain`, all of it queued before it runs; median."""
    return median([_rounds_s(spinner, chain) for _ in range(REPEATS + COLD_REPEATS)][COLD_REPEATS:]) / ROUNDS


def _rounds_s(spinner: Spinner, chain: Sequence[Link]) -> float:
    start, end, lanes = new_event(timing=True), new_event(timing=True), [link.stream for link in chain]
    with ExitStack() as stack:
        on_streams(stack, [*lanes[1:], lanes[0]])
        spinner.spin(2 * ROUNDS * len(chain) * CALL_S)
        start.record(lanes[0])
        issue(chain, ROUNDS)
        if len(lanes) > 1:
            lanes[0].wait_stream(lanes[-1])
        end.record(lanes[0])
    end.synchronize()
    return elapsed_s(start, end)


def graph_round_s(spinner: Spinner, chain: Sequence[Link]) -> float:
    """Seconds of one round of `chain` inside a CUDA graph."""
    lanes = [link.stream for link in chain]
    few_s, many_s = (
        device_s(captured(lanes, partial(issue, chain, rounds)), spinner, lanes[0]) for rounds in GRAPH_ROUNDS
    )
    return each_s(few_s, many_s, GRAPH_ROUNDS[1] - GRAPH_ROUNDS[0])


def issue(chain: Sequence[Link], rounds: int) -> None:
    """Issue `chain` again and again, each link behind the one before; the last one's stream stays current."""
    import torch

    before = None
    for link in [*chain] * rounds:
        torch.cuda.set_stream(link.stream)
        if before is not None and before is not link.stream:
            link.stream.wait_stream(before)
        link.call()
        before = link.stream
