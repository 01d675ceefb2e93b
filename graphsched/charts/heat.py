"""Heat maps of device pairs: bandwidth and latency."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from graphsched.charts.curves import DPI
from graphsched.errors import PlatformError
from graphsched.gantt.fonts import drawable
from graphsched.platform import Link, Platform

CELL_IN = 0.62
DARK = 0.45  # shades below this are too dark for black figures
Table = NDArray[np.float64]


def draw_pairs(platform: Platform) -> Figure:
    """The figure of `plot_pairs`."""
    names = [d.name for d in platform.devices]
    side = max(2.4, CELL_IN * len(names))
    figure = Figure(figsize=(2 * side + 3.4, side + 1.7), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    links = {(a, b): link_between(platform, a, b) for a in names for b in names}
    _map(left, names, links, "bandwidth of a large transfer, GB/s", lambda k: k.bandwidth_bytes_per_s / 1e9)
    _map(right, names, links, "latency, µs", lambda k: k.latency_s * 1e6)
    figure.suptitle(drawable(f"{platform.name}: links of device pairs, each alone"), fontsize=11.5)
    staged = any(k is not None and k.memory == "staged" for k in links.values())
    note = "with the host: pinned memory; on the diagonal: copies within one memory"
    figure.supxlabel(note + ("; boxed: staged through the host" if staged else ""), fontsize=8.5)
    return figure


def link_between(platform: Platform, source: str, target: str) -> Link | None:
    """The fastest way from `source` to `target`; None if there is none."""
    if source == target:
        same = [k for k in platform.links if (k.source, k.target) == (source, target) and k.memory == "local"]
        return same[0] if same else None
    try:
        return platform.link(source, target)
    except PlatformError:
        return None


def _map(
    axes: Axes,
    names: list[str],
    links: dict[tuple[str, str], Link | None],
    title: str,
    value: Callable[[Link], float],
) -> None:
    cells = np.array([[_value(links[a, b], value) for b in names] for a in names])
    known = cells[np.isfinite(cells) & (cells > 0)]
    low, high = (known.min(), known.max()) if len(known) else (1.0, 1.0)
    norm = LogNorm(low / 1.15, high * 1.15)
    axes.imshow(np.ma.masked_invalid(np.where(cells > 0, cells, np.nan)), cmap="cividis", norm=norm)
    for row, source in enumerate(names):
        for column, target in enumerate(names):
            _cell(axes, row, column, cells[row, column], links[source, target], norm)
    _frame(axes, names, title)


def _value(link: Link | None, value: Callable[[Link], float]) -> float:
    return value(link) if link is not None else np.nan


def _cell(axes: Axes, row: int, column: int, value: float, link: Link | None, norm: LogNorm) -> None:
    """The figure in a cell, dark on bright and bright on dark; a box where copies are staged."""
    known = bool(np.isfinite(value))
    ink = "white" if known and value > 0 and float(norm(value)) < DARK else "black"
    shown = "–" if not known else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    axes.text(column, row, shown, ha="center", va="center", fontsize=8, color=ink)
    if link is not None and link.memory == "staged":
        corner = column - 0.44, row - 0.44
        axes.add_patch(Rectangle(corner, 0.88, 0.88, fill=False, edgecolor=ink, linewidth=1.4, linestyle="--"))


def _frame(axes: Axes, names: list[str], title: str) -> None:
    shown = [drawable(name) for name in names]
    axes.set_xticks(range(len(names)), shown, fontsize=8, rotation=0 if len(names) <= 6 else 45)
    axes.set_yticks(range(len(names)), shown, fontsize=8)
    axes.set_xlabel("target", fontsize=9)
    axes.set_ylabel("source", fontsize=9)
    axes.set_title(title, fontsize=10)
    axes.set_xticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
