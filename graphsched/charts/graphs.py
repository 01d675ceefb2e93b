"""Task graphs as pictures: boxes in bands of their devices, from left to right, with copies between them.

Not modelled: graphs of more than some hundred tasks, which no picture shows (`formats.dot` and Graphviz go further).
"""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Mapping
from itertools import cycle
from typing import Any

import networkx as nx
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from graphsched.charts.curves import DPI
from graphsched.charts.graph_layout import HEAD, Layout, device_of, lay_out, within_a_step
from graphsched.gantt.fonts import drawable
from graphsched.quantities import bytes_text

# Okabe and Ito's colours, made pale so that black text can be read on them.
BANDS = ("#cfe3f1", "#f9dfc4", "#cdebe0", "#efdbe7", "#fbf3c0", "#dddddd")
COPY, NEXT_STEP = "#ffffff", "#a05195"
COLUMN_IN, ROW_IN = 1.32, 0.66  # inches from node to node
BOX_W, BOX_H = 0.84, 0.72  # share of that which a box takes
LETTERS, LINES = 17, 3  # of a label


def draw_graph(graph: nx.DiGraph, title: str, note: str = "") -> Figure:
    """The figure of `plot_graph`."""
    layout = lay_out(graph)
    size = min(100.0, COLUMN_IN * layout.columns + 1.2), min(100.0, ROW_IN * layout.rows + 1.4)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlim(-0.55, layout.columns - 0.45)
    axes.set_ylim(layout.rows - 0.45, -0.55)
    axes.set_axis_off()
    colours = dict(zip(layout.bands, cycle(BANDS), strict=False))
    for device, (first, rows) in layout.bands.items():
        axes.axhspan(first - 0.5 - HEAD, first + rows - 0.5, color=colours[device], alpha=0.35, linewidth=0)
        axes.text(-0.53, first - 0.45 - HEAD, drawable(device), fontsize=9, va="top", weight="bold")
    for a, b, data in graph.edges(data=True):
        _draw_edge(axes, layout, a, b, data)
    for node in graph:
        _draw_node(axes, graph, layout, node, colours)
    axes.set_title(drawable(title), loc="left", fontsize=11.5)
    handles = _legend(graph)
    if handles or note:
        words = drawable(textwrap.fill(note, int(size[0] * 14))) or None
        legend = figure.legend(
            handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False, title=words
        )
        legend.get_title().set_fontsize(8.5)
    return figure


def _draw_node(axes: Axes, graph: nx.DiGraph, layout: Layout, node: Hashable, colours: Mapping[str, str]) -> None:
    """A box with the node's label; that of a copy is white and round."""
    column, row = layout.at[node]
    copies = graph.nodes[node].get("kind") == "copy"
    axes.add_patch(
        FancyBboxPatch(
            (column - BOX_W / 2 + 0.05, row - BOX_H / 2 + 0.05),
            BOX_W - 0.1,
            BOX_H - 0.1,
            boxstyle=f"{'round' if copies else 'square'},pad=0.05",
            facecolor=COPY if copies else colours[device_of(graph, node)],
            edgecolor="#E69F00" if copies else "#333333",
            linewidth=1.1 if copies else 0.8,
            zorder=3,
        )
    )
    label = _wrapped(str(graph.nodes[node].get("label", node)))
    if copies:
        nbytes = max((data.get("nbytes", 0) for _, _, data in graph.edges(node, data=True)), default=0)
        label += f"\n{bytes_text(nbytes)}" if nbytes else ""
    axes.text(column, row, label, ha="center", va="center", fontsize=6.6, zorder=4, linespacing=1.1)


def _draw_edge(axes: Axes, layout: Layout, a: Hashable, b: Hashable, data: Mapping[str, Any]) -> None:
    """An arrow from box to box: what only orders is dotted, what leads to the next step dashed and bent."""
    (x, y), (u, v) = layout.at[a], layout.at[b]
    later = bool(data.get("next_step"))
    axes.add_patch(
        FancyArrowPatch(
            (x + BOX_W / 2, y) if not later else (x, y - BOX_H / 2 if v < y else y + BOX_H / 2),
            (u - BOX_W / 2, v) if not later else (u + BOX_W / 2, v),
            connectionstyle="arc3,rad=0" if not later else "arc3,rad=0.12",
            arrowstyle="-|>",
            mutation_scale=7,
            linewidth=0.8,
            linestyle="--" if later else "-" if data.get("nbytes", 1) else ":",
            color=NEXT_STEP if later else "#444444",
            shrinkA=0,
            shrinkB=0,
            zorder=2 if not later else 1.5,
        )
    )


def _wrapped(label: str) -> str:
    """`label` in few short lines.

    Example:
        >>> print(_wrapped("0/network.backward/log_softmax_backward_data"))
        0/network.
        backward/
        log_softmax_back…
    """
    lines: list[str] = []
    for part in label.split("\n"):
        lines.append("")
        for word in _words(part):
            if lines[-1] and len(lines[-1]) + len(word.rstrip()) > LETTERS:
                lines.append("")
            lines[-1] += word
    short = [line.strip() for line in lines]
    short = [line if len(line) <= LETTERS else line[: LETTERS - 1] + "…" for line in short]
    if len(short) > LINES:
        short = [*short[: LINES - 1], short[LINES - 1][: LETTERS - 1] + "…"]
    return drawable("\n".join(short))


def _words(label: str) -> list[str]:
    """Pieces after which a line can end."""
    words = [""]
    for letter in label:
        words[-1] += letter
        if letter in "/.+> ":
            words.append("")
    return [word for word in words if word]


def _legend(graph: nx.DiGraph) -> list[Artist]:
    handles: list[Artist] = []
    if any(kind == "copy" for _, kind in graph.nodes(data="kind")):
        handles.append(Patch(facecolor=COPY, edgecolor="#E69F00", label="copy between devices, with its bytes"))
    if any(not nbytes for *_, nbytes in within_a_step(graph).edges(data="nbytes", default=1)):
        handles.append(Line2D([], [], color="#444444", linestyle=":", label="only orders"))
    if any(later for *_, later in graph.edges(data="next_step")):
        handles.append(Line2D([], [], color=NEXT_STEP, linestyle="--", label="before that of the next step"))
    return handles
