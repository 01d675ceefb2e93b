"""Workloads and platforms lent to schedulers of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
from hypothesis import given

from graphsched.costs import Costs
from graphsched.platform import Platform
from graphsched.schedulers.asking.answers import answer_of
from graphsched.schedulers.asking.lending import lent, lent_platform, platform_was_changed, was_changed
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


PLATFORM_CHANGES: dict[str, Callable[[Any], object]] = {
    "a rate": lambda platform: platform.capacities.update({"host/h2d": 1e30}),
    "no rates": lambda platform: platform.capacities.clear(),
    "no tables": lambda platform: platform.tables.clear(),
    "a note": lambda platform: platform.provenance.update(date="never"),
}


@pytest.mark.parametrize("change", PLATFORM_CHANGES.values(), ids=PLATFORM_CHANGES)
def test_changes_of_the_platform_are_found_and_stay_with_the_borrower(change: Callable[[Any], object]) -> None:
    platform = Platform.load("h200-x2")
    before = platform.to_dict()
    other = lent_platform(platform)
    assert other == platform
    assert not platform_was_changed(other, platform)
    change(other)
    assert platform_was_changed(other, platform)
    assert platform.to_dict() == before


def test_ours_are_shown_the_workload_and_the_platform_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a copy takes time."""
    shown: list[tuple[Workload, Platform]] = []

    def asked(work: Workload, platform: Platform, costs: Costs) -> Any:
        shown.append((work, platform))
        return heft(work, platform, costs)

    work, here = small(), machine(1)
    answer_of("theirs", asked, work, here, Costs(), "eager", {})
    monkeypatch.setattr(asked, "__module__", heft.__module__)
    answer_of("ours", asked, work, here, Costs(), "eager", {})
    assert [(each is work, there is here) for each, there in shown] == [(False, False), (True, True)]
