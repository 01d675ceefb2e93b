"""Which kernels, copies and fills of a profiler's trace each action of a plan is.

In eager mode an action's work is what was launched within its range, and so it is in graph mode for actions that no
graph holds. Work of a replayed graph has no ranges: it is what comes at its place in the order of the capture, where
the profiler numbers the nodes and the order of all work is that of the plan; else what names, devices, the action's
span and the order of the plan leave as the only choice. Nothing is guessed: an action that is left with several
choices, or none, is missing, with the reason.

The stream that a profiler tells of a graph's work is not used: it is no lane's. Two lanes of a graph have been seen on
two streams, but for the last action of one lane, which was on the stream of the other.

Not modelled: collectives; work that a task launches from threads of its own while several threads run actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graphsched.executors.stamp_kernel import KERNEL
from graphsched.formats.elimination import Wanted, eliminate
from graphsched.formats.graph_nodes import Works, by_nodes
from graphsched.formats.launch_ranges import launched_in, ranges_of
from graphsched.formats.profiler_trace import DeviceWork, HostSpan, ProfilerTrace, gpu_number
from graphsched.plan import OUTSIDE, Plan, segments_of
from graphsched.timeline import Timeline

Method = Literal["launches", "graph nodes", "elimination"]

LOST = "the profiler lost work that it launched"
NO_RANGE = "the profiler lost its range"
NOT_KNOWN = "what it launches is not known: it was not matched in eager mode"
AMBIGUOUS = "ambiguous: its span and the plan's order leave several choices, or none"


@dataclass(frozen=True)
class Matching:
    """What was found of each action.

    Attributes:
        method: How work on devices was matched; of a replay, that of graphs.
        work: On devices, by action, in the order in which it was launched.
        ranges: Of the call of each action, on the thread that made it; of a replay, of actions outside graphs alone.
        empty: Actions that launch nothing on their device, which runs none of them.
        missing: Why the others were not matched.
        strays: Work of no matched action.
    """

    method: Method
    work: Works
    ranges: dict[int, HostSpan]
    empty: tuple[int, ...]
    missing: dict[int, str]
    strays: tuple[DeviceWork, ...]


@dataclass(frozen=True)
class _Part:
    """What was found of some of the actions."""

    method: Method
    work: Works
    empty: tuple[int, ...]
    missing: dict[int, str]


def match_launches(trace: ProfilerTrace, measured: Timeline, tolerance_s: float) -> Matching:
    """Match a run in eager mode: `trace` holds that run alone, on the clock of its spans `measured`.

    Copies whose launch the profiler does not tell (those by a call of the driver) are matched by elimination.

    Args:
        tolerance_s: How far the trace's clocks may be off those of the spans.
    """
    ranges = ranges_of(trace, measured.plan)
    part = _by_launches(trace, measured, ranges, _on_devices(measured.plan), tolerance_s)
    return _matching(trace, measured.plan, ranges, [part])


def match_replay(trace: ProfilerTrace, measured: Timeline, eager: Matching, tolerance_s: float) -> Matching:
    """Match a run of the plan's graphs: `trace` holds that alone, `eager` tells what each action launches."""
    plan = measured.plan
    trace = replace(trace, work=tuple(piece for piece in trace.work if piece.name != KERNEL))  # stamps are no action's
    segment_of, there = segments_of(plan).of, _on_devices(plan)
    held = {i for i in there if segment_of[i] != OUTSIDE}
    ranges = {i: span for i, span in ranges_of(trace, plan).items() if i not in held}
    inside = _by_replay(trace, measured, eager, sorted(held), tolerance_s)
    outside = _by_launches(trace, measured, ranges, [i for i in there if i not in held], tolerance_s)
    return _matching(trace, plan, ranges, [inside, outside])


def _matching(trace: ProfilerTrace, plan: Plan, ranges: dict[int, HostSpan], parts: Sequence[_Part]) -> Matching:
    """All parts in one; the first tells the method."""
    work: Works = {}
    missing: dict[int, str] = {}
    for part in parts:
        work |= part.work
        missing |= part.missing
    there = set(_on_devices(plan))
    missing |= {i: NO_RANGE for i in _acting(plan) if i not in there and i not in ranges}
    empty = tuple(sorted(i for part in parts for i in part.empty))
    found = {i: work[i] for i in sorted(work)}
    return Matching(parts[0].method, found, ranges, empty, missing, _strays(trace, found))


def _acting(plan: Plan) -> list[int]:
    return [i for i, kind in enumerate(plan.kinds) if kind != "wait"]


def _on_devices(plan: Plan) -> list[int]:
    return [i for i in _acting(plan) if gpu_number(plan.lanes[plan.lane_of[i]].device) is not None]


def _between_gpus(plan: Plan, i: int) -> bool:
    return gpu_number(plan.copies[i].source) is not None and gpu_number(plan.copies[i].target) is not None


def _devices(plan: Plan, i: int) -> set[int]:
    """GPUs of which one runs what action `i` launches."""
    copy = plan.copies.get(i)
    names = [plan.lanes[plan.lane_of[i]].device, *((copy.source, copy.target) if copy else ())]
    return {number for number in map(gpu_number, names) if number is not None}


def _strays(trace: ProfilerTrace, found: Mapping[int, Sequence[DeviceWork]]) -> tuple[DeviceWork, ...]:
    owned = {id(piece) for pieces in found.values() for piece in pieces}
    return tuple(piece for piece in trace.work if id(piece) not in owned)


# -- eager mode, and what no graph holds ----------------------------------------------------------------


def _by_launches(
    trace: ProfilerTrace,
    measured: Timeline,
    ranges: Mapping[int, HostSpan],
    actions: Sequence[int],
    tolerance_s: float,
) -> _Part:
    """Match `actions` by what was launched in their ranges."""
    plan = measured.plan
    launched, lost = launched_in(trace, ranges)
    owned = {id(piece) for pieces in launched.values() for piece in pieces}
    loose = [piece for piece in trace.work if id(piece) not in owned]
    silent = [i for i in actions if i in plan.copies and i in ranges and i not in launched and i not in lost]
    wanted = {
        i: Wanted(("Memcpy DtoD",), _devices(plan, i), float(measured.start_s[i]), float(measured.end_s[i]))
        for i in silent
        if _between_gpus(plan, i)
    }
    found = {i: tuple(launched[i]) for i in actions if i in launched and i not in lost}
    found |= eliminate(wanted, loose, tolerance_s)
    missing = dict.fromkeys((i for i in actions if i not in ranges), NO_RANGE)
    missing |= dict.fromkeys(sorted(lost & set(actions)), LOST)
    missing |= {i: AMBIGUOUS for i in wanted if i not in found}
    return _Part("launches", found, tuple(i for i in actions if i not in found and i not in missing), missing)


# -- replays ------------------------------------------------------------------------------------------


def _graph_launches(trace: ProfilerTrace) -> list[int]:
    """Numbers of the calls that launched graphs, in order."""
    calls = (call for call in trace.calls if "GraphLaunch" in call.name)
    return list(dict.fromkeys(call.correlation for call in calls if call.correlation is not None))


def _by_replay(
    trace: ProfilerTrace, measured: Timeline, eager: Matching, actions: Sequence[int], tolerance_s: float
) -> _Part:
    """Match `actions`, those that graphs hold."""
    graphs = set(_graph_launches(trace))
    work = [piece for piece in trace.work if piece.correlation in graphs]  # seeds of random numbers come before
    launches = {i: tuple(piece.what for piece in eager.work[i]) for i in actions if i in eager.work}
    missing = {i: NOT_KNOWN for i in actions if i in eager.missing}
    empty = tuple(i for i in actions if i in eager.empty)
    found = by_nodes(measured.plan, work, launches) if not missing else None
    if found is not None:
        return _Part("graph nodes", found, empty, missing)
    found = eliminate(_wanted(trace, measured, launches), work, tolerance_s)
    return _Part("elimination", found, empty, missing | {i: AMBIGUOUS for i in launches if i not in found})


def _wanted(trace: ProfilerTrace, measured: Timeline, launches: Mapping[int, tuple[str, ...]]) -> dict[int, Wanted]:
    """What is known of each action that graphs hold; the graph of a segment is the launch of that number."""
    plan, numbers = measured.plan, _graph_launches(trace)
    segments, before = segments_of(plan), _before(plan, launches)
    told = len(numbers) == len(segments)
    return {
        i: Wanted(
            names,
            _devices(plan, i),
            float(measured.start_s[i]),
            float(measured.end_s[i]),
            launch=numbers[segments.of[i]] if told else None,
            after=before[i],
        )
        for i, names in launches.items()
    }


def _before(plan: Plan, launches: Mapping[int, tuple[str, ...]]) -> dict[int, tuple[int, ...]]:
    """For each action that launches anything those that must be over before it begins, less what they imply.

    In a capture each action stands behind all that its lane has before it and all that it waits for.
    """
    found: dict[int, tuple[int, ...]] = {}
    nearest: list[tuple[int, ...]] = []  # of each action: itself, if it launches anything, else what is before it
    tails: dict[int, int] = {}
    for i, lane in enumerate(plan.lane_of):
        needs = (*plan.waits[i], *((tails[lane],) if lane in tails else ()))
        found[i] = tuple(sorted({k for j in needs for k in nearest[j]}))
        nearest.append((i,) if i in launches else found[i])
        tails[lane] = i
    return found
