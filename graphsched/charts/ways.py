"""Times of cases in several ways of running them: bars in groups, predicted above measured."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

from graphsched.charts.curves import DPI
from graphsched.charts.looks import LEGEND_LETTERS, put_below, shortened
from graphsched.gantt.fonts import drawable
from graphsched.quantities import seconds_text

Times = tuple[float | None, float | None]  # predicted, measured
Bars = Mapping[str, Mapping[str, Times]]

# Okabe and Ito's colours (jfly.uni-koeln.de/color), from dark to light, so that they differ in grey too.
FACES = ("#0072B2", "#E69F00", "#4d1f42", "#009E73", "#CC79A7", "#999999")
BAR_IN, GAP = 0.13, 1.0  # height of a bar in inches; between cases, in bars
TITLE = 80  # letters in a line above the axes, which long names beside them make narrow
WIDE = 20.0  # times that differ by more than this are on a logarithmic axis


def draw_ways(bars: Bars, title: str) -> Figure:
    """The figure of `plot_ways`."""
    ways = list(dict.fromkeys(way for case in bars.values() for way in case))
    looks = dict(zip(ways, cycle(FACES), strict=False))
    height = sum(_height(case) for case in bars.values()) + GAP
    figure = Figure(figsize=(11.0, min(100.0, height * BAR_IN + 1.6)), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    top, centres = GAP, []
    for case in bars.values():
        centres.append(top + (_height(case) - GAP) / 2)
        _draw_case(axes, case, looks, top)
        top += _height(case)
    axes.set_ylim(top, 0.0)
    axes.set_yticks(centres, [drawable(textwrap.fill(label, 46)) for label in bars], fontsize=8)
    _time_axis(axes, bars)
    axes.set_title(drawable(textwrap.fill(title, TITLE)), loc="left", fontsize=10.5)
    put_below(figure, _legend(looks, bars), 5)
    return figure


def _height(case: Mapping[str, Times]) -> float:
    return sum(time is not None for times in case.values() for time in times) + GAP


def _draw_case(axes: Axes, case: Mapping[str, Times], looks: Mapping[str, str], top: float) -> None:
    """A bar for each time of the case, from `top` down; a predicted one is hatched, and above the measured one."""
    for way, times in case.items():
        for source, time_s in zip(("predicted", "measured"), times, strict=True):
            if time_s is None:
                continue
            hatched = source == "predicted"
            axes.barh(
                top + 0.5,
                time_s,
                height=0.9,
                color="white" if hatched else looks[way],
                edgecolor=looks[way],
                hatch="////" if hatched else None,
                linewidth=0.6,
                label=f"{way} {source}",
            )
            axes.annotate(
                seconds_text(time_s), (time_s, top + 0.5), (3, 0), textcoords="offset points", va="center", fontsize=6
            )
            top += 1.0


def _time_axis(axes: Axes, bars: Bars) -> None:
    times = _times(bars)
    axes.set_axisbelow(True)
    if max(times) > WIDE * min(times):
        axes.set_xscale("log")
        axes.set_xlim(min(times) / 2, max(times) * 2)
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(0.0, max(times) * 1.12)  # room for the figure behind the longest bar
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _times(bars: Bars) -> Sequence[float]:
    return [time for case in bars.values() for times in case.values() for time in times if time is not None]


def _legend(looks: Mapping[str, str], bars: Bars) -> list[Artist]:
    names = {way: drawable(shortened(way, LEGEND_LETTERS)) for way in looks}
    handles: list[Artist] = [Patch(facecolor=face, label=names[way]) for way, face in looks.items()]
    if any(predicted is not None for case in bars.values() for predicted, _ in case.values()):
        handles.append(Patch(facecolor="white", edgecolor="#444444", hatch="////", label="predicted"))
    return handles
