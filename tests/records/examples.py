"""Recorded runs made by hand, for the tests."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.platform import Device, Link, Platform
from graphsched.records import CaseRecord, RunRecord, Setup, record_case
from graphsched.schedulers import schedule
from graphsched.timeline import Timeline
from graphsched.workload import Workload

LINKS = tuple(Link(a, b, "pinned", 1e-5, 1e9) for a, b in (("cpu", "cuda:0"), ("cuda:0", "cpu")))
PLATFORM = Platform("bench", (Device("cpu", "cpu"), Device("cuda:0", "cuda", "GPU")), LINKS)
SETUP = Setup({"torch": "2.13.0"}, PLATFORM, 0, {"sizes": (1, 2)})


def chain(n: int = 3, *, seconds: float = 1.0) -> Workload:
    """``t0 → t1 → … → t(n-1)``, each of `seconds` on the GPU."""
    graph = nx.path_graph(n, create_using=nx.DiGraph)
    graph = nx.relabel_nodes(graph, {i: f"t{i}" for i in range(n)})
    nx.set_node_attributes(graph, seconds, "duration_s")
    return Workload.from_graph(graph, name="chain")


def two(seconds: float = 1.0) -> Workload:
    """Two tasks, ``a`` and ``b``, without an edge."""
    graph = nx.DiGraph()
    graph.add_nodes_from("ab", duration_s=seconds)
    return Workload.from_graph(graph, name="two")


def plan_of(work: Workload, scheduler: str = "one_stream", platform: Platform = PLATFORM, **options) -> Plan:
    """Its plan."""
    return schedule(work, platform, platform.costs, scheduler=scheduler, **options)


def timeline(plan: Plan, makespan_s: float, *, source: str = "measured", spread: float = 0.0) -> Timeline:
    """A timeline in which actions of the same length follow each other; its samples have that `spread`."""
    edges = np.linspace(0.0, makespan_s, len(plan) + 1)
    samples = () if source == "predicted" else tuple(makespan_s * (1 + k * spread) for k in (-1, -1, 0, 1, 1))
    return Timeline(
        plan=plan,
        source=source,
        issue_start_s=edges[:-1] * 0.1,
        issue_end_s=edges[1:] * 0.1,
        start_s=edges[:-1],
        end_s=edges[1:],
        makespan_s=makespan_s,
        timed_makespan_s=makespan_s * 1.01,
        samples_s=samples,
        clock_uncertainty_s=1e-6,
        notes=("by hand",),
    )


def case_of(
    work: Workload,
    *,
    label: str = "one GPU",
    predicted_s: float = 3.3,
    measured_s: float = 3.0,
    scheduler: str = "one_stream",
    mode: str = "eager",
    setup: Setup = SETUP,
    spread: float = 0.0,
    **options,
) -> CaseRecord:
    """A case whose figures are given."""
    plan = replace(plan_of(work, scheduler, setup.platform, **options), mode=mode)
    predicted = timeline(plan, predicted_s, source="predicted")
    measured = timeline(plan, measured_s, spread=spread)
    return record_case(setup, label, predicted, measured, scheduler=scheduler, options=options, reported_s=2.5)


def run_of(*cases: CaseRecord, experiment: str = "exp") -> RunRecord:
    """A run of these cases."""
    return RunRecord(experiment, "a book", cases)


def with_cost(setup: Setup, seconds: float) -> Setup:
    """`setup` with a measured cost of task ``t0`` on the GPU."""
    costs = Costs({("given t0", "GPU"): TaskCost(seconds)})
    return replace(setup, platform=replace(setup.platform, costs=costs))
