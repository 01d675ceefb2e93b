"""Pictures of a platform: bandwidths, and pairs of devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphsched.charts.saving import picture_format, saved
from graphsched.errors import OutputError
from graphsched.platform import Platform

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_links(platform: Platform, path: str | Path | None = None) -> Figure:
    """Draw the bandwidth of the platform's links against the size of a transfer, on logarithmic axes.

    One panel for each kind: host memory that is pinned, host memory that is not, between devices, within one
    memory. Markers are measured medians of every link, curves bytes / (latency + bytes / rate) of the median link of a
    kind, dotted lines nominal rates.

    Args:
        platform: Its links.
        path: Where to write the picture, whole or not at all: ``.png`` (150 dots an inch), ``.svg`` or ``.pdf``.

    Returns:
        A matplotlib figure; it needs no pyplot and is gone when it is no longer used.

    Raises:
        OutputError: There are no links of these kinds, the suffix of `path` is another one, or it cannot be written.

    Example:
        >>> figure = plot_links(Platform.load("h200-x4"))
        >>> [axes.get_title(loc="left") for axes in figure.axes][2:]
        ['between GPUs', 'within one memory']
    """
    suffix = picture_format(path) if path is not None else ""
    _check_links(platform)
    from graphsched.charts.curves import draw_links
    from graphsched.charts.panels import panels_of

    panels = panels_of(platform)
    if not panels:
        kinds = ", ".join(dict.fromkeys(link.memory for link in platform.links))
        raise OutputError(
            f"nothing to draw: platform {platform.name!r} has only links ({kinds}) that are neither between a device "
            "and its host, nor peer or staged between devices, nor within one memory: plot_pairs draws all"
        )
    return saved(draw_links(platform, panels), path, suffix)


def plot_pairs(platform: Platform, path: str | Path | None = None) -> Figure:
    """Draw two heat maps of device pairs: bandwidth of a large transfer, and latency.

    Rows are sources, columns targets; copies with the host are those of pinned memory. A pair whose copies go
    through the host is marked.

    Args:
        platform: Its links.
        path: Where to write the picture; see `plot_links`.

    Raises:
        OutputError: There are no links, the suffix of `path` is another one, or it cannot be written.

    Example:
        >>> figure = plot_pairs(Platform.load("h200-x4"))
        >>> [text.get_text() for text in figure.axes[0].texts][:2]
        ['121', '55.5']
    """
    suffix = picture_format(path) if path is not None else ""
    _check_links(platform)
    from graphsched.charts.heat import draw_pairs

    return saved(draw_pairs(platform), path, suffix)


def draw_platform(platform: Platform, folder: str | Path) -> tuple[Path, ...]:
    """Write both pictures of `platform` into `folder`; returns their paths.

    Raises:
        OutputError: There are no links, or the pictures cannot be written.
    """
    paths = Path(folder) / f"{platform.name}-links.png", Path(folder) / f"{platform.name}-pairs.png"
    plot_links(platform, paths[0])
    plot_pairs(platform, paths[1])
    return paths


def _check_links(platform: Platform) -> None:
    if not platform.links:
        raise OutputError(f"nothing to draw: platform {platform.name!r} has no links")
