"""Pictures of stages over time: a row for whoever works, a colour a stage, the same in all panels."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from graphsched.charts import plot_stages
from graphsched.charts.stages import Stage
from graphsched.errors import OutputError

STEP = [
    Stage("thread", "forward", 0.0, 1.0),
    Stage("thread", "backward", 1.0, 2.0),
    Stage("GPU 0", "forward", 0.5, 1.5),
    Stage("GPU 0", "forward", 1.5, 1.75),
    Stage("GPU 0", "backward", 2.0, 4.0),
]


def test_a_row_for_whoever_works_and_a_colour_a_stage() -> None:
    (axes,) = plot_stages({"a step": STEP}).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["thread", "GPU 0"]
    thread_forward, thread_backward, forward, backward = axes.collections
    colours = [to_hex(bars.get_facecolor()[0]) for bars in (thread_forward, thread_backward, forward, backward)]
    assert colours[:2] == colours[2:]
    assert colours[0] != colours[1]
    spans = [[(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in forward.get_paths()]]
    assert spans == [[(0.5, 1.5), (1.5, 1.75)]]
    assert forward.get_paths()[0].vertices[:, 1].mean() > 0.5  # in the second row


def test_panels_share_time_colours_and_one_legend() -> None:
    figure = plot_stages({"short": STEP[:2], "long": [Stage("thread", "backward", 0.0, 9.0)]})
    short, long = figure.axes
    assert short.get_xlim() == long.get_xlim() == pytest.approx((0.0, 9.09))
    assert to_hex(short.collections[1].get_facecolor()[0]) == to_hex(long.collections[0].get_facecolor()[0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["forward", "backward"]


def test_the_legend_of_nine_stages_lies_within_the_picture() -> None:
    names = ("images", "scatter", "replicate", "forward", "gather", "loss", "backward", "update", "wait")
    figure = plot_stages({"a step": [Stage("thread", name, k, k + 1.0) for k, name in enumerate(names)]})
    figure.draw_without_rendering()
    box, whole = figure.legends[0].get_window_extent(), figure.bbox
    assert box.x0 >= whole.x0
    assert box.x1 <= whole.x1
    colours = {to_hex(bars.get_facecolor()[0]) for bars in figure.axes[0].collections}
    assert len(colours) == len(names)


def test_stages_of_no_length_have_a_time_axis() -> None:
    (axes,) = plot_stages({"a step": [Stage("thread", "forward", 0.0, 0.0)]}).axes
    assert axes.get_xlim()[0] == 0.0 < axes.get_xlim()[1]


@pytest.mark.parametrize(("start_s", "end_s"), [(0.0, math.inf), (math.nan, 1.0)])
def test_times_that_are_none_are_named(start_s: float, end_s: float) -> None:
    with pytest.raises(OutputError, match=f"of 'GPU' in panel 'ring' is from {start_s} to {end_s} s; give finite"):
        plot_stages({"ring": [Stage("GPU", "sum", start_s, end_s)]})


@pytest.mark.parametrize("panels", [{}, {"a step": []}, {"a step": STEP, "none": []}])
def test_nothing_to_draw(tmp_path: Path, panels: dict[str, list[Stage]]) -> None:
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_stages(panels, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
