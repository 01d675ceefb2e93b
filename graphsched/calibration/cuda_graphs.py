"""Replays of CUDA graphs: what one launch costs the thread, and what each node adds on the device.

Not modelled: graphs over several GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from graphsched.calibration.cuda_clock import Spinner, elapsed_s, new_stream
from graphsched.calibration.fitting import median
from graphsched.executors.clocks import new_event

FEW, MANY = 20, 220  # nodes of the two graphs whose difference tells what a node takes
REPLAYS = 25


def graph_figures(spinner: Spinner) -> dict[str, float]:
    """Fields of `Dispatch` about replayed graphs, in seconds: a launch, a node in a row, an edge across lanes."""
    one, two = new_stream(spinner.device), new_stream(spinner.device)
    launch_s, node_s = _replayed([one])
    _, across_s = _replayed([one, two])
    return {
        "graph_launch_s": launch_s,
        "graph_node_s": node_s,
        "graph_wait_s": max(0.0, across_s - node_s),
    }


def _replayed(lanes: Sequence[Any]) -> tuple[float, float]:
    """Host seconds of a replay, and device seconds a node of a chain that goes round `lanes`."""
    (few, _), (many, _) = graphs = [_captured(n, lanes) for n in (FEW, MANY)]
    _, short_s = _times(few, lanes[0])
    host_s, long_s = _times(many, lanes[0])
    del graphs
    return host_s, max(0.0, (long_s - short_s) / (MANY - FEW))


def _captured(nodes: int, lanes: Sequence[Any]) -> tuple[Any, Any]:
    """A graph of a chain of tiny operations in place, in turn on `lanes`; and what it works on, to be kept."""
    import torch

    value = torch.zeros(64, device=lanes[0].device)
    value.add_(1)
    torch.cuda.synchronize(lanes[0].device)
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=lanes[0]):
        for i in range(nodes):
            lane, before = lanes[i % len(lanes)], lanes[(i - 1) % len(lanes)]
            with ExitStack() as stack:
                stack.enter_context(torch.cuda.stream(lane))
                if i and lane is not before:
                    lane.wait_stream(before)
                value.add_(1)
        if lanes[(nodes - 1) % len(lanes)] is not lanes[0]:
            lanes[0].wait_stream(lanes[(nodes - 1) % len(lanes)])
    return graph, value


def _times(graph: Any, stream: Any) -> tuple[float, float]:
    """Host seconds of a replay on an idle device, and its device seconds; medians."""
    import torch

    hosts, devices = [], []
    with torch.cuda.stream(stream):
        for _ in range(REPLAYS + 3):
            start, end = new_event(timing=True), new_event(timing=True)
            start.record(stream)
            began = time.perf_counter()
            graph.replay()
            hosts.append(time.perf_counter() - began)
            end.record(stream)
            torch.cuda.synchronize(stream.device)
            devices.append(elapsed_s(start, end))
    return median(hosts[3:]), median(devices[3:])
