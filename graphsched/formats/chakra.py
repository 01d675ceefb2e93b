"""Chakra execution traces as JSON: nodes with measured durations that name those they depend on.

Read are the objects that MLCommons' ``chakra_jsonizer`` writes one after another, a list of nodes, and an object with
such a list under ``nodes``; entries by the names of the schema (``data_deps``) or as protobuf writes them to JSON
(``dataDeps``). Durations are microseconds in the file, seconds in the graph.

Source: S. Sridharan et al.: Chakra: advancing performance benchmarking and co-design using standardized execution
traces, 2023; the schema is ``et_def.proto`` of github.com/mlcommons/chakra.

Not modelled: communication as such: a collective or a message is a task of its measured duration.
"""

from __future__ import annotations

import reprlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import networkx as nx

from graphsched.errors import CostError, FileFormatError
from graphsched.formats.entries import number_of

_DEPENDENCIES = ("data_deps", "ctrl_deps")
_DURATION = "duration_micros"
_METADATA = ("METADATA_NODE", 1)
MOST_DIGITS = 40  # of a number; ids have 64 bits


def looks_like_chakra(rows: Any) -> bool:
    """Whether a list holds nodes of such a trace.

    Example:
        >>> looks_like_chakra([{"version": "0.0.4"}, {"id": "1", "dataDeps": []}]), looks_like_chakra([1])
        (True, False)
    """
    nodes = [row for row in rows if isinstance(row, Mapping) and "id" in row] if isinstance(rows, list) else []
    keys = {_DURATION, *_DEPENDENCIES, "type"}
    return any(keys & {_plain(key) for key in row} for row in nodes[:8])


def chakra_graph(data: Any) -> nx.DiGraph:
    """The graph of a trace: nodes are ``name.id``; what is of no duration takes none.

    A trace in which no node has a duration is one that was recorded without: nothing can be scheduled by it.

    Args:
        data: A list of nodes, or an object that has one under ``nodes``.

    Raises:
        FileFormatError: An entry is wrong, or a node depends on one that is not there.
        CostError: No node has a duration, or one is negative.

    Example:
        >>> nodes = [{"id": "1", "name": "mm", "durationMicros": "250"}, {"id": "2", "name": "add",
        ...           "durationMicros": "50", "dataDeps": ["1"]}]
        >>> graph = chakra_graph(nodes)
        >>> list(graph.nodes(data=True)), list(graph.edges)
        ([('mm.1', {'duration_s': 0.00025}), ('add.2', {'duration_s': 5e-05})], [('mm.1', 'add.2')])
    """
    rows = data.get("nodes") if isinstance(data, Mapping) else data
    if not isinstance(rows, Sequence):
        raise FileFormatError(f"no Chakra trace: its nodes are {reprlib.repr(rows)}: a list is needed")
    nodes, others = _nodes(rows)
    about_runs = {str(row["id"]) for row in others if "id" in row}
    graph, names = nx.DiGraph(), {}
    for row in nodes:
        number = _number(row, "id", row)
        if number in names:
            raise FileFormatError(f"there are two nodes of id {number}: number them differently")
        names[number] = f"{row.get('name') or 'node'}.{number}"
        graph.add_node(names[number], duration_s=_seconds(row))
    for row in nodes:
        _add_dependencies(graph, row, names, about_runs)
    if nodes and not any(_DURATION in row for row in nodes):
        raise CostError(f"no node has a {_DURATION}: link the trace with one of the profiler (chakra_trace_link)")
    return graph


def _nodes(rows: Iterable[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes by the schema's names of entries, and those about the run; the head of the file is left out."""
    nodes: list[dict[str, Any]] = []
    about_runs: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise FileFormatError(f"node {i} is {reprlib.repr(row)}: an object is needed")
        plain = {_plain(key): value for key, value in row.items()}
        if plain.keys() & {"id", "name", "type"}:
            (about_runs if plain.get("type") in _METADATA else nodes).append(plain)
    return nodes, about_runs


def _plain(key: str) -> str:
    """A key as the schema has it.

    Example:
        >>> _plain("durationMicros"), _plain("ctrl_deps")
        ('duration_micros', 'ctrl_deps')
    """
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in str(key))


def _add_dependencies(
    graph: nx.DiGraph, row: Mapping[str, Any], names: Mapping[int, str], about_runs: Container[str]
) -> None:
    """Of the node of a `row` on others; those `about_runs` are no tasks, and are there before any."""
    name = names[_number(row, "id", row)]
    for key in _DEPENDENCIES:
        given = row.get(key)
        for before in given if isinstance(given, list) else [] if given is None else [given]:
            number = _number({key: before}, key, row)
            if number in names:
                graph.add_edge(names[number], name)
            elif str(number) not in about_runs:
                raise FileFormatError(f"{key} of node {name!r} has {number}, and there is no such node")


def _number(row: Mapping[str, Any], key: str, of: Mapping[str, Any]) -> int:
    """A number, which protobuf writes as text where it may be large."""
    given = row.get(key, 0 if key == "id" else None)  # protobuf leaves zeros out
    text = str(given)
    is_whole = not isinstance(given, (bool, float)) and text.isascii() and text.isdecimal()
    if not (is_whole and len(text) <= MOST_DIGITS):
        raise FileFormatError(
            f"{key} of {reprlib.repr(dict(of))} is {reprlib.repr(given)}: a whole number, 0 or more and of at most "
            f"{MOST_DIGITS} digits, is needed"
        )
    return int(text)


def _seconds(row: Mapping[str, Any]) -> float:
    given = row.get(_DURATION, 0)
    try:
        micros = number_of(given) if isinstance(given, str) else float(given)
    except (TypeError, ValueError, OverflowError):
        micros = -1.0
    if isinstance(given, bool) or not 0 <= micros < float("inf"):
        raise CostError(f"{_DURATION} of node {row.get('id')} is {reprlib.repr(given)}: a number, 0 or more, is needed")
    return micros / 1e6
