"""Pictures of many calls: a curve for each way, as long as it was measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from graphsched.charts import plot_calls
from graphsched.charts.calls import draw_calls
from graphsched.errors import OutputError

WAYS = {"op by op": [0.1 * n for n in range(1, 301)], "compiled": [3.0 + 0.01 * n for n in range(1, 1001)]}


def test_a_panel_has_a_curve_for_each_way_through_every_call() -> None:
    figure = plot_calls({"MLP": WAYS, "LeNet": {"op by op": [1.0]}}, title="here", note="below")
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["MLP", "LeNet"]
    for curve, ends_s in zip(first.lines, WAYS.values(), strict=True):
        x, y = curve.get_data()
        assert list(x) == list(range(1, len(ends_s) + 1))
        assert list(y) == ends_s
    assert (first.get_xscale(), first.get_yscale()) == ("log", "log")
    assert first.lines[1].get_markevery() == [0, 9, 99, 999]
    assert [t.get_text() for t in second.get_legend().get_texts()] == ["op by op: 1 s, 1 s"]


def test_curves_can_be_told_apart_in_grey() -> None:
    lines = plot_calls({"net": {f"way {i}": [1.0, 2.0] for i in range(5)}}).axes[0].lines
    assert len({line.get_marker() for line in lines}) == 5
    assert len({line.get_color() for line in lines}) == 5


@pytest.mark.parametrize("way", ["_compiled", ""])
def test_the_legend_names_every_way(way: str) -> None:
    (axes,) = plot_calls({"MLP": {way: [1.0, 2.0], "op by op": [1.0, 3.0]}}).axes
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == [f"{way}: 1 s, 2 s", "op by op: 1 s, 3 s"]


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    for suffix in ("png", "svg"):
        for name in ("a", "b"):
            plot_calls({"MLP": WAYS}, tmp_path / f"{name}.{suffix}")
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize("panels", [{}, {"MLP": {}}, {"MLP": {"way": []}}, {"MLP": {"way": [0.0, 1.0]}}])
def test_nothing_to_draw(tmp_path: Path, panels: dict[str, dict[str, list[float]]]) -> None:
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_calls(panels, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("time_s", [-1.0, math.inf, math.nan])
def test_a_time_that_is_none_is_named(time_s: float) -> None:
    with pytest.raises(OutputError, match=f"way 'slow' of panel 'MLP' has a time of {time_s} s; give finite ones"):
        plot_calls({"MLP": {"fast": [1.0, 2.0], "slow": [1.0, time_s]}})


def test_a_wrong_suffix_is_told_first(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"ends in \.png"):
        plot_calls({"MLP": WAYS}, tmp_path / "a.txt")


def test_a_long_note_stays_on_the_picture() -> None:
    """With one panel a note of 140 characters takes two lines."""
    figure = draw_calls({"net": {"a": [1.0, 2.0]}}, "title", "word " * 28)
    figure.canvas.draw()
    box = figure._supxlabel.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_few_calls_have_more_than_one_figure_on_each_axis() -> None:
    """1 to 4 calls that take 1 to 4.2 s: there is one power of ten; none is written as a power."""
    figure = plot_calls({"MLP": {"op by op": [1.0, 2.0, 3.1, 4.2]}})
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for axis, wanted in ((axes.xaxis, {"1", "2"}), (axes.yaxis, {"1 s", "2 s", "5 s"})):
        labels = [label.get_text() for label in (*axis.get_majorticklabels(), *axis.get_minorticklabels())]
        assert wanted <= set(labels)
        assert not any("10" in label and "^" in label for label in labels)
