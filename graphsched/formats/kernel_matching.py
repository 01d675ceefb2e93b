"""Which kernels, copies and fills of a profiler's trace each action of a plan is.

In eager mode an action's work is what was launched within its range. Of a replayed graph, whose work has no ranges,
it is what comes at its place in the order of the capture, where the profiler numbers the nodes and the order of all
work is that of the plan; else what the action's span leaves as the only choice. Nothing is guessed: an action that
is left with several choices, or none, is missing, with the reason.

Not modelled: collectives; work that a task launches from threads of its own while several threads run actions.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphsched.executors.ranges import PREFIX
from graphsched.formats.elimination import Wanted, eliminate
from graphsched.formats.profiler_trace import DeviceWork, HostSpan, ProfilerTrace
from graphsched.plan import Plan
from graphsched.timeline import Timeline

Method = Literal["launches", "graph nodes", "elimination"]
Works = dict[int, tuple[DeviceWork, ...]]

RESOLUTION_S = 1e-7  # of a profiler's times on one device

LOST = "the profiler lost work that it launched"
NO_RANGE = "the profiler lost its range"
NOT_KNOWN = "what it launches is not known: it was not matched in eager mode"
AMBIGUOUS = "ambiguous: its span leaves several choices, or none"


@dataclass(frozen=True)
class Matching:
    """What was found of each action.

    Attributes:
        method: How work on devices was matched.
        work: On devices, by action, in the order in which it was launched.
        ranges: Of the call of each action, on the thread that made it; of a replay, those of CPU lanes alone.
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


def match_launches(trace: ProfilerTrace, measured: Timeline, tolerance_s: float) -> Matching:
    """Match a run in eager mode: `trace` holds that run alone, on the clock of its spans `measured`.

    Copies whose launch the profiler does not tell (those by a call of the driver) are matched by elimination.

    Args:
        tolerance_s: How far the trace's clocks may be off those of the spans.
    """
    plan = measured.plan
    ranges = _ranges(trace, plan)
    launched, lost = _launched(trace, ranges)
    there = _on_devices(plan)
    owned = {id(piece) for pieces in launched.values() for piece in pieces}
    loose = [piece for piece in trace.work if id(piece) not in owned]
    silent = [i for i in there if i in plan.copies and i in ranges and i not in launched and i not in lost]
    wanted = {i: _wanted(measured, i, ("Memcpy DtoD",)) for i in silent if _between_gpus(plan, i)}
    found = {i: tuple(w) for i, w in launched.items() if i in there and i not in lost}
    found |= eliminate(wanted, loose, tolerance_s)
    missing = dict.fromkeys((i for i in _acting(plan) if i not in ranges), NO_RANGE)
    missing |= dict.fromkeys(sorted(lost & set(there)), LOST)
    missing |= {i: AMBIGUOUS for i in wanted if i not in found}
    empty = tuple(i for i in there if i not in found and i not in missing)
    return Matching("launches", _ordered(found), ranges, empty, missing, _strays(trace, found))


def match_replay(trace: ProfilerTrace, measured: Timeline, eager: Matching, tolerance_s: float) -> Matching:
    """Match a replay of the plan's graph: `trace` holds that alone, `eager` tells what each action launches."""
    plan, work = measured.plan, _of_graphs(trace)
    there = dict.fromkeys(_on_devices(plan))
    launches = {i: tuple(piece.what for piece in eager.work[i]) for i in there if i in eager.work}
    missing = {i: NOT_KNOWN for i in there if i in eager.missing}
    method: Method = "graph nodes"
    found = _by_nodes(plan, work, launches) if not missing else None
    if found is None:
        method = "elimination"
        found = eliminate({i: _wanted(measured, i, launches[i]) for i in launches}, work, tolerance_s)
        missing |= {i: AMBIGUOUS for i in launches if i not in found}
    empty = tuple(i for i in there if i in eager.empty)
    ranges = {i: span for i, span in _ranges(trace, plan).items() if i not in there}
    missing |= {i: NO_RANGE for i in _acting(plan) if i not in ranges and i not in there}
    return Matching(method, _ordered(found), ranges, empty, missing, _strays(trace, found))


def _acting(plan: Plan) -> list[int]:
    return [i for i, kind in enumerate(plan.kinds) if kind != "wait"]


def _on_devices(plan: Plan) -> list[int]:
    return [i for i in _acting(plan) if _gpu(plan.lanes[plan.lane_of[i]].device) is not None]


def _gpu(device: str) -> int | None:
    """Number of a GPU; None for another device."""
    kind, _, number = device.partition(":")
    return int(number) if kind == "cuda" else None


def _between_gpus(plan: Plan, i: int) -> bool:
    return _gpu(plan.copies[i].source) is not None and _gpu(plan.copies[i].target) is not None


def _wanted(measured: Timeline, i: int, launches: tuple[str, ...]) -> Wanted:
    plan, copy = measured.plan, measured.plan.copies.get(i)
    names = [plan.lanes[plan.lane_of[i]].device, *((copy.source, copy.target) if copy else ())]
    devices = {number for number in map(_gpu, names) if number is not None}
    return Wanted(launches, devices, float(measured.start_s[i]), float(measured.end_s[i]))


def _ordered(found: Mapping[int, tuple[DeviceWork, ...]]) -> Works:
    return {i: found[i] for i in sorted(found)}


def _strays(trace: ProfilerTrace, found: Mapping[int, Sequence[DeviceWork]]) -> tuple[DeviceWork, ...]:
    owned = {id(piece) for pieces in found.values() for piece in pieces}
    return tuple(piece for piece in trace.work if id(piece) not in owned)


# -- eager mode ---------------------------------------------------------------------------------------


def _ranges(trace: ProfilerTrace, plan: Plan) -> dict[int, HostSpan]:
    """Ranges of actions, by action."""
    found: dict[int, HostSpan] = {}
    for span in trace.ranges:
        i = plan.index_of.get(span.name.removeprefix(PREFIX)) if span.name.startswith(PREFIX) else None
        if i is not None and i not in found:
            found[i] = span
    return {i: found[i] for i in sorted(found)}


def _launched(trace: ProfilerTrace, ranges: Mapping[int, HostSpan]) -> tuple[dict[int, list[DeviceWork]], set[int]]:
    """Work by the action whose range it was launched in, in order; and actions of which some is lost."""
    owner = _Owners(ranges)
    by_call: dict[int | None, list[DeviceWork]] = defaultdict(list)
    for piece in trace.work:
        by_call[piece.correlation].append(piece)
    found: dict[int, list[DeviceWork]] = defaultdict(list)
    lost: set[int] = set()
    for calls in _nested(trace.calls):
        i = owner.of(calls[0])
        if i is None:
            continue
        pieces = [piece for number in dict.fromkeys(c.correlation for c in calls) for piece in by_call.get(number, ())]
        found[i] += pieces
        if not pieces and any(_makes_work(call.name) for call in calls):
            lost.add(i)
    return {i: pieces for i, pieces in found.items() if pieces}, lost


def _nested(calls: Sequence[HostSpan]) -> list[list[HostSpan]]:
    """Each outer call with those that were made within it: a call of the runtime makes one of the driver."""
    found: list[list[HostSpan]] = []
    last: dict[str, list[HostSpan]] = {}
    for call in calls:
        outer = last.get(call.thread)
        if outer and call.start_s < outer[0].end_s:
            outer.append(call)
        else:
            last[call.thread] = [call]
            found.append(last[call.thread])
    return found


def _makes_work(call: str) -> bool:
    """Whether a call of CUDA's interfaces launches work: kernels, copies, fills.

    Example:
        >>> [_makes_work(name) for name in ("cudaLaunchKernel", "cuLaunchKernelEx", "cudaEventRecord")]
        [True, True, False]
    """
    return "LaunchKernel" in call or call.startswith(("cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset"))


class _Owners:
    """Finds the action whose range a call was made in."""

    def __init__(self, ranges: Mapping[int, HostSpan]) -> None:
        self._threads: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
        for i, span in ranges.items():
            self._threads[span.thread].append((span.start_s, span.end_s, i))
        for spans in self._threads.values():
            spans.sort()

    def of(self, call: HostSpan) -> int | None:
        """Of the range of its own thread; a call of another thread belongs to the only range that is open."""
        own = self._open(call.thread, call.start_s)
        if own is not None:
            return own
        others = {self._open(thread, call.start_s) for thread in self._threads} - {None}
        return others.pop() if len(others) == 1 else None

    def _open(self, thread: str, at_s: float) -> int | None:
        spans = self._threads.get(thread, [])
        place = bisect.bisect_right(spans, (at_s, float("inf"), 0)) - 1
        return spans[place][2] if place >= 0 and at_s <= spans[place][1] else None


# -- replays ------------------------------------------------------------------------------------------


def _of_graphs(trace: ProfilerTrace) -> list[DeviceWork]:
    """Work that a launch of a graph started; before one, torch may set the seeds of random numbers."""
    launches = {call.correlation for call in trace.calls if "GraphLaunch" in call.name}
    return [piece for piece in trace.work if piece.correlation in launches]


def _by_nodes(plan: Plan, work: Sequence[DeviceWork], launches: Mapping[int, tuple[str, ...]]) -> Works | None:
    """Work by its place in the order of the nodes; None if that order is not told, or is not the plan's.

    Nodes are numbered as they are captured, which is in the plan's order, and graphs are launched in it. That holds
    if all names agree, and if on each lane no action's work begins before that of the action before it is over.
    """
    numbered = sorted((piece.correlation, piece.node, k) for k, piece in enumerate(work) if piece.node is not None)
    if len(numbered) < len(work) or len({number[:2] for number in numbered}) < len(work):
        return None
    pieces = [work[k] for *_, k in numbered]
    order = [i for i in range(len(plan)) if i in launches]
    if [piece.what for piece in pieces] != [what for i in order for what in launches[i]]:
        return None
    found, place = Works(), 0
    for i in order:
        found[i] = tuple(pieces[place : place + len(launches[i])])
        place += len(launches[i])
    return found if _in_order(plan, found) else None


def _in_order(plan: Plan, found: Works) -> bool:
    """Whether on every lane work begins only when all before it is over, and is on the lane's device."""
    over: dict[int, float] = {}
    for i, pieces in found.items():
        lane = plan.lane_of[i]
        if i not in plan.copies and any(piece.device != _gpu(plan.lanes[lane].device) for piece in pieces):
            return False
        if min(piece.start_s for piece in pieces) < over.get(lane, float("-inf")) - RESOLUTION_S:
            return False
        over[lane] = max(piece.end_s for piece in pieces)
    return True
