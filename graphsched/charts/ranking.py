"""Schedulers by workloads: each one's time over the fastest, as shades and figures, and the lower bound below."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from graphsched.charts.curves import DPI
from graphsched.charts.saving import picture_format, save_picture
from graphsched.errors import OutputError
from graphsched.gantt.fonts import drawable
from graphsched.quantities import seconds_text

Times = Mapping[str, tuple[float | None, float | None]]
"""Predicted and measured seconds by scheduler."""

COLUMN_IN, ROW_IN, MARGIN_IN = 0.62, 0.26, 2.2
WORST = 3.0  # ratios above this have the darkest shade
DARK = 1.7  # ratios above this are on shades too dark for black figures
BOUND = "lower bound"


def plot_ranking(
    columns: Mapping[str, Times],
    bounds: Mapping[str, float | None],
    path: str | Path | None = None,
    *,
    title: str = "schedulers",
    fastest: Mapping[str, Collection[str]] | None = None,
) -> Figure:
    """Draw the times of schedulers over that of the fastest, a column a workload; above it what the fastest takes.

    A cell gives the predicted ratio and, where there is one, the measured ratio after a stroke; its shade is that of
    the measured ratio, else of the predicted one. Schedulers stand in the order of their means, the best on top.
    The last row is the lower bound over the fastest as predicted.

    Args:
        columns: By workload and scheduler: predicted and measured seconds; None for what there is not.
        bounds: Lower bounds in seconds, by workload.
        path: Where to write the picture, whole or not at all: ``.png``, ``.svg`` or ``.pdf``.
        title: Above all.
        fastest: By workload, the schedulers that are as fast as the fastest within noise: in bold. Default: the
            fastest alone.

    Raises:
        OutputError: There is nothing to draw, the suffix of `path` is another one, or it cannot be written.

    Example:
        >>> figure = plot_ranking({"LeNet": {"heft": (1.0, None), "one_stream": (2.0, None)}}, {"LeNet": 0.9})
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['1.00', '2.00', '0.90']
    """
    suffix = picture_format(path) if path is not None else ""
    drawn = {name: _Column(times) for name, times in columns.items() if any(p or m for p, m in times.values())}
    if not drawn:
        raise OutputError("nothing to draw: there are no times")
    rows = _rows(list(drawn.values()))
    width = MARGIN_IN + COLUMN_IN * len(drawn) * (1.5 if any(c.measured for c in drawn.values()) else 1.0)
    figure = Figure(figsize=(max(5.0, width), 1.9 + ROW_IN * (len(rows) + 1)), dpi=DPI, layout="constrained")
    _table(figure.subplots(), drawn, rows, bounds, fastest or {})
    figure.suptitle(drawable(f"{title}: time over the fastest"), fontsize=11)
    if path is not None:
        save_picture(figure, path, suffix)
    return figure


class _Column:
    """Ratios of one workload, by scheduler."""

    def __init__(self, times: Times) -> None:
        self.predicted, self.best_s = _over_best({name: p for name, (p, _) in times.items() if p})
        self.measured, measured_s = _over_best({name: m for name, (_, m) in times.items() if m})
        self.takes = " | ".join(seconds_text(s) for s in (self.best_s, measured_s) if s)

    def shade(self, name: str) -> float | None:
        """The ratio that the shade of a cell is of."""
        return self.measured.get(name, self.predicted.get(name))

    def text(self, name: str) -> str:
        """The figures in a cell."""
        known = [ratios[name] for ratios in (self.predicted, self.measured) if name in ratios]
        return " | ".join(map(_ratio, known)) or "–"


def _over_best(seconds: Mapping[str, float]) -> tuple[dict[str, float], float | None]:
    best = min(seconds.values(), default=None)
    return ({name: value / best for name, value in seconds.items()} if best else {}), best


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10.0 else f"{value:.0f}"


def _rows(columns: Sequence[_Column]) -> list[str]:
    """Schedulers by the mean of their ratios, the best first."""
    found: dict[str, list[float]] = {}
    for column in columns:
        for name in {**column.predicted, **column.measured}:
            found.setdefault(name, []).append(column.shade(name) or 1.0)
    return sorted(found, key=lambda name: statistics.geometric_mean(found[name]))


def _table(
    axes: Axes,
    columns: Mapping[str, _Column],
    rows: Sequence[str],
    bounds: Mapping[str, float | None],
    fastest: Mapping[str, Collection[str]],
) -> None:
    shades = np.array([[column.shade(name) or np.nan for column in columns.values()] for name in rows])
    last = np.full((1, len(columns)), np.nan)
    cells = np.ma.masked_invalid(np.vstack([np.minimum(shades, WORST), last]))
    axes.imshow(cells, cmap="cividis_r", norm=LogNorm(1.0, WORST), aspect="auto")
    for x, (workload, column) in enumerate(columns.items()):
        bold = fastest.get(workload) or [name for name in rows if column.shade(name) == 1.0]
        for y, name in enumerate(rows):
            ink = "white" if (column.shade(name) or 1.0) > DARK else "black"
            weight = "bold" if name in bold else "normal"
            axes.text(x, y, column.text(name), ha="center", va="center", fontsize=7, color=ink, weight=weight)
    for x, (name, column) in enumerate(columns.items()):
        bound = bounds.get(name)
        if bound and column.best_s:
            axes.text(x, len(rows), _ratio(bound / column.best_s), ha="center", va="center", fontsize=7)
    _frame(axes, columns, rows)


def _frame(axes: Axes, columns: Mapping[str, _Column], rows: Sequence[str]) -> None:
    names = [drawable(f"{name}\n{column.takes}") for name, column in columns.items()]
    axes.set_xticks(range(len(columns)), names, rotation=45, ha="left", fontsize=7)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(rows) + 1), [*map(drawable, rows), BOUND], fontsize=8)
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows)) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
