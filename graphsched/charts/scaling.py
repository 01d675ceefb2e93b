"""Seconds against the number of GPUs, a curve for each way: where each of them wins."""

from __future__ import annotations

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

Curve = Sequence[tuple[int, float]]
Panels = Mapping[tuple[str, str], Mapping[str, Curve]]


def plot_scaling(panels: Panels, title: str, *, path: str | Path | None = None) -> Figure:
    """Draw curves of seconds by numbers of GPUs in a grid of panels; what is fastest at a number is filled.

    Args:
        panels: By row and column: (GPUs, seconds) of each way.
        title: Above all.
        path: Where to write the picture, whole or not at all: ``.png``, ``.svg`` or ``.pdf``.

    Raises:
        OutputError: There is nothing to draw, the suffix of `path` is another one, or it cannot be written.

    Example:
        >>> figure = plot_scaling({("net", "tree"): {"ring": [(8, 1.0), (16, 2.0)]}}, "sums")
        >>> figure.axes[0].get_title(loc="left")
        'net, tree'
    """
    suffix = picture_format(path) if path is not None else ""
    if not any(points for curves in panels.values() for points in curves.values()):
        raise OutputError("no figures to draw by numbers of GPUs")
    figure = _drawn(panels, title)
    if path is not None:
        save_picture(figure, path, suffix)
    return figure


def _drawn(panels: Panels, title: str) -> Figure:
    rows, columns = (list(dict.fromkeys(key[side] for key in panels)) for side in (0, 1))
    size = (3.8 * len(columns) + 0.6, 3.2 * len(rows) + 1.0)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False, sharey="row")
    ways = list(dict.fromkeys(way for curves in panels.values() for way in curves))
    by_way = dict(zip(ways, looks(), strict=False))
    for (row, column), curves in panels.items():
        axes = grid[rows.index(row)][columns.index(column)]
        _draw_panel(axes, curves, by_way)
        axes.set_title(drawable(f"{row}, {column}"), fontsize=9.5, loc="left")
    legend_below(figure, min(6, 2 * len(columns)))
    figure.suptitle(drawable(title), fontsize=11)
    return figure


def _draw_panel(axes: Axes, curves: Mapping[str, Curve], by_way: Mapping[str, Look]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for way, points in curves.items():
        colour, marker, style = by_way[way]
        numbers, values = zip(*points, strict=True) if points else ((), ())
        axes.plot(numbers, values, color=colour, linestyle=style, linewidth=1.3, label=drawable(way))
        axes.lines[-1].set(marker=marker, markersize=5, markerfacecolor="white")
    for number, (way, seconds) in fastest(curves).items():
        axes.plot([number], [seconds], linestyle="none", marker=by_way[way][1], markersize=6, color=by_way[way][0])
    _label(axes, sorted({number for points in curves.values() for number, _ in points}))


def fastest(curves: Mapping[str, Curve]) -> dict[int, tuple[str, float]]:
    """By number of GPUs the fastest way and its seconds; the first of several.

    Example:
        >>> fastest({"ring": [(8, 1.0), (16, 2.0)], "tree": [(8, 1.5), (16, 1.5)]})
        {8: ('ring', 1.0), 16: ('tree', 1.5)}
    """
    found: dict[int, tuple[str, float]] = {}
    for way, points in curves.items():
        for number, seconds in points:
            if number not in found or seconds < found[number][1]:
                found[number] = way, seconds
    return found


def _label(axes: Axes, numbers: Sequence[int]) -> None:
    axes.xaxis.set_major_locator(FixedLocator(numbers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("GPUs; filled: the fastest", fontsize=8)
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.tick_params(labelsize=7.5)
    axes.spines[["top", "right"]].set_visible(False)
