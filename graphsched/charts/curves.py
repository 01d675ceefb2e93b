"""Bandwidth against size: measured points, fitted curves, nominal rates."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from graphsched.charts.looks import Look, looks
from graphsched.charts.panels import Panel, Series
from graphsched.gantt.fonts import drawable
from graphsched.platform import Link, Platform
from graphsched.quantities import bytes_text

DPI = 150
SMALLEST, LARGEST = 4096, 2**30


def draw_links(platform: Platform, panels: Sequence[Panel]) -> Figure:
    """The figure of `plot_links`."""
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(11.0, 3.7 * rows + 0.6), dpi=DPI, layout="constrained")
    grid = figure.subplots(rows, min(2, len(panels)), squeeze=False)
    flat = list(grid.flat)
    for axes, panel in zip(flat, panels, strict=False):
        draw_panel(axes, panel)
    for axes in flat[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(drawable(f"{platform.name}: bandwidth of a transfer alone, by its size"), fontsize=11.5)
    figure.supxlabel(
        "markers: measured medians of each link, between which predictions interpolate; "
        "curves: bytes / (latency + bytes / rate), median link",
        fontsize=8.5,
    )
    return figure


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Points and curves of one panel."""
    sizes = _sizes(panel.series)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.autoscale(False)  # a flat curve would make it warn; both limits are set below
    for series, look in zip(panel.series, looks(), strict=False):
        _draw_series(axes, series, look, sizes)
    for label, rate in panel.nominal:
        axes.axhline(rate / 1e9, color="black", linewidth=1.0, linestyle=":", label=f"{label}: {_gb(rate)} GB/s")
    axes.set_xlim(sizes[0] / 1.6, sizes[-1] * 1.6)
    axes.set_ylim(*_limits(axes, float(np.sqrt(sizes[0] * sizes[-1]))))
    axes.set_title(panel.title, fontsize=10, loc="left")
    _label(axes)


def _limits(axes: Axes, middle: float) -> tuple[float, float]:
    """Lowest and highest GB/s to show: all that is drawn, and below its right half room for the legend."""
    drawn = [np.asarray(line.get_xydata(), dtype=np.float64) for line in axes.lines]
    points = np.concatenate([xy for xy in drawn if len(xy)])
    lowest, highest = points[:, 1].min() / 1.3, points[:, 1].max() * 1.6
    right = points[points[:, 0] > middle, 1]
    share = 0.06 + 0.065 * len(axes.get_legend_handles_labels()[0])
    under = float(right.min()) / 1.15 if len(right) else highest
    return min(lowest, highest * (under / highest) ** (1 / (1 - share))), highest


def fitted(link: Link, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bytes per second of transfers of `sizes` bytes by latency and rate alone.

    Example:
        >>> fitted(Link("a", "b", "peer", 1.0, 100.0), np.array([100.0, 900.0]))
        array([50., 90.])
    """
    return np.asarray(sizes / (link.latency_s + sizes / link.bandwidth_bytes_per_s), dtype=np.float64)


def _sizes(series: Sequence[Series]) -> NDArray[np.float64]:
    points = [n for s in series for k in s.links for n in k.sizes_bytes] or [SMALLEST, LARGEST]
    return np.geomspace(max(1, min(points)), max(points), 200)


def _draw_series(axes: Axes, series: Series, look: Look, sizes: NDArray[np.float64]) -> None:
    colour, marker, style = look
    middle = _median_link(series.links)
    measured = [(n, n / s) for k in series.links for n, s in zip(k.sizes_bytes, k.seconds, strict=True) if n]
    label = f"{series.label}: {middle.latency_s * 1e6:.3g} µs, {_gb(middle.bandwidth_bytes_per_s)} GB/s"
    axes.plot(
        [n for n, _ in measured],
        [rate / 1e9 for _, rate in measured],
        linestyle="none",
        marker=marker,
        markersize=5,
        markerfacecolor="none",
        markeredgecolor=colour,
        markeredgewidth=1.0,
    )
    axes.plot(sizes, fitted(middle, sizes) / 1e9, color=colour, linestyle=style, linewidth=1.4, label=label)
    handle = axes.lines[-1]
    handle.set_marker(marker)
    handle.set_markevery([])
    handle.set_markerfacecolor("none")
    handle.set_markersize(5)


def _median_link(links: Sequence[Link]) -> Link:
    """A link with the median latency and the median rate."""
    latency_s = median(k.latency_s for k in links)
    return Link("", "", links[0].memory, latency_s, median(k.bandwidth_bytes_per_s for k in links))


def _label(axes: Axes) -> None:
    axes.set_xlabel("size of the transfer", fontsize=9)
    axes.set_ylabel("bandwidth, GB/s", fontsize=9)
    axes.xaxis.set_major_locator(LogLocator(base=16, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: _binary(n)))
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.grid(axis="y", which="minor", color="#eeeeee", linewidth=0.4)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=7.5, frameon=True, framealpha=0.9, edgecolor="none", handlelength=3.2)


def _binary(nbytes: float) -> str:
    """A power of two as people write it.

    Example:
        >>> _binary(4096), _binary(2**24), _binary(2**30), _binary(1000)
        ('4 KiB', '16 MiB', '1 GiB', '1 kB')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:g} {unit}"
    return bytes_text(nbytes)


def _gb(rate: float) -> str:
    return f"{rate / 1e9:.3g}" if rate < 1e12 else f"{rate / 1e9:.0f}"
