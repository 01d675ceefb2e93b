"""Worked examples of papers, and when the tasks of a plan start and end as these papers have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx

from graphsched.plan import Lane, Plan
from graphsched.schedulers import schedule
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Workload
from tests.schedulers.graphs import machine

TOPCUOGLU_SECONDS = {
    "n1": (14, 16, 9), "n2": (13, 19, 18), "n3": (11, 13, 19), "n4": (13, 8, 17), "n5": (12, 13, 10),
    "n6": (13, 16, 9), "n7": (7, 15, 11), "n8": (5, 11, 14), "n9": (18, 12, 20), "n10": (21, 7, 16),
}  # fmt: skip
TOPCUOGLU_EDGES = [
    ("n1", "n2", 18), ("n1", "n3", 12), ("n1", "n4", 9), ("n1", "n5", 11), ("n1", "n6", 14),
    ("n2", "n8", 19), ("n2", "n9", 16), ("n3", "n7", 23), ("n4", "n8", 27), ("n4", "n9", 23),
    ("n5", "n9", 13), ("n6", "n8", 15), ("n7", "n10", 17), ("n8", "n10", 11), ("n9", "n10", 13),
]  # fmt: skip
ARABNEJAD_SECONDS = {
    "T1": (22, 21, 36), "T2": (22, 18, 18), "T3": (32, 27, 43), "T4": (7, 10, 4), "T5": (29, 27, 35),
    "T6": (26, 17, 24), "T7": (14, 25, 30), "T8": (29, 23, 36), "T9": (15, 21, 8), "T10": (13, 16, 33),
}  # fmt: skip
ARABNEJAD_EDGES = [
    ("T1", "T2", 17), ("T1", "T3", 31), ("T1", "T4", 29), ("T1", "T5", 13), ("T1", "T6", 7),
    ("T2", "T8", 3), ("T2", "T9", 30), ("T3", "T7", 16), ("T4", "T8", 11), ("T4", "T9", 7),
    ("T5", "T9", 57), ("T6", "T8", 5), ("T7", "T10", 9), ("T8", "T10", 42), ("T9", "T10", 7),
]  # fmt: skip

THREE = machine(3, cpu=False)


def topcuoglu() -> Workload:
    """Figure 2 of Topcuoglu 2002: 10 tasks, their seconds on 3 processors, seconds (bytes) an edge.

    ::

        n1 ─▶ n2 n3 n4 n5 n6;  n2 n4 n6 ─▶ n8;  n2 n4 n5 ─▶ n9;  n3 ─▶ n7;  n7 n8 n9 ─▶ n10
    """
    return _example(TOPCUOGLU_SECONDS, TOPCUOGLU_EDGES)


def arabnejad() -> Workload:
    """Figure 1 of Arabnejad and Barbosa 2014: the same edges but for T6 and T9, other seconds.

    ::

        T1 ─▶ T2 T3 T4 T5 T6;  T2 T4 T6 ─▶ T8;  T2 T4 T5 ─▶ T9;  T3 ─▶ T7;  T7 T8 T9 ─▶ T10
    """
    return _example(ARABNEJAD_SECONDS, ARABNEJAD_EDGES)


GRAHAM_SECONDS = {"T1": 3, "T2": 2, "T3": 2, "T4": 2, "T5": 4, "T6": 4, "T7": 4, "T8": 4, "T9": 9}
GRAHAM_EDGES = [("T1", "T9"), ("T4", "T5"), ("T4", "T6"), ("T4", "T7"), ("T4", "T8")]


def graham(*, less: int = 0, without: Sequence[tuple[str, str]] = ()) -> Workload:
    """Nine tasks of R. L. Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17 (1969).

    ::

        T1 (3) ─▶ T9 (9)        T2 (2)   T3 (2)        T4 (2) ─▶ T5 T6 T7 T8 (4 each)

    In the order of their numbers they take 12 on three processors, 15 on four, 13 with tasks shorter by 1 and
    16 without the edges to T5 and T6: anomalies of lists that do not look ahead.
    """
    edges = [edge for edge in GRAHAM_EDGES if edge not in without]
    dag = nx.DiGraph(edges)
    dag.add_nodes_from((name, {"duration_s": float(seconds - less)}) for name, seconds in GRAHAM_SECONDS.items())
    return Workload.from_graph(dag)


def independent(*seconds: float) -> Workload:
    """Tasks that wait for nothing."""
    dag = nx.DiGraph()
    dag.add_nodes_from((f"t{k}", {"duration_s": float(each)}) for k, each in enumerate(seconds))
    return Workload.from_graph(dag)


def _example(seconds: Mapping[str, Sequence[int]], edges: Sequence[tuple[str, str, int]]) -> Workload:
    dag = nx.DiGraph()
    for name, row in seconds.items():
        dag.add_node(name, duration_s={f"cuda:{k}": s for k, s in enumerate(row)})
    dag.add_weighted_edges_from(edges, weight="nbytes")
    return Workload.from_graph(dag)


def timed(plan: Plan, *, contention: bool = False) -> Timetable:
    """Starts and ends of a plan of one lane a device: its tasks placed again, each behind those before it."""
    table = Timetable(plan.work, plan.platform, plan.costs, lanes=1, copies="own", contention=contention)
    for name, lane in zip(plan.names, plan.lane_of, strict=True):
        if name in plan.work.graph and plan.work[name].kind == "run":
            table.append(plan.work[name], plan.lanes[lane].device)
        elif name in plan.work.graph:
            table.pass_by(plan.work[name])
    return table


def by_paper(scheduler: str, work: Workload) -> tuple[dict[str, int], dict[str, float], float]:
    """Processor (from 1) and start of each task, in the order of the paper, and the makespan; copies do not queue."""
    plan = schedule(work, THREE, scheduler=scheduler, contention=False)
    plan.check()
    lanes = {name: plan.lanes[lane].name for name, lane in zip(plan.names, plan.lane_of, strict=True)}
    table = timed(plan)
    names = sorted(work.graph, key=lambda name: int(name[1:]))
    where = {name: int(Lane.named(lanes[name]).device[5:]) + 1 for name in names}
    return where, {name: table.start_s[name] for name in names}, table.makespan_s
