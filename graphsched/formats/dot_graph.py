"""Reading graphs in the DOT language of Graphviz.

A task's duration is the first of the attributes ``duration_s``, ``duration``, ``runtime``, ``cost`` and ``weight`` of
its node, an edge's bytes the first of ``nbytes``, ``bytes`` and ``size``; defaults (``node [duration=1]``) count.
`dot.to_dot` writes them.

Source: graphviz.org/doc/info/lang.html

Not modelled: ports, looks, clusters; edges that are given twice are one.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from itertools import pairwise, product

import networkx as nx

from graphsched.errors import FileFormatError
from graphsched.formats.dot_tokens import Token, place, tokens_of
from graphsched.formats.entries import number_of

DURATIONS = ("duration_s", "duration", "runtime", "cost", "weight")
BYTES = ("nbytes", "bytes", "size")
DEEPEST = 100  # subgraphs within each other

Attributes = dict[str, str]


def dot_graph(text: str) -> nx.DiGraph:
    """The graph of a DOT text; see `plain_graphs` for attributes.

    Raises:
        FileFormatError: The text is truncated, undirected, no DOT, a node has no duration or a figure is no number;
            says where.

    Example:
        >>> graph = dot_graph("digraph { node [weight=2]; a -> {b c} [size=8]; b [weight=3] }")
        >>> dict(graph.nodes(data="duration_s")), list(graph.edges(data="nbytes"))
        ({'a': 2.0, 'b': 3.0, 'c': 2.0}, [('a', 'b', 8), ('a', 'c', 8)])
    """
    parsed = _Parser(text).parse()
    graph = nx.DiGraph()
    for node, attributes in parsed.nodes(data=True):
        seconds = _figure(attributes, DURATIONS, f"node {node!r}")
        if seconds is None:
            raise FileFormatError(f"node {node!r} has no duration: give it an attribute {' or '.join(DURATIONS)}")
        graph.add_node(node, duration_s=seconds)
    for source, target, attributes in parsed.edges(data=True):
        nbytes = _figure(attributes, BYTES, f"edge {source!r} -> {target!r}")
        whole = int(nbytes) if nbytes is not None and nbytes.is_integer() else nbytes
        graph.add_edge(source, target, **({} if whole is None else {"nbytes": whole}))
    return graph


def _figure(attributes: Mapping[str, str], keys: tuple[str, ...], where: str) -> float | None:
    key = next((key for key in keys if key in attributes), None)
    if key is None:
        return None
    number = number_of(attributes[key])
    if not math.isfinite(number):
        raise FileFormatError(f"{key} of {where} is {reprlib.repr(attributes[key])}: a finite number is needed")
    return number


class _Parser:
    """From tokens to a graph of text attributes; one rule of the grammar a method."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._depth = 0
        self._graph = nx.DiGraph()

    def parse(self) -> nx.DiGraph:
        self._take_word("strict")
        if not self._take_word("digraph"):
            what = "an undirected graph" if self._next.text.lower() == "graph" else repr(self._next.text)
            raise self._wrong(f"{what} stands where 'digraph' is needed")
        if self._next.text != "{":
            self._id()
        self._statements({}, {})
        if self._next.kind != "end":
            raise self._wrong(f"{self._next.text!r} stands after the end of the graph")
        return self._graph

    # -- rules -------------------------------------------------------------------------------

    def _statements(self, of_nodes: Attributes, of_edges: Attributes) -> dict[str, None]:
        """What stands in braces; returns the nodes that it names. Defaults hold for what follows them."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._wrong(f"there are more than {DEEPEST} subgraphs within each other")
        self._need("{")
        named: dict[str, None] = {}
        of_nodes, of_edges = dict(of_nodes), dict(of_edges)
        while not self._take("}"):
            named |= self._statement(of_nodes, of_edges)
            self._take(";")
        self._depth -= 1
        return named

    def _statement(self, of_nodes: Attributes, of_edges: Attributes) -> dict[str, None]:
        token, after = self._next, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.kind == "word" and token.text.lower() in ("node", "edge", "graph") and after.text == "[":
            self._at += 1
            defaults = {"node": of_nodes, "edge": of_edges}.get(token.text.lower(), {})
            defaults |= self._attributes()
            return {}
        if token.kind != "mark" and after == Token("mark", "=", after.at):
            self._at += 2
            self._id()
            return {}
        return self._chain(of_nodes, of_edges)

    def _chain(self, of_nodes: Attributes, of_edges: Attributes) -> dict[str, None]:
        """A node, or nodes and subgraphs joined by arrows, with attributes."""
        ends = [self._end(of_nodes, of_edges)]
        while self._next.kind == "mark" and self._next.text in ("->", "--"):
            if self._next.text == "--":
                raise self._wrong("'--' is an edge without a direction: '->' is needed")
            self._at += 1
            ends.append(self._end(of_nodes, of_edges))
        given = self._attributes()
        if len(ends) == 1:
            for node in ends[0]:
                self._graph.nodes[node].update(given)
        for sources, targets in pairwise(ends):
            for edge in product(sources, targets):
                self._graph.add_edge(*edge)
                self._graph.edges[edge].update(of_edges | given)
        return {node: None for end in ends for node in end}

    def _end(self, of_nodes: Attributes, of_edges: Attributes) -> dict[str, None]:
        """A node, which is there from now on, or the nodes of a subgraph."""
        if self._take_word("subgraph") and self._next.text != "{":
            self._id()
        if self._next == Token("mark", "{", self._next.at):
            return self._statements(of_nodes, of_edges)
        node = self._id()
        while self._take(":"):  # ports say where a line ends in a picture
            self._id()
        if node not in self._graph:
            self._graph.add_node(node)
            self._graph.nodes[node].update(of_nodes)
        return {node: None}

    def _attributes(self) -> Attributes:
        found: Attributes = {}
        while self._take("["):
            while not self._take("]"):
                key = self._id()
                found[key] = self._id() if self._take("=") else "true"
                self._take(",") or self._take(";")
        return found

    def _id(self) -> str:
        token = self._next
        if token.kind in ("mark", "end"):
            raise self._wrong("the text ends too early" if token.kind == "end" else f"{token.text!r} stands for a name")
        self._at += 1
        text = token.text
        while token.kind == "quoted" and self._take("+"):
            text += self._id()
        return text

    # -- tokens ------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, mark: str) -> bool:
        """Whether the next token is this mark; then it is left behind."""
        found = self._next.kind == "mark" and self._next.text == mark
        self._at += found
        return found

    def _take_word(self, word: str) -> bool:
        found = self._next.kind == "word" and self._next.text.lower() == word
        self._at += found
        return found

    def _need(self, mark: str) -> None:
        if not self._take(mark):
            found = "the text ends" if self._next.kind == "end" else f"{self._next.text!r} stands"
            raise self._wrong(f"{found} where {mark!r} is needed")

    def _wrong(self, what: str) -> FileFormatError:
        return FileFormatError(f"{place(self._text, self._next.at)}: {what}")
