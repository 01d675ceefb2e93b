"""Joins with copies from the host inside a CUDA graph: what a task is later that waits for one which is long over.

Two graphs have the same nodes: copies, and behind many tiny tasks some that read what was copied. In one graph each of
these waits for a copy of its own; in the other the first waits for the last copy, which all others went before.

Not modelled: joins with copies to the host, taken to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from graphsched.calibration.graph_across import replay, row_on
from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS
from graphsched.workload import Workload

JOINS = 16
LEAD = 100  # tasks before them, during which all copies end


def copy_join_s(device: int) -> float:
    """`Dispatch.graph_copy_join_s`, in seconds."""
    once, each = (replay([device], partial(behind_copies, each=each)).whole_s for each in (False, True))
    return each_s(once, each, JOINS - 1)


def behind_copies(work: Workload, names: Sequence[str], each: bool) -> dict[str, str]:
    """Copies into the first GPU, many tasks, then one for each copy: the first reads the first, or else the last."""
    import torch

    device, copies = names[0], []
    for k in range(JOINS):
        copies.append(work.copy(work.input(f"h{k}", torch.zeros(TINY_ELEMENTS)), to=device, pinned=True, name=f"c{k}"))
    placed: dict[str, str] = {}
    row_on(work, device, [f"{device}/s0"] * LEAD, placed)
    for k, copied in enumerate(copies if each else reversed(copies)):
        work.task(torch.neg, copied, name=f"t{k}", device=device)
        placed[f"t{k}"] = f"{device}/s0"
    return placed
