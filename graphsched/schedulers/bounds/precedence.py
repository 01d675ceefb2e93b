"""Which tasks are over before others start, whatever the plan."""

from __future__ import annotations

from graphsched.schedulers.placing.candidates import Candidates
from graphsched.workload import Task, Workload


def always_before(work: Workload, candidates: Candidates) -> dict[str, list[str]]:
    """For each task of `work`, in order, the tasks directly before it that are over in every plan when it starts.

    A task that updates a state need not wait for one that only read it before, if that one may be on another device:
    there it reads a copy.

    Example:
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.schedulers.placing.candidates import find_candidates
        >>> from graphsched.workload import TensorSpec
        >>> work = Workload()
        >>> w = work.state("w", TensorSpec((4,)))
        >>> look = work.task(print, w, name="look", outputs=[])
        >>> step = work.task(print, w, name="step", updates=w, outputs=[])
        >>> for count in (1, 2):
        ...     devices = tuple(Device(f"cuda:{k}", "cuda") for k in range(count))
        ...     always_before(work, find_candidates(work, Platform("some", devices)))
        {'look': [], 'step': ['look']}
        {'look': [], 'step': []}
    """
    return {
        task.name: [n for n in work.graph.pred[task.name] if not _may_be_passed(work[n], task, candidates)]
        for task in work.tasks
    }


def _may_be_passed(before: Task, task: Task, candidates: Candidates) -> bool:
    """Whether `before` only reads what `task` updates, and may read a copy of it on another device."""
    if not task.updates or before.kind != "run" or before.name not in task.after:
        return False
    roots = {value.root for value in task.updates}
    if not any(read.value.root in roots for read in before.reads):
        return False
    group = candidates.group_of.get(before.name, -1)
    if group >= 0 and group == candidates.group_of.get(task.name):
        return False
    return len({*candidates.devices[before.name], *candidates.devices[task.name]}) > 1
