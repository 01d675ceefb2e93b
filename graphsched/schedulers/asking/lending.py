"""What is lent to schedulers of others: copies of workload and platform.

So one who changes his is found out, and harms nobody else.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import networkx as nx

from graphsched.platform import Platform
from graphsched.workload import Workload
from graphsched.workload.ordering import Ordering

_MAPPINGS = ("capacities", "tables", "provenance")
"""Attributes of a platform that could be changed in place."""


def lent(work: Workload) -> Workload:
    """`work` with a graph and mappings of its own, in the same order; tasks, values and tensors are shared.

    Example:
        >>> work = Workload.from_graph(nx.path_graph(0, create_using=nx.DiGraph))
        >>> other = lent(work)
        >>> other.barrier("wall")
        >>> len(work), len(other), was_changed(other, work)
        (0, 1, True)
    """
    made = copy(work)
    made.graph = _same(work.graph)
    made.values, made.tensors = dict(work.values), dict(work.tensors)
    made.kept, made.collectives = set(work.kept), list(work.collectives)
    made._order = Ordering(made.values)  # where a task is added, those of `work` must not come after it
    return made


def was_changed(borrowed: Workload, work: Workload) -> bool:
    """Whether what was `lent` of `work` has other tasks, edges or values now; notes on nodes and edges do not count."""
    return _facts(borrowed) != _facts(work)


def lent_platform(platform: Platform) -> Platform:
    """`platform` with mappings of its own; devices, links and costs are shared."""
    made = copy(platform)
    for name in _MAPPINGS:
        object.__setattr__(made, name, dict(getattr(platform, name)))
    return made


def platform_was_changed(borrowed: Platform, platform: Platform) -> bool:
    """Whether what was `lent_platform` has other figures now."""
    return any(getattr(borrowed, name) != getattr(platform, name) for name in _MAPPINGS)


def _same(graph: nx.DiGraph) -> nx.DiGraph:
    """A copy; unlike networkx's own it has predecessors in the same order, too, by which schedulers may decide."""
    made = nx.DiGraph()
    made.add_nodes_from(graph.nodes(data=True))
    made.add_edges_from(graph.in_edges(data=True))
    return made


def _facts(work: Workload) -> tuple[Any, ...]:
    edges = [(a, b, data.get("values"), data.get("nbytes")) for a, b, data in work.graph.in_edges(data=True)]
    return work.name, list(work.graph.nodes(data="task")), edges, work.values, work.kept
