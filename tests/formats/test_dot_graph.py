"""Reading the DOT language."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.errors import FileFormatError, GraphschedError
from graphsched.formats.dot import to_dot
from graphsched.formats.dot_graph import DEEPEST, dot_graph
from graphsched.formats.graph_checks import check_graph
from graphsched.formats.plain_graphs import workload_of
from tests.formats.plain import figures, plain_graphs


@given(plain_graphs())
@settings(max_examples=40)
def test_what_is_written_is_read_the_same(graph: nx.DiGraph) -> None:
    assert figures(dot_graph(to_dot(workload_of(graph)))) == figures(graph)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, unique=True))
def test_any_quoted_name_is_read(names: list[str]) -> None:
    quoted = ['"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in names]
    text = f"digraph {{ node [cost=1] {'; '.join(quoted)} }}"
    assert list(dot_graph(text)) == names


@pytest.mark.parametrize(
    "text",
    [
        "digraph { a [duration_s=2]; b [duration_s=1]; a -> b [nbytes=8] }",
        'strict digraph "g" { a [duration = "2.0" label=<<b>A</b>>], b [duration=1]\n a:e -> b:w:n [bytes=8.0]; }',
        "DIGRAPH { node [runtime=1]; edge [size=8]; a [runtime=2]; a -> b }",
        "# made by hand\ndigraph { /* tasks */ a [cost=2]; b [cost=1] // b\n edge [size=1] a -> b [size=8] }",
        'digraph { rankdir=LR; graph [x=1] subgraph one { node [weight=2] a } node [weight=1]; {a} -> {b} [size=8] }',
        'digraph { "a" [weight=1][weight=2]; "b" [weight=1]; a -> b; "a" -> "b" [size=8] }',
    ],
)  # fmt: skip
def test_ways_to_write_one_graph(text: str) -> None:
    """a (2) ─8─▶ b (1)."""
    graph = dot_graph(text.replace("], b", "]; b"))
    assert dict(graph.nodes(data="duration_s")) == {"a": 2.0, "b": 1.0}
    assert list(graph.edges(data="nbytes")) == [("a", "b", 8)]


@pytest.mark.parametrize("number", ["1_0", "1" * 5000, "inf", "nan", "１"])
def test_numbers_of_python_alone_are_none(number: str) -> None:
    with pytest.raises(FileFormatError, match=r"weight of node 'a' is .{3,60}: a finite number is needed"):
        dot_graph(f'digraph {{ a [weight="{number}"] }}')


@pytest.mark.parametrize("number", ["1e-3", "2E3", "-.5e+1", "1.e2", "3", "4.5", ".25"])
def test_numbers_need_no_quotes(number: str) -> None:
    graph = dot_graph(f"digraph {{ a [cost={number}]; b[cost=1]; a->b }}")
    assert dict(graph.nodes(data="duration_s")) == {"a": float(number), "b": 1.0}


@pytest.mark.parametrize("word", ["5s", "1_000", "0x10", "1e", "1e-", "2e3x", "1.2.3", "1é"])
def test_words_that_only_begin_like_numbers_are_refused(word: str) -> None:
    """Graphviz takes them for two words, so that 5s would be 5 and an attribute s."""
    with pytest.raises(FileFormatError, match=f"line 1, column 19: '{word}.* is no word of the DOT language: quote it"):
        dot_graph(f"digraph {{ a [cost={word}] }}")
    assert list(dot_graph(f'digraph {{ "{word}" [cost=1] }}')) == [word]


def test_chains_and_subgraphs_join_all_their_nodes() -> None:
    graph = dot_graph("digraph { node [cost=1] a -> {b; c} -> subgraph x {d -> e} }")
    ends = [("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "d"), ("c", "e"), ("d", "e")]
    assert sorted(graph.edges) == ends


def test_defaults_hold_within_their_subgraph() -> None:
    graph = dot_graph("digraph { node [cost=1] a subgraph x { node [cost=5] edge [size=3] b -> c } d -> a }")
    assert dict(graph.nodes(data="duration_s")) == {"a": 1.0, "b": 5.0, "c": 5.0, "d": 1.0}
    assert list(graph.edges(data="nbytes")) == [("b", "c", 3), ("d", "a", None)]


def test_joined_strings_and_line_ends_in_strings() -> None:
    assert list(dot_graph('digraph { node [cost=1] "a" + "b" ; "c\\\nd" }')) == ["ab", "cd"]


def test_a_million_characters_in_one_line_are_read() -> None:
    """A chain of 20,000 tasks, no line end."""
    chain = "->".join(f"a_task_with_quite_a_long_name_of_number_{k}" for k in range(20_000))
    assert dot_graph(f"digraph{{node[cost=1]{chain}}}").number_of_edges() == 19_999


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: '' stands where 'digraph'"),
        ("graph { a -- b }", "an undirected graph"),
        ("digraph {\n a -> b -- c }", "line 2, column 9: '--' is an edge without a direction"),
        ("digraph {\n a ->", "line 2, column 6: the text ends too early"),
        ("digraph { a [cost=", "the text ends too early"),
        ("digraph { a [cost=1", "the text ends too early"),
        ("digraph a", "the text ends where '{'"),
        ("digraph { a -> ; }", "';' stands for a name"),
        ("digraph { } x", "'x' stands after the end"),
        ('digraph { "a }', "no word of the DOT language"),
        ("digraph { a % b }", "column 13: '% b }' is no word"),
        ("digraph { a }", "node 'a' has no duration"),
        ("digraph { a [cost=x] }", "cost of node 'a' is 'x'"),
        ("digraph { a [cost=nan] }", "cost of node 'a' is 'nan'"),
        ("digraph { node [cost=1] a -> b [size=big] }", "size of edge 'a' -> 'b' is 'big'"),
        ("digraph " + "{" * (DEEPEST + 1), "more than 100 subgraphs"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        dot_graph(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digraph { }", "0 tasks"),
        ("digraph { a [cost=-1] }", "duration of task 'a' is -1"),
        ("digraph { node [cost=1] a -> b -> a }", "circle: a -> b -> a"),
        ("digraph { node [cost=1] a -> b [size=-8] }", "a -> b is -8"),
        ("digraph { node [cost=1] a -> b [size=1.5] }", "a -> b is 1.5"),
    ],
)
def test_graphs_that_cannot_be_scheduled_are_refused(text: str, message: str) -> None:
    with pytest.raises(GraphschedError, match=message):
        check_graph(dot_graph(text))
