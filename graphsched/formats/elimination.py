"""Which work belongs to which action, where only times and names tell: by ruling out what cannot be."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from graphsched.formats.profiler_trace import DeviceWork

Choice = tuple[int, str]  # an action, and what it launches


@dataclass(frozen=True, slots=True)
class Wanted:
    """An action that launches `launches` (by `DeviceWork.what`) on one of `devices`, within its span."""

    launches: tuple[str, ...]
    devices: Collection[int]
    start_s: float
    end_s: float


def eliminate(
    wanted: Mapping[int, Wanted], work: Sequence[DeviceWork], tolerance_s: float
) -> dict[int, tuple[DeviceWork, ...]]:
    """The work of those actions for which there is but one choice; the others are left out.

    Work may be an action's if it is what the action launches, on its device, within its span and
    `tolerance_s` before and after. An action that has just as many as it launches takes them from the others, and work
    that only one action may have is that action's, until nothing changes.

    Example:
        >>> first, second = (DeviceWork("mm", "kernel", 0, 7, s, s + 1.0, 9) for s in (0.5, 2.5))
        >>> found = eliminate({0: Wanted(("mm",), {0}, 0, 4), 1: Wanted(("mm",), {0}, 0, 2)}, [first, second], 0.1)
        >>> found[0] == (second,)
        True
    """
    counts = {(i, what): n for i, want in wanted.items() for what, n in Counter(want.launches).items()}
    options = _options(counts, wanted, work, tolerance_s)
    whole = _whole(counts, work)
    while _take(counts, options) or _force(counts, options, whole):
        pass
    found: dict[int, tuple[DeviceWork, ...]] = {}
    for i, want in wanted.items():
        choices = [(i, what) for what in dict.fromkeys(want.launches)]
        if choices and all(len(options[c]) == counts[c] for c in choices):
            chosen = sorted(k for c in choices for k in options[c])
            found[i] = tuple(sorted((work[k] for k in chosen), key=lambda w: (w.start_s, w.end_s)))
    return found


def _options(
    counts: Mapping[Choice, int], wanted: Mapping[int, Wanted], work: Sequence[DeviceWork], tolerance_s: float
) -> dict[Choice, set[int]]:
    by_what: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for k, piece in enumerate(work):
        by_what[piece.what].append((piece.start_s, k))
    for pieces in by_what.values():
        pieces.sort()
    return {
        (i, what): _within(by_what[what], work, wanted[i], tolerance_s) if what in by_what else set()
        for i, what in counts
    }


def _within(
    pieces: Sequence[tuple[float, int]], work: Sequence[DeviceWork], want: Wanted, tolerance_s: float
) -> set[int]:
    """Numbers of those `pieces`, by start, that lie within the span of `want` on one of its devices."""
    first = bisect.bisect_left(pieces, (want.start_s - tolerance_s, -1))
    last_s = want.end_s + tolerance_s
    found = set()
    for start_s, k in itertools.islice(pieces, first, None):
        if start_s > last_s:
            break
        if work[k].end_s <= last_s and work[k].device in want.devices:
            found.add(k)
    return found


def _whole(counts: Mapping[Choice, int], work: Sequence[DeviceWork]) -> set[str]:
    """Of what there is just as much as all actions launch, so that every piece is somebody's."""
    asked, seen = Counter[str](), Counter(piece.what for piece in work)
    for (_, what), n in counts.items():
        asked[what] += n
    return {what for what in asked if asked[what] == seen[what]}


def _take(counts: Mapping[Choice, int], options: dict[Choice, set[int]]) -> bool:
    """Take what settled choices have from all others; whether that changed anything."""
    owner = {k: choice for choice, ks in options.items() if len(ks) == counts[choice] for k in ks}
    changed = False
    for choice, ks in options.items():
        gone = {k for k in ks if owner.get(k, choice) != choice}
        if gone:
            ks -= gone
            changed = True
    return changed


def _force(counts: Mapping[Choice, int], options: dict[Choice, set[int]], whole: set[str]) -> bool:
    """Settle choices by work that nobody else may have; whether that changed anything."""
    takers: dict[int, list[Choice]] = defaultdict(list)
    for choice, ks in options.items():
        if choice[1] in whole:
            for k in ks:
                takers[k].append(choice)
    forced: dict[Choice, set[int]] = defaultdict(set)
    for k, choices in takers.items():
        if len(choices) == 1:
            forced[choices[0]].add(k)
    changed = False
    for choice, ks in forced.items():
        if len(ks) == counts[choice] < len(options[choice]):
            options[choice] = ks
            changed = True
    return changed
