"""Pictures of trainings: a curve for each variant, all of them to be seen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from graphsched.charts import plot_training
from graphsched.errors import OutputError

CURVES = {"loss": [2.0, 1.0, 0.5], "accuracy": [0.3, 0.5, 0.6], "test_accuracy": [0.35, 0.45, 0.55]}
OTHER = {"loss": [2.1, math.nan], "accuracy": [0.2, 0.4]}


def test_all_variants_are_in_one_picture() -> None:
    left, right = plot_training({"1 GPU": CURVES, "2 GPUs": OTHER}, title="MLP", note="3,072 images").axes
    assert [list(line.get_xdata()) for line in left.lines] == [[1, 2, 3], [1, 2]]
    assert list(left.lines[0].get_ydata()) == CURVES["loss"]
    assert np.isnan(left.lines[1].get_ydata()[1])
    assert [list(line.get_ydata()) for line in right.lines[:2]] == [CURVES["test_accuracy"], CURVES["accuracy"]]
    assert [line.get_label() for line in left.lines] == ["1 GPU", "2 GPUs"]


def test_equal_curves_do_not_hide_each_other() -> None:
    lines = plot_training({f"variant {i}": CURVES for i in range(5)}).axes[0].lines
    widths = [line.get_linewidth() for line in lines]
    assert widths == sorted(widths, reverse=True)
    assert (
        len({*widths}) == len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 5
    )


def test_many_lines_are_told_apart_even_in_grey() -> None:
    """The legend of sixteen variants: dark and white along the middle of each line, without markers, differ."""
    figure = plot_training({f"variant {i:02}": CURVES for i in range(16)})
    canvas = FigureCanvasAgg(figure)
    (legend,) = figure.legends
    for line in legend.get_lines():
        line.set(color="black", alpha=1.0, marker="None")
    canvas.draw()
    grey = np.asarray(canvas.buffer_rgba())[::-1, :, 0]
    boxes = [line.get_window_extent() for line in legend.get_lines()]
    middles = [grey[int((box.y0 + box.y1) / 2), int(box.x0) : int(box.x1)] < 128 for box in boxes]
    assert len({middle.tobytes() for middle in middles}) == 16
    assert all(middle.any() for middle in middles)


def test_training_accuracies_are_told_apart_and_alone_are_dotted() -> None:
    lines = plot_training({f"variant {i}": CURVES for i in range(12)}).axes[1].lines
    dotted = [line for line in lines if line.get_linestyle() == ":"]
    assert len(dotted) == 12
    assert len({line.get_marker() for line in dotted} - {"None"}) == 10
    assert len({(line.get_color(), line.get_marker()) for line in dotted}) == 12


def test_words_stay_apart() -> None:
    """The note is part of the legend, which the layout keeps clear of the axes."""
    figure = plot_training({"1 GPU": CURVES}, title="MLP", note="3,072 images to learn from")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "3,072 images to learn from"
    box = legend.get_window_extent()
    assert all(box.y1 <= axes.xaxis.label.get_window_extent().y0 for axes in figure.axes)


def test_one_epoch_can_be_drawn_and_the_bytes_are_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plot_training({"x": {"loss": [1.0]}}, tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("variants", [{}, {"MLP": {}}, {"MLP": {"loss": []}}])
def test_nothing_to_draw(tmp_path: Path, variants: dict[str, Any]) -> None:
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_training(variants, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
