"""The workload of a run, with the durations that its tasks had in it."""

from __future__ import annotations

from graphsched.timeline import Timeline
from graphsched.workload import Workload


def measured_workload(line: Timeline) -> Workload:
    """The workload of a timeline's plan, without code, each task and copy with the seconds of its span.

    Not modelled: copies that the plan put in; what a task was slowed by others beside it is part of its duration.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.schedulers import schedule
        >>> from graphsched.simulator import Model, predict
        >>> graph = nx.DiGraph()
        >>> graph.add_node("a", duration_s=2.0)
        >>> plan = schedule(Workload.from_graph(graph), Platform("cpu", (Device("cpu", "cpu"),)))
        >>> round(measured_workload(predict(plan, model=Model(timing=False)))["a"].duration_s, 9)
        2.0
    """
    plan = line.plan
    data = plan.work.to_dict()
    for entry in data["tasks"]:
        number = plan.index_of.get(entry["name"])
        if number is not None and entry["kind"] != "barrier":
            entry["duration_s"] = float(line.end_s[number] - line.start_s[number])
    return Workload.from_dict(data)
