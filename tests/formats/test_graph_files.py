"""Files of graphs: told apart by suffix and content, written and read, wrong ones refused."""

from __future__ import annotations

import gzip
import json
import reprlib
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings

from graphsched.errors import CostError, CycleError, FileFormatError, GraphschedError, OutputError, WorkloadError
from graphsched.formats.graph_files import (
    FORMATS,
    format_to_write,
    open_graph,
    read_graph,
    read_workload,
    write_graph,
    written_formats,
)
from graphsched.formats.plain_graphs import workload_of
from graphsched.workload import TensorSpec, Workload
from tests.formats.plain import diamond, figures, plain_graphs
from tests.formats.test_chakra import jsonized
from tests.formats.test_kineto_graph import TWO
from tests.formats.test_wfformat import flat, nested
from tests.formats.traces import trace

SUFFIX = {"stg": "stg", "dot": "gv"}


@given(plain_graphs())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("form", written_formats())
def test_what_is_written_is_read_the_same(tmp_path: Path, form: str, graph: nx.DiGraph) -> None:
    path = tmp_path / f"g.{SUFFIX.get(form, 'json')}"
    write_graph(graph, path, form)
    back = read_graph(path)
    if form != "stg":  # which passes no bytes, and has dummies first and last
        assert figures(back) == figures(graph)
    else:
        inner = graph if len(back) == len(graph) else back.subgraph(list(back)[1:-1])
        assert figures(inner)[0] == figures(graph)[0]
        assert len(nx.transitive_closure_dag(inner).edges) == len(nx.transitive_closure_dag(graph).edges)


def test_a_workload_keeps_all_in_a_file_of_our_own(tmp_path: Path) -> None:
    """State, copy, where it may run, memory and a barrier; no code."""
    work = Workload("mine")
    w = work.state("w", TensorSpec((4,)), device="cuda:0")
    y = work.task(None, w, name="a", outputs=[TensorSpec((4,))], updates=w, device="cuda")  # type: ignore[arg-type]
    work.copy(y, to="cpu", pinned=True, name="back")
    work.barrier("end")
    write_graph(work, tmp_path / "mine.json")
    back = read_workload(tmp_path / "mine.json")
    assert (back.digest(), back.name, back.runnable) == (work.digest(), "mine", False)


CONTENTS: list[tuple[str, Any]] = [
    ("wfformat", nested()),
    ("wfformat", flat()),
    ("node-link", nx.node_link_data(diamond(), edges="links")),
    ("chakra", jsonized()),
    ("chakra", {"schema": "1", "nodes": jsonized()}),
    ("kineto", trace(*TWO)),
    ("json", workload_of(diamond()).to_dict()),
]


@pytest.mark.parametrize(("form", "content"), CONTENTS, ids=lambda value: value if isinstance(value, str) else "")
def test_json_is_told_by_its_content(tmp_path: Path, form: str, content: Any) -> None:
    text = json.dumps(content)
    (tmp_path / "g.json").write_text(text)
    (tmp_path / "g.pt.trace.json.gz").write_bytes(gzip.compress(text.encode()))
    for path in (tmp_path / "g.json", tmp_path / "g.pt.trace.json.gz"):
        found = open_graph(path)
        assert found.format is FORMATS[form]
        assert len(found.graph) == len(found.work)
        assert found.work.name in ("g", "graph")


def test_objects_one_after_another_are_a_list(tmp_path: Path) -> None:
    """As ``chakra_jsonizer`` writes them."""
    (tmp_path / "g.json").write_text("".join(json.dumps(row, indent=2) for row in jsonized()))
    assert len(read_graph(tmp_path / "g.json")) == 4


def test_many_tasks_in_one_line_are_read(tmp_path: Path) -> None:
    rows = ",".join(f'{{"id":{k},"data_deps":[{k - 1 if k else ""}],"duration_micros":1}}' for k in range(20_000))
    (tmp_path / "g.json").write_text(f"[{rows}]")
    assert read_graph(tmp_path / "g.json").number_of_edges() == 19_999


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.txt", "", "suffix '.txt' tells no format: .stg, .dot, .gv, .json do"),
        ("g", "", "suffix '' tells no format"),
        ("g.json", "", "no complete JSON file"),
        ("g.json", '{"nodes": [', "no complete JSON file"),
        ("g.json", '{"nodes": []} x', "no complete JSON file"),
        ("g.json", f'{{"nodes": [{"1" * 5000}]}}', "holds a whole number of too many digits: shorten it"),
        ("g.json", "3", "no graph; graphs in JSON have"),
        ("g.json", "{}", "no graph; graphs in JSON have"),
        ("g.json", "[" * 20_000, "too deep"),
        ("g.json", '{"cases": [], "schema": 1}', "a recorded run: 'graphsched export'"),
        ("g.json", '{"devices": [], "schema": 1}', "a platform: name it with --platform"),
        ("g.json", '{"schema": 2, "given": [], "tasks": []}', "schema 2: this version reads schema 1"),
        ("g.json", '{"name": "w", "given": [], "tasks": [], "kept": []}', "0 tasks"),
        ("g.json", '{"given": [], "tasks": [3]}', r"tasks\[0\] of the file is 3"),
        (
            "g.json",
            '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": NaN, "pid": 0, '
            '"args": {"stream": 7, "correlation": 1}}]}',
            r"'dur' of traceEvents\[0\] \(kernel 'k'\) is nan",
        ),
        ("g.stg", "1\n0 0 0\n1 1e308 1 0\n2 1e308 1 1\n", "all durations add up to more than"),
        (
            "g.json",
            '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "pid": 0, '
            '"args": {"stream": 1e999, "correlation": 1}}]}',
            r"'stream' of traceEvents\[0\] \(kernel 'k'\) is inf: a whole number",
        ),
        ("g.dot", "digraph {", "line 1, column 10"),
        ("g.stg", "", "is empty"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(GraphschedError, match=message) as raised:
        open_graph(tmp_path / name)
    assert str(raised.value).count(str(tmp_path / name)) == 1


def test_files_that_are_not_there_or_broken(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"^cannot read .*gone\.json"):
        open_graph(tmp_path / "gone.json")
    (tmp_path / "g.json.gz").write_bytes(gzip.compress(b"{}" * 100)[:-9])
    with pytest.raises(FileFormatError, match="no complete compressed file"):
        open_graph(tmp_path / "g.json.gz")
    (tmp_path / "h.json.gz").write_text("{}")
    with pytest.raises(FileFormatError, match=r"cannot read .*h\.json\.gz"):
        open_graph(tmp_path / "h.json.gz")


@pytest.mark.parametrize("name", ["g.dot", "g.json"])
def test_text_that_is_not_utf_8_is_refused(tmp_path: Path, name: str) -> None:
    """Names that differ in broken letters only would be one."""
    text = (
        "digraph { node [cost=1] é -> è }" if name == "g.dot" else '{"nodes": [{"id": "é"}, {"id": "è"}], "edges": []}'
    )
    content = text.encode("latin-1")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"{name} is no text in UTF-8 \(.* at byte {content.index(0xE9)}\)"):
        open_graph(tmp_path / name)


@pytest.mark.parametrize("name", ["g.stg", "g.stg.gz", "g.dot", "g.dot.gz", "g.json", "g.json.gz"])
def test_files_may_be_compressed_and_begin_with_a_byte_order_mark(tmp_path: Path, name: str) -> None:
    """As editors on Windows save them."""
    form = name.split(".")[1]
    write_graph(diamond(), tmp_path / "plain", form)
    content = b"\xef\xbb\xbf" + (tmp_path / "plain").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert figures(read_graph(tmp_path / name)) == figures(read_graph(tmp_path / "plain", form))


def test_names_in_traces_may_be_broken(tmp_path: Path) -> None:
    text = json.dumps(trace(*TWO)).replace('"name": "a"', '"name": "é"')
    (tmp_path / "g.json").write_bytes(text.encode("latin-1"))
    assert [name for name in read_graph(tmp_path / "g.json") if "\ufffd" in name] == ["\ufffd.2"]


@pytest.mark.parametrize("given", [-1.0, {}, pytest.param(10**400, id="too large")])
def test_durations_of_our_own_files_are_checked(given: object, tmp_path: Path) -> None:
    data = workload_of(diamond()).to_dict()
    data["tasks"][1]["duration_s"] = given
    (tmp_path / "g.json").write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match=rf"g\.json: duration_s of task 'b' is {reprlib.repr(given)}: "):
        open_graph(tmp_path / "g.json")


def test_durations_of_our_own_files_must_have_a_sum(tmp_path: Path) -> None:
    data = workload_of(diamond()).to_dict()
    for task in data["tasks"][:2]:
        task["duration_s"] = 1e308
    (tmp_path / "g.json").write_text(json.dumps(data))
    with pytest.raises(CostError, match=r"g\.json: all durations add up to more than .*'a' alone takes 1e\+308\)"):
        open_graph(tmp_path / "g.json")


def test_a_missing_duration_of_our_own_file_is_named_with_it(tmp_path: Path) -> None:
    """It may be measured or estimated on a platform: only the plain graph cannot do without."""
    data = workload_of(diamond()).to_dict()
    del data["tasks"][1]["duration_s"]
    (tmp_path / "g.json").write_text(json.dumps(data))
    found = open_graph(tmp_path / "g.json")
    assert found.work["b"].duration_s is None
    with pytest.raises(CostError, match=r"g\.json: task 'b' has no duration"):
        _ = found.graph


@pytest.mark.parametrize("form", ["dot", "wfformat", "stg"])
def test_formats_of_one_duration_a_task_refuse_durations_by_device(tmp_path: Path, form: str) -> None:
    """Nothing is written."""
    graph = diamond()
    graph.nodes["c"]["duration_s"] = {"cpu": 2.0, "cuda": 1.0}
    with pytest.raises(CostError, match="'c'"):
        write_graph(graph, tmp_path / "g", form)
    assert not list(tmp_path.iterdir())


def test_a_value_of_two_sizes_is_named_with_its_file(tmp_path: Path) -> None:
    """On processors that are alike, bytes do not count, and the graph is read."""
    graph = nx.DiGraph()
    graph.add_nodes_from("abc", duration_s=1.0)
    graph.add_edges_from([("a", "b", {"values": {"v": 8}}), ("a", "c", {"values": {"v": 9}})])
    (tmp_path / "g.json").write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    assert len(read_graph(tmp_path / "g.json")) == 3
    with pytest.raises(WorkloadError, match=r"g\.json: value 'v' of task 'a' has 8 bytes"):
        read_workload(tmp_path / "g.json")


def test_circles_and_missing_times_keep_their_own_errors(tmp_path: Path) -> None:
    (tmp_path / "g.gv").write_text("digraph { node [cost=1] a -> b -> a }")
    with pytest.raises(CycleError, match=r"g\.gv: tasks depend on each other in a circle: a -> b -> a"):
        read_graph(tmp_path / "g.gv")
    graph = diamond()
    del graph.nodes["c"]["duration_s"]
    with pytest.raises(CostError, match="duration of task 'c'"):
        write_graph(graph, tmp_path / "g.json")
    assert not (tmp_path / "g.json").exists()


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        ("g.txt", None, "suffix '.txt': name one of stg, dot, json, wfformat, node-link"),
        ("g.json", "kineto", "format 'kineto': name one of"),
        ("g.json", "xml", "format 'xml'"),
        ("g.stg.gz", "stg", "g.stg.gz: graphs are written as they are, not compressed: leave out .gz"),
    ],
)
def test_formats_that_cannot_be_written(name: str, form: str | None, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        format_to_write(name, form)


def test_a_format_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text("digraph { a [cost=1] }")
    assert list(read_graph(tmp_path / "graph", "dot")) == ["a"]
    with pytest.raises(FileFormatError, match="no format 'xml' of graphs: one of stg, dot"):
        read_graph(tmp_path / "graph", "xml")


def test_a_text_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "gone.stg"
    with pytest.raises(FileFormatError) as raised:
        open_graph(path)
    assert str(raised.value) == f"cannot read {path}: No such file or directory"
