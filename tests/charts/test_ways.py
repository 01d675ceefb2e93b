"""Pictures of cases in several ways: bars in groups."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from graphsched.charts import plot_ways
from graphsched.errors import OutputError

BARS = {
    "LeNet, 1 GPU": {"eager": (1.0, 1.1), "graph": (0.5, 0.4), "plain": (None, 1.2)},
    "MLP, 1 GPU": {"eager": (2.0, 2.2)},
}


def test_a_bar_for_each_time_from_the_top_down_without_overlap() -> None:
    axes = plot_ways(BARS, title="here").axes[0]
    assert [bar.get_width() for bar in axes.patches] == [1.0, 1.1, 0.5, 0.4, 1.2, 2.0, 2.2]
    tops = [bar.get_y() for bar in axes.patches]
    assert tops == sorted(tops)
    assert all(b - a >= 0.9 for a, b in pairwise(tops))
    assert axes.get_ylim()[0] > tops[-1] + 0.9 > axes.get_ylim()[1]
    assert axes.get_title(loc="left") == "here"


def test_predicted_bars_are_hatched_and_have_the_colour_of_their_way() -> None:
    bars = plot_ways(BARS).axes[0].patches
    assert [bar.get_hatch() is not None for bar in bars] == [True, False, True, False, False, True, False]
    edges = [to_hex(bar.get_edgecolor()) for bar in bars]
    assert edges[0] == edges[1] == edges[5] == edges[6] != edges[2] == edges[3] != edges[4]


def test_each_bar_says_its_time_and_each_group_its_case() -> None:
    axes = plot_ways(BARS).axes[0]
    assert [text.get_text() for text in axes.texts][:2] == ["1 s", "1.1 s"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["LeNet, 1 GPU", "MLP, 1 GPU"]
    first, second = axes.get_yticks()
    assert axes.patches[0].get_y() < first < axes.patches[4].get_y() + 0.9 < second


def test_the_legend_names_the_ways() -> None:
    figure = plot_ways(BARS)
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["eager", "graph", "plain", "predicted"]
    figure = plot_ways({"a": {"plain": (None, 1.0)}})
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["plain"]


@pytest.mark.parametrize(("longest_s", "scale"), [(19.0, "linear"), (21.0, "log")])
def test_times_far_apart_are_on_a_logarithmic_axis(longest_s: float, scale: str) -> None:
    axes = plot_ways({"a": {"eager": (None, 1.0)}, "b": {"eager": (None, longest_s)}}).axes[0]
    assert axes.get_xscale() == scale
    assert axes.get_xlim()[1] > longest_s


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    for suffix in ("png", "svg"):
        for name in ("a", "b"):
            plot_ways(BARS, tmp_path / f"{name}.{suffix}")
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize("bars", [{}, {"a": {}}, {"a": {"eager": (None, None)}}, {"a": {"eager": (0.0, 1.0)}}])
def test_nothing_to_draw(tmp_path: Path, bars: dict[str, dict[str, tuple[float | None, float | None]]]) -> None:
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_ways(bars, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("time_s", [0.0, -1.0, math.inf, math.nan])
def test_a_time_that_is_none_is_named(time_s: float) -> None:
    with pytest.raises(OutputError, match=f"way 'graph' of case 'b' has a time of {time_s} s; give finite ones above"):
        plot_ways({"a": {"eager": (1.0, 1.0)}, "b": {"graph": (None, time_s)}})


def test_a_wrong_suffix_is_told_first(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"ends in \.png"):
        plot_ways({}, tmp_path / "a.txt")


def test_a_long_title_stays_within_the_picture() -> None:
    """It is broken into lines."""
    figure = plot_ways({"a case": {"eager": (1.0, 1.1)}}, title="a long title " * 30)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_tightbbox().width <= figure.bbox.width
