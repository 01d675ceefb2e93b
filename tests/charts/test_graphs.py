"""Pictures of task graphs: where nodes are, and what edges look like."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from graphsched.charts import plot_graph
from graphsched.charts.graph_layout import HEAD, graph_of, lay_out
from graphsched.errors import OutputError
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import by_hand, machine


def halves() -> nx.DiGraph:
    """::

    half 0 ─ copy 0 ─┬─ sum ╌╌ next step ╌╌ half 0, half 1
    half 1 ─ copy 1 ─╯       (late) ─ sum
    """
    graph = nx.DiGraph()
    for i in (0, 1):
        graph.add_node(f"half {i}", device=f"cuda:{i}", label=f"half\nof GPU {i}")
        graph.add_node(f"copy {i}", device=f"cuda:{i}", kind="copy")
        graph.add_edge(f"half {i}", f"copy {i}", nbytes=0)
        graph.add_edge(f"copy {i}", "sum", nbytes=4_000_000)
        graph.add_edge("sum", f"half {i}", nbytes=0, next_step=True)
    graph.add_edge("late", "sum", nbytes=8)
    nx.set_node_attributes(graph, {"sum": "cpu", "late": "cpu"}, "device")
    return graph


def test_depth_goes_to_the_right_and_devices_have_bands() -> None:
    layout = lay_out(halves())
    assert [layout.at[name][0] for name in ("half 0", "copy 0", "late", "sum")] == [0, 1, 1, 2]
    assert list(layout.bands) == ["cuda:0", "cpu", "cuda:1"]
    assert [height for _, height in layout.bands.values()] == [1, 1, 1]
    assert layout.columns == 3


@given(st.integers(1, 14), st.integers(0, 2**20), st.integers(1, 4))
def test_every_graph_has_its_nodes_apart_and_in_their_bands(count: int, bits: int, devices: int) -> None:
    """Random graphs of up to 14 nodes: edges lead to the right, no two boxes lie on each other."""
    graph = nx.DiGraph()
    for j in range(count):
        graph.add_node(j, device="cpu" if j % devices == 0 else f"cuda:{j % devices}")
        graph.add_edges_from((i, j) for i in range(j) if (bits >> (i * 5 + j) % 20) & 1)
    layout = lay_out(graph)
    for a, b in graph.edges:
        assert layout.at[a][0] < layout.at[b][0]
    cells: dict[int, list[float]] = {}
    for node, (column, row) in layout.at.items():
        first, height = layout.bands[graph.nodes[node]["device"]]
        assert first <= row <= first + height - 1
        cells.setdefault(column, []).append(row)
    for rows in cells.values():
        assert all(b - a >= 1 for a, b in zip(sorted(rows), sorted(rows)[1:], strict=False))
    assert layout.rows == sum(height + HEAD for _, height in layout.bands.values())


def test_names_of_nodes_change_nothing_but_labels() -> None:
    graph = halves()
    names: dict[Hashable, Any] = {name: f"x{i}" for i, name in enumerate(graph)}
    found, other = lay_out(graph), lay_out(nx.relabel_nodes(graph, names))
    assert {names[name]: place for name, place in found.at.items()} == other.at


def test_boxes_arrows_and_words() -> None:
    figure = plot_graph(halves(), title="sum of halves", note="below")
    (axes,) = figure.axes
    boxes = [patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(boxes) == 6
    assert sorted(arrow.get_linestyle() for arrow in arrows) == ["-", "-", "-", "--", "--", ":", ":"]
    words = [text.get_text() for text in axes.texts]
    assert words[:3] == ["cuda:0", "cpu", "cuda:1"]
    assert "half\nof GPU 0" in words
    assert "copy 0\n4 MB" in words
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "copy between devices, with its bytes",
        "only orders",
        "before that of the next step",
    ]
    assert legend.get_title().get_text() == "below"
    colours = {box.get_facecolor() for box in boxes}
    assert len(colours) == 4  # of three devices and of copies


def test_a_plan_as_a_graph() -> None:
    """w ─ copy ─ use on worker:0 ─ back ─ change w on the CPU ╌╌ copy of the next step"""
    work, spec = Workload(), TensorSpec((4,))
    w = work.state("w", spec, device="cpu")
    used = work.task(abs, w, name="use", outputs=[spec])
    work.task(max, w, used, name="change", updates=w, outputs=[])
    plan = by_hand(work, machine("worker:0"), {"use": "worker:0/s0", "change": "cpu/w0"})
    graph = graph_of(plan)
    assert dict(graph.nodes(data="kind")) == {"w>worker:0": "copy", "use": "run", "use>cpu": "copy", "change": "run"}
    step = {(a, b): data["nbytes"] for a, b, data in graph.edges(data=True) if not data["next_step"]}
    assert step["w>worker:0", "use"] == 16
    assert step["use", "use>cpu"] == step["use>cpu", "change"] == 16
    assert ("change", "w>worker:0") in {(a, b) for a, b, later in graph.edges(data="next_step") if later}
    assert len(plot_graph(graph).axes) == 1


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plot_graph(halves(), tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nothing to draw: the graph has no nodes"):
        plot_graph(nx.DiGraph(), tmp_path / "a.png")
    with pytest.raises(OutputError, match="nothing to draw: the graph has a cycle"):
        plot_graph(nx.DiGraph([("a", "b"), ("b", "a")]), tmp_path / "a.png")
    with pytest.raises(OutputError, match=r"ends in \.png"):
        plot_graph(halves(), tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())
