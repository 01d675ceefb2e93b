"""Which work belongs to which action, where only times, names and an order tell: by ruling out what cannot be."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from graphsched.formats.profiler_trace import RESOLUTION_S, DeviceWork

Choice = tuple[int, str]  # an action, and what it launches
Actions = Mapping[int, tuple[list[Choice], tuple[int, ...]]]  # in order: choices of each, and what comes before it


@dataclass(frozen=True, slots=True)
class Wanted:
    """An action that launches `launches` (by `DeviceWork.what`) on one of `devices`, within its span.

    Attributes:
        launch: Number of the call that launched it; None if that is not known.
        after: Actions all of whose work is over before any of its own begins.
    """

    launches: tuple[str, ...]
    devices: Collection[int]
    start_s: float
    end_s: float
    launch: int | None = None
    after: tuple[int, ...] = ()


def eliminate(
    wanted: Mapping[int, Wanted], work: Sequence[DeviceWork], tolerance_s: float
) -> dict[int, tuple[DeviceWork, ...]]:
    """The work of those actions for which there is but one choice; the others are left out.

    Work may be an action's if it is what the action launches, on its device, within its span and
    `tolerance_s` before and after. An action that has just as many as it launches takes them from the others, work
    that only one action may have is that action's, and what would break the order of actions is nobody's, until
    nothing changes. No step rules out what may be true: what is left is proven, if the spans hold their work, the
    order was kept and no work is lost. So nothing is found of a name of which there is less than all actions launch,
    or too little within the spans of one; and where work contradicts the order, that is not used.

    Example:
        >>> first, second = (DeviceWork("mm", "kernel", 0, 7, s, s + 1.0, 9) for s in (0.5, 2.5))
        >>> found = eliminate({0: Wanted(("mm",), {0}, 0, 4), 1: Wanted(("mm",), {0}, 0, 2)}, [first, second], 0.1)
        >>> found[0] == (second,)
        True
        >>> row = {0: Wanted(("mm",), {0}, 0, 4), 1: Wanted(("mm",), {0}, 0, 4, after=(0,))}
        >>> eliminate(row, [first, second], 0.1) == {0: (first,), 1: (second,)}
        True
    """
    counts = {(i, what): n for i, want in wanted.items() for what, n in Counter(want.launches).items()}
    more = _more(counts, work)
    whole = {what for what, n in more.items() if n == 0}
    plain = _options({c: n for c, n in counts.items() if more[c[1]] >= 0}, wanted, work, tolerance_s)
    options = {choice: set(ks) for choice, ks in plain.items()}
    while _order(counts, options, wanted, work) or _rule_out(counts, options, whole):
        pass
    if _unlike(counts, options):
        options = plain
        while _rule_out(counts, options, whole):
            pass
    return _only(counts, options, wanted, work)


def _only(
    counts: Mapping[Choice, int],
    options: Mapping[Choice, set[int]],
    wanted: Mapping[int, Wanted],
    work: Sequence[DeviceWork],
) -> dict[int, tuple[DeviceWork, ...]]:
    """What is left of actions that have no other choice."""
    wrong = _unlike(counts, options)
    found: dict[int, tuple[DeviceWork, ...]] = {}
    for i, want in wanted.items():
        choices = [(i, what) for what in dict.fromkeys(want.launches)]
        if choices and all(c[1] not in wrong and len(options.get(c, ())) == counts[c] for c in choices):
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
        launched = want.launch is None or work[k].correlation == want.launch
        if launched and work[k].end_s <= last_s and work[k].device in want.devices:
            found.add(k)
    return found


def _more(counts: Mapping[Choice, int], work: Sequence[DeviceWork]) -> dict[str, int]:
    """By name, how much more there is than all actions launch; 0: all is somebody's, below: some is lost."""
    asked, seen = Counter[str](), Counter(piece.what for piece in work)
    for (_, what), n in counts.items():
        asked[what] += n
    return {what: seen[what] - n for what, n in asked.items()}


def _owners(counts: Mapping[Choice, int], options: Mapping[Choice, set[int]]) -> dict[int, list[Choice]]:
    """Choices that can do without none of their pieces, by piece: two of one piece contradict each other."""
    owners: dict[int, list[Choice]] = defaultdict(list)
    for choice, ks in options.items():
        if len(ks) == counts[choice]:
            for k in ks:
                owners[k].append(choice)
    return owners


def _unlike(counts: Mapping[Choice, int], options: Mapping[Choice, set[int]]) -> set[str]:
    """Names of which an action is left too little, or two the same: something that was assumed is not so."""
    short = {choice[1] for choice, ks in options.items() if len(ks) < counts[choice]}
    return short | {claims[0][1] for claims in _owners(counts, options).values() if len(claims) > 1}


def _rule_out(counts: Mapping[Choice, int], options: dict[Choice, set[int]], whole: set[str]) -> bool:
    """One step by numbers alone; whether it changed anything."""
    return _take(counts, options) or _force(counts, options, whole)


def _take(counts: Mapping[Choice, int], options: dict[Choice, set[int]]) -> bool:
    """Take what settled choices have from all others; whether that changed anything."""
    owners = _owners(counts, options)
    changed = False
    for choice, ks in options.items():
        gone = {k for k in ks if k in owners and choice not in owners[k]}
        if gone:
            ks -= gone
            changed = True
    return changed


def _order(
    counts: Mapping[Choice, int],
    options: dict[Choice, set[int]],
    wanted: Mapping[int, Wanted],
    work: Sequence[DeviceWork],
) -> bool:
    """Rule out what begins before all that comes first can be over, and the reverse; whether that changed anything."""
    left = sum(map(len, options.values()))
    choices = {i: [c for what in dict.fromkeys(wanted[i].launches) if (c := (i, what)) in options] for i in wanted}
    _begin_late_enough(counts, options, {i: (choices[i], wanted[i].after) for i in sorted(wanted)}, work)
    _end_soon_enough(counts, options, {i: (choices[i], wanted[i].after) for i in sorted(wanted, reverse=True)}, work)
    return sum(map(len, options.values())) < left


def _begin_late_enough(
    counts: Mapping[Choice, int], options: dict[Choice, set[int]], actions: Actions, work: Sequence[DeviceWork]
) -> None:
    """An action that takes n of its options ends no sooner than the n-th of them to end."""
    over: dict[int, float] = {}  # the soonest that an action and all before it can be over
    for i, (choices, after) in actions.items():
        over[i] = max((over[j] for j in after if j in over), default=-math.inf)
        for c in choices:
            options[c] = {k for k in options[c] if work[k].start_s >= over[i] - RESOLUTION_S}
        ends = [(sorted(work[k].end_s for k in options[c]), counts[c]) for c in choices]
        over[i] = max([over[i], *(found[n - 1] for found, n in ends if len(found) >= n)])


def _end_soon_enough(
    counts: Mapping[Choice, int], options: dict[Choice, set[int]], actions: Actions, work: Sequence[DeviceWork]
) -> None:
    """An action that takes n of its options begins no later than the n-th of them from behind to begin."""
    due: dict[int, float] = defaultdict(lambda: math.inf)  # the latest that an action must be over for those after it
    for i, (choices, after) in actions.items():
        for c in choices:
            options[c] = {k for k in options[c] if work[k].end_s <= due[i] + RESOLUTION_S}
        starts = [(sorted(work[k].start_s for k in options[c]), counts[c]) for c in choices]
        begun_s = min([due[i], *(found[-n] for found, n in starts if len(found) >= n)])
        for j in after:
            due[j] = min(due[j], begun_s)


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
