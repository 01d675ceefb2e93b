"""Copies of 4 KB inside CUDA graphs: from pinned memory, to it, and between GPUs where there are two.

Not modelled: what a copy's size has to do with what a graph adds to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.graph_replays import captured, device_s, each_s
from graphsched.executors.peer_copies import allow_access, driver_copy
from graphsched.platform.graph_costs import GRAPH_COPY_BYTES

COPIES = 10, 60


def copy_figures(spinner: Spinner, stream: Any) -> dict[str, float]:
    """Fields of `Dispatch` about copies in graphs, in seconds of one copy of a row; 0 where there is no second GPU."""
    import torch

    host = torch.empty(GRAPH_COPY_BYTES, dtype=torch.uint8, pin_memory=True).fill_(1)
    here = torch.zeros(GRAPH_COPY_BYTES, dtype=torch.uint8, device=stream.device)
    torch.cuda.synchronize(spinner.device)
    return {
        "graph_copy_in_s": copy_s(spinner, stream, partial(here.copy_, host, non_blocking=True)),
        "graph_copy_out_s": copy_s(spinner, stream, partial(host.copy_, here, non_blocking=True)),
        "graph_peer_copy_s": _peer_s(spinner, stream, here),
    }


def copy_s(spinner: Spinner, stream: Any, copy: Callable[[], object]) -> float:
    """Device seconds of one `copy` in a row of them inside a graph."""

    def row(copies: int) -> None:
        for _ in range(copies):
            copy()

    few, many = (device_s(captured([stream], partial(row, n)), spinner, stream) for n in COPIES)
    return each_s(few, many, COPIES[1] - COPIES[0])


def _peer_s(spinner: Spinner, stream: Any, here: Any) -> float:
    """To the first other GPU that this one has access to."""
    import torch

    others = [k for k in range(torch.cuda.device_count()) if k != spinner.device]
    linked = [k for k in others if torch.cuda.can_device_access_peer(spinner.device, k)]
    if not linked:
        return 0.0
    allow_access(f"cuda:{spinner.device}", f"cuda:{linked[0]}")
    there = torch.zeros(GRAPH_COPY_BYTES, dtype=torch.uint8, device=f"cuda:{linked[0]}")
    torch.cuda.synchronize(linked[0])
    copy = driver_copy()
    call = partial(copy, there.data_ptr(), here.data_ptr(), GRAPH_COPY_BYTES, stream.cuda_stream)
    return copy_s(spinner, stream, call)
