"""PEFT against the example of its paper, and case by case."""

from __future__ import annotations

import networkx as nx
import numpy as np

from graphsched.costs import Costs
from graphsched.platform import Platform
from graphsched.schedulers import schedule
from graphsched.schedulers.peft import optimistic_costs
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Workload
from tests.schedulers.graphs import add, graph, lanes_of, machine
from tests.schedulers.papers import ARABNEJAD_SECONDS, THREE, arabnejad, by_paper, timed


def costs_of(work: Workload, platform: Platform) -> dict[str, list[float]]:
    """The optimistic cost table, a column for each device of the platform."""
    table = Timetable(work, platform, Costs(), lanes=1, copies="own", contention=False)
    return {name: row.tolist() for name, row in optimistic_costs(table).items()}


def test_table_of_the_paper() -> None:
    """The paper's table of optimistic costs; their means over processors put T6 before T2, and T1 T4 before both."""
    found = costs_of(arabnejad(), THREE)
    assert [found[name] for name in ARABNEJAD_SECONDS] == [
        [64, 68, 86], [42, 39, 42], [27, 41, 43], [42, 39, 50], [28, 37, 28],
        [42, 39, 44], [13, 16, 22], [13, 16, 33], [13, 16, 20], [0, 0, 0],
    ]  # fmt: skip
    means = {name: np.mean(row) for name, row in found.items()}
    assert sorted(means, key=means.__getitem__, reverse=True)[:4] == ["T1", "T4", "T6", "T2"]


def test_schedule_of_the_paper() -> None:
    """The paper's schedule: where each task goes, when it starts, and a makespan of 122."""
    where, starts, makespan_s = by_paper("peft", arabnejad())
    assert list(where.values()) == [1, 1, 1, 1, 3, 2, 1, 2, 3, 2]
    assert list(starts.values()) == [0, 29, 51, 22, 35, 29, 83, 54, 81, 106]
    assert makespan_s == 122


def test_heft_takes_longer_there() -> None:
    """133, says the paper."""
    where, starts, makespan_s = by_paper("heft", arabnejad())
    assert list(where.values()) == [2, 1, 2, 3, 2, 3, 2, 1, 3, 1]
    assert list(starts.values()) == [0, 38, 48, 52, 21, 28, 75, 67, 105, 120]
    assert makespan_s == 133


def test_what_follows_counts() -> None:
    """a is over first on cuda:0, but b must run on cuda:1 and would wait for 5 bytes: 7 s instead of 3.

    ::

        a (cuda:0: 1, cuda:1: 2) ─5 bytes─▶ b (cuda:1: 1)
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 5})])
    nx.set_node_attributes(dag, {"a": {"cuda:0": 1.0, "cuda:1": 2.0}, "b": {"cuda:1": 1.0}}, "duration_s")
    work = Workload.from_graph(dag)
    assert costs_of(work, machine(2, cpu=False)) == {"a": [6, 1], "b": [0, 0]}
    plan = schedule(work, machine(2, cpu=False), scheduler="peft")
    assert timed(plan).makespan_s == 3
    assert lanes_of(schedule(work, machine(2, cpu=False)))["a"] == "cuda:0/s0"


def test_costs_of_copies_and_barriers() -> None:
    """The copy takes its link's 256 s from cuda:0 (nothing inside the cpu's own memory); what follows is on the cpu.

    ::

        a ─▶ copy to cpu ─▶ b (7, cpu)        ║ wall ║
    """
    work = Workload()
    copied = work.copy(add(work, "a", device=("cuda", "cpu")), to="cpu", pinned=True, name="copy")
    add(work, "b", copied, device="cpu", duration_s=7.0)
    work.barrier("wall")
    found = costs_of(work, machine(1))
    assert [d.name for d in machine(1).devices] == ["cuda:0", "cpu"]
    assert found["wall"] == found["b"] == [0, 0]
    assert found["copy"] == [256 + 7, 7]
    assert found["a"] == [256 + 7, 256 + 7]


def test_no_link_means_no_way() -> None:
    """From cuda:1 no link leads to b's only device: a costs infinitely much there, and goes to cuda:0."""
    dag = nx.DiGraph([("a", "b", {"nbytes": 1})])
    nx.set_node_attributes(dag, {"a": {"cuda:0": 9.0, "cuda:1": 1.0}, "b": {"cuda:0": 1.0}}, "duration_s")
    apart = Platform("apart", machine(2, cpu=False).devices)
    work = Workload.from_graph(dag)
    assert costs_of(work, apart)["a"] == [1, np.inf]
    plan = schedule(work, apart, scheduler="peft")
    assert lanes_of(plan) == {"a": "cuda:0/s0", "b": "cuda:0/s0"}


def test_tasks_with_the_longer_way_below_them_go_first() -> None:
    """`slow` stands last in the workload.

    ::

        quick (1) ─▶ x (1)        slow (1) ─▶ y (9)
    """
    work = graph([("quick", "x"), ("slow", "y")], quick=1.0, x=1.0, slow=1.0, y=9.0)
    plan = schedule(work, machine(1, cpu=False), scheduler="peft")
    assert plan.names == ["slow", "quick", "x", "y"]


def test_the_mean_is_over_lanes_where_the_task_may_run() -> None:
    """On cuda:0 nothing follows `a` for 6 s, on cuda:1 for 1 s; `c` costs 3 s on both, and so goes first only there.

    ::

        a (both: 1) ─5 bytes─▶ b (cuda:1: 1)        c (both: 1) ─▶ d (both: 3)
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 5}), ("c", "d")])
    both = {"cuda:0": 1.0, "cuda:1": 1.0}
    seconds = {"a": both, "b": {"cuda:1": 1.0}, "c": both, "d": {"cuda:0": 3.0, "cuda:1": 3.0}}
    nx.set_node_attributes(dag, seconds, "duration_s")
    assert schedule(Workload.from_graph(dag), machine(2, cpu=False), scheduler="peft").names[0] == "a"
    seconds["a"] = {"cuda:1": 1.0}
    nx.set_node_attributes(dag, seconds, "duration_s")
    assert schedule(Workload.from_graph(dag), machine(2, cpu=False), scheduler="peft").names[0] == "c"
