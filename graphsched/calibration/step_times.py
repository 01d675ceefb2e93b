"""What a step takes the thread beyond the calls of its plan, where steps follow one another (`Program.submit`).

The sides are taken in turn, streams are put back, the end is recorded, and in eager mode every GPU's current stream is
asked whether it has something to do. Tiny operations are over long before the thread comes to the next step, so that a
step takes as long as the thread does:

- in eager mode a round of tasks over the GPUs, beside many rounds: what is left without any
- in graph mode a graph of one node, beside its launch alone

Not modelled: inputs that are given, results that are held; steps without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from statistics import median

from graphsched.calibration.cuda_calls import Yardstick
from graphsched.calibration.graph_across import program_of
from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS
from graphsched.executors.collector import no_collector
from graphsched.executors.program import Program
from graphsched.workload import Workload

FEW, MANY = 12, 44  # steps whose difference tells what one takes
ROUNDS = 9  # over the GPUs, of the longer row
TURNS = 7


def step_figures(devices: Sequence[int], known: Mapping[str, float]) -> dict[str, float]:
    """Fields of `Dispatch` about steps, in seconds; nothing is below 0.

    Args:
        devices: Numbers of the GPUs.
        known: Has other fields of `Dispatch`: ``call_s``, the pace that times are told at, ``graph_launch_s`` and
            ``graph_launch_node_s``.
    """
    rows = {
        "once": (devices[:1], 1, "eager"),
        "often": (devices[:1], ROUNDS, "eager"),
        "graph": (devices[:1], 1, "graph"),
    }
    if len(devices) > 1:
        rows |= {"all once": (devices, 1, "eager"), "all often": (devices, ROUNDS, "eager")}
    with ExitStack() as stack:
        yardstick = stack.enter_context(closing(Yardstick(devices[0])))
        made = {
            name: stack.enter_context(program_of(gpus, partial(rounds_over, rounds=rounds), mode=mode))
            for name, (gpus, rounds, mode) in rows.items()
        }
        stack.enter_context(no_collector())
        turns = [_turn(made, yardstick, known["call_s"]) for _ in range(TURNS)]
    taken_s = {name: median([turn[name] for turn in turns]) for name in rows}
    return figures_of(taken_s, len(devices) - 1, known)


def figures_of(taken_s: Mapping[str, float], further: int, known: Mapping[str, float]) -> dict[str, float]:
    """What steps of these rows say that took so many seconds each, where there are so many `further` GPUs.

    Example:
        >>> known = {"graph_launch_s": 5.0, "graph_launch_node_s": 1.0}
        >>> rows = {"once": 40.0, "often": 120.0, "graph": 30.0, "all once": 70.0, "all often": 230.0}
        >>> figures_of(rows, 1, known)
        {'step_s': 30.0, 'graph_step_s': 24.0, 'step_gpu_s': 20.0}
    """
    step_s = _without_rounds(taken_s["once"], taken_s["often"])
    found = {
        "step_s": step_s,
        "graph_step_s": max(0.0, taken_s["graph"] - known["graph_launch_s"] - known["graph_launch_node_s"]),
    }
    if further:
        all_s = _without_rounds(taken_s["all once"], taken_s["all often"])
        found["step_gpu_s"] = max(0.0, all_s - step_s) / further
    return found


def _without_rounds(once_s: float, often_s: float) -> float:
    return max(0.0, once_s - each_s(once_s, often_s, ROUNDS - 1))


def _turn(rows: Mapping[str, Program], yardstick: Yardstick, call_s: float) -> dict[str, float]:
    """Seconds of a step of each row, told for a thread whose tiny operation takes `call_s`."""
    before_s = yardstick.sample_s()
    seen = {name: step_of(row) for name, row in rows.items()}
    pace = call_s / ((before_s + yardstick.sample_s()) / 2)
    return {name: seconds * pace for name, seconds in seen.items()}


def step_of(program: Program) -> float:
    """Seconds of one step more among many."""
    few_s, many_s = (program.time_steps(steps, {}) for steps in (FEW, MANY))
    return each_s(few_s, many_s, MANY - FEW)


def rounds_over(work: Workload, names: Sequence[str], rounds: int) -> dict[str, str]:
    """In each round a tiny task on each of these GPUs; none waits for another."""
    import torch

    values = {name: work.input(f"x/{name}", torch.zeros(TINY_ELEMENTS), device=name) for name in names}
    placed: dict[str, str] = {}
    for k in range(rounds):
        for name, value in values.items():
            work.task(torch.neg, value, name=f"{k}/{name}", device=name)
            placed[f"{k}/{name}"] = f"{name}/s0"
    return placed
