"""Joins with copies inside a CUDA graph: what a task is later that waits for one which is long over.

Two graphs have the same nodes: copies, and behind many tiny tasks some that read what was copied, with others between
them, as plans have them: behind one another they hide part of it. In one graph each of these waits for a copy of its
own; in the other the first waits for the last copy, which all others went before. The copies come from the host, or
from another GPU.

Not modelled: joins with copies to the host, taken to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median

from graphsched.calibration.graph_across import program_of, row_on
from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS, TURNS, replay_of
from graphsched.workload import Workload

JOINS = 16
LEAD = 200  # tasks before them, during which all copies end, and the graph is launched
BETWEEN = 3  # tasks behind each that reads a copy
HOST = "cpu"  # whose pinned memory copies come from


def copy_join_s(device: int) -> float:
    """`Dispatch.graph_copy_join_s`, in seconds."""
    return _join_s([device], source=HOST)


def peer_join_s(devices: Sequence[int]) -> float:
    """`Dispatch.graph_peer_join_s`, in seconds: of copies from the second of these GPUs to the first."""
    return _join_s(devices[:2], source=f"cuda:{devices[1]}")


def _join_s(devices: Sequence[int], source: str) -> float:
    """Median of some turns; the speed of the thread's core changes from one to the next."""
    with ExitStack() as stack:
        graphs = [partial(behind_copies, each=each, source=source) for each in (False, True)]
        once, each = (stack.enter_context(program_of(devices, build)) for build in graphs)
        turns = [(replay_of(once).whole_s, replay_of(each).whole_s) for _ in range(TURNS)]
    return median([each_s(once_s, whole_s, JOINS - 1) for once_s, whole_s in turns])


def behind_copies(work: Workload, names: Sequence[str], each: bool, source: str = HOST) -> dict[str, str]:
    """Copies into the first GPU, many tasks, then one for each copy: the first reads the first, or else the last."""
    import torch

    device, copies = names[0], []
    for k in range(JOINS):
        given = work.input(f"h{k}", torch.zeros(TINY_ELEMENTS), device=source)
        copies.append(work.copy(given, to=device, pinned=source == HOST, name=f"c{k}"))
    here = work.input("here", torch.zeros(TINY_ELEMENTS), device=device)
    placed: dict[str, str] = {}
    row_on(work, device, [f"{device}/s0"] * LEAD, placed)
    for k, copied in enumerate(copies if each else reversed(copies)):
        work.task(torch.add, here, copied, name=f"t{k}", device=device)
        for n in range(BETWEEN):
            work.task(torch.neg, here, name=f"t{k}.{n}", device=device)
        placed |= dict.fromkeys([f"t{k}", *(f"t{k}.{n}" for n in range(BETWEEN))], f"{device}/s0")
    return placed
