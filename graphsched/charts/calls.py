"""Seconds of n calls in all, by the way of calling: what compilation costs, and when it has paid."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from graphsched.charts.curves import DPI
from graphsched.charts.looks import HANDLE_LENGTH, looks, shortened
from graphsched.gantt.fonts import drawable
from graphsched.quantities import seconds_text

Ways = Mapping[str, Sequence[float]]

TITLE_WIDTH, NOTE_WIDTH = 56, 88  # characters above a panel, and below it
PANEL_LETTERS, WAY_LETTERS = 50, 36  # above a panel; of a way in its legend
FEW = 100.0  # times the lowest figure, up to which an axis shows more than powers of ten


def draw_calls(panels: Mapping[str, Ways], title: str, note: str = "") -> Figure:
    """The figure of `plot_calls`."""
    figure = Figure(figsize=(5.6 * len(panels) + 0.4, 4.6), dpi=DPI, layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)
    for axes, (name, ways) in zip(grid.flat, panels.items(), strict=True):
        draw_ways(axes, ways)
        axes.set_title(drawable(shortened(name, PANEL_LETTERS)), fontsize=10, loc="left")
    figure.suptitle(drawable(textwrap.fill(title, TITLE_WIDTH * len(panels))), fontsize=11.5)
    figure.supxlabel(drawable(textwrap.fill(note, NOTE_WIDTH * len(panels))), fontsize=8.5)
    return figure


def draw_ways(axes: Axes, ways: Ways) -> None:
    """One curve a way, with markers at powers of ten and after the last call."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    for (way, ends_s), look in zip(ways.items(), looks(), strict=False):
        colour, marker, style = look
        axes.plot(
            np.arange(1, len(ends_s) + 1),
            np.asarray(ends_s, dtype=np.float64),
            color=colour,
            linestyle=style,
            linewidth=1.4,
            marker=marker,
            markersize=5,
            markerfacecolor="none",
            markevery=_marked(len(ends_s)),
            label=f"{drawable(shortened(way, WAY_LETTERS))}: {seconds_text(ends_s[0])}, {seconds_text(ends_s[-1])}",
        )
    _label(axes)


def _marked(count: int) -> list[int]:
    """Indices of the first, tenth, hundredth, … and the last call.

    Example:
        >>> _marked(300)
        [0, 9, 99, 299]
    """
    powers = [10**k - 1 for k in range(len(str(count)))]
    return sorted({*powers, count - 1})


def _label(axes: Axes) -> None:
    axes.set_xlabel("calls", fontsize=9)
    axes.set_ylabel("seconds in all", fontsize=9)
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        if high < FEW * low:  # powers of ten alone would be one figure or none
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda s, _: seconds_text(s)))
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.5)  # room for the legend
    legend = axes.legend(
        handles=axes.lines,  # of any name: those that begin with an underscore would be left out
        title="first call, all calls",
        loc="upper left",
        fontsize=7.5,
        edgecolor="none",
        handlelength=HANDLE_LENGTH,
    )
    legend.set_alignment("left")
    legend.get_title().set_fontsize(7.5)
