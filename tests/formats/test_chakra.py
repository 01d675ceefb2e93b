"""Chakra execution traces: the schema's names and those that protobuf writes."""

from __future__ import annotations

from typing import Any

import pytest

from graphsched.errors import CostError, GraphschedError
from graphsched.formats.chakra import chakra_graph, looks_like_chakra
from graphsched.formats.graph_checks import check_graph


def jsonized() -> list[dict[str, Any]]:
    """As ``chakra_jsonizer`` writes it: a head, 0 ─▶ 1 ─▶ 3, 0 ┄▶ 2 ─▶ 3; protobuf leaves zeros out."""
    return [
        {"version": "0.0.4", "attr": [{"name": "schema", "stringVal": "1.0"}]},
        {"name": "load", "type": "MEM_LOAD_NODE", "durationMicros": "100"},
        {"id": "1", "name": "mm", "type": "COMP_NODE", "dataDeps": ["0"], "durationMicros": "250"},
        {"id": "2", "name": "reduce", "type": "COMM_COLL_NODE", "ctrlDeps": ["0"], "durationMicros": "40"},
        {"id": "3", "name": "mm", "type": "COMP_NODE", "dataDeps": ["1", "2"]},
    ]


EDGES = [("load.0", "mm.1"), ("load.0", "reduce.2"), ("mm.1", "mm.3"), ("reduce.2", "mm.3")]


def test_dependencies_of_data_and_of_control_are_edges() -> None:
    graph = chakra_graph(jsonized())
    assert dict(graph.nodes(data="duration_s")) == {"load.0": 1e-4, "mm.1": 2.5e-4, "reduce.2": 4e-5, "mm.3": 0.0}
    assert sorted(graph.edges) == EDGES


def test_the_schemas_own_names_are_read_too() -> None:
    rows = [
        {"id": 0, "name": "load", "type": 4, "duration_micros": 100},
        {"id": 1, "name": "mm", "data_deps": [0], "duration_micros": 250.5},
        {"id": 7, "name": "about the run", "type": 1},
    ]
    graph = chakra_graph({"schema": "1.0", "nodes": rows})
    assert dict(graph.nodes(data="duration_s")) == {"load.0": 1e-4, "mm.1": 250.5e-6}
    assert list(graph.edges) == [("load.0", "mm.1")]


def test_a_parent_alone_may_stand_without_a_list() -> None:
    """As in the traces that PyTorch observes before they are converted."""
    rows = [{"id": 1, "name": "a", "duration_micros": 1}, {"id": 2, "name": "b", "ctrl_deps": 1}]
    assert list(chakra_graph(rows).edges) == [("a.1", "b.2")]


def test_nodes_are_told_from_other_lists() -> None:
    assert looks_like_chakra(jsonized())
    assert not any(map(looks_like_chakra, ([], {}, [{"id": 1}], [{"name": "x"}], None)))


def test_a_trace_without_any_duration_says_what_to_do() -> None:
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "data_deps": [1]}]
    with pytest.raises(CostError, match="chakra_trace_link"):
        chakra_graph(rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "1", "name": "again"}, "two nodes of id 1"),
        ({"id": "9", "name": "x", "dataDeps": ["8"]}, "data_deps of node 'x.9' has 8"),
        ({"id": "-1", "name": "x"}, "id of .* is '-1'"),
        ({"id": "9", "name": "x", "ctrlDeps": ["one"]}, "ctrl_deps of .* is 'one'"),
        ({"id": "9", "name": "x", "durationMicros": "-5"}, "duration_micros of node 9 is '-5'"),
        ({"id": "9", "name": "x", "durationMicros": "1_0"}, "duration_micros of node 9 is '1_0'"),
        ({"id": "9", "name": "x", "durationMicros": "nan"}, "duration_micros of node 9 is 'nan'"),
        ({"id": "9", "name": "x", "durationMicros": 10**400}, r"duration_micros of node 9 is 10+\.\.\.0+: a number"),
        ({"id": "9", "name": "x", "dataDeps": ["9"]}, "circle"),
        ({"id": "1" * 5000, "name": "x"}, r"id of .* is '1+\.\.\.1+': .* of at most 40 digits"),
        ({"id": "9", "name": "x", "dataDeps": 8}, "data_deps of node 'x.9' has 8"),
        (3, "node 5 is 3"),
    ],
)
def test_what_is_wrong_is_named(row: Any, message: str) -> None:
    with pytest.raises(GraphschedError, match=message):
        check_graph(chakra_graph([*jsonized(), row]))


@pytest.mark.parametrize("data", [None, 3, {"nodes": 3}])
def test_what_is_none_is_refused(data: object) -> None:
    with pytest.raises(GraphschedError, match="Chakra"):
        chakra_graph(data)


def test_one_dependency_need_not_be_a_list() -> None:
    """0 ─▶ 1, by data and by control: the number of a node may be 0."""
    for key, given in (("dataDeps", 0), ("ctrlDeps", "0")):
        rows = [{"id": "0", "durationMicros": "3"}, {"id": "1", "durationMicros": "3", key: given}]
        assert list(chakra_graph(rows).edges) == [("node.0", "node.1")]


def test_nodes_about_the_run_are_there_before_any_task() -> None:
    rows = [{"id": "1", "type": "METADATA_NODE"}, {"id": "2", "durationMicros": "3", "dataDeps": ["1"]}]
    graph = chakra_graph(rows)
    assert (list(graph), list(graph.edges)) == (["node.2"], [])


@pytest.mark.parametrize("about", [{}, {"id": 0}, {"id": "run"}])
def test_a_node_about_the_run_takes_the_number_of_no_task(about: dict[str, Any]) -> None:
    """0 ─▶ 1: it may have no number, that of a task, or none that is one."""
    rows = [{"type": "METADATA_NODE", **about}, {"id": 0, "durationMicros": 3}, {"id": 1, "durationMicros": 3}]
    rows[2]["dataDeps"] = [0]
    assert list(chakra_graph(rows).edges) == [("node.0", "node.1")]
