"""Looks of lines: none like another, in every picture that draws several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import networkx as nx
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from graphsched.charts import plot_blocks, plot_calls, plot_graph, plot_stages, plot_training, plot_ways
from graphsched.charts.blocks import Block
from graphsched.charts.looks import legend_below, looks
from graphsched.charts.ranking import plot_ranking
from graphsched.charts.scaling import plot_scaling
from graphsched.charts.stages import Stage
from graphsched.charts.sweeps import plot_sweep

LINES = 12
WAYS = [f"way {k}" for k in range(LINES)]


def test_no_two_looks_are_the_same() -> None:
    found = list(islice(looks(), 100))
    assert len({str(dashes) for _, _, dashes in found}) == 100
    assert len({look[:2] for look in found[:70]}) == 70
    assert ":" not in {dashes for _, _, dashes in found}  # that is training accuracy, and nominal rates


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_calls({"net": {way: [1.0, 2.0] for way in WAYS}}),
        lambda: plot_scaling({("net", "tree"): {way: [(8, 1.0), (16, 2.0)] for way in WAYS}}, "sums"),
        lambda: plot_sweep({"sum": {way: [(1, 1.0), (2, 2.0)] for way in WAYS}}, "size", "a sweep"),
        lambda: plot_training({way: {"loss": [2.0, 1.0]} for way in WAYS}),
    ],
    ids=["calls", "scaling", "sweep", "training"],
)
def test_each_line_of_a_picture_has_a_look_of_its_own(draw: Callable[[], Figure]) -> None:
    """Also in grey: by its dashes."""
    lines = [line for line in draw().axes[0].lines if line.get_linestyle() != "None"]
    assert len(lines) == LINES
    assert len({str(line._dash_pattern) for line in lines}) == LINES
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == LINES


def test_a_legend_below_names_each_line_once_and_stays_on_the_picture() -> None:
    names = ["sharded over the GPUs", "two rings", *WAYS]
    figure = plot_scaling({("net", "tree"): {name: [(8, 1.0)] for name in names}}, "sums")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_axes_that_share_a_line_share_its_entry() -> None:
    figure = Figure(layout="constrained")
    for axes in figure.subplots(1, 2):
        axes.plot([0, 1], [0, 1], label="ring")
    legend_below(figure, 3)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ring"]


def test_names_that_begin_with_an_underscore_have_their_entry() -> None:
    """Lines and bars; what has no name has none."""
    names = ["_private", "way"]
    for figure in (
        plot_sweep({"sum": {name: [(1, 1.0)] for name in names}}, "size", "a sweep"),
        plot_scaling({("net", "tree"): {name: [(8, 1.0)] for name in names}}, "sums"),
        plot_stages({"a step": [Stage("GPU", name, 0.0, 1.0) for name in names]}),
    ):
        assert [text.get_text() for text in figure.legends[0].get_texts()] == names


def test_dollar_signs_in_names_are_drawn_as_they_are() -> None:
    """A name that is no formula, two names of which each has one, and a long one that is broken into lines."""
    for name in (r"$\frac{$", "$x$", "a$b", "long " * 4 + "$\\frac{$"):
        for figure in _named(name):
            figure.draw_without_rendering()
            drawn = [text.get_text() for text in figure.findobj(Text)]
            assert any(r"\$" in text for text in drawn)


def _named(name: str) -> Iterator[Figure]:
    """A picture of each sort in which everything has this name."""
    yield plot_blocks({name: [Block(name, 0, 0.0, 1.0)]}, title=name)
    yield plot_stages({name: [Stage(name, name, 0.0, 1.0)]}, title=name)
    yield plot_calls({name: {name: [1.0, 2.0]}}, title=name, note=name)
    yield plot_ways({name: {name: (1.0, 1.1)}}, title=name)
    yield plot_training({name: {"loss": [2.0, 1.0]}}, title=name, note=name)
    yield plot_graph(nx.DiGraph([(name, "next")]), title=name, note=name)
    yield plot_sweep({name: {name: [(name, 2.0)]}}, name, name)
    yield plot_ranking({name: {name: (1.0, 1.1)}}, {}, title=name)


@pytest.mark.parametrize("length", [3, 40])
def test_a_legend_is_no_wider_than_its_picture(length: int) -> None:
    """Long names take more rows."""
    names = [f"{k} {'x' * length}" for k in range(6)]
    for figure in (
        plot_ways({"case": dict.fromkeys(names, (None, 1.0))}),
        plot_sweep({"case": {name: [(1, 2.0), (2, 1.0)] for name in names}}, "size", "a sweep"),
    ):
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == names
        assert legend.get_window_extent().width <= figure.bbox.width


@pytest.mark.parametrize("name", ["x" * 300, "word " * 60])
def test_names_of_300_letters_stay_on_the_picture(name: str) -> None:
    """Axes have room beside them; titles are broken into lines."""
    for figure in (
        plot_blocks({name: [Block(name, 0, 0.0, 1.0)]}, title=name),
        plot_stages({name: [Stage(name, name, 0.0, 1.0)]}, title=name),
        plot_calls({name: {name: [1.0, 2.0]}}, title=name),
        plot_ways({name: {name: (1.0, 1.1)}}, title=name),
        plot_training({name: {"loss": [2.0, 1.0]}, f"{name}1": {"loss": [2.0, 1.0]}}, title=name, note=name),
    ):
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
        assert -0.01 <= box.x0 < box.x1 <= figure.get_figwidth() + 0.01
        assert -0.01 <= box.y0 < box.y1 <= figure.get_figheight() + 0.01
