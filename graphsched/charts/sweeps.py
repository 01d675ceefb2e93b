"""Predicted seconds over a grid: a panel a case, a curve for each way, points at the values of one parameter."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from graphsched.charts.curves import DPI
from graphsched.charts.looks import Look, legend_below, looks
from graphsched.charts.saving import picture_format, save_picture
from graphsched.errors import OutputError
from graphsched.gantt.fonts import drawable
from graphsched.quantities import seconds_text

Value = float | str
Curves = Mapping[str, Sequence[tuple[Value, float]]]

COLUMNS = 3
LETTERS = 56  # in a line above a panel
MOST_PANELS, MOST_CURVES = 12, 20
WIDE = 20.0  # values that differ by more than this are on a logarithmic axis


def plot_sweep(panels: Mapping[str, Curves], axis: str, title: str, *, path: str | Path | None = None) -> Figure:
    """Draw seconds by the value of a parameter, a panel a case.

    Args:
        panels: By case and way: (value, seconds). Values are numbers, or words that stand side by side.
        axis: What the values are of.
        title: Above all. Panels beyond the first twelve are left out, and curves beyond twenty; the title says so.
        path: Where to write the picture, whole or not at all: ``.png``, ``.svg`` or ``.pdf``.

    Raises:
        OutputError: There is nothing to draw, the suffix of `path` is another one, or it cannot be written.

    Example:
        >>> figure = plot_sweep({"sum": {"heft": [(1, 2.0), (2, 1.0)]}}, "lanes", "a sweep")
        >>> figure.axes[0].get_title(loc="left"), figure.axes[0].get_xlabel()
        ('sum', 'lanes')
    """
    suffix = picture_format(path) if path is not None else ""
    if not any(points for curves in panels.values() for points in curves.values()):
        raise OutputError("no figures to draw: every point failed")
    ways = list(dict.fromkeys(way for curves in panels.values() for way in curves))
    figure = _drawn(dict(list(panels.items())[:MOST_PANELS]), ways[:MOST_CURVES], axis)
    left = [(len(panels) - MOST_PANELS, "cases"), (len(ways) - MOST_CURVES, "curves")]
    notes = [f"{number} more {what} are in the table" for number, what in left if number > 0]
    figure.suptitle(drawable("; ".join([title, *notes])), fontsize=11)
    if path is not None:
        save_picture(figure, path, suffix)
    return figure


def _drawn(panels: Mapping[str, Curves], ways: Sequence[str], axis: str) -> Figure:
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.4 * columns + 0.6, 3.2 * rows + 1.2), dpi=DPI, layout="constrained")
    by_way = dict(zip(ways, looks(), strict=False))
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for axes, (name, curves) in zip(grid, panels.items(), strict=False):
        _draw_panel(axes, {way: points for way, points in curves.items() if way in by_way}, by_way)
        axes.set_title(drawable(textwrap.fill(name, LETTERS)), fontsize=9, loc="left")
        axes.set_xlabel(drawable(axis), fontsize=8.5)
    for axes in list(figure.axes)[len(panels) :]:
        axes.set_visible(False)
    legend_below(figure, 3)
    return figure


def _draw_panel(axes: Axes, curves: Curves, by_way: Mapping[str, Look]) -> None:
    values = list(dict.fromkeys(value for points in curves.values() for value, _ in points))
    numbers = [value for value in values if not isinstance(value, str)]
    places = {value: float(k) for k, value in enumerate(values)} if len(numbers) < len(values) else None
    for way, points in curves.items():
        colour, marker, style = by_way[way]
        ordered = sorted((float(value) if places is None else places[value], seconds) for value, seconds in points)
        xs, ys = zip(*ordered, strict=True) if ordered else ((), ())
        axes.plot(xs, ys, color=colour, linestyle=style, linewidth=1.3, label=drawable(way))
        axes.lines[-1].set(marker=marker, markersize=5, markerfacecolor="white")
    _seconds_axis(axes, [seconds for points in curves.values() for _, seconds in points])
    if places is None:
        _number_axis(axes, sorted(numbers))
    else:
        axes.set_xticks(list(places.values()), [drawable(str(value)) for value in places], rotation=20, ha="right")
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.tick_params(labelsize=7.5)
    axes.spines[["top", "right"]].set_visible(False)


def _number_axis(axes: Axes, numbers: Sequence[float]) -> None:
    if numbers and numbers[0] > 0 and numbers[-1] > WIDE * numbers[0]:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(numbers)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.6g}"))


def _seconds_axis(axes: Axes, seconds: Sequence[float]) -> None:
    if seconds and min(seconds) > 0 and max(seconds) > WIDE * min(seconds):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
