"""Graphs as text for Graphviz: `dot -Tsvg plan.dot -o plan.svg`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from graphsched.formats.dependencies import dependencies
from graphsched.formats.tracks import lane_order
from graphsched.plan import Plan
from graphsched.quantities import bytes_text
from graphsched.workload import Workload

_LOOKS = {
    "run": 'shape=box style=filled fillcolor="#cfe2f3"',
    "copy": 'shape=cds style=filled fillcolor="#fce5cd"',
    "wait": 'shape=octagon style=filled fillcolor="#eeeeee"',
    "barrier": 'shape=octagon style=filled fillcolor="#eeeeee"',
    "collective": 'shape=hexagon style=filled fillcolor="#d9ead3"',
}


def to_dot(graph: Plan | Workload) -> str:
    r"""The graph of a workload, or of a plan with its lanes as clusters, as Graphviz text.

    A workload's edges bear the bytes passed; dashed ones only order. Durations that were given, and bytes, are
    attributes too, which `dot_graph` reads. In a plan, edges through which bytes pass bear them, dashed edges are
    waits, dotted ones the order of a lane.

    Example:
        >>> import networkx as nx
        >>> g = nx.DiGraph()
        >>> g.add_nodes_from("ab", duration_s=1.0)
        >>> g.add_edge("a", "b", nbytes=4_000_000)
        >>> print(to_dot(Workload.from_graph(g)), end="")
        digraph "graph" {
          rankdir=LR
          node [fontname="Helvetica"]
          edge [fontname="Helvetica"]
          "a" [label="a" shape=box style=filled fillcolor="#cfe2f3" duration_s="1.0"]
          "b" [label="b" shape=box style=filled fillcolor="#cfe2f3" duration_s="1.0"]
          "a" -> "b" [label="4 MB" nbytes="4000000"]
        }
    """
    lines = _plan_lines(graph) if isinstance(graph, Plan) else _workload_lines(graph)
    name = graph.work.name if isinstance(graph, Plan) else graph.name
    head = [f"digraph {_quoted(name)} {{", "rankdir=LR", 'node [fontname="Helvetica"]', 'edge [fontname="Helvetica"]']
    return "\n  ".join([*head, *lines]) + "\n}\n"


def _workload_lines(work: Workload) -> Iterator[str]:
    for task in work.tasks:
        given = isinstance(task.duration_s, (int, float))
        yield _node(task.name, task.kind, duration_s=task.duration_s if given else None)
    for source, target, nbytes in work.graph.edges(data="nbytes"):
        yield _edge(source, target, nbytes, nbytes=nbytes or None)


def _plan_lines(plan: Plan) -> Iterator[str]:
    members: dict[int, list[int]] = {k: [] for k in lane_order(plan)}
    for i, lane in enumerate(plan.lane_of):
        members[lane].append(i)
    for k, actions in members.items():
        if actions:
            yield f"subgraph {_quoted(f'cluster_{k}')} {{"
            yield f"  label={_quoted(plan.lanes[k].name)}"
            yield from (f"  {_node(plan.names[i], plan.kinds[i])}" for i in actions)
            yield "}"
    yield from _plan_edges(plan, list(members.values()))


def _plan_edges(plan: Plan, lanes: list[list[int]]) -> Iterator[str]:
    passed = dependencies(plan)
    for (j, i), nbytes in passed.items():
        yield _edge(plan.names[j], plan.names[i], nbytes)
    for actions in lanes:
        for j, i in pairwise(actions):
            if (j, i) not in passed:
                yield f"{_quoted(plan.names[j])} -> {_quoted(plan.names[i])} [style=dotted arrowhead=none]"


def _node(name: str, kind: str, **more: Any) -> str:
    return f"{_quoted(name)} [label={_quoted(name)} {_LOOKS[kind]}{_attributes(more)}]"


def _edge(source: str, target: str, passed: int, **more: Any) -> str:
    look = f"label={_quoted(bytes_text(passed))}" if passed else "style=dashed"
    return f"{_quoted(source)} -> {_quoted(target)} [{look}{_attributes(more)}]"


def _attributes(given: Mapping[str, Any]) -> str:
    """Those that are not None, each after a space."""
    return "".join(f" {key}={_quoted(str(value))}" for key, value in given.items() if value is not None)


def _quoted(text: str) -> str:
    """`text` as a quoted string of the DOT language, where labels take a backslash as an escape."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
