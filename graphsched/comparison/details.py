"""Which actions a class's part of an error comes from most.

Those on the critical paths of both timelines count, by how much longer they are predicted than measured;
the group that adds most in the direction of the class's part is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from graphsched.comparison.span_ends import span_ends_s
from graphsched.plan import Copy, Plan
from graphsched.simulator.substitution import Substitution, Term
from graphsched.timeline import Timeline


def largest(
    values: Mapping[Term, float], swap: Substitution, predicted: Timeline, measured: Timeline
) -> dict[Term, str]:
    """By class, the group that adds most to its value, seconds predicted less measured; empty if none does."""
    plan, loaded = measured.plan, swap.loaded(predicted)
    path = sorted({*predicted.critical_path(), *measured.critical_path()})
    longer = span_ends_s(predicted) - predicted.start_s - (measured.end_s - measured.start_s)
    issue_s, late_s = swap.issue_s(), swap.late_s()
    sums = {
        "compute": _summed(
            _of(plan, path, "run", "collective"), partial(task_group, plan, loaded), lambda i: float(longer[i])
        ),
        "transfers": _summed(_of(plan, path, "copy"), partial(copy_group, plan, loaded), lambda i: float(longer[i])),
        "dispatch": _summed(range(len(plan)), partial(_issue_group, plan), lambda i: -issue_s[i]),
        "waits": _summed(path, partial(_cause_group, plan), lambda i: -late_s.get(i, 0.0)),
    }
    sums["waits"]["returns of the thread"] = -swap.return_s()
    return {term: _leading(sums[term], value) for term, value in values.items()}


def _of(plan: Plan, actions: Iterable[int], *kinds: str) -> list[int]:
    return [i for i in actions if plan.kinds[i] in kinds]


def _summed(actions: Iterable[int], group: Callable[[int], str], seconds: Callable[[int], float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for i in actions:
        name = group(i)
        sums[name] = sums.get(name, 0.0) + seconds(i)
    return sums


def _leading(sums: Mapping[str, float], value: float) -> str:
    sign = 1.0 if value > 0 else -1.0
    best = max(sums, key=lambda name: sign * sums[name], default="")  # the first of equals
    return best if best and value and sign * sums[best] > 0.0 else ""


def task_group(plan: Plan, loaded: Collection[int], i: int) -> str:
    """Operation and device of a task: ``mm on cuda:0``; with `loaded`, beside others."""
    task, device = plan.task(i), plan.lanes[plan.lane_of[i]].device
    operation = task.operation.name.rpartition(".")[2] if task is not None and task.operation else "tasks"
    return f"{operation} on {device}" + (" beside others" if i in loaded else "")


def copy_group(plan: Plan, loaded: Collection[int], i: int) -> str:
    """Direction and device of a copy: ``D2H cuda:1``, ``cuda:0>cuda:1``; with `loaded`, under load."""
    return _way(plan.copies[i], plan) + (" under load" if i in loaded else "")


def _way(copy: Copy, plan: Plan) -> str:
    kinds = [plan.platform.device(end).kind for end in (copy.source, copy.target)]
    memory = "" if copy.memory == "pinned" else f" {copy.memory}"
    if kinds == ["cuda", "cpu"]:
        return f"D2H {copy.source}{memory}"
    if kinds == ["cpu", "cuda"]:
        return f"H2D {copy.target}{memory}"
    return f"{copy.source}>{copy.target}"


def _issue_group(plan: Plan, i: int) -> str:
    return "copies" if plan.kinds[i] == "copy" else "tasks"


def _cause_group(plan: Plan, i: int) -> str:
    """What action `i` may have waited for."""
    ends = {plan.lanes[plan.lane_of[i]].device, plan.lanes[plan.lane_of[i]].target} - {""}
    others = [plan.lanes[plan.lane_of[j]] for j in plan.waits[i]]
    if any(ends.isdisjoint({lane.device, lane.target}) for lane in others):
        return "on other devices"
    return "on other lanes" if others else "for the launch"
