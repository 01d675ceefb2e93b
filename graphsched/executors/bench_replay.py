"""What a node of a replayed CUDA graph costs: plans of tiny tasks over several lanes and GPUs.

Not modelled: nodes with work in them, which hide a part of what the next node costs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack

from graphsched.executors import waking
from graphsched.executors.program import Program
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.workload import Value, Workload

LANES = (2, 4, 8)
GPUS = (1, 2, 4)
FEW, MANY = 16, 144  # steps of the two plans whose difference tells what a node takes
ROUNDS, QUICK_ROUNDS = 25, 7
EXCHANGE = 16  # steps between two values that go on to the next GPU
PATTERNS = ("apart", "joined")


def bench_replay(*, quick: bool = False) -> list[dict[str, float | int | str]]:
    """Time a node of graph mode takes, with 2 to 8 lanes on each of 1, 2 and 4 GPUs (those that are here).

    Each lane has a task of one tiny kernel a step. ``apart``: it reads what its lane made the step before.
    ``joined``: also what the next lane of its GPU made, and every 16th step a value goes to the next GPU, so
    that all lanes wait for one another. A short plan and a long one take turns; the node's time is the difference
    of their makespans over the difference of their actions.

    Args:
        quick: Fewer rounds.

    Returns:
        Rows of ``pattern``, ``gpus``, ``lanes`` (on each GPU), ``actions`` of the long plan, ``node_s`` with its
        quartiles ``node_q1_s`` and ``node_q3_s``, ``step_s`` (a node of every lane) and ``makespan_s`` of the
        long plan. None without a GPU.
    """
    import torch

    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    rounds = QUICK_ROUNDS if quick else ROUNDS
    places = [(gpus, lanes) for gpus in GPUS if gpus <= here for lanes in LANES]
    return [replay_row(pattern, gpus, lanes, rounds) for gpus, lanes in places for pattern in PATTERNS]


def replay_row(pattern: str, gpus: int, lanes: int, rounds: int) -> dict[str, float | int | str]:
    """One row of `bench_replay`."""
    plans = [replay_plan(pattern, gpus, lanes, steps) for steps in (FEW, MANY)]
    few_s, many_s = _turns(plans, rounds)
    actions = len(plans[1]) - len(plans[0])
    nodes = sorted((b - a) / actions for a, b in zip(few_s, many_s, strict=True))
    low, middle, high = statistics.quantiles(nodes, n=4, method="inclusive")
    return {
        "pattern": pattern,
        "gpus": gpus,
        "lanes": lanes,
        "actions": len(plans[1]),
        "node_s": middle,
        "node_q1_s": low,
        "node_q3_s": high,
        "step_s": middle * actions / (MANY - FEW),
        "makespan_s": statistics.median(many_s),
    }


def replay_plan(pattern: str, gpus: int, lanes: int, steps: int) -> Plan:
    """A plan of one tiny task a step and lane; see `bench_replay`.

    Example:
        >>> len(replay_plan("apart", 1, 2, 5)), len(replay_plan("joined", 2, 2, 17))
        (10, 70)
    """
    names = [f"cuda:{g}" for g in range(gpus)]
    work = Workload("replay")
    before = [[work.input(f"x{g}_{k}", _one(), device=name) for k in range(lanes)] for g, name in enumerate(names)]
    place: dict[str, str] = {}
    for step in range(steps):
        after = [[_task(work, pattern, before, step, g, k) for k in range(lanes)] for g in range(gpus)]
        place |= {v.name: f"{names[g]}/s{k}" for g, row in enumerate(after) for k, v in enumerate(row)}
        before = after
    return build_plan(work, _platform(names), None, Placement(list(work.graph), place), scheduler="by lane")


def _one() -> object:
    import torch

    return torch.ones(64)


def _task(work: Workload, pattern: str, before: Sequence[Sequence[Value]], step: int, g: int, k: int) -> Value:
    import torch

    own, name = before[g][k], f"t{step}_{g}_{k}"
    if pattern == "apart":
        return work.task(torch.neg, own, name=name)  # type: ignore[no-any-return]
    exchanged = len(before) > 1 and k == 0 and step and step % EXCHANGE == 0
    other = before[g - 1][0] if exchanged else before[g][(k + 1) % len(before[g])]
    return work.task(torch.maximum, own, other, name=name)  # type: ignore[no-any-return]


def _platform(names: Sequence[str]) -> Platform:
    devices = (Device("cpu", "cpu"), *(Device(name, "cuda") for name in names))
    links = tuple(Link(a, b, "peer", 1e-5, 1e11) for a in names for b in names if a != b)
    return Platform("bench", devices, links)


def _turns(plans: Sequence[Plan], rounds: int) -> list[list[float]]:
    """Makespans of each plan in graph mode, one after the other in each round."""
    with ExitStack() as stack:
        programs = [stack.enter_context(waking.awake(Program(plan, mode="graph"))) for plan in plans]
        rows = [[program.time_once() for program in programs] for _ in range(rounds + 2)][2:]
    return [list(column) for column in zip(*rows, strict=True)]
