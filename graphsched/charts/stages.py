"""Stages of a run over time: a row for whoever works, a colour for what it works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphsched.charts.curves import DPI
from graphsched.charts.looks import COLOURS, LEGEND_LETTERS, heading, legend_below, rows_down, shortened
from graphsched.gantt.fonts import drawable
from graphsched.quantities import time_unit

STAGE_COLOURS = (*COLOURS, "#F0E442", "#999999")
WIDTH_IN, ROW_IN, TITLE_IN, REST_IN = 10.0, 0.26, 0.4, 1.1
BAR = 0.84  # height of a bar, in rows
COLUMNS = 9  # of the legend
PANEL_LETTERS = 95  # above a panel, beside long names of rows


@dataclass(frozen=True, slots=True)
class Stage:
    """What a row works on, and when."""

    row: str
    name: str
    start_s: float
    end_s: float


def draw_stages(panels: Mapping[str, Sequence[Stage]], title: str) -> Figure:
    """The figure of `plot_stages`."""
    rows = {panel: list(dict.fromkeys(stage.row for stage in stages)) for panel, stages in panels.items()}
    heights = [len(labels) for labels in rows.values()]
    names = dict.fromkeys(stage.name for stages in panels.values() for stage in stages)
    colours = dict(zip(names, cycle(STAGE_COLOURS), strict=False))
    figure = Figure(
        figsize=(WIDTH_IN, sum(heights) * ROW_IN + len(heights) * TITLE_IN + REST_IN), dpi=DPI, layout="constrained"
    )
    all_axes = figure.subplots(len(rows), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    last_s = max(stage.end_s for stages in panels.values() for stage in stages)
    unit, unit_s = time_unit(last_s)
    for axes, (panel, labels) in zip(all_axes, rows.items(), strict=True):
        axes.set_xlim(0.0, (last_s or 1.0) * 1.01 / unit_s)
        axes.set_title(drawable(shortened(panel, PANEL_LETTERS)), fontsize=9, loc="left")
        _draw_panel(axes, panels[panel], labels, colours, unit_s)
    all_axes[-1].set_xlabel(f"time ({unit})", fontsize=9)
    legend_below(figure, COLUMNS, handle_length=1.0)
    heading(figure, title)
    return figure


def _draw_panel(
    axes: Axes, stages: Sequence[Stage], rows: Sequence[str], colours: Mapping[str, str], unit_s: float
) -> None:
    bars: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for stage in stages:
        bar = stage.start_s / unit_s, (stage.end_s - stage.start_s) / unit_s
        bars.setdefault((stage.row, stage.name), []).append(bar)
    for (row, name), found in bars.items():
        place = rows.index(row) - BAR / 2, BAR
        label = drawable(shortened(name, LEGEND_LETTERS))
        axes.broken_barh(found, place, facecolor=colours[name], linewidth=0, label=label)
    rows_down(axes, rows)
