"""From timelines to a matplotlib figure: axes, ticks, title, legend; see `bars` for what is in the rows."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from graphsched.charts.looks import put_below
from graphsched.gantt.bars import LOOKS, Scale, crowded, draw_labels, draw_row
from graphsched.gantt.fonts import drawable
from graphsched.gantt.rows import Layout, lay_out, row_names
from graphsched.quantities import percent_text, seconds_text, time_unit
from graphsched.schedulers.bounds import bound_of
from graphsched.timeline import Timeline

DPI = 150
WIDTH_IN = 13.0
LINE_STYLES = {"predicted": "--", "measured": "-"}
HIGHEST_IN, REST_IN = 100.0, 1.8  # of a picture; of what is not rows
NAME_IN, LETTERS_IN = 0.12, 0.085  # heights of the name of a lane, and of that of an action
WHISKER = 0.22  # rows below the top
LONG_PLAN = 50_000  # actions
PALE = "actions narrower than a pixel are drawn together, as dark as they fill the time"


def draw(lines: Sequence[Timeline], title: str | None) -> Figure:
    """The figure of one or two timelines of one plan."""
    layout = lay_out(lines)
    row_in = min(0.32, max(0.12, 15.0 / layout.height))
    small = row_in < 0.2
    row_in = min(row_in, (HIGHEST_IN - REST_IN) / layout.height)
    figure = Figure(figsize=(WIDTH_IN, layout.height * row_in + REST_IN), dpi=DPI, layout="constrained")
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    axes = figure.add_subplot()
    unit, unit_s = time_unit(_last_s(lines))
    _x_axis(axes, lines, unit, unit_s)
    step = _named_lanes(layout, row_in)
    _y_axis(axes, layout, small=small, labelled=len(lines) > 1, step=step)
    axes.set_title(_heading(lines, title), x=0.0, ha="left", fontsize=10.5, linespacing=1.5)
    marks = [*_makespans(axes, lines, unit_s), *_whiskers(axes, lines, unit_s), *_bound(axes, lines[0], unit_s)]
    _legend(figure, layout, marks)
    figure.draw_without_rendering()  # settles the layout, so that the size of a pixel is known
    scale = Scale(unit_s, (axes.get_xlim()[1] - axes.get_xlim()[0]) / axes.bbox.width)
    notes = [*_notes(lines), *([PALE] if crowded(layout.rows, scale) else [])]
    if step > 1:
        notes.append(f"one lane of {step} is named; rows of each: {', '.join(row_names(lines))}")
    axes.set_xlabel("\n".join([axes.get_xlabel(), *notes]))
    for row in layout.rows:
        draw_row(axes, row, scale)
    if row_in >= LETTERS_IN:
        draw_labels(axes, layout.rows, scale, renderer, size=6.0 if small else 7.0)
    return figure


def _last_s(lines: Sequence[Timeline]) -> float:
    ends = [max(line.makespan_s, float(line.end_s.max(initial=0.0))) for line in lines]
    return max([*ends, *(line.interval_s[1] for line in lines if line.interval_s)])


def _x_axis(axes: Axes, lines: Sequence[Timeline], unit: str, unit_s: float) -> None:
    first_s = min(0.0, *(float(line.start_s.min(initial=0.0)) for line in lines))
    axes.set_xlim(first_s / unit_s, (_last_s(lines) or 1.0) * 1.01 / unit_s)
    axes.set_xlabel(f"time since the thread began the first action ({unit})", fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#d9d9d9", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _notes(lines: Sequence[Timeline]) -> list[str]:
    """What a reader must know to read the bars."""
    notes = []
    for line in lines:
        if line.timed_makespan_s > line.makespan_s * 1.01:
            notes.append(
                f"{line.source} bars are of a run with timing events, which takes {seconds_text(line.timed_makespan_s)}"
            )
    estimated = dict.fromkeys(name for line in lines for name in line.estimated)
    if estimated:
        notes.append(f"tasks whose cost is an estimate: {len(estimated)}")
    return notes


def _named_lanes(layout: Layout, row_in: float) -> int:
    """Of how many lanes one is named, so that names have room."""
    lanes = max(1, len(layout.lanes))
    needed_in = max(NAME_IN, len(layout.rows) / lanes * LETTERS_IN)
    return math.ceil(needed_in / (layout.height * row_in / lanes))


def _y_axis(axes: Axes, layout: Layout, *, small: bool, labelled: bool, step: int) -> None:
    """Name of every `step`-th lane at the middle of its rows; with two rows a lane, what each is, if all have names."""
    lanes = layout.lanes[::step]
    axes.set_ylim(layout.height, 0)
    axes.set_yticks([centre for _, centre in lanes], [drawable(name) for name, _ in lanes])
    axes.tick_params(axis="y", which="both", length=0)
    axes.tick_params(axis="y", which="major", labelsize=8 if small else 9, pad=(46 if labelled else 6))
    for label in axes.get_yticklabels():
        label.set_fontweight("bold")
    if labelled:
        named = layout.rows if step == 1 else ()
        axes.set_yticks([row.centre for row in named], [row.source for row in named], minor=True)
        axes.tick_params(axis="y", which="minor", labelsize=6 if small else 7, pad=3)
        for row in layout.rows[1::2]:
            axes.axhspan(row.centre - 0.5, row.centre + 0.5, color="#f5f5f5", linewidth=0, zorder=0)
    for border in layout.borders:
        axes.axhline(border, color="#999999", linewidth=0.6, zorder=0.5)


def _heading(lines: Sequence[Timeline], title: str | None) -> str:
    """The title, and below it the makespans and how far they are apart."""
    plan = lines[0].plan
    title = title if title is not None else f"{plan.work.name}: {plan.scheduler} on {plan.platform.name}, {plan.mode}"
    figures = [
        f"{name} {seconds_text(line.makespan_s)}" + (f" (±{line.spread * 100:.2g} %)" if line.spread else "")
        for name, line in zip(row_names(lines), lines, strict=True)
    ]
    if len(lines) > 1 and lines[1].makespan_s:
        figures.append(f"error {percent_text(lines[0].makespan_s / lines[1].makespan_s - 1)}")
    return "\n".join([drawable(textwrap.fill(title, 120)), "makespan: " + ", ".join(figures)])


def _makespans(axes: Axes, lines: Sequence[Timeline], unit_s: float) -> list[Line2D]:
    return [
        axes.axvline(
            line.makespan_s / unit_s,
            color="black",
            linewidth=1.1,
            linestyle=LINE_STYLES[line.source],
            zorder=4,
            label=f"{name} makespan, {seconds_text(line.makespan_s)}",
        )
        for name, line in zip(row_names(lines), lines, strict=True)
    ]


def _whiskers(axes: Axes, lines: Sequence[Timeline], unit_s: float) -> list[Line2D]:
    """The interval of a prediction: a thin bar across its makespan, below the top of the picture."""
    return [
        axes.plot(
            [bound / unit_s for bound in line.interval_s],
            [WHISKER] * 2,
            color="black",
            linewidth=0.9,
            marker="|",
            markersize=7,
            zorder=4,
            clip_on=False,
            label=f"90 %: {' to '.join(map(seconds_text, line.interval_s))}",
        )[0]
        for line in lines
        if line.interval_s
    ]


def _bound(axes: Axes, line: Timeline, unit_s: float) -> list[Line2D]:
    """What no plan can beat: a dotted line, where finding it does not take long."""
    if len(line) > LONG_PLAN or not (bound_s := bound_of(line.plan)):
        return []
    label = f"lower bound of any plan, {seconds_text(bound_s)}"
    return [axes.axvline(bound_s / unit_s, color="#555555", linewidth=1.1, linestyle=":", zorder=4, label=label)]


def _legend(figure: Figure, layout: Layout, marks: Sequence[Line2D]) -> None:
    seen = {piece.look for row in layout.rows for piece in row.slices}
    handles: list[Artist] = [
        Patch(facecolor=look.face, edgecolor=look.ink, hatch=look.hatch * 2, linewidth=0.5, label=look.label)
        for name, look in LOOKS.items()
        if name in seen
    ]
    handles += marks
    put_below(figure, handles, len(handles), handlelength=2.6, handleheight=1.1)
