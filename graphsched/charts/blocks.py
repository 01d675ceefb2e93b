"""Blocks on links over time: each block in a colour of its own, with its number where there is room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import rgb_to_hsv, to_rgb
from matplotlib.figure import Figure

from graphsched.charts.curves import DPI
from graphsched.charts.looks import COLOURS, heading, rows_down, shortened
from graphsched.gantt.fonts import drawable
from graphsched.quantities import time_unit

BLOCK_COLOURS = (*COLOURS, "#F0E442")  # two rings on four GPUs have eight blocks
WIDTH_IN, ROW_IN, TITLE_IN = 10.0, 0.2, 0.4
ROOM_IN = WIDTH_IN - 1.3  # about what bars have of it
DIGIT_IN = 0.08
PANEL_LETTERS = 95  # above a panel, beside long names of links
BAR = 0.84  # height of a bar, in rows
LIGHT = 0.75  # of brightness, from which text on a colour is black


@dataclass(frozen=True)
class Block:
    """A block on its way over a link: its number, and when."""

    link: str
    number: int
    start_s: float
    end_s: float


def draw_blocks(panels: Mapping[str, Sequence[Block]], title: str) -> Figure:
    """The figure of `plot_blocks`."""
    rows = [len({block.link for block in blocks}) for blocks in panels.values()]
    height = sum(rows) * ROW_IN + len(rows) * TITLE_IN + 0.7
    figure = Figure(figsize=(WIDTH_IN, height), dpi=DPI, layout="constrained")
    all_axes = figure.subplots(len(rows), 1, squeeze=False, sharex=True, height_ratios=rows)[:, 0]
    last_s = max(block.end_s for blocks in panels.values() for block in blocks)
    unit, unit_s = time_unit(last_s)
    for axes, (name, blocks) in zip(all_axes, panels.items(), strict=True):
        axes.set_xlim(0.0, (last_s or 1.0) * 1.01 / unit_s)
        axes.set_title(drawable(shortened(name, PANEL_LETTERS)), fontsize=9, loc="left")
        _draw_panel(axes, blocks, unit_s, room_s=DIGIT_IN * last_s / ROOM_IN)
    all_axes[-1].set_xlabel(f"time since the thread began the first action ({unit}); a colour a block", fontsize=9)
    heading(figure, title)
    return figure


def _draw_panel(axes: Axes, blocks: Sequence[Block], unit_s: float, room_s: float) -> None:
    """A row a link, in the order of their first blocks; a digit takes `room_s`."""
    links = list(dict.fromkeys(block.link for block in blocks))
    for block in blocks:
        row, colour = links.index(block.link), BLOCK_COLOURS[block.number % len(BLOCK_COLOURS)]
        start, length = block.start_s / unit_s, (block.end_s - block.start_s) / unit_s
        axes.broken_barh([(start, length)], (row - BAR / 2, BAR), facecolor=colour, edgecolor="white", linewidth=0.5)
        text = str(block.number)
        if block.end_s - block.start_s >= room_s * (len(text) + 0.5):
            ink = "black" if _brightness(colour) > LIGHT else "white"
            axes.text(start + length / 2, row, text, color=ink, fontsize=7, ha="center", va="center_baseline")
    rows_down(axes, links)


def _brightness(colour: str) -> float:
    return float(rgb_to_hsv(to_rgb(colour))[2])
