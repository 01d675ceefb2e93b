"""WfCommons' WfFormat: nested and flat versions, files on edges, what is written."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings

from graphsched.errors import CostError, FileFormatError, GraphschedError
from graphsched.formats.graph_checks import check_graph
from graphsched.formats.plain_graphs import workload_of
from graphsched.formats.wfformat import wfformat_graph, wfformat_text
from tests.formats.plain import diamond, figures, plain_graphs


def nested() -> dict[str, Any]:
    """split ─chunk.1─▶ left, ─chunk.2─▶ right; both ─▶ merge; split reads an input, right writes what no one reads."""
    rows = [
        ("split", [], ["left", "right"], ["in.txt"], ["chunk.1", "chunk.2"], 4.25),
        ("left", ["split"], ["merge"], ["chunk.1"], ["a.out"], 10),
        ("right", ["split"], ["merge"], ["chunk.2", "in.txt"], ["b.out", "log"], 8.0),
        ("merge", ["left", "right"], [], ["a.out", "b.out"], [], 1.5),
    ]
    keys = ("id", "parents", "children", "inputFiles", "outputFiles")
    sizes = {"in.txt": 1024, "chunk.1": 512, "chunk.2": 500, "a.out": 64, "b.out": 0, "log": 7}
    specification = {
        "tasks": [dict(zip(keys, row[:5], strict=True)) | {"name": "program"} for row in rows],
        "files": [{"id": name, "sizeInBytes": size} for name, size in sizes.items()],
    }
    runs = [{"id": row[0], "runtimeInSeconds": row[5], "coreCount": 1} for row in rows]
    execution = {"makespanInSeconds": 20, "executedAt": "2026-01-01T00:00:00Z", "tasks": runs}
    return {"name": "two", "schemaVersion": "1.5", "workflow": {"specification": specification, "execution": execution}}


def flat() -> dict[str, Any]:
    """The same as versions up to 1.3 have it: tasks refer to each other by name, and hold their files."""
    found = nested()["workflow"]
    sizes = {row["id"]: row["sizeInBytes"] for row in found["specification"]["files"]}
    tasks = []
    for row, run in zip(found["specification"]["tasks"], found["execution"]["tasks"], strict=True):
        files = [{"link": "input", "name": name, "size": sizes[name]} for name in row["inputFiles"]]
        files += [{"link": "output", "name": name, "size": sizes[name]} for name in row["outputFiles"]]
        parts = {"id": f"ID{len(tasks)}", "parents": row["parents"], "files": files}
        tasks.append({"name": row["id"], "runtime": run["runtimeInSeconds"], **parts})
    return {"name": "two", "schemaVersion": "1.3", "workflow": {"makespan": 20, "tasks": tasks}}


@pytest.mark.parametrize("data", [nested(), flat()], ids=["nested", "flat"])
def test_tasks_and_files_make_the_graph(data: dict[str, Any]) -> None:
    graph = wfformat_graph(data)
    assert dict(graph.nodes(data="duration_s")) == {"split": 4.25, "left": 10, "right": 8.0, "merge": 1.5}
    assert sorted(graph.edges(data="nbytes", default=None)) == [
        ("left", "merge", 64),
        ("right", "merge", 0),
        ("split", "left", 512),
        ("split", "right", 500),
    ]
    assert graph.nodes["split"]["inputs"] == graph.nodes["right"]["inputs"] == {"in.txt": 1024}


def test_an_input_of_two_tasks_is_one_value_and_files_without_bytes_only_order() -> None:
    work = workload_of(wfformat_graph(nested()))
    assert [(v.name, v.kind) for v in work.values.values()] == [
        ("in.txt", "input"), ("chunk.1", "output"), ("chunk.2", "output"), ("a.out", "output"),
    ]  # fmt: skip
    assert work["merge"].after == ("right",)


def test_jobs_are_tasks_in_the_oldest_versions() -> None:
    data = flat()
    data["workflow"]["jobs"] = data["workflow"].pop("tasks")
    assert len(wfformat_graph(data)) == 4


def test_jobs_refer_to_each_other_by_name_whatever_ids_there_are() -> None:
    data = flat()
    for task, other in zip(data["workflow"]["tasks"], ("merge", "right", "left", "split"), strict=True):
        task["id"] = other
    assert nx.utils.graphs_equal(nx.DiGraph(wfformat_graph(data).edges), nx.DiGraph(wfformat_graph(flat()).edges))


def test_a_file_of_a_job_is_read_or_written() -> None:
    data = flat()
    data["workflow"]["tasks"][0]["files"][0]["link"] = "both"
    with pytest.raises(FileFormatError, match=r"'link' of .*files\[0\] is 'both': 'input' or 'output' is needed"):
        wfformat_graph(data)


def test_either_side_of_an_edge_is_enough_and_a_file_makes_one_of_its_own() -> None:
    data = nested()
    tasks = data["workflow"]["specification"]["tasks"]
    tasks[1]["parents"] = []  # split still has it among its children
    tasks[2]["children"], tasks[3]["parents"] = [], ["left"]  # right ─b.out─▶ merge is left
    assert nx.utils.graphs_equal(nx.DiGraph(wfformat_graph(data).edges), nx.DiGraph(wfformat_graph(nested()).edges))


def test_a_file_written_twice_is_passed_by_those_that_a_task_comes_after() -> None:
    data = nested()
    tasks = data["workflow"]["specification"]["tasks"]
    tasks[0]["outputFiles"].append("a.out")
    graph = wfformat_graph(data)
    assert ("split", "merge") not in graph.edges
    assert graph.edges["left", "merge"]["values"] == {"a.out": 64}


@pytest.mark.parametrize(("parents", "passing"), [({}, ["a", "b"]), ({"b": ["a"], "m": ["b"], "c": ["m"]}, ["b"])])
def test_of_several_writers_that_are_no_parents_the_last_ones_pass_a_file(
    parents: dict[str, list[str]], passing: list[str]
) -> None:
    """a and b write f, and c reads it: side by side, or a ─▶ b ─▶ m ─▶ c."""
    files = {"a": {"outputFiles": ["f"]}, "b": {"outputFiles": ["f"]}, "c": {"inputFiles": ["f"]}}
    tasks = [{"id": name, "parents": parents.get(name, []), **files.get(name, {})} for name in "abmc"]
    runs = [{"id": name, "runtimeInSeconds": 1} for name in "abmc"]
    specification = {"tasks": tasks, "files": [{"id": "f", "sizeInBytes": 8}]}
    graph = wfformat_graph({"workflow": {"specification": specification, "execution": {"tasks": runs}}})
    assert [a for a, b, data in graph.edges(data=True) if data.get("values") == {"f": 8} and b == "c"] == passing
    assert "inputs" not in graph.nodes["c"]


def test_a_file_that_is_written_only_later_is_there_at_the_beginning() -> None:
    """split reads what merge, far below it, writes again, and right what it writes itself: no circle, two inputs."""
    data = nested()
    tasks = data["workflow"]["specification"]["tasks"]
    tasks[3]["outputFiles"].append("in.txt")
    tasks[2]["inputFiles"].append("log")
    graph = wfformat_graph(data)
    check_graph(graph)
    assert graph.nodes["split"]["inputs"] == {"in.txt": 1024}
    assert graph.nodes["right"]["inputs"] == {"in.txt": 1024, "log": 7}


WRONG = [
    (lambda f: f["specification"]["tasks"][1].pop("id"), "lacks 'id'"),
    (lambda f: f["specification"]["tasks"][1].update(id="split"), "two tasks of id 'split'"),
    (lambda f: f["specification"]["tasks"][1].update(id="other"), "task 'other' has no entry in execution.tasks"),
    (lambda f: f["specification"]["tasks"][1].update(parents=["gone"]), "'gone' among its parents"),
    (lambda f: f["specification"]["tasks"][1].update(children=["gone"]), "'gone' among its children"),
    (lambda f: f["specification"]["tasks"][1].update(inputFiles=["gone"]), "'gone', which specification.files"),
    (lambda f: f["specification"]["tasks"][1].update(inputFiles=[1]), r"inputFiles\[0\] of task 'left' is 1"),
    (lambda f: f["specification"]["files"][0].pop("sizeInBytes"), r"'sizeInBytes' of specification.files\[0\] is None"),
    (lambda f: f["specification"]["files"][0].update(sizeInBytes=-1), r"from 0 to 2\*\*53"),
    (lambda f: f["specification"]["files"][0].update(sizeInBytes=2**60), r"'sizeInBytes' of .*files\[0\] is 1152921"),
    (
        lambda f: f["specification"]["files"].append(f["specification"]["files"][0] | {"sizeInBytes": 5}),
        r"specification.files\[.\]: file '.*' has 5 bytes here, .* above: correct one",
    ),
    (lambda f: f["specification"].update(tasks=3), "'tasks' of specification is 3"),
    (lambda f: f["specification"]["tasks"].append(3), r"tasks\[4\] of specification is 3"),
    (lambda f: f["execution"]["tasks"].pop(), "specification has 4 tasks, execution 3"),
    (lambda f: f["execution"]["tasks"][0].pop("runtimeInSeconds"), "duration of task 'split' is None"),
    (lambda f: f["execution"]["tasks"][0].update(runtimeInSeconds=-2), "duration of task 'split' is -2"),
    (lambda f: f.pop("execution"), "workflow lacks 'execution'"),
    (lambda f: f["specification"]["tasks"].clear() or f["execution"]["tasks"].clear(), "0 tasks"),
    (lambda f: f["specification"]["tasks"][0].update(parents=["merge"]), "circle"),
]


@pytest.mark.parametrize(("spoil", "message"), WRONG)
def test_what_is_wrong_is_named(spoil: Any, message: str) -> None:
    data = copy.deepcopy(nested())
    spoil(data["workflow"])
    with pytest.raises(GraphschedError, match=message):
        check_graph(wfformat_graph(data))


@pytest.mark.parametrize("data", [None, [], {}, {"workflow": 1}, {"workflow": {}}, {"workflow": {"specification": []}}])
def test_what_is_none_is_refused(data: object) -> None:
    with pytest.raises(FileFormatError):
        wfformat_graph(data)


@given(plain_graphs())
@settings(max_examples=40)
def test_what_is_written_is_read_the_same(graph: nx.DiGraph) -> None:
    work = workload_of(graph)
    back = wfformat_graph(json.loads(wfformat_text(work)))
    assert figures(back) == figures(graph)
    assert len(workload_of(back).values) == len(work.values)


@given(plain_graphs())
@settings(max_examples=40)
def test_ids_hold_what_the_format_allows(graph: nx.DiGraph) -> None:
    flow = json.loads(wfformat_text(workload_of(graph)))["workflow"]
    rows = flow["specification"]["tasks"] + flow["specification"]["files"] + flow["execution"]["tasks"]
    assert all(re.fullmatch(r"[0-9a-zA-Z_.-]+", row["id"]) for row in rows)
    ids = [row["id"] for row in flow["specification"]["tasks"]]
    assert len(set(ids)) == len(ids)


def test_what_is_written_has_what_the_schema_demands() -> None:
    """Required entries of version 1.5; the makespan is the longest path's: a, b, d."""
    data = json.loads(wfformat_text(workload_of(diamond())))
    assert data.keys() >= {"name", "schemaVersion", "workflow"}
    execution = data["workflow"]["execution"]
    assert execution.keys() >= {"makespanInSeconds", "executedAt", "tasks"}
    assert execution["makespanInSeconds"] == 5.0
    for row in data["workflow"]["specification"]["tasks"]:
        assert row.keys() >= {"name", "id", "parents", "children"}


def test_durations_by_device_cannot_be_written() -> None:
    graph = diamond()
    graph.nodes["a"]["duration_s"] = {"cpu": 1.0, "cuda": 2.0}
    with pytest.raises(CostError, match="task 'a' has durations by device"):
        wfformat_text(workload_of(graph))
