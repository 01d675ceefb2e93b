"""Workloads lent to schedulers of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
from hypothesis import given

from graphsched.costs import Costs
from graphsched.platform import Platform
from graphsched.schedulers.asking.answers import answer_of
from graphsched.schedulers.asking.lending import lent, was_changed
from graphsched.schedulers.heft import heft
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, dags, machine


def small() -> Workload:
    """x ──▶ a ──▶ b ──▶ c, and a ──▶ c"""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX))
    b = add(work, "b", a)
    add(work, "c", a, b)
    return work


@given(dag=dags(most=8))
def test_what_is_lent_is_the_same_in_the_same_order(dag: nx.DiGraph) -> None:
    """Predecessors included: schedulers may decide by their order."""
    work = Workload.from_graph(dag)
    other = lent(work)
    for way in ("succ", "pred"):
        assert [(n, list(near.items())) for n, near in getattr(other.graph, way).items()] == [
            (n, list(near.items())) for n, near in getattr(work.graph, way).items()
        ]
    assert other.tasks == work.tasks
    assert other.digest() == work.digest()
    assert not was_changed(other, work)


CHANGES: dict[str, Callable[[Workload], object]] = {
    "a task less": lambda work: work.graph.remove_node("c"),
    "an edge less": lambda work: work.graph.remove_edge("a", "c"),
    "an edge more": lambda work: work.graph.add_edge("c", "a"),
    "bytes": lambda work: work.graph["a"]["b"].update(nbytes=7),
    "another task": lambda work: work.graph.nodes["a"].update(task=work["b"]),
    "a barrier": lambda work: work.barrier("wall"),
    "a value less": lambda work: work.values.pop("x"),
    "a value kept": lambda work: work.keep(work.values["a"]),
    "another graph": lambda work: setattr(work, "graph", nx.DiGraph()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_found_and_stay_with_the_borrower(change: Callable[[Workload], object]) -> None:
    work = small()
    digest = work.digest()
    other = lent(work)
    change(other)
    assert was_changed(other, work)
    assert work.digest() == digest
    work.barrier("end")
    assert list(work.graph.pred["end"]) == ["c"]


def test_notes_on_tasks_and_edges_are_no_changes() -> None:
    """As algorithms of networkx want them; they stay with the borrower, too."""
    work = small()
    other = lent(work)
    nx.set_node_attributes(other.graph, 1.0, "rank")
    nx.set_edge_attributes(other.graph, 1.0, "weight")
    assert not was_changed(other, work)
    assert "rank" not in work.graph.nodes["a"]
    assert "weight" not in work.graph["a"]["b"]


def test_ours_are_shown_the_workload_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a copy takes time."""
    shown: list[Workload] = []

    def asked(work: Workload, platform: Platform, costs: Costs) -> Any:
        shown.append(work)
        return heft(work, platform, costs)

    work = small()
    answer_of("theirs", asked, work, machine(1), Costs(), "eager", {})
    monkeypatch.setattr(asked, "__module__", heft.__module__)
    answer_of("ours", asked, work, machine(1), Costs(), "eager", {})
    assert [each is work for each in shown] == [False, True]
