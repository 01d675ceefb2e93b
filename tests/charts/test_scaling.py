"""The picture of seconds by numbers of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsched.charts.scaling import plot_scaling
from graphsched.errors import OutputError

PANELS = {
    ("net", "two-level"): {"ring": [(8, 1.0), (16, 4.0)], "tree": [(8, 2.0), (16, 2.5)]},
    ("net", "fat-tree"): {"ring": [(8, 1.0), (16, 2.0)], "tree": [(8, 2.0), (16, 2.5)]},
}


def test_each_way_is_a_curve_and_the_fastest_is_filled() -> None:
    figure = plot_scaling(PANELS, "sums")
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["net, two-level", "net, fat-tree"]
    curves = {line.get_label(): list(line.get_ydata()) for line in first.lines}
    assert curves["ring"] == [1.0, 4.0]
    assert curves["tree"] == [2.0, 2.5]
    filled = [
        [
            (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
            for line in axes.lines
            if line.get_linestyle() == "None"
        ]
        for axes in (first, second)
    ]
    assert filled == [[(8.0, 1.0), (16.0, 2.5)], [(8.0, 1.0), (16.0, 2.0)]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ring", "tree"]


def test_a_way_without_figures_has_no_curve() -> None:
    """Beside one that has some, as where a way needs more GPUs than a panel has."""
    figure = plot_scaling({("net", "tree"): {"ring": [(8, 1.0)], "halving": []}}, "sums")
    curves = {line.get_label(): len(line.get_xdata()) for line in figure.axes[0].lines}
    assert (curves["ring"], curves["halving"]) == (1, 0)


def test_the_picture_is_written_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        plot_scaling(PANELS, "sums", path=tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_nothing_to_draw() -> None:
    with pytest.raises(OutputError, match="no figures to draw"):
        plot_scaling({("net", "two-level"): {"ring": []}}, "sums")
    with pytest.raises(OutputError, match=r"ends in .png, .svg or .pdf"):
        plot_scaling(PANELS, "sums", path="sums.txt")
