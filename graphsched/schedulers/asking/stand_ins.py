"""Collectives as schedulers see them: no scheduler has to know of any, those of others neither.

There is nothing to decide about a collective but when it is issued, for it names its devices and has lanes of its own.
So a scheduler is asked about a workload that has a task of the first device in its place: it takes as long, follows
what the collective follows, and its results are on the devices where those of the collective are. Of the answer the
order counts, not the lane.

Not modelled, for schedulers: copies that bring values to the devices of a collective; that it leaves the lane of tasks
of its first device free. The simulator knows of both.
"""

from __future__ import annotations

from dataclasses import replace

from graphsched.costs import Costs
from graphsched.estimates import collective_cost
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.workload import Task, Workload


def with_stand_ins(work: Workload, platform: Platform, costs: Costs, mode: str) -> Workload:
    """`work` with a task in the place of each collective; itself where it has none.

    Example:
        >>> from graphsched.workload import TensorSpec
        >>> work = Workload()
        >>> values = [work.input(f"x{k}", TensorSpec((8,)), device=f"cuda:{k}") for k in range(2)]
        >>> _ = work.collective("all_reduce", values, devices=["cuda:0", "cuda:1"], name="sum", duration_s=1e-3)
        >>> stand_in = with_stand_ins(work, Platform.load("h200-x2"), Costs(), "eager")["sum"]
        >>> stand_in.kind, stand_in.devices, stand_in.duration_s, stand_in.outputs[1].device
        ('run', ('cuda:0',), 0.001, 'cuda:1')
    """
    if not work.collectives:
        return work
    made = Workload(work.name)
    made.kept, made.returns_unread, made.tensors = work.kept, work.returns_unread, work.tensors
    for value in work.values.values():
        if value.kind != "output":
            made._new_value(value)
    for task in work.tasks:
        made._add(_stand_in(task, platform, costs, mode) if task.kind == "collective" else task)
    return made


def _stand_in(task: Task, platform: Platform, costs: Costs, mode: str) -> Task:
    before = [read.source for read in task.reads if read.source is not None]
    return replace(
        task,
        kind="run",
        reads=(),
        after=tuple(dict.fromkeys((*task.after, *before))),
        operation=None,
        devices=task.devices[:1],
        duration_s=collective_cost(task, platform, costs, mode).device_s,
    )


def without_stand_ins(placement: Placement, work: Workload) -> Placement:
    """What a scheduler said of `with_stand_ins`, said of `work`; what it has proven is true of the other only."""
    if not work.collectives:
        return placement
    lanes = {name: lane for name, lane in placement.lanes.items() if work[name].kind == "run"}
    note = placement.note and f"{placement.note}, collectives as tasks"
    return replace(placement, lanes=lanes, bound_s=None, note=note)
