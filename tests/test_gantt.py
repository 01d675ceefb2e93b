"""Gantt charts, by their artists."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from graphsched.errors import OutputError, PlanError
from graphsched.gantt import drawing, plot_gantt
from graphsched.gantt.bars import LOOKS, shades
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, handover, overlap, plan_of, simple_run, timeline

SPANS = [(1, 2e3), (2e3, 3e3), (3e3, 5e3), (3e3, 6e3), (4, 6e3)]  # a, a>cuda:1, b, c, wait
ISSUES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 4)]
BOUND = "lower bound of any plan, 1.606 ms"  # a and then b or c, by estimates
KINDS = {"compute", "copy", "wait", "dispatch"}


def scaled(unit_s: float, source: str = "predicted", **more: object) -> Timeline:
    """a ─▶ a>cuda:1 ─▶ b, c; the thread issues them and waits until 6000 units."""
    spans = [(start * unit_s, end * unit_s) for start, end in SPANS]
    issues = [(start * unit_s, end * unit_s) for start, end in ISSUES]
    return timeline(handover(), spans, issues=issues, source=source, **more)  # type: ignore[arg-type]


def both() -> Figure:
    return plot_gantt(scaled(1e-6), scaled(0.9e-6, "measured"))


def bars(figure: Figure) -> dict[str, PolyCollection]:
    """Collections of bars by ``source lane look``."""
    found = [c for c in figure.axes[0].collections if isinstance(c, PolyCollection)]
    assert len({c.get_label() for c in found}) == len(found)
    return {str(c.get_label()): c for c in found}


def extents(collection: PolyCollection) -> list[tuple[float, float]]:
    """Left and right of each bar."""
    corners = [path.vertices[:, 0] for path in collection.get_paths()]
    return [(float(x.min()), float(x.max())) for x in corners]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_row_a_lane_and_timeline_with_a_bar_an_action() -> None:
    counts = {label: len(collection.get_paths()) for label, collection in bars(both()).items()}
    once = {
        "host/py wait": 1,
        "host/py dispatch": 4,
        "cuda:0/s0 compute": 1,
        "cuda:0>cuda:1 copy": 1,
        "cuda:1/s0 compute": 1,
        "cuda:1/s1 compute": 1,
    }
    assert counts == {f"{source} {row}": n for source in ("predicted", "measured") for row, n in once.items()}


def test_bars_stand_where_spans_are_in_the_axis_unit() -> None:
    drawn = bars(both())
    assert extents(drawn["predicted cuda:1/s0 compute"]) == [pytest.approx((3.0, 5.0))]
    assert extents(drawn["measured cuda:1/s0 compute"]) == [pytest.approx((2.7, 4.5))]
    assert both().axes[0].get_xlabel().endswith("(ms)")


@pytest.mark.parametrize(("unit_s", "unit", "right"), [(1e-3, "s", 6), (1e-6, "ms", 6), (1e-8, "µs", 60)])
def test_unit_of_the_axis_fits(unit_s: float, unit: str, right: float) -> None:
    axes = plot_gantt(scaled(unit_s)).axes[0]
    assert axes.get_xlabel().endswith(f"({unit})")
    low, high = axes.get_xlim()
    assert low == 0
    assert right < high < right * 1.05


def test_predicted_stands_above_measured_and_lanes_are_grouped_by_device() -> None:
    axes = both().axes[0]
    lanes = [label.get_text() for label in axes.get_yticklabels()]
    assert lanes == ["host/py", "cuda:0/s0", "cuda:0>cuda:1", "cuda:1/s0", "cuda:1/s1"]
    sources = [label.get_text() for label in axes.get_yticklabels(minor=True)]
    assert sources == ["predicted", "measured"] * 5
    low, high = axes.get_ylim()
    assert low > high  # the first row is on top
    rows = axes.get_yticks(minor=True)
    assert list(rows) == sorted(rows)
    np.testing.assert_allclose(axes.get_yticks(), (rows[::2] + rows[1::2]) / 2)
    gaps = np.diff(axes.get_yticks())
    assert min(gaps[0], gaps[2]) > max(gaps[1], gaps[3])  # host | cuda:0 | cuda:1


def test_bars_stand_in_their_row() -> None:
    figure = both()
    rows = figure.axes[0].get_yticks(minor=True)
    for label, row in (("predicted host/py wait", 0), ("measured host/py wait", 1), ("measured cuda:1/s1 compute", 9)):
        y = bars(figure)[label].get_paths()[0].vertices[:, 1]
        assert rows[row] - 0.5 < y.min() < y.max() < rows[row] + 0.5


def test_looks_differ_in_colour_hatch_and_brightness() -> None:
    drawn = bars(plot_gantt(scaled(1e-6)))
    seen = {label.rpartition(" ")[2]: collection for label, collection in drawn.items()}
    assert seen.keys() == KINDS
    assert len({c.get_hatch() for c in seen.values()}) == 4
    assert len({tuple(c.get_facecolor()[0]) for c in seen.values()}) == 4
    for look, collection in seen.items():
        assert tuple(collection.get_facecolor()[0]) == pytest.approx(to_rgba(LOOKS[look].face))  # type: ignore[index]
    grey = sorted(float(np.dot(to_rgba(look.face)[:3], (0.299, 0.587, 0.114))) for look in LOOKS.values())
    assert np.diff(grey).min() > 0.04


def test_legend_names_what_is_drawn_and_both_makespans() -> None:
    assert legend(both()) == [
        "compute", "copy", "thread blocked", "dispatch", "predicted makespan, 6 ms", "measured makespan, 5.4 ms",
        BOUND,
    ]  # fmt: skip
    assert "dispatch" not in legend(plot_gantt(timeline(handover(), SPANS)))


def test_a_legend_that_is_too_wide_takes_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is cut off at the sides of the picture."""
    monkeypatch.setitem(LOOKS, "compute", replace(LOOKS["compute"], label="compute " * 12))
    figure = both()
    assert legend(figure)[0].startswith("compute")
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width


def test_the_lower_bound_is_a_dotted_line() -> None:
    """Of any plan of the workload; the larger one where the plan's scheduler has proven more."""
    (line,) = [line for line in both().axes[0].lines if line.get_label() == BOUND]
    assert line.get_linestyle() == ":"
    proven = scaled(1e-6)
    proven = replace(proven, plan=replace(proven.plan, bound_s=4e-3))
    assert "lower bound of any plan, 4 ms" in legend(plot_gantt(proven))


def test_the_interval_of_a_prediction_is_a_whisker_across_its_makespan() -> None:
    figure = plot_gantt(scaled(1e-6, find_interval=(5.5e-3, 7e-3)), scaled(0.9e-6, "measured"))
    axes = figure.axes[0]
    (whisker,) = [line for line in axes.lines if str(line.get_label()).startswith("90 %")]
    assert [float(x) for x in whisker.get_xdata()] == pytest.approx([5.5, 7.0])  # type: ignore[union-attr]
    assert max(whisker.get_ydata()) < bars(figure)["predicted host/py wait"].get_paths()[0].vertices[:, 1].min()  # type: ignore[arg-type]
    assert axes.get_xlim()[1] > 7.0
    assert "90 %: 5.5 ms to 7 ms" in legend(figure)
    assert not any(label.startswith("90 %") for label in legend(both()))


def test_lines_at_both_makespans_and_the_error_in_the_title() -> None:
    figure = both()
    marks = {str(line.get_label()): line for line in figure.axes[0].lines if "makespan" in str(line.get_label())}
    places = {label: (float(line.get_xdata()[0]), line.get_linestyle()) for label, line in marks.items()}  # type: ignore[index]
    assert places == {
        "predicted makespan, 6 ms": (pytest.approx(6.0), "--"),
        "measured makespan, 5.4 ms": (pytest.approx(5.4), "-"),
    }
    title = figure.axes[0].get_title()
    assert title == "handover: by_hand on desk, eager\nmakespan: predicted 6 ms, measured 5.4 ms, error +11.11 %"


def test_one_timeline_is_enough() -> None:
    """One row a lane; the title has no error."""
    figure = plot_gantt(measured=scaled(1e-6, "measured", samples_s=(1.0, 1.0, 1.0, 1.0)), title="my run")
    axes = figure.axes[0]
    assert axes.get_title() == "my run\nmakespan: measured 6 ms"
    assert len(axes.get_yticklabels(minor=True)) == 0
    assert len(axes.get_yticks()) == 5
    assert all(label.startswith("measured ") for label in bars(figure))


def test_lanes_that_are_lower_than_their_names_are_not_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with thousands of lanes: the picture is as high as it may be."""
    all_names = [label.get_text() for label in both().axes[0].get_yticklabels()]
    monkeypatch.setattr(drawing, "HIGHEST_IN", 2.2)
    figure = both()
    axes = figure.axes[0]
    figure.draw_without_rendering()
    labels = axes.get_yticklabels()
    names = [label.get_text() for label in labels]
    step = -(-len(all_names) // len(names))
    assert step > 1
    assert names == all_names[::step]
    assert f"one lane of {step} is named; rows of each: predicted, measured" in axes.get_xlabel()
    heights = [label.get_window_extent() for label in labels]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(heights))
    assert texts(figure) == []
    assert axes.get_yticklabels(minor=True) == []


def test_names_only_in_bars_where_they_fit() -> None:
    """mm0.0 (1 ms) has room for its name, mm0.1 (1 µs) has not."""
    plan = overlap(2)
    figure = plot_gantt(timeline(plan, [(0, 1e-3), (1e-3, 2e-3), (1e-3, 1.001e-3), (2e-3, 2.001e-3)]))
    assert sorted(texts(figure)) == ["copy0.0", "mm0.0"]
    figure.draw_without_rendering()
    axes = figure.axes[0]
    for text in axes.texts:
        box = text.get_window_extent().transformed(axes.transData.inverted())
        assert 1e-3 < box.width < 1
    assert texts(plot_gantt(timeline(plan, [(0, 1), (1, 2), (1, 1.02), (2, 2.02)]))) == ["mm0.0", "copy0.0"]


def test_lines_run_behind_names() -> None:
    """mm0.0 ends after the makespan without timing events, whose line is in the middle of its name."""
    axes = plot_gantt(timeline(overlap(1), [(0, 1), (1, 2)], makespan_s=0.5)).axes[0]
    (mark,) = (line for line in axes.lines if "makespan" in str(line.get_label()))
    for text in axes.texts:
        assert text.get_zorder() > mark.get_zorder()
        assert text.get_bbox_patch() is not None


def test_names_are_text_and_not_formulas(tmp_path: Path) -> None:
    """Dollars stay, and a character that the font lacks does not warn."""
    work = Workload("$work_1$")
    add(work, "$x_1$", work.input("x", MATRIX, device="cuda:0"))
    add(work, "字", work.input("y", MATRIX, device="cuda:0"))
    plan = plan_of(work, {"$x_1$": "cuda:0/s0", "字": "cuda:0/s0"})
    figure = plot_gantt(timeline(plan, [(0, 1), (1, 2)]), path=tmp_path / "a.png", title="$\\bad 字")
    assert texts(figure) == [r"\$x_1\$", "?"]
    assert figure.axes[0].get_title().startswith("\\$\\bad ?\n")


def test_200_tasks_have_a_bar_each() -> None:
    """A chain on two GPUs in turn, with the copies between them."""
    work, lanes = Workload(), {}
    y: object = work.input("x", MATRIX, device="cuda:0")
    for i in range(200):
        y = add(work, f"t{i}", y)
        lanes[f"t{i}"] = f"cuda:{i % 2}/s0"
    line = simple_run(plan_of(work, lanes), lambda i: 1e-4)
    counts = {label: len(c.get_paths()) for label, c in bars(plot_gantt(line)).items()}
    assert counts == {
        "predicted host/py dispatch": 399,
        "predicted cuda:0/s0 compute": 100,
        "predicted cuda:0>cuda:1 copy": 100,
        "predicted cuda:1/s0 compute": 100,
        "predicted cuda:1>cuda:0 copy": 99,
    }


@pytest.mark.parametrize(("task_s", "shade"), [(8e-6, 1.0), (4e-6, 0.5)])
def test_10000_actions_are_drawn_by_density(task_s: float, shade: float) -> None:
    """A chain of tasks narrower than a pixel, issued every 8 µs: a bar as dark as they fill the time."""
    work, lanes = Workload(), {}
    y: object = work.input("x", MATRIX, device="cuda:0")
    for i in range(10_000):
        y = add(work, f"t{i}", y)
        lanes[f"t{i}"] = "cuda:0/s0"
    figure = plot_gantt(simple_run(plan_of(work, lanes), lambda i: task_s))
    bar = bars(figure)["predicted cuda:0/s0 compute"]
    assert len(bar.get_paths()) < 2000
    left, right = zip(*extents(bar), strict=True)
    assert (min(left), max(right)) == pytest.approx((0.0, 80.0), abs=0.1)
    blue = 1 - np.array(to_rgba(LOOKS["compute"].face)[:3])
    drawn = 1 - bar.get_facecolor()[len(bar.get_paths()) // 2][:3]
    assert drawn / blue == pytest.approx(shade, abs=0.07)
    assert "as dark as they fill the time" in figure.axes[0].get_xlabel()


def test_shades_keep_gaps_and_slices_of_no_length() -> None:
    """Slices in pixels 0, 1 and 5; the last takes no time, and is faint."""
    left, right, level = shades(np.array([0.0, 1.0, 5.5]), np.array([1.0, 2.0, 5.5]), 1.0)
    assert (left[0], right[-1]) == (0, 6)
    assert [(a, b) for a, b in zip(left, right, strict=True) if a <= 3 < b] == []
    assert level.min() > 0.3


def test_shades_count_wide_slices_that_reach_into_their_pixels() -> None:
    """A wide slice from 0 to 2.5 and narrow ones that fill the time from there to 4: nothing is faint."""
    narrow = np.array([2.5, 3.0, 3.5]), np.array([3.0, 3.5, 4.0])
    left, right, level = shades(*narrow, 1.0, beside=(np.array([0.0]), np.array([2.5])))
    assert (left.tolist(), right.tolist(), level.tolist()) == ([2.0], [4.0], [1.0])


def test_a_busy_row_is_dark_where_narrow_actions_stand_between_wide_ones() -> None:
    """A chain of 1,500 tasks without a gap, every third of them wider than a pixel."""
    work, lanes = Workload(), {}
    y: object = work.input("x", MATRIX, device="cuda:0")
    for i in range(1500):
        y = add(work, f"t{i}", y)
        lanes[f"t{i}"] = "cuda:0/s0"
    ends = np.cumsum([2.0 if i % 3 else 12.0 for i in range(1500)])
    spans = list(zip([0.0, *ends[:-1]], ends, strict=True))
    bar = bars(plot_gantt(timeline(plan_of(work, lanes), spans)))["predicted cuda:0/s0 compute"]
    faces = 1 - np.array([to_rgba(face)[:3] for face in bar.get_facecolor()])
    assert (faces / (1 - np.array(to_rgba(LOOKS["compute"].face)[:3]))).min() == pytest.approx(1.0, abs=0.07)


def test_notes_say_what_a_reader_must_know() -> None:
    """Spans of a slower run with timing events, and estimates."""
    label = plot_gantt(scaled(1e-6, makespan_s=4e-3, estimated=("a",))).axes[0].get_xlabel()
    assert "predicted bars are of a run with timing events, which takes 6 ms" in label
    assert "tasks whose cost is an estimate: 1" in label
    assert "\n" not in both().axes[0].get_xlabel()


def test_launch_of_a_graph_is_one_bar() -> None:
    line = timeline(handover(), SPANS, issues=[(0, 1000)] * 5)
    figure = plot_gantt(line)
    assert extents(bars(figure)["predicted host/py dispatch"]) == [pytest.approx((0, 1000))]
    assert "launch of 4 actions" in texts(figure)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_the_same_bytes_every_time(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a.{suffix}", tmp_path / "new" / f"b.{suffix.upper()}"
    for path in (first, second):
        plot_gantt(scaled(1e-6), scaled(0.9e-6, "measured"), path=path)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])


def test_png_has_150_dots_an_inch(tmp_path: Path) -> None:
    figure = plot_gantt(scaled(1e-6), path=tmp_path / "a.png")
    width = int.from_bytes((tmp_path / "a.png").read_bytes()[16:20], "big")
    assert width == round(figure.get_figwidth() * 150)


def test_plan_without_actions() -> None:
    figure = plot_gantt(timeline(plan_of(Workload(), {}), []))
    assert bars(figure) == {}


def test_errors_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_gantt()
    with pytest.raises(OutputError, match=r"ends in \.png, \.svg or \.pdf"):
        plot_gantt(scaled(1e-6), path=tmp_path / "a.bmp")
    other = timeline(overlap(1), [(0, 1), (1, 2)], source="measured")
    with pytest.raises(PlanError, match="two plans"):
        plot_gantt(scaled(1e-6), other, path=tmp_path / "a.png")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        plot_gantt(scaled(1e-6), path=tmp_path / "file" / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_import_brings_no_matplotlib() -> None:
    code = "import graphsched.gantt, sys; assert 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_drawing_needs_no_pyplot() -> None:
    code = (
        "import sys; from tests.test_gantt import both; both(); "
        "assert 'matplotlib.pyplot' not in sys.modules, 'pyplot holds figures until they are closed'"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
