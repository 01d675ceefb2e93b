"""Several runs of one plan, submitted one after another: what the next waits for in the one before.

A state that a step updated is read after its last update, and updated after that step's reads of it. The executors
make these waits and the simulator models them. Inputs and outputs have two buffers, so that nothing but states is
carried; the step after next waits for the whole step.

Not modelled: what tasks share without declaring it.
"""

from __future__ import annotations

from graphsched.plan.model import Plan


def carried_waits(plan: Plan) -> dict[int, tuple[int, ...]]:
    """For each action the actions of the step before that it waits for, on other lanes.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> w = work.state("w", TensorSpec((2,)))
        >>> _ = work.task(abs, w, name="use", outputs=[]), work.task(abs, w, name="change", updates=w, outputs=[])
        >>> lanes = {"use": "cpu/w0", "change": "cpu/w1"}
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> plan = build_plan(work, here, None, Placement(list(lanes), lanes), scheduler="by hand")
        >>> carried_waits(plan), carried(plan)
        ({0: (1,)}, {0: (1,), 1: (1,)})
    """
    lane = plan.lane_of
    others = {i: tuple(j for j in before if lane[j] != lane[i]) for i, before in carried(plan).items()}
    return {i: before for i, before in others.items() if before}


def carried(plan: Plan) -> dict[int, tuple[int, ...]]:
    """For each action the actions of the step before that must be over first, whatever their lanes."""
    readers, updaters = _uses(plan)
    found: dict[int, dict[int, None]] = {}
    for root, updates in updaters.items():
        final = max(updates)
        for i in readers[root]:
            if i <= min(updates):
                found.setdefault(i, {})[final] = None
        after = [j for j in readers[root] if j >= final]
        found.setdefault(min(updates), {}).update(dict.fromkeys(after))
    return {i: tuple(sorted(before)) for i, before in sorted(found.items()) if before}


def _uses(plan: Plan) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Actions that read the home of each state that is updated, and those that update it, in plan order."""
    updaters: dict[str, list[int]] = {}
    reads: dict[str, list[int]] = {}
    for i, kind in enumerate(plan.kinds):
        if kind == "copy":
            reads.setdefault(plan.copies[i].read.value.root, []).append(i)
        elif kind in ("run", "collective") and (task := plan.task(i)) is not None:
            device = plan.lanes[plan.lane_of[i]].device
            here = (r.value for r, there in task.reads_on(device) if plan.homes[r.value.name] == there)
            for root in dict.fromkeys(value.root for value in here):
                reads.setdefault(root, []).append(i)
            for root in dict.fromkeys(v.root for v in task.updates):
                updaters.setdefault(root, []).append(i)
    return {root: reads.get(root, []) for root in updaters}, updaters
