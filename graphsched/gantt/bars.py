"""What is in a row: a bar for each slice; by density where too many are narrower than a pixel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from numpy.typing import NDArray

from graphsched.formats.tracks import Look, Slice
from graphsched.gantt.fonts import drawable
from graphsched.gantt.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg

Numbers = NDArray[np.float64]

BAR = 0.86  # height of a bar, in rows
EDGED = 4.0  # bars of at least so many pixels have an edge
FAINTEST = 0.35  # how dark a pixel is at least in which something happens
CROWD = 500  # slices narrower than a pixel that a row draws one by one, each a pixel wide
SHADES = 16  # of pixels that hold several slices
NOTHING: tuple[Numbers, Numbers] = np.empty(0), np.empty(0)
SMOOTH = 4  # pixels on each side over which shades are averaged, against stripes where periods meet pixels


@dataclass(frozen=True)
class Appearance:
    """Fill, hatch and its colour, colour of text, and name in the legend."""

    face: str
    hatch: str
    ink: str
    text: str
    label: str


# Okabe and Ito's colours, told apart by colour-blind people, in an order of brightness that survives in grey.
# Source: jfly.uni-koeln.de/color.
LOOKS: dict[Look, Appearance] = {
    "compute": Appearance("#0072B2", "", "#00324f", "white", "compute"),
    "copy": Appearance("#E69F00", "//", "#7a5400", "black", "copy"),
    "collective": Appearance("#009E73", "\\\\", "#00402f", "black", "collective"),
    "wait": Appearance("#f4f1d0", "..", "#8a8660", "black", "thread blocked"),
    "join": Appearance("#ffffff", "", "#8a8660", "black", "lanes wait inside the graph"),
    "dispatch": Appearance("#4d1f42", "xx", "#c08fb4", "white", "dispatch"),
}


@dataclass(frozen=True)
class Scale:
    """Seconds in a unit of the time axis, and units in a pixel."""

    unit_s: float
    pixel: float


def draw_row(axes: Axes, row: Row, scale: Scale) -> None:
    """One collection of bars for each look, labelled ``source lane look``."""
    for look in LOOKS:
        slices = [piece for piece in row.slices if piece.look == look]
        if slices:
            starts, ends = _bounds(slices, scale)
            axes.add_collection(_bars(row, look, starts, ends, scale.pixel), autolim=False)


def crowded(rows: Iterable[Row], scale: Scale) -> bool:
    """Whether slices of some row are drawn by density: too many of them are narrower than a pixel."""
    pixel_s = scale.unit_s * scale.pixel
    return any(
        sum(piece.look == look and piece.end_s - piece.start_s < pixel_s for piece in row.slices) > CROWD
        for row in rows
        for look in LOOKS
    )


def _bounds(slices: Iterable[Slice], scale: Scale) -> tuple[Numbers, Numbers]:
    bounds = np.array([(piece.start_s, piece.end_s) for piece in slices], dtype=np.float64) / scale.unit_s
    return bounds[:, 0], bounds[:, 1]


def _bars(row: Row, look: Look, starts: Numbers, ends: Numbers, pixel: float) -> PolyCollection:
    appearance = LOOKS[look]
    narrow = ends - starts < pixel
    left, right, shade = starts, np.maximum(ends, starts + pixel), np.ones(len(starts))
    if narrow.sum() > CROWD:
        dense = shades(starts[narrow], ends[narrow], pixel, beside=(starts[~narrow], ends[~narrow]))
        wide = starts[~narrow], ends[~narrow], shade[~narrow]
        left, right, shade = (np.concatenate(parts) for parts in zip(wide, dense, strict=True))
        narrow = np.arange(len(left)) >= len(wide[0])
    return PolyCollection(
        list(_boxes(left, right, row.centre)),
        facecolors=list(1 - shade[:, None] * (1 - np.array(to_rgb(appearance.face)))),
        edgecolors=appearance.ink,
        linewidths=list(np.where(~narrow & (right - left >= EDGED * pixel), 0.5, 0.0)),
        antialiaseds=list(~narrow),
        hatch=appearance.hatch * 2 or None,
        label=f"{row.source} {row.lane} {look}",
        zorder=2 + list(LOOKS).index(look) / 10,
    )


def _boxes(left: Numbers, right: Numbers, centre: float) -> Numbers:
    """Corners of boxes of one row, of shape (boxes, 4, 2)."""
    top, bottom = np.full_like(left, centre - BAR / 2), np.full_like(left, centre + BAR / 2)
    corners = ((left, top), (right, top), (right, bottom), (left, bottom))
    return np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1)


def shades(
    starts: Numbers, ends: Numbers, pixel: float, *, beside: tuple[Numbers, Numbers] = NOTHING
) -> tuple[Numbers, Numbers, Numbers]:
    """Slices narrower than a pixel as boxes of whole pixels: left, right, and the share that is covered.

    The share is averaged with those of the next `SMOOTH` pixels on both sides in which there are
    slices; neighbouring pixels with one share make one box. Slices `beside` (starts and ends) have no
    boxes, but cover a part of those that they reach into.

    Example:
        >>> shades(np.array([2.0, 2.5, 3.0, 3.5]), np.array([2.5, 3.0, 3.5, 4.0]), 1.0)
        (array([2.]), array([4.]), array([1.]))
    """
    if not len(starts):
        return starts, ends, ends
    offset = int(np.floor(starts.min() / pixel)) - SMOOTH
    size = int(np.floor(ends.max() / pixel)) - offset + 1 + SMOOTH
    covered = _covered(starts / pixel - offset, ends / pixel - offset, size)
    used = covered > 1e-9
    used[np.floor(starts / pixel).astype(int) - offset] = True  # also where a slice takes no time at all
    also = _covered(beside[0] / pixel - offset, beside[1] / pixel - offset, size)
    covered += np.where(used, also, 0.0)
    window = np.ones(2 * SMOOTH + 1)
    mean = np.convolve(covered, window, "same") / np.maximum(np.convolve(used, window, "same"), 1)
    level = np.where(used, np.rint(np.clip(mean, FAINTEST, 1.0) * SHADES) / SHADES, 0.0)
    borders = np.concatenate([[0], np.flatnonzero(np.diff(level)) + 1, [len(level)]])
    left, right = borders[:-1][level[borders[:-1]] > 0], borders[1:][level[borders[:-1]] > 0]
    return (left + offset) * pixel, (right + offset) * pixel, level[left]


def _covered(starts: Numbers, ends: Numbers, size: int) -> Numbers:
    """How much of each of `size` pixels slices cover whose bounds are counted in pixels.

    Example:
        >>> _covered(np.array([-1.0, 1.5]), np.array([0.25, 3.5]), 5)
        array([0.25, 0.5 , 1.  , 0.5 , 0.  ])
    """
    starts, ends = np.clip(starts, 0.0, size), np.clip(ends, 0.0, size)
    first, last = np.floor(starts).astype(int), np.floor(ends).astype(int)
    covered, begun = np.zeros(size + 1), np.zeros(size + 2)
    np.add.at(covered, first, np.minimum(ends, first + 1) - starts)
    np.add.at(covered, last, np.where(last > first, ends - last, 0.0))
    np.add.at(begun, first + 1, np.where(last > first, 1.0, 0.0))  # pixels in between are covered as a whole
    np.add.at(begun, last, np.where(last > first, -1.0, 0.0))
    return (covered + np.cumsum(begun)[:-1])[:size]


def draw_labels(axes: Axes, rows: Sequence[Row], scale: Scale, renderer: RendererAgg, *, size: float) -> None:
    """Names of actions, in bars in which they fit."""
    font = FontProperties(size=size)
    for row in rows:
        for piece in row.slices:
            width = (piece.end_s - piece.start_s) / scale.unit_s / scale.pixel
            if width < size * 2:
                continue
            text = drawable(piece.name)
            if _width(text, font, renderer) > width - size:
                continue
            look = LOOKS[piece.look]
            axes.text(
                (piece.start_s + piece.end_s) / 2 / scale.unit_s,
                row.centre,
                text,
                color=look.text,
                fontproperties=font,
                ha="center",
                va="center_baseline",
                clip_on=True,
                zorder=5,  # above the lines of the makespans
                bbox={"facecolor": look.face, "edgecolor": "none", "pad": 0.8},
            )


def _width(text: str, font: FontProperties, renderer: RendererAgg) -> float:
    """Pixels that `text` takes."""
    return float(renderer.get_text_width_height_descent(text, font, False)[0])  # type: ignore[no-untyped-call]
