"""Loss and accuracy by epoch, a curve for each variant of a training."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from graphsched.charts.curves import DPI
from graphsched.charts.looks import HANDLE_LENGTH, LEGEND_LETTERS, Look, looks, put_below, shortened
from graphsched.gantt.fonts import drawable

LOSS, ACCURACY, TEST = "loss", "accuracy", "test_accuracy"
Curves = Mapping[str, Sequence[float]]

DOTTED: Literal[":"] = ":"  # training accuracy, and no variant
TITLE_WIDTH, NOTE_WIDTH = 104, 130  # characters above the axes, and above the legend
DASH_PT = 1.4  # of a dash of length 1, however wide the line: the legend has room for few


def draw_training(variants: Mapping[str, Curves], title: str, note: str = "") -> Figure:
    """The figure of `plot_training`."""
    figure = Figure(figsize=(11.0, 4.6), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    widths = _widths(len(variants))
    for (name, curves), look, width in zip(variants.items(), looks(), widths, strict=False):
        _draw(left, curves.get(LOSS, ()), look, width, drawable(shortened(name, LEGEND_LETTERS)))
        _draw(right, curves.get(TEST, ()), look, width, drawable(shortened(name, LEGEND_LETTERS)))
        _draw(right, curves.get(ACCURACY, ()), (*look[:2], DOTTED), 1.0, "")
    _label(left, "loss")
    left.set_title("training loss, mean of the epoch", fontsize=10, loc="left")
    _label(right, "accuracy")
    right.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    dotted = any(curves.get(ACCURACY) for curves in variants.values())
    right.set_title("test accuracy after the epoch" + ("; dotted: training" if dotted else ""), fontsize=10, loc="left")
    figure.suptitle(drawable(textwrap.fill(title, TITLE_WIDTH)), fontsize=11.5)
    title_below = drawable(textwrap.fill(note, NOTE_WIDTH)) or None
    legend = put_below(figure, left.lines, 3, handlelength=HANDLE_LENGTH, title=title_below)
    legend.get_title().set_fontsize(8.5)
    return figure


def _widths(count: int) -> Iterable[float]:
    """Widths of lines: the first are wide, so that later ones with the same figures do not hide them.

    Example:
        >>> list(_widths(3))
        [5.0, 3.2, 1.4]
    """
    step = 3.6 / max(1, count - 1)
    return (round(5.0 - step * i if count > 1 else 1.4, 2) for i in range(count))


def _draw(axes: Axes, values: Sequence[float], look: Look, width: float, label: str) -> None:
    """Values of epochs 1, 2, …; what is not a number leaves a gap."""
    colour, marker, style = look
    shown = [value if math.isfinite(value) else math.nan for value in values]
    (line,) = axes.plot(range(1, len(shown) + 1), shown, color=colour, linewidth=width, label=label or "_", alpha=0.85)
    line.set_linestyle(style if isinstance(style, str) else _of_length(style, DASH_PT / width))
    line.set_markevery(1 + len(shown) // 20)
    if marker:
        line.set_marker(marker)
        line.set_markersize(4 + width)
        line.set_markerfacecolor("none")


def _of_length(style: tuple[float, tuple[float, ...]], factor: float) -> tuple[float, tuple[float, ...]]:
    return style[0], tuple(factor * length for length in style[1])


def _label(axes: Axes, what: str) -> None:
    axes.set_xlabel("epoch", fontsize=9)
    axes.set_ylabel(what, fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
