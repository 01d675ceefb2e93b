"""Spans by timing events held against what a profiler saw in the same run.

An event span holds its action's work: it begins before and ends after, by what the two timing events take. A span
also holds the time in which the device waited for the dispatching thread, which says nothing of clocks. So a start is
judged only where all of the action was issued before its lane came to it, an end only where it was issued before the
work was over.

The clocks of a GPU's events and of the profiler are brought onto the host's each in its own way, give or take some
microseconds; what is left of that is one constant a GPU, the shift, taken from the judged actions (half of the median
of how much more a span has behind its work than before) and reported. Without such an action on a
GPU nothing of it is judged.

Not modelled: drift of the clocks within a run.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphsched.comparison.profiler_starts import REASONS, Apart, segments_in_force, starts_apart
from graphsched.formats.kernel_matching import Matching
from graphsched.formats.profiler_trace import DeviceWork
from graphsched.plan import OUTSIDE
from graphsched.timeline import Timeline

TOLERANCE_S = 3e-6


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an action's span reaches beyond its work.

    Attributes:
        before_s, after_s: Of the span, before the work's start and after its end; negative where the work sticks out.
        start_judged, end_judged: Whether nothing but the timing events had a part in it.
        apart: What had a part in the start, where that was not the dispatching thread.
    """

    action: int
    before_s: float
    after_s: float
    start_judged: bool
    end_judged: bool
    apart: Apart | None = None


@dataclass(frozen=True, eq=False)
class Agreement:
    """Event spans and a profiler's, of one run.

    Attributes:
        measured: The event spans.
        matching: What of the trace is which action.
        differences: Of each matched action, clocks of devices shifted.
        shifts_s: By GPU, what the profiler's times were moved by.
        uncertainty_s: Of the clocks against each other.
    """

    measured: Timeline
    matching: Matching
    differences: tuple[Difference, ...]
    shifts_s: dict[str, float]
    uncertainty_s: float

    @property
    def starts_s(self) -> list[float]:
        """How much earlier spans begin than their work, of those that are judged."""
        return [d.before_s for d in self.differences if d.start_judged]

    @property
    def ends_s(self) -> list[float]:
        """How much later spans end than their work, of those that are judged."""
        return [d.after_s for d in self.differences if d.end_judged]

    @property
    def apart_s(self) -> dict[Apart, list[float]]:
        """How much earlier spans begin than their work, of starts that are not judged, by what had a part in them."""
        found = {why: [d.before_s for d in self.differences if d.apart == why] for why in REASONS}
        return {why: seconds for why, seconds in found.items() if seconds}

    @property
    def clocks_agree(self) -> bool:
        """Whether every shift is within the clocks' uncertainty and the tolerance."""
        return all(abs(shift) <= self.uncertainty_s + TOLERANCE_S for shift in self.shifts_s.values())

    @property
    def within(self) -> bool | None:
        """Whether all judged starts and ends agree within `TOLERANCE_S`; None where none can be judged."""
        judged = self.starts_s + self.ends_s
        if not judged:
            return None
        return self.clocks_agree and all(abs(seconds) <= TOLERANCE_S for seconds in judged)

    @property
    def acting(self) -> int:
        """Actions with anything to match: waits and those that launch nothing are left out."""
        return len(self.differences) + len(self.matching.missing)

    def figures(self) -> dict[str, Any]:
        """For JSON, in seconds; null where there is nothing to judge."""
        names = self.measured.plan.names
        return {
            "actions": self.acting,
            "matched": len(self.differences),
            "method": self.matching.method,
            "start_difference_s": _summary(self.starts_s),
            "end_difference_s": _summary(self.ends_s),
            "starts_apart_s": {why: _apart(seconds) for why, seconds in self.apart_s.items()},
            "within": self.within,
            "tolerance_s": TOLERANCE_S,
            "shifts_s": self.shifts_s,
            "uncertainty_s": self.uncertainty_s,
            "unmatched": {names[i]: why for i, why in sorted(self.matching.missing.items())},
            "strays": len(self.matching.strays),
        }


def _summary(differences_s: Sequence[float]) -> dict[str, Any] | None:
    """Median and the largest by size, signs kept.

    Example:
        >>> _summary([1.0, -4.0, 2.0])
        {'judged': 3, 'median': 1.0, 'largest': -4.0}
    """
    if not differences_s:
        return None
    largest = max(differences_s, key=abs)
    return {"judged": len(differences_s), "median": statistics.median(differences_s), "largest": largest}


def _apart(differences_s: Sequence[float]) -> dict[str, Any]:
    """The same of what is not judged.

    Example:
        >>> _apart([1.0, -4.0, 2.0])
        {'count': 3, 'median': 1.0, 'largest': -4.0}
    """
    largest = max(differences_s, key=abs)
    return {"count": len(differences_s), "median": statistics.median(differences_s), "largest": largest}


def hold_against(measured: Timeline, matching: Matching, alignment_s: float) -> Agreement:
    """Hold the event spans of `measured` against what was matched, on one clock give or take `alignment_s`."""
    plan, apart, segment_of = measured.plan, starts_apart(measured, matching), segments_in_force(measured.plan)
    devices = {i: plan.lanes[plan.lane_of[i]].device for i in matching.work}

    def differences(shifts_s: Mapping[str, float]) -> dict[int, Difference]:
        found = {}
        for i, pieces in matching.work.items():
            start_s, end_s = (at_s + shifts_s.get(devices[i], 0.0) for at_s in _bounds(pieces))
            found[i] = _difference(measured, i, start_s, end_s, segment_of[i] != OUTSIDE, apart.get(i))
        return found

    shifts_s = _shifts(differences({}), devices)
    found = [d if devices[i] in shifts_s else _not_judged(d) for i, d in differences(shifts_s).items()]
    found += [_called(measured, i, matching) for i in matching.ranges if _on_thread(measured, i)]
    uncertainty_s = alignment_s + measured.clock_uncertainty_s
    return Agreement(measured, matching, tuple(sorted(found, key=lambda d: d.action)), shifts_s, uncertainty_s)


def _bounds(work: Sequence[DeviceWork]) -> tuple[float, float]:
    return min(piece.start_s for piece in work), max(piece.end_s for piece in work)


def _difference(
    measured: Timeline, i: int, start_s: float, end_s: float, in_graph: bool, apart: Apart | None
) -> Difference:
    """Of an action on a GPU with work of these times; once launched, a graph does not wait for the thread."""
    issued_s = float(measured.issue_end_s[i])
    ready = in_graph or issued_s <= float(measured.start_s[i])
    return Difference(
        i,
        start_s - float(measured.start_s[i]),
        float(measured.end_s[i]) - end_s,
        ready and apart is None,
        in_graph or issued_s <= end_s,
        apart if ready else None,
    )


def _not_judged(difference: Difference) -> Difference:
    """The same where no clock is known to the microsecond, for want of an action that is judged at both ends."""
    return replace(difference, start_judged=False, end_judged=False)


def _called(measured: Timeline, i: int, matching: Matching) -> Difference:
    """Of an action on a thread of its own, whose span and range are both the thread's."""
    span = matching.ranges[i]
    before_s, after_s = span.start_s - float(measured.start_s[i]), float(measured.end_s[i]) - span.end_s
    return Difference(i, before_s, after_s, True, True)


def _on_thread(measured: Timeline, i: int) -> bool:
    plan = measured.plan
    return plan.platform.device(plan.lanes[plan.lane_of[i]].device).kind != "cuda"


def _shifts(raw: Mapping[int, Difference], devices: Mapping[int, str]) -> dict[str, float]:
    """What puts the work of each GPU into the middle of its spans, by the median."""
    halves: dict[str, list[float]] = {}
    for i, difference in raw.items():
        if difference.start_judged and difference.end_judged:
            halves.setdefault(devices[i], []).append((difference.after_s - difference.before_s) / 2)
    return {device: statistics.median(halves[device]) for device in sorted(halves)}
