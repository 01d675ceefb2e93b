"""A platform that has a bit of everything."""

from __future__ import annotations

from graphsched.costs import Costs, TaskCost
from graphsched.platform import Device, Dispatch, Link, Platform


def full() -> Platform:
    """A worker, a GPU and a CPU, in an order that is not theirs."""
    return Platform(
        "desk",
        (Device("cpu", "cpu", "CPU"), Device("cuda:0", "cuda", "GPU"), Device("worker:0", "worker", "CPU", threads=4)),
        (
            Link("cpu", "cuda:0", "pinned", 1e-5, 5e10, ("bus",), sizes_bytes=(4096, 10**6), seconds=(1e-5, 3e-5)),
            Link("cpu", "cuda:0", "pageable", 1e-5, 1e10, blocking=True),
            Link("cuda:0", "cpu", "pageable", 1e-5, 1e10),
            Link("cuda:0", "cuda:0", "local", 1e-6, 2e12),
            Link("cuda:0", "worker:0", "staged", 1e-5, 1e10),
        ),
        {"bus": 6e10},
        Dispatch(run_s=3e-6),
        64,
        Costs({("mm", "GPU"): TaskCost(1e-3, quartiles_s=(0.9e-3, 1.1e-3), concurrency=((2, 1.5),))}),
        {"driver": "580", "date": "2025-01-01"},
    )
