"""How lines are told apart: colour, marker and dashes, as many of them as are asked for."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from graphsched.gantt.fonts import drawable

Dashes = Literal["-", ":"] | tuple[float, tuple[float, ...]]  # as matplotlib has them
Look = tuple[str, str, Dashes]  # colour, marker, dashes

# Okabe and Ito's colours (jfly.uni-koeln.de/color); as many markers as have no divisor in common with them.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#4d1f42", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", "h")
DASHES = (9.0, 5.0, 2.5)
ROW_LETTERS, LEGEND_LETTERS = 46, 80  # of names beside rows, and in legends as wide as a picture
TITLE_LETTERS, TITLE_LINE_IN = 88, 0.2  # of a line above rows 10 inches wide: letters, height
UNNAMED = "_child"  # what matplotlib calls lines without a label; names of users may begin with an underscore, too
HANDLE_LENGTH = 4.5  # of a legend's lines, in its font's size: a whole pattern of the first sixteen looks fits


def looks() -> Iterator[Look]:
    """Looks without end: no two lines have the same dashes, nor, of the first 70, the same colour and marker.

    Example:
        >>> from itertools import islice
        >>> for look in islice(looks(), 5):
        ...     print(look)
        ('#0072B2', 'o', '-')
        ('#D55E00', 's', (0, (9.0, 2.0)))
        ('#009E73', '^', (0, (5.0, 2.0)))
        ('#4d1f42', 'D', (0, (2.5, 2.0)))
        ('#CC79A7', 'v', (0, (9.0, 2.0, 1.0, 2.0)))
    """
    return zip(cycle(COLOURS), cycle(MARKERS), _dashes(), strict=False)


def shortened(text: str, letters: int) -> str:
    """`text`, or its begin where it has more than so many letters.

    Example:
        >>> shortened("compiled", 8), shortened("op by op", 6)
        ('compiled', 'op by…')
    """
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def legend_below(figure: Figure, columns: int, handle_length: float = HANDLE_LENGTH) -> None:
    """One legend of all axes under them, each label once; `handle_length` in its font's size."""
    drawn = [artist for axes in figure.axes for artist in (*axes.lines, *axes.collections)]
    named = [(str(artist.get_label()), artist) for artist in drawn]
    found = {label: artist for label, artist in named if not label.startswith(UNNAMED)}
    put_below(figure, list(found.values()), columns, handlelength=handle_length)


def put_below(figure: Figure, handles: Sequence[Artist], columns: int, **more: float | str | None) -> Legend:
    """A legend of `handles` under all axes; in more rows than so many columns make, where they are too wide."""
    rows = math.ceil(len(handles) / columns)
    while True:
        legend = figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, fontsize=8, frameon=False, **more
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return legend
        legend.remove()
        rows += 1
        columns = math.ceil(len(handles) / rows)


def heading(figure: Figure, title: str) -> None:
    """`title` above a figure of rows, which is so much higher for each further line of it."""
    text = textwrap.fill(title, TITLE_LETTERS)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + text.count("\n") * TITLE_LINE_IN)
    figure.suptitle(drawable(text), fontsize=11)


def rows_down(axes: Axes, labels: Sequence[str]) -> None:
    """A row of bars for each label, the first on top, with no frame but the time below."""
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), [drawable(shortened(label, ROW_LETTERS)) for label in labels])
    axes.tick_params(labelsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _dashes() -> Iterator[Dashes]:
    """A solid line, dashes of several lengths, then the same with one, two, … dots behind each dash."""
    yield "-"
    for dots in count():
        yield from ((0, (dash, 2.0, *(1.0, 2.0) * dots)) for dash in DASHES)
