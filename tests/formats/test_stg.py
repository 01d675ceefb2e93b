"""STG files: what is read, what is written, and what is wrong with those that are neither."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.errors import CostError, CycleError, FileFormatError, GraphschedError, OutputError, WorkloadError
from graphsched.formats.stg import read_stg, write_stg

DATA = Path(__file__).parents[1] / "data" / "stg"

DIAMOND = """\
  3
# a comment
  0  0  0
  1  4  1  0
  2  3  1  0

  3  2.5  2  1  2
  4  0  1  3
# Tasks : 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "graph.stg"


def read(file: Path, text: str) -> nx.DiGraph:
    file.write_text(text)
    return read_stg(file)


def test_a_file_with_dummies(file: Path) -> None:
    """0 ─▶ 1, 2 ─▶ 3 ─▶ 4, in the order of the file; comments and empty lines do not count."""
    graph = read(file, DIAMOND)
    assert dict(graph.nodes(data="duration_s")) == {0: 0.0, 1: 4.0, 2: 3.0, 3: 2.5, 4: 0.0}
    assert list(graph.edges) == [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]


def test_a_file_without_dummies(file: Path) -> None:
    """1 ─▶ 0: numbers are names, in any order."""
    graph = read(file, "2\n1 5 0\n0 3 1 1\n")
    assert list(graph) == [1, 0]
    assert list(graph.edges) == [(1, 0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("many\n0 0 0\n", "line 1: the number of tasks is 'many'"),
        ("-3\n0 0 0\n", "line 1: the number of tasks is '-3'"),
        ("0\n0 0 0\n1 0 1 0\n", "line 1: the graph has 0 tasks"),
        (DIAMOND.replace("  4  0  1  3\n", ""), "3 tasks and the 2 dummies are announced, 4 lines"),
        (DIAMOND.replace("  3\n", "  5\n", 1), "5 tasks and the 2 dummies are announced, 5 lines"),
        (DIAMOND.replace("3  2.5  2  1  2", "3  2.5  2  1"), "line 7: task 3 is said to have 2 predecessors, and 1"),
        (DIAMOND.replace("3  2.5  2  1  2", "3  2.5"), "line 7: '  3  2.5' is no task: .* may be truncated"),
        (DIAMOND.replace("1  2\n", "1  7\n"), "line 7: task 3 comes after 7, and there is no such task"),
        (DIAMOND.replace("1  2\n", "1  1\n"), "line 7: task 3 lists its predecessor 1 twice"),
        (DIAMOND.replace("1  2\n", "1  -2\n"), "line 7: a predecessor of task 3 is '-2'"),
        (DIAMOND.replace("2.5", "-2.5"), "line 7: the time of task 3 is '-2.5'"),
        (DIAMOND.replace("2.5", "soon"), "line 7: the time of task 3 is 'soon'"),
        (DIAMOND.replace("2.5", "inf"), "line 7: the time of task 3 is 'inf'"),
        (DIAMOND.replace("  2  3  1", "  1  3  1"), "line 5: there are two tasks 1"),
    ],
)
def test_what_is_wrong_with_a_file(file: Path, text: str, message: str) -> None:
    """The file, the line, what was found there and what to do."""
    with pytest.raises(FileFormatError, match=message) as raised:
        read(file, text)
    assert str(raised.value).startswith(str(file))


COMMUNICATION = """4 2
0 0 0
1 4 1
  0 0
2 3 2
  0 0
  1 7
3 0 1
  2 0
"""


@pytest.mark.parametrize("first", ["4 2", "4", "2"])
def test_a_graph_with_communication(file: Path, first: str) -> None:
    """Each predecessor on its own line with 0 or 7 units; the first line counts dummies or not, processors or not.

    ::

        0 ─▶ 1 ─7─▶ 2 ─▶ 3
    """
    graph = read(file, COMMUNICATION.replace("4 2", first, 1))
    assert list(graph.edges(data="nbytes")) == [(0, 1, 0), (0, 2, 0), (1, 2, 7), (2, 3, 0)]
    assert [graph.nodes[n]["duration_s"] for n in graph] == [0, 4, 3, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COMMUNICATION.replace("  2 0\n", ""), "line 8: task 3 is said to have 1 predecessors, and fewer are listed"),
        (COMMUNICATION.replace("  1 7\n", ""), "line 5: task 2 is said to have 2 predecessors, and fewer are listed"),
        (COMMUNICATION.replace("1 7", "1 -7"), "line 7: the time of what task 2 is passed is '-7'"),
        (COMMUNICATION.replace("1 7", "9 7"), "line 5: task 2 comes after 9, and there is no such task"),
        (COMMUNICATION.replace("4 2", "5 2", 1), "5 tasks and the 2 dummies are announced, 4 lines"),
    ],
)
def test_what_is_wrong_with_communication(file: Path, text: str, message: str) -> None:
    """The line, and what to do."""
    with pytest.raises(FileFormatError, match=message):
        read(file, text)


def test_a_circle_is_printed_as_a_path(file: Path) -> None:
    """1 ─▶ 2 ─▶ 3 ─▶ 1."""
    with pytest.raises(CycleError, match=r"1 -> 2 -> 3 -> 1|2 -> 3 -> 1 -> 2|3 -> 1 -> 2 -> 3"):
        read(file, "3\n0 0 0\n1 1 1 3\n2 1 1 1\n3 1 1 2\n4 0 2 0 3\n")


def test_no_file_and_no_text(file: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot read"):
        read_stg(file)
    file.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(FileFormatError, match="is no text"):
        read_stg(file)


def test_many_tasks_in_one_line_are_refused_in_a_short_message(file: Path) -> None:
    """A file whose line breaks were lost."""
    with pytest.raises(FileFormatError) as raised:
        read(file, "100000 0 0 0 " + " ".join(f"{i} 1 1 {i - 1}" for i in range(1, 100_001)))
    assert len(str(raised.value)) < 300


def test_a_long_chain_is_read(file: Path) -> None:
    """50,000 tasks one after the other: nothing recurses."""
    n = 50_000
    graph = read(file, f"{n}\n0 0 0\n" + "".join(f"{i} 1 1 {i - 1}\n" for i in range(1, n + 1)) + f"{n + 1} 0 1 {n}\n")
    assert len(graph) == n + 2
    assert nx.dag_longest_path_length(graph, weight="none", default_weight=1) == n + 1


def test_all_files_of_the_set_can_be_read_and_written(file: Path) -> None:
    """The same tasks, times and edges again."""
    paths = sorted(DATA.rglob("*.stg"))
    assert len(paths) == 30
    for path in paths:
        graph = read_stg(path)
        write_stg(graph, file)
        again = read_stg(file)
        assert dict(again.nodes(data="duration_s")) == dict(graph.nodes(data="duration_s"))
        assert set(again.edges) == set(graph.edges)


# -- writing ---------------------------------------------------------------------------------


def test_dummies_are_added(file: Path) -> None:
    """a ─▶ b, c: 0 before a, 4 after b and c."""
    graph = nx.DiGraph([("a", "b"), ("a", "c")])
    nx.set_node_attributes(graph, {"a": 1, "b": 2.5, "c": 3}, "duration_s")
    write_stg(graph, file)
    rows = [line.split() for line in file.read_text().splitlines()]
    assert rows == [
        ["3"],
        ["0", "0", "0"],
        ["1", "1", "1", "0"],
        ["2", "2.5", "1", "1"],
        ["3", "3", "1", "1"],
        ["4", "0", "2", "2", "3"],
    ]


@st.composite
def graphs(draw: st.DrawFn) -> nx.DiGraph:
    """Random DAGs, some tasks of no time."""
    graph = nx.DiGraph()
    for i in range(draw(st.integers(1, 12))):
        graph.add_node(f"t{i}", duration_s=draw(st.sampled_from([0.0, 0.1, 1.0, 1e-9, 12345678.5])))
        for j in draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else ():
            graph.add_edge(f"t{j}", f"t{i}")
    return graph


@settings(deadline=None, max_examples=60)
@given(graph=graphs())
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, graph: nx.DiGraph) -> None:
    """The same graph between the dummies, times to the bit."""
    file = tmp_path_factory.mktemp("stg") / "graph.stg"
    write_stg(graph, file)
    again = read_stg(file)
    inner = again.subgraph([n for n in again if 0 < n < len(again) - 1]) if len(again) > len(graph) else again
    assert sorted(t for _, t in inner.nodes(data="duration_s")) == sorted(t for _, t in graph.nodes(data="duration_s"))
    assert nx.is_isomorphic(inner, graph, node_match=lambda a, b: a["duration_s"] == b["duration_s"])
    assert nx.is_directed_acyclic_graph(again)


@pytest.mark.parametrize(
    ("graph", "error"),
    [
        (nx.DiGraph(), WorkloadError),
        (nx.Graph([("a", "b")]), WorkloadError),
        (nx.DiGraph([("a", "b")]), CostError),
        (nx.DiGraph([("a", "b"), ("b", "a")]), CycleError),
    ],
)
def test_what_cannot_be_written(file: Path, graph: nx.Graph, error: type[GraphschedError]) -> None:
    """Nothing is left behind."""
    with pytest.raises(error):
        write_stg(graph, file)
    assert not file.exists()


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    graph = nx.DiGraph()
    graph.add_node("a", duration_s=1.0)
    with pytest.raises(OutputError):
        write_stg(graph, tmp_path)


@pytest.mark.parametrize("time", ["1_0", "１", "1e999", "nan"])
def test_times_are_numbers_as_other_programs_write_them(file: Path, time: str) -> None:
    with pytest.raises(FileFormatError, match=r"line 3: the time of task 1 is .*: a finite number"):
        read(file, f"1\n0 0 0\n1 {time} 1 0\n2 0 1 1\n")
