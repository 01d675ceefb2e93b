"""What a CUDA graph over two GPUs costs beyond one on a single GPU, from plans of tiny operations on both.

Such a graph is not handed over as a whole: the thread launches its nodes one after another, and the GPUs begin
meanwhile.

Not modelled: three GPUs and more; edges between the GPUs, which plans of copies have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from graphsched.calibration.graph_replays import Replay, each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS, replay_of, tiny_replay
from graphsched.executors.program import Program
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Platform
from graphsched.workload import Workload

SIZES = 20, 200  # nodes of the graphs whose launches are compared
RUNS = 10


def across_figures(devices: Sequence[int], known: Mapping[str, float]) -> dict[str, float]:
    """Fields ``graph_across_…`` of `Dispatch`, in seconds; none where there is one GPU.

    Args:
        devices: Numbers of the GPUs.
        known: Has other fields of `Dispatch`: ``graph_launch_node_s``.
    """
    if len(devices) < 2:
        return {}
    few, many = (replay(devices[:2], nodes) for nodes in SIZES)
    node_s = max(0.0, each_s(few.host_s, many.host_s, SIZES[1] - SIZES[0]) - known["graph_launch_node_s"])
    longer_s = replay(devices[:2], 2).whole_s - tiny_replay(devices[0], 1).whole_s  # the second node is launched later
    return {"graph_across_s": max(0.0, longer_s - node_s), "graph_across_node_s": node_s}


def replay(devices: Sequence[int], nodes: int) -> Replay:
    """Seconds of a run of so many independent tiny operations, in turn on `devices`; medians."""
    with _row(devices, nodes) as row:
        return replay_of(row, RUNS)


def _row(devices: Sequence[int], nodes: int) -> Program:
    import torch

    work, names = Workload("across"), [f"cuda:{device}" for device in devices]
    inputs = [work.input(f"x{name}", torch.zeros(TINY_ELEMENTS), device=name) for name in names]
    for k in range(nodes):
        work.task(torch.neg, inputs[k % len(names)], name=f"t{k}", device=names[k % len(names)])
    tasks = [f"t{k}" for k in range(nodes)]
    placed = {task: f"{names[k % len(names)]}/s0" for k, task in enumerate(tasks)}
    here = Platform("here", (Device("cpu", "cpu"), *map(partial(Device, kind="cuda"), names)))
    plan = build_plan(work, here, None, Placement(tasks, placed), scheduler="calibration")
    return Program(plan, mode="graph")
