"""Where the nodes of a task graph are drawn: a band for each device, columns by depth.

Not modelled: crossings of edges, which are only kept few.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

import networkx as nx

from graphsched.formats.dependencies import dependencies
from graphsched.plan import Plan
from graphsched.plan.steps import carried

HEAD = 0.375  # rows above each band, for the device's name


@dataclass(frozen=True)
class Layout:
    """Where nodes are.

    Attributes:
        at: Column and row of each node; rows grow downwards.
        bands: First row and number of rows of each device, from top to bottom.
    """

    at: Mapping[Hashable, tuple[int, float]]
    bands: Mapping[str, tuple[float, int]]

    @property
    def columns(self) -> int:
        return 1 + max(column for column, _ in self.at.values())

    @property
    def rows(self) -> float:
        return sum(rows + HEAD for _, rows in self.bands.values())


def graph_of(plan: Plan) -> nx.DiGraph:
    """The actions of `plan` with what they need, as `plot_graph` draws it.

    Nodes have the attributes ``device`` and ``kind`` (``run``, ``copy``, ``wait``, ``collective``); edges ``nbytes``,
    and ``next_step`` where an action is waited for by one of the next run of the same plan.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> w = work.state("w", TensorSpec((2,)))
        >>> _ = work.task(abs, w, name="use", outputs=[]), work.task(abs, w, name="change", updates=w, outputs=[])
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> plan = build_plan(work, here, None, Placement(["use", "change"], {"use": "cpu/w0", "change": "cpu/w1"}),
        ...     scheduler="by hand")
        >>> list(graph_of(plan).edges(data="next_step"))
        [('use', 'change', False), ('change', 'use', True)]
    """
    graph = nx.DiGraph()
    for name, kind, lane in zip(plan.names, plan.kinds, plan.lane_of, strict=True):
        graph.add_node(name, kind=kind, device=plan.lanes[lane].device)
    for (j, i), nbytes in dependencies(plan).items():
        graph.add_edge(plan.names[j], plan.names[i], nbytes=nbytes, next_step=False)
    for i, before in carried(plan).items():
        for j in before:
            if i != j and not graph.has_edge(plan.names[j], plan.names[i]):
                graph.add_edge(plan.names[j], plan.names[i], nbytes=0, next_step=True)
    return graph


def within_a_step(graph: nx.DiGraph) -> nx.DiGraph:
    """`graph` without the edges that lead to the next step."""
    return nx.subgraph_view(graph, filter_edge=lambda a, b: not graph.edges[a, b].get("next_step"))


def lay_out(graph: nx.DiGraph) -> Layout:
    """Columns by depth, what nothing leads to just before it is needed; rows by device, near what leads there.

    Example:
        >>> graph = nx.DiGraph([("a", "c"), ("b", "c"), ("a", "d")])
        >>> nx.set_node_attributes(graph, {"a": "cpu", "b": "cuda:0", "c": "cuda:0", "d": "cpu"}, "device")
        >>> layout = lay_out(graph)
        >>> layout.at["c"], layout.at["d"], layout.bands
        ((1, 0.375), (1, 1.75), {'cuda:0': (0.375, 1), 'cpu': (1.75, 1)})
    """
    step = within_a_step(graph)
    column = {node: depth for depth, layer in enumerate(nx.topological_generations(step)) for node in layer}
    for node in step:
        if not step.pred[node] and step.succ[node]:
            column[node] = min(column[after] for after in step.succ[node]) - 1
    cells: dict[tuple[str, int], list[Hashable]] = {}
    for node in sorted(nx.topological_sort(step), key=column.__getitem__):
        cells.setdefault((device_of(graph, node), column[node]), []).append(node)
    bands: dict[str, tuple[float, int]] = {}
    for device in _band_order(dict.fromkeys(device for device, _ in cells)):
        height = max(len(nodes) for (where, _), nodes in cells.items() if where == device)
        bands[device] = HEAD + sum(rows + HEAD for _, rows in bands.values()), height
    return Layout(_rows(step, cells, bands, column), bands)


def _rows(
    step: nx.DiGraph,
    cells: Mapping[tuple[str, int], list[Hashable]],
    bands: Mapping[str, tuple[float, int]],
    column: Mapping[Hashable, int],
) -> dict[Hashable, tuple[int, float]]:
    """Column and row of each node: in its band, in the order of the rows that lead to it."""
    at: dict[Hashable, tuple[int, float]] = {}
    for device, number in sorted(cells, key=lambda cell: cell[1]):
        first, height = bands[device]
        nodes = cells[device, number]
        order = {node: i for i, node in enumerate(nodes)}
        nodes = sorted(nodes, key=lambda n: (_mean_row(step.pred[n], at, first + height / 2), order[n]))
        top = first + (height - len(nodes)) / 2
        at.update({node: (column[node], top + i) for i, node in enumerate(nodes)})
    return at


def _mean_row(before: Iterable[Hashable], at: Mapping[Hashable, tuple[int, float]], default: float) -> float:
    rows = [at[node][1] for node in before if node in at]
    return fmean(rows) if rows else default


def _band_order(devices: Iterable[str]) -> list[str]:
    """The CPU in the middle, the others around it.

    Example:
        >>> _band_order(["cpu", "cuda:1", "cuda:0"])
        ['cuda:0', 'cpu', 'cuda:1']
    """
    others = sorted((d for d in devices if d != "cpu"), key=lambda name: (len(name), name))
    half = (len(others) + 1) // 2
    return [*others[:half], *(d for d in devices if d == "cpu"), *others[half:]]


def device_of(graph: nx.DiGraph, node: Hashable) -> str:
    return str(graph.nodes[node].get("device") or "anywhere")
