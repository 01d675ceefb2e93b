"""Pictures of sweeps: panels, curves, axes; and which rows make which."""

from __future__ import annotations

from typing import Any

import pytest

from graphsched.charts.sweeps import MOST_CURVES, MOST_PANELS, plot_sweep
from graphsched.cli.sweep_curves import axis_of, curves_of
from graphsched.errors import OutputError


def row(case: str, seconds: float | None, **more: Any) -> dict[str, Any]:
    return {"platform": "two", "mode": "eager", "scheduler": "heft", "case": case, "predicted_s": seconds} | more


def test_a_panel_a_case_and_a_curve_a_way() -> None:
    rows = [
        (1, row(f"sum of {size}", size * speed, size=size, scheduler=name))
        for size in (2, 4)
        for name, speed in (("heft", 1.0), ("etf", 2.0))
    ]
    assert axis_of([each for _, each in rows], ["size"]) == "size"
    assert curves_of(rows, "size", ["size"]) == {
        "sum of …": {"heft": [(2, 2.0), (4, 4.0)], "etf": [(2, 4.0), (4, 8.0)]}
    }


def test_labels_that_all_differ_make_panels_by_their_place() -> None:
    rows = [(place, row(f"{size * 2} B, way {place}", 1.0, size=size)) for size in (2, 4) for place in (1, 2)]
    assert list(curves_of(rows, "size", ["size"])) == ["case 1", "case 2"]


def test_cases_that_not_all_points_have_are_panels_of_their_own() -> None:
    rows = [
        (1, row("1 GPU", 3.0, platform="a")),
        (1, row("1 GPU", 3.0, platform="b")),
        (2, row("2 GPUs", 2.0, platform="b")),
    ]
    assert axis_of([each for _, each in rows], []) == "platform"
    found = curves_of(rows, "platform", [])
    assert found == {"1 GPU": {"heft": [("a", 3.0), ("b", 3.0)]}, "2 GPUs": {"heft": [("b", 2.0)]}}


def test_points_that_failed_are_not_drawn() -> None:
    rows = [(1, row("sum", None, size=2)), (1, row("sum", 2.0, size=4))]
    assert curves_of(rows, "size", ["size"]) == {"sum": {"heft": [(4, 2.0)]}}


def test_numbers_far_apart_are_on_logarithmic_axes_and_words_side_by_side() -> None:
    wide = plot_sweep({"sum": {"heft": [(1, 1e-6), (1000, 1e-2)]}}, "size", "t").axes[0]
    near = plot_sweep({"sum": {"heft": [(1, 1.0), (2, 2.0)]}}, "size", "t").axes[0]
    words = plot_sweep({"sum": {"heft": [("b", 1.0), ("a", 2.0)]}}, "platform", "t").axes[0]
    assert [(axes.get_xscale(), axes.get_yscale()) for axes in (wide, near)] == [("log", "log"), ("linear", "linear")]
    assert [text.get_text() for text in words.get_xticklabels()] == ["b", "a"]
    assert list(near.lines[0].get_ydata()) == [1.0, 2.0]


def test_curves_look_different_and_what_is_left_out_is_said() -> None:
    ways = {f"way {k}": [(1, 1.0 + k), (2, 2.0 + k)] for k in range(MOST_CURVES + 2)}
    figure = plot_sweep({f"case {k}": ways for k in range(MOST_PANELS + 3)}, "size", "t")
    lines = figure.axes[0].lines
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle(), str(line._dash_pattern)) for line in lines}
    assert (len(lines), len(looks)) == (MOST_CURVES, MOST_CURVES)
    assert figure.get_suptitle() == "t; 3 more cases are in the table; 2 more curves are in the table"


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(OutputError, match="every point failed"):
        plot_sweep({"sum": {"heft": []}}, "size", "t")


def test_long_names_of_cases_stay_above_their_panels() -> None:
    figure = plot_sweep(
        {f"a case {'of small tasks ' * 14}{k}": {"heft": [(1, 1.0), (2, 2.0)]} for k in range(3)}, "n", "t"
    )
    figure.draw_without_rendering()
    for axes in figure.axes:
        (title,) = (text for text in axes.get_children() if getattr(text, "get_text", str)() == axes.get_title("left"))
        assert title.get_window_extent().width <= axes.bbox.width


def test_a_case_says_the_swept_value_that_its_label_leaves_open_and_no_curve_tells() -> None:
    rows = [
        (1, row(case, float(n + size), size=size, n=n))
        for size in (2, 4)
        for n, case in ((1, "sum, 1 GPU"), (7, "sum, 7 GPUs"))
    ]
    assert curves_of(rows, "size", ["size", "n"]) == {
        "sum, … GPU, n=1": {"heft": [(2, 3.0), (4, 5.0)]},
        "sum, … GPUs, n=7": {"heft": [(2, 9.0), (4, 11.0)]},
    }
