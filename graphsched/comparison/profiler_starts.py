"""Starts in which more than two timing events has a part, so that they tell nothing of clocks.

An event passes as soon as what is before it is over; what comes next may still have to wait. Three such cases can be
told from the plan and the profiler's trace, without a look at how late the work was:

- ``launch``: nothing of a CUDA graph is before the action, so that its event passes while the graph is being launched;
- ``engine``: in a graph, the work before it on the profiler's stream was of the other kind, copies or kernels;
- ``shared``: work of the same kind, of another action, still runs on the GPU where its own begins: its kernels waited
  for room.

Not modelled: how long each of these takes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, get_args

from graphsched.formats.kernel_matching import Matching
from graphsched.formats.profiler_trace import RESOLUTION_S, DeviceWork
from graphsched.plan import OUTSIDE, Plan, segments_of
from graphsched.timeline import Timeline

Apart = Literal["launch", "engine", "shared"]
REASONS: tuple[Apart, ...] = get_args(Apart)


def segments_in_force(plan: Plan) -> list[int]:
    """The segment of each action; `OUTSIDE` for all where no graph was launched."""
    return list(segments_of(plan).of) if plan.mode == "graph" else [OUTSIDE] * len(plan)


def starts_apart(measured: Timeline, matching: Matching) -> dict[int, Apart]:
    """Why the start of an action is not to be judged, the first reason that holds; the others are left out."""
    plan = measured.plan
    segment_of = segments_in_force(plan)
    first = {i: min(pieces, key=lambda piece: piece.start_s) for i, pieces in matching.work.items()}
    inside = {i for i in first if segment_of[i] != OUTSIDE}
    found: dict[int, Apart] = dict.fromkeys(sorted(_shared(matching, first)), "shared")
    found |= dict.fromkeys(sorted(_other_engine(matching, first) & inside), "engine")
    found |= dict.fromkeys(sorted(_first_of_graphs(plan, segment_of, matching) & inside), "launch")
    return found


def _first_of_graphs(plan: Plan, segment_of: list[int], matching: Matching) -> set[int]:
    """Actions before which their graph has no work."""
    busy = matching.work.keys() | matching.missing.keys()
    behind: list[bool] = []  # whether each action has work of its own segment before it
    joined: set[int] = set()  # segments with a wait of every lane
    tails: dict[int, int] = {}
    for i, lane in enumerate(plan.lane_of):
        needs = [
            j for j in (*plan.waits[i], *((tails[lane],) if lane in tails else ())) if segment_of[j] == segment_of[i]
        ]
        behind.append(segment_of[i] in joined or any(j in busy or behind[j] for j in needs))
        if plan.kinds[i] == "wait" and behind[i]:
            joined.add(segment_of[i])
        tails[lane] = i
    return {i for i, known in enumerate(behind) if not known}


def _other_engine(matching: Matching, first: dict[int, DeviceWork]) -> set[int]:
    """Actions before which the same launch had the other engine at work on the same stream."""
    streams: dict[tuple[int, int, int], list[DeviceWork]] = defaultdict(list)
    for piece in _all(matching):
        streams[piece.device, piece.stream, piece.correlation].append(piece)
    changed = set()
    for pieces in streams.values():
        pieces.sort(key=lambda piece: (piece.start_s, piece.end_s))
        changed |= {id(b) for a, b in itertools.pairwise(pieces) if _copies(a) != _copies(b)}
    return {i for i, piece in first.items() if id(piece) in changed}


def _shared(matching: Matching, first: dict[int, DeviceWork]) -> set[int]:
    """Actions that begin while another's work of the same kind runs on the same GPU."""
    owner = {id(piece): i for i, pieces in matching.work.items() for piece in pieces}
    begins = {id(piece): i for i, piece in first.items()}
    running: dict[tuple[int, bool], list[DeviceWork]] = defaultdict(list)
    found = set()
    for piece in sorted(_all(matching), key=lambda piece: (piece.start_s, piece.end_s)):
        place = (piece.device, _copies(piece))
        still = [one for one in running[place] if one.end_s >= piece.start_s - RESOLUTION_S]
        running[place] = [*still, piece]
        i = begins.get(id(piece))
        if i is not None and any(owner.get(id(one)) != i for one in still):
            found.add(i)
    return found


def _all(matching: Matching) -> Iterator[DeviceWork]:
    for pieces in matching.work.values():
        yield from pieces
    yield from matching.strays


def _copies(piece: DeviceWork) -> bool:
    """Whether a copy engine does it; fills are made by kernels."""
    return piece.kind == "copy"
