"""Gantt charts: predicted and measured on one time axis, lane by lane."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphsched.charts.saving import picture_format, save_picture
from graphsched.comparison import check_same_plan
from graphsched.errors import OutputError
from graphsched.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_gantt"]


def plot_gantt(
    predicted: Timeline | None = None,
    measured: Timeline | None = None,
    *,
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """Draw timelines of one plan: for each lane a row predicted and a row measured, on one time axis.

    Computing, copying, the thread being blocked and the thread dispatching differ in colour and in
    hatch. Where hundreds of actions of a row are narrower than a pixel they are drawn together, as
    dark as they fill the time.

    Args:
        predicted, measured: What to draw; one of them is enough.
        path: Where to write the picture, whole or not at all: ``.png`` (150 dots an inch), ``.svg`` or ``.pdf``.
        title: First line above the picture; default: the workload, scheduler and platform.

    Returns:
        A matplotlib figure; it needs no pyplot and is gone when it is no longer used.

    Raises:
        OutputError: Nothing to draw, the suffix of `path` is another one, or it cannot be written.
        PlanError: The timelines are of different plans.
    """
    suffix = picture_format(path) if path is not None else ""
    lines = [line for line in (predicted, measured) if line is not None]
    if not lines:
        raise OutputError("nothing to draw: give a predicted timeline, a measured one, or both")
    check_same_plan(lines[0], lines[-1])
    from graphsched.gantt.drawing import draw

    figure = draw(lines, title)
    if path is not None:
        save_picture(figure, path, suffix)
    return figure
