"""What an edge of a CUDA graph between GPUs takes longer beside a copy from the host (`simulator.loaded_edges`).

A chain goes round two GPUs, for longer than a copy from the host into one of them takes; in another graph that copy is
tiny, and in two more there is no chain. The chain's pace while the copy is under way follows from how much longer all
takes with it: half of its edges wait on that GPU. So for copies into each of the two.

Not modelled: copies to the host, beside which edges take less than 1 µs longer; several copies at once; edges between
engines of one GPU, taken to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import NamedTuple

from graphsched.calibration.graph_across import LONGEST_STAGE, going_round, program_of, row_on
from graphsched.calibration.graph_rows import TURNS, replay_of
from graphsched.executors.program import Program
from graphsched.workload import Workload

STAGES = 49  # some 14 µs each on H200s
LARGE_BYTES, SMALL_BYTES = 2**24, 2**12  # of copies, the larger of which takes some 300 µs
EDGES = 1  # of a stage that wait on the copy's GPU: of two stages one task and one copy to the other GPU do
HOST = "cpu"


class Times(NamedTuple):
    """Seconds of whole runs: a chain beside a tiny copy, beside a large one, and the two copies without it."""

    small: float
    large: float
    small_alone: float
    large_alone: float


def beside_s(devices: Sequence[int]) -> float:
    """`Dispatch.graph_beside_in_s`, in seconds: the mean of copies into each of the first two GPUs; 0 for one."""
    if len(devices) < 2:
        return 0.0
    return sum(_beside_s(devices[:2], at) for at in range(2)) / 2


def _beside_s(devices: Sequence[int], at: int) -> float:
    """Likewise for copies into the GPU at this place; median of turns."""
    with ExitStack() as stack:

        def made(nbytes: int, stages: int) -> Program:
            build = partial(round_beside, nbytes=nbytes, stages=stages, at=at)
            return stack.enter_context(program_of(devices, build))

        programs = [made(nbytes, stages) for stages in (STAGES, 0) for nbytes in (SMALL_BYTES, LARGE_BYTES)]
        turns = [Times(*[replay_of(program).whole_s for program in programs]) for _ in range(TURNS)]
    return median([edge_longer_s(times) for times in turns])


def edge_longer_s(times: Times) -> float:
    """What an edge takes longer while the copy is under way; not below 0.

    Example:
        >>> pace_s, longer_s, copy_s = 10.0, 3.0, 130.0  # ten stages beside the copy, of 13 s each
        >>> edge_longer_s(Times(STAGES * pace_s, STAGES * pace_s + 10 * longer_s, 5.0, 5.0 + copy_s))
        3.0
    """
    pace_s, longer_s = times.small / STAGES, times.large - times.small
    beside = (times.large_alone - times.small_alone - longer_s) / pace_s  # stages, were they as quick as without it
    return max(0.0, longer_s / beside / EDGES) if beside > 0.0 else 0.0


def round_beside(work: Workload, names: Sequence[str], *, nbytes: int, stages: int, at: int) -> dict[str, str]:
    """A chain of so many stages round the GPUs, or a tiny task on each; a copy into one of them waits for nothing."""
    import torch

    given = work.input("copied", torch.zeros(nbytes, dtype=torch.uint8), device=HOST)
    work.copy(given, to=names[at], pinned=True, name="beside")
    if stages:
        return going_round(work, names, stages, LONGEST_STAGE)
    placed: dict[str, str] = {}
    for name in names:
        row_on(work, name, [f"{name}/s0"], placed)
    return placed
