"""Plain graphs for tests: by hand, and any."""

from __future__ import annotations

from typing import Any

import networkx as nx
from hypothesis import strategies as st

NAMES = st.one_of(st.integers(0, 99), st.text(max_size=4), st.sampled_from(["a", "b", "a.0", "a b", "a_b", "<x>"]))
SECONDS = st.floats(0, 1e6).map(lambda seconds: round(seconds, 6))


def diamond() -> nx.DiGraph:
    """a ─8─▶ b ─▶ d, a ─8─▶ c ─4─▶ d; b takes 3 s, the others 1."""
    graph = nx.DiGraph()
    graph.add_nodes_from("abcd", duration_s=1.0)
    graph.nodes["b"]["duration_s"] = 3.0
    graph.add_edges_from([("a", "b", {"nbytes": 8}), ("a", "c", {"nbytes": 8}), ("b", "d"), ("c", "d", {"nbytes": 4})])
    return graph


@st.composite
def plain_graphs(draw: st.DrawFn) -> nx.DiGraph:
    """Any graph of up to eight tasks: edges lead from earlier to later ones, with bytes or named values or none."""
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    graph = nx.DiGraph()
    for name in names:
        graph.add_node(name, duration_s=draw(SECONDS))
        if draw(st.booleans()):
            graph.nodes[name]["inputs"] = {draw(st.sampled_from("xy")): 16}
    for i, source in enumerate(names):
        sizes = draw(st.dictionaries(st.sampled_from(["v", "w", "a"]), st.integers(1, 99), max_size=2))
        for target in names[i + 1 :]:
            kind = draw(st.sampled_from(["none", "order", "bytes", "values"]))
            if kind == "values" and sizes:
                graph.add_edge(source, target, values=sizes, nbytes=sum(sizes.values()))
            elif kind != "none":
                graph.add_edge(source, target, **({"nbytes": draw(st.integers(0, 10**12))} if kind == "bytes" else {}))
    return graph


def figures(graph: nx.DiGraph) -> tuple[list[Any], list[Any]]:
    """Durations, and edges with bytes, by the place of the node."""
    place = {node: k for k, node in enumerate(graph)}
    edges = sorted((place[a], place[b], nbytes) for a, b, nbytes in graph.edges(data="nbytes", default=0))
    return [seconds for _, seconds in graph.nodes(data="duration_s")], edges
