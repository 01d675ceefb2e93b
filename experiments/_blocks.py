"""The picture of a ring: its blocks on links over time, from the recorded run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import graphsched as gs
from graphsched.charts import plot_blocks
from graphsched.charts.blocks import Block
from graphsched.quantities import seconds_text
from graphsched.records import load_run

if TYPE_CHECKING:
    from graphsched.records import CaseRecord

RINGS = ("ring", "rings")
CUT = re.compile(r"/cut/\d+\.(\d+)>")  # a block of a gradient, as `collectives.blocks.cut` numbers it
MOVED = re.compile(r"/(up|down)/(?:add|pass)/(\d+)\.\d+(?:>|$)")  # a sum on its way, as `collectives.ring` does


def draw(platform: gs.Platform, folder: Path) -> tuple[Path, ...]:
    """Write one ring and two of the run in `folder`, of the largest gradients on the most devices; nothing without."""
    found = largest_rings(load_run(folder / "ring.json").cases)
    if not found:
        return ()
    lines = [(case.label, line) for case in found for line in (case.repredict(), case.measured)]
    panels = {f"{label}: {words_of(line)}": blocks_of(line) for label, line in lines}
    path = folder / f"{platform.name}-ring-blocks.png"
    plot_blocks(panels, path, title=f"{platform.name}: blocks on links over time, {found[0].mode} mode")
    return (path,)


def largest_rings(cases: Sequence[CaseRecord]) -> list[CaseRecord]:
    """The ring that moves most among recorded cases, and two rings of the same, where they were recorded."""
    single = [case for case in cases if case.label.startswith("ring, ") and bytes_of(case)]
    if not single:
        return []
    best = max(single, key=bytes_of)
    what = best.label.partition(", ")[2]
    wanted = [f"{way}, {what}" for way in RINGS]
    return [case for label in wanted for case in cases if case.label == label and case.mode == best.mode]


def words_of(line: gs.Timeline) -> str:
    """What it is and how long it takes; of a measured one also the run that is drawn."""
    words = f"{line.source}, {seconds_text(line.makespan_s)}"
    timed = f"; drawn is a run with timing events, {seconds_text(line.timed_makespan_s)}"
    return words if line.source == "predicted" else words + timed


def bytes_of(case: CaseRecord) -> int:
    """Bytes of all copies of blocks; 0 where there is one block, which has no number."""
    plan = case.plan
    return sum(copy.read.value.nbytes for i, copy in plan.copies.items() if number_of(plan.names[i], 0) is not None)


def blocks_of(line: gs.Timeline) -> list[Block]:
    """The copies of blocks, those of the ring upward first; blocks of the second ring are numbered on."""
    plan, names = line.plan, line.plan.names
    upward = [int(found[2]) for name in names if (found := MOVED.search(name)) and found[1] == "up"]
    first = 1 + max(upward, default=-1)
    numbers = {i: number for i in plan.copies if (number := number_of(names[i], first)) is not None}
    blocks = [
        Block(plan.lanes[plan.lane_of[i]].name, number, float(line.start_s[i]), float(line.end_s[i]))
        for i, number in numbers.items()
    ]
    return sorted(blocks, key=lambda block: (block.number >= first, block.link, block.start_s))


def number_of(name: str, first: int) -> int | None:
    """The block that a copy moves, where `first` is the number of the first one downward; None: no block.

    Example:
        >>> number_of("all_reduce.rings/cut/2.5>cuda:3", 4), number_of("all_reduce.rings/down/pass/1.2", 4)
        (5, 5)
        >>> number_of("all_reduce.rings/up/add/3.1>cuda:2", 4), number_of("gradient0>cuda:1", 4)
        (3, None)
    """
    if cut := CUT.search(name):
        return int(cut[1])
    moved = MOVED.search(name)
    return None if moved is None else int(moved[2]) + (first if moved[1] == "down" else 0)
