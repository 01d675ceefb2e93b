"""Plain graphs to workloads and back."""

from __future__ import annotations

import cProfile
from typing import Any

import networkx as nx
import pytest
from hypothesis import given

from graphsched.errors import CostError, CycleError, WorkloadError
from graphsched.formats.graph_checks import check_graph, check_total
from graphsched.formats.plain_graphs import graph_of, identical, workload_of
from graphsched.workload import TensorSpec, Workload
from tests.formats.plain import diamond, figures, plain_graphs


@given(plain_graphs())
def test_a_graph_comes_back_from_its_workload(graph: nx.DiGraph) -> None:
    """Nodes in topological order: those of any graph are listed so."""
    back = graph_of(workload_of(graph))
    assert figures(back) == figures(graph)
    inputs = [sorted((given or {}).values()) for _, given in graph.nodes(data="inputs", default=None)]
    assert [sorted((given or {}).values()) for _, given in back.nodes(data="inputs", default=None)] == inputs


@given(plain_graphs())
def test_a_workload_of_a_graph_is_stored_and_read(graph: nx.DiGraph) -> None:
    work = workload_of(graph)
    assert Workload.from_dict(work.to_dict()).digest() == work.digest()


def test_a_value_that_several_read_is_one() -> None:
    """a ─v─▶ b, c: one value of 8 bytes, not two."""
    graph = nx.DiGraph()
    graph.add_nodes_from("abc", duration_s=1.0)
    graph.add_edges_from([("a", "b"), ("a", "c")], values={"v": 8}, nbytes=8)
    work = workload_of(graph)
    assert [(value.name, value.nbytes) for value in work.values.values()] == [("v", 8)]
    assert [read.value.name for name in "bc" for read in work[name].reads] == ["v", "v"]


def test_a_value_of_two_sizes_is_refused() -> None:
    """a ─v─▶ b, c, of 8 and of 9 bytes; then an input x of both."""
    graph = nx.DiGraph()
    graph.add_nodes_from("abc", duration_s=1.0)
    graph.add_edge("a", "b", values={"v": 8})
    graph.add_edge("a", "c", values={"v": 9})
    with pytest.raises(WorkloadError, match=r"value 'v' of task 'a' has 8 bytes .* 9 for another"):
        workload_of(graph)
    graph = nx.DiGraph()
    graph.add_node("a", duration_s=1.0, inputs={"x": 8})
    graph.add_node("b", duration_s=1.0, inputs={"x": 9})
    with pytest.raises(WorkloadError, match=r"input 'x' has 8 bytes .* 9 for another"):
        workload_of(graph)


def test_values_of_two_tasks_may_have_one_name() -> None:
    """a ─v─▶ b ─v─▶ c: two values, of 8 and of 9 bytes."""
    graph = nx.DiGraph()
    graph.add_nodes_from("abc", duration_s=1.0)
    graph.add_edge("a", "b", values={"v": 8})
    graph.add_edge("b", "c", values={"v": 9})
    assert {value.name: value.nbytes for value in workload_of(graph).values.values()} == {"v": 8, "v.b": 9}


def test_edges_of_unnamed_bytes_are_values_of_their_own() -> None:
    work = workload_of(diamond())
    assert {value.name: value.nbytes for value in work.values.values()} == {"a.0": 8, "a.1": 8, "c": 4}
    assert work["d"].after == ("b",)


def test_what_a_workload_asks_for_is_kept_as_order() -> None:
    """x ─▶ a ─▶ copy, then a barrier; state and copy are tasks and order, x is an input."""
    work = Workload()
    x = work.input("x", TensorSpec((4,)))
    y = work.task(None, x, name="a", outputs=[TensorSpec((4,))], duration_s={"cpu": 2.0, "cuda": 1.0})  # type: ignore[arg-type]
    work.copy(y, to="cpu", name="back")
    work.barrier("end")
    graph = graph_of(work)
    assert graph.nodes["a"] == {"duration_s": {"cpu": 2.0, "cuda": 1.0}, "inputs": {"x": 16}}
    assert list(graph.edges(data=True)) == [("a", "back", {"nbytes": 16, "values": {"a": 16}}), ("back", "end", {})]


def test_a_task_without_a_duration_cannot_be_a_plain_one() -> None:
    work = Workload()
    work.task(lambda: None, name="a", outputs=0)
    with pytest.raises(CostError, match="task 'a' has no duration"):
        graph_of(work)


def test_alike_processors_see_tasks_and_order_alone() -> None:
    graph = diamond()
    graph.nodes["a"].update(devices=("cuda",), inputs={"x": 4})
    assert figures(identical(graph)) == ([1.0, 3.0, 1.0, 1.0], [(0, 1, 0), (0, 2, 0), (1, 3, 0), (2, 3, 0)])
    assert identical(graph).nodes["a"] == {"duration_s": 1.0}


@pytest.mark.parametrize("given", [None, -1, float("nan"), float("inf"), "3", True, {}, {"cpu": -1.0}, {"cpu": "x"}])
def test_durations_that_are_none_are_named_with_their_task(given: object) -> None:
    graph = diamond()
    graph.nodes["c"]["duration_s"] = given
    with pytest.raises(CostError, match="duration of task 'c'"):
        check_graph(graph)


@pytest.mark.parametrize(
    ("given", "task"),
    [((1e308, 1e308), "a"), ((1, 1.7e308, {"cpu": 1, "cuda": 1e308}), "b"), ((10**308,) * 2, "a")],
)
def test_durations_that_are_too_long_to_be_added_up_are_refused(given: tuple[object, ...], task: str) -> None:
    graph = nx.DiGraph()
    for name, seconds in zip("abc", given, strict=False):
        graph.add_node(name, duration_s=seconds)
    with pytest.raises(CostError, match=f"add up to more than .*task '{task}' alone takes 1"):
        check_graph(graph)


def test_durations_that_add_up_to_a_large_time_are_not_refused() -> None:
    check_total([("a", 5e299), ("b", {"cpu": 4e299, "cuda": 3e299}), ("c", None)])
    with pytest.raises(CostError, match="add up to more than"):
        check_total([("a", 5e299), ("b", {"cpu": 4e299, "cuda": 6e299}), ("c", None)])


@pytest.mark.parametrize(
    ("where", "given"),
    [
        *(("nbytes", -1), ("nbytes", 1.5), ("nbytes", "8"), ("nbytes", 2**53 + 2)),
        *(("values", {"v": -1}), ("values", {"v": None}), ("values", {"v": 2**60})),
    ],
)
def test_bytes_that_are_none_are_named_with_their_edge(where: str, given: object) -> None:
    graph = diamond()
    graph.edges["a", "c"][where] = given
    with pytest.raises(WorkloadError, match="a -> c"):
        check_graph(graph)


def test_bytes_in_all_are_those_by_name() -> None:
    graph = diamond()
    graph.edges["a", "c"].update(values={"v": 3, "w": 4}, nbytes=9)
    with pytest.raises(WorkloadError, match="a -> c passes 9 bytes, and 7 by name: correct one"):
        check_graph(graph)
    del graph.edges["a", "c"]["nbytes"]
    check_graph(graph)


@pytest.mark.parametrize("given", ["cuda", {"cuda", "cpu"}, None, 3, [0]])
def test_devices_that_are_no_list_of_names_are_refused(given: object) -> None:
    """A single name was taken for a list of its letters."""
    graph = diamond()
    graph.nodes["c"]["devices"] = given
    with pytest.raises(WorkloadError, match=r"devices of task 'c' is .*: a list of names or kinds is needed"):
        workload_of(graph)


def test_what_is_not_bytes_by_name_is_refused() -> None:
    graph = diamond()
    graph.nodes["c"]["inputs"] = ["x"]
    with pytest.raises(WorkloadError, match=r"inputs of c is \['x'\]: bytes by name are needed"):
        workload_of(graph)
    graph = diamond()
    graph.edges["a", "c"]["values"] = None
    with pytest.raises(WorkloadError, match="values of a -> c is None: bytes by name are needed"):
        workload_of(graph)


@pytest.mark.parametrize("given", [nx.Graph([("a", "b")]), nx.MultiDiGraph([("a", "b")]), {"a": ["b"]}, None])
def test_only_a_directed_graph_is_one(given: Any) -> None:
    with pytest.raises(WorkloadError, match=r"a networkx\.DiGraph is needed, got a "):
        workload_of(given)


def test_a_circle_is_printed_as_a_path() -> None:
    graph = diamond()
    graph.add_edge("d", "a")
    with pytest.raises(CycleError, match="a -> b -> d -> a"):
        check_graph(graph)


def test_of_a_long_circle_the_beginning_is_printed() -> None:
    graph = nx.cycle_graph(1000, create_using=nx.DiGraph)
    nx.set_node_attributes(graph, 1.0, "duration_s")
    with pytest.raises(CycleError, match=r"0 -> 1 -> .* -> 11 -> … \(1000 tasks\) -> 0") as raised:
        check_graph(graph)
    assert len(str(raised.value)) < 300


def test_a_graph_without_tasks_is_refused() -> None:
    with pytest.raises(WorkloadError, match="0 tasks"):
        workload_of(nx.DiGraph())


def test_naming_many_values_takes_as_many_steps_as_there_are_values() -> None:
    """a ─▶ n tasks, a value to each: four times as many take four times as many calls, not sixteen."""

    def calls(n: int) -> int:
        graph = nx.DiGraph()
        graph.add_nodes_from(["a", *range(n)], duration_s=1.0)
        graph.add_edges_from((("a", i) for i in range(n)), nbytes=8)
        profile = cProfile.Profile()
        profile.runcall(workload_of, graph)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(800) < 5 * calls(200)
