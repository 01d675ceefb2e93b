"""Pictures of blocks on links: a row a link, a colour a block, numbers where there is room."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from graphsched.charts import plot_blocks
from graphsched.charts.blocks import Block
from graphsched.errors import OutputError

RING = [Block("0>1", 1, 0.0, 2.0), Block("1>0", 0, 0.0, 1.0), Block("0>1", 0, 2.0, 2.01), Block("1>0", 1, 2.0, 3.0)]


def test_a_block_has_one_colour_on_all_links_and_its_number_where_there_is_room() -> None:
    (axes,) = plot_blocks({"a ring": RING}).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0>1", "1>0"]
    assert [text.get_text() for text in axes.texts] == ["1", "0", "1"]
    assert [text.get_position() for text in axes.texts] == [(1.0, 0), (0.5, 1), (2.5, 1)]
    one, zero, again, other = (to_hex(bar.get_facecolor()[0]) for bar in axes.collections)
    assert one == other != zero == again


def test_panels_share_the_time_axis() -> None:
    first, second = plot_blocks({"short": RING, "long": [Block("0>1", 0, 0.0, 9.0)]}).axes
    assert first.get_xlim() == second.get_xlim() == pytest.approx((0.0, 9.09))
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["short", "long"]


def test_eight_blocks_have_eight_colours() -> None:
    (axes,) = plot_blocks({"two rings": [Block("0>1", k, k, k + 1.0) for k in range(8)]}).axes
    assert len({to_hex(bar.get_facecolor()[0]) for bar in axes.collections}) == 8


def test_blocks_of_no_length_have_a_time_axis() -> None:
    (axes,) = plot_blocks({"a ring": [Block("0>1", 0, 0.0, 0.0)]}).axes
    assert axes.get_xlim()[0] == 0.0 < axes.get_xlim()[1]


@pytest.mark.parametrize(("start_s", "end_s"), [(0.0, math.inf), (math.nan, 1.0)])
def test_times_that_are_none_are_named(start_s: float, end_s: float) -> None:
    with pytest.raises(OutputError, match=f"'0>1' of panel 'ring' is from {start_s} to {end_s} s; give finite"):
        plot_blocks({"ring": [Block("0>1", 0, start_s, end_s)]})


@pytest.mark.parametrize("panels", [{}, {"a ring": []}, {"a ring": RING, "none": []}])
def test_nothing_to_draw(tmp_path: Path, panels: dict[str, list[Block]]) -> None:
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_blocks(panels, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
