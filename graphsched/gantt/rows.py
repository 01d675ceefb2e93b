"""Where each lane's rows stand in the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphsched.formats.tracks import Slice, lane_order, tracks
from graphsched.timeline import Timeline

LANE_GAP = 0.45  # between lanes, in rows
DEVICE_GAP = 0.75  # between devices, in rows


@dataclass(frozen=True)
class Row:
    """One lane of one timeline.

    Attributes:
        centre: Height of its middle, in rows from the top.
        source: ``predicted`` or ``measured``; two timelines of one kind are numbered.
        lane: Name of the lane.
        slices: What is drawn.
    """

    centre: float
    source: str
    lane: str
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class Layout:
    """The rows of a picture, from top to bottom.

    Attributes:
        rows: All rows.
        lanes: Name of each lane and height of the middle of its rows.
        borders: Heights of the borders between devices.
        height: Of all rows and gaps, in rows.
    """

    rows: tuple[Row, ...]
    lanes: tuple[tuple[str, float], ...]
    borders: tuple[float, ...]
    height: float


def lay_out(lines: Sequence[Timeline]) -> Layout:
    """One row a timeline for every lane on which something happens in one of them."""
    plan = lines[0].plan
    drawn = [{track.lane.name: track.slices for track in tracks(line)} for line in lines]
    rows: list[Row] = []
    lanes: list[tuple[str, float]] = []
    borders: list[float] = []
    top, device = LANE_GAP, ""
    for lane in (plan.lanes[k] for k in lane_order(plan)):
        if not any(lane.name in slices for slices in drawn):
            continue
        if rows:
            gap = LANE_GAP if lane.device == device else DEVICE_GAP
            if lane.device != device:
                borders.append(top + gap / 2)
            top += gap
        device = lane.device
        for name, slices in zip(row_names(lines), drawn, strict=True):
            rows.append(Row(top + 0.5, name, lane.name, slices.get(lane.name, ())))
            top += 1
        lanes.append((lane.name, top - len(lines) / 2))
    return Layout(tuple(rows), tuple(lanes), tuple(borders), max(top, 1.0) + LANE_GAP)


def row_names(lines: Sequence[Timeline]) -> list[str]:
    """What the rows of each timeline are called."""
    names: list[str] = [line.source for line in lines]
    return names if len(set(names)) == len(names) else [f"{name} {k}" for k, name in enumerate(names, 1)]
