"""What tasks in CUDA graphs take longer because a GPU's instruction cache has lost their code to other tasks.

A kernel that ran before finds its code, unless kernels of other code came since that fill the cache together. How much
of it they fill is counted in the order of the plan, each code once; between none of it and all of it that a kernel
loses grows in proportion. What it loses comes from the cache of data, or from memory where so much data came since
that it is lost there too. Which code a kernel has is known by its name; of operations whose kernels are not known by
their own. Where footprints are not known, so many kinds fill the cache as company was measured with.

Tasks that fetch their code at once hinder each other: see `simulator.code_fetches`.

Not modelled: lanes that run beside each other, whose actions come in the order of the plan; what is lost to the kernels
of libraries' collectives, of copies and of fills; tasks in streams, which the thread mostly leaves time to fetch code.

Source: the reuse distance of Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 9
(1970).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from graphsched.costs import COMPANY_KINDS, CacheStates, TaskCost
from graphsched.plan import Plan
from graphsched.simulator.cache_states import codes_lost, tasks_by_device
from graphsched.workload import Task

Codes = Mapping[str, float]
"""Parts of the instruction cache by the name of the code that fills it."""


class Fetched(NamedTuple):
    """What a task has to fetch of its code.

    Attributes:
        states: What was measured of its operation.
        codes: Its code, by name.
        lost: Part of it that the instruction cache has lost.
        gone: Part of that which the cache of data has lost too.
    """

    states: CacheStates
    codes: Codes
    lost: float
    gone: float = 0.0


def fetched_codes(plan: Plan, costs: Mapping[int, TaskCost]) -> dict[int, Fetched]:
    """What each task whose cache states are known has to fetch of its code when it starts.

    Args:
        plan: In graph mode.
        costs: Of its tasks on GPUs.
    """
    codes = {i: codes_of(plan.tasks[i], cost) for i, cost in costs.items()}
    slower = any(cost.cache is not None and (cost.cache.code_lost_s or cost.cache.beside_s) for cost in costs.values())
    gone = codes_lost(plan, costs, codes) if slower else {}
    found: dict[int, Fetched] = {}
    for mine in tasks_by_device(plan, costs).values():
        for i, lost in zip(mine, lost_parts([codes[i] for i in mine]), strict=True):
            if (states := costs[i].cache) is not None:
                found[i] = Fetched(states, codes[i], lost, gone.get(i, 0.0))
    return found


def company_longer_s(fetched: Mapping[int, Fetched]) -> dict[int, float]:
    """Seconds by action that tasks take longer alone for what they have to fetch."""
    return {i: code.lost * (code.states.company_s + code.gone * code.states.code_lost_s) for i, code in fetched.items()}


def codes_of(task: Task | None, cost: TaskCost) -> Codes:
    """What the kernels of a task fill of the instruction cache, which is shared out among them evenly."""
    states = cost.cache
    size = 1.0 / COMPANY_KINDS if states is None or states.footprint is None else states.footprint
    names = {kernel.code for kernel in cost.kernels}
    if not names or "" in names:
        names = {task.signature.partition("(")[0] if task is not None else ""}
    return dict.fromkeys(sorted(names), size / len(names))


def lost_parts(sequence: Sequence[Codes]) -> list[float]:
    """Of each entry the part of its code that the cache has lost when it is used, from 0 to 1.

    The sequence is taken to be repeated: before its first entry comes its last.

    Example:
        >>> lost_parts([{"a": 0.5}, {"a": 0.5}, {"b": 0.25}, {"a": 0.5}, {"c": 2.0}])
        [1.0, 0.0, 1.0, 0.25, 0.75]
        >>> lost_parts([{"a": 0.1}]), lost_parts([{"a": 0.5, "b": 0.5}, {"b": 0.5, "c": 0.5}])
        ([0.0], [0.5, 0.25])
    """
    recent: dict[str, float] = {}  # the code used last is the last
    lost: list[float] = []
    for _ in range(2):  # the second round finds what the first has left
        lost = [_use(codes, recent) for codes in sequence]
    return lost


def _use(codes: Codes, recent: dict[str, float]) -> float:
    """Use these codes; returns the part of them that was lost, each counted alike."""
    lost = sum(_lost(name, codes, reversed(recent.items())) for name in codes) / max(1, len(codes))
    for name, size in codes.items():
        recent.pop(name, None)
        recent[name] = size
    return lost


def _lost(wanted: str, own: Codes, latest: Iterable[tuple[str, float]]) -> float:
    """Part of the code `wanted` that is lost, if codes were used like this, the latest first."""
    came = 0.0
    for name, size in latest:
        if name == wanted:
            return came
        came += 0.0 if name in own else size
        if came >= 1.0:
            break
    return 1.0
