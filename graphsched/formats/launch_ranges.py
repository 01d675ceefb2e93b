"""Which ranges of a profiler's trace are those of a plan's actions, and what was launched within each of them.

Not modelled: work that a task launches from threads of its own while several threads run actions.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence

from graphsched.executors.ranges import PREFIX
from graphsched.formats.profiler_trace import DeviceWork, HostSpan, ProfilerTrace
from graphsched.plan import Plan


def ranges_of(trace: ProfilerTrace, plan: Plan) -> dict[int, HostSpan]:
    """Ranges of actions, by action."""
    found: dict[int, HostSpan] = {}
    for span in trace.ranges:
        i = plan.index_of.get(span.name.removeprefix(PREFIX)) if span.name.startswith(PREFIX) else None
        if i is not None and i not in found:
            found[i] = span
    return {i: found[i] for i in sorted(found)}


def launched_in(trace: ProfilerTrace, ranges: Mapping[int, HostSpan]) -> tuple[dict[int, list[DeviceWork]], set[int]]:
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
