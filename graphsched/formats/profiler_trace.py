"""A trace of torch's profiler: work on devices, the calls that launched it, ranges; and its clock.

Source: Trace Event Format, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU; categories and
arguments are those that ``torch.profiler.profile.export_chrome_trace`` writes.

Not modelled: threads' own clocks, which are one; operations, stacks and memory, which are left out.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from graphsched.errors import FileFormatError
from graphsched.executors.fill_kernel import KERNEL as FILL
from graphsched.formats.entries import entry, listed, number, present, whole

WorkKind = Literal["kernel", "copy", "fill"]
_WORK: dict[str, WorkKind] = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
_CALLS = ("cuda_runtime", "cuda_driver")

RESOLUTION_S = 1e-7  # of times on one device


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """A kernel, copy or fill as a device ran it.

    Attributes:
        correlation: Number of the call that launched it; all work of a replayed graph has that of the replay.
        node: Number of the graph's node, ascending in the order of its capture; None outside of graphs and where the
            profiler does not tell.
    """

    name: str
    kind: WorkKind
    device: int
    stream: int
    start_s: float
    end_s: float
    correlation: int
    node: int | None = None

    @property
    def what(self) -> str:
        """What it is, worded the same whether a graph holds it or not.

        Example:
            >>> DeviceWork("Memcpy PtoP (Device -> Device)", "copy", 0, 7, 0.0, 1e-6, 5).what
            'Memcpy DtoD'
        """
        if self.kind == "kernel":
            return self.name
        return " ".join(self.name.split()[:2]).replace("PtoP", "DtoD") if self.kind == "copy" else "Memset"


def gpu_number(device: str) -> int | None:
    """Number by which a trace calls a GPU of a platform; None for another device.

    Example:
        >>> gpu_number("cuda:1"), gpu_number("worker:1")
        (1, None)
    """
    kind, _, number = device.partition(":")
    return int(number) if kind == "cuda" else None


@dataclass(frozen=True, slots=True)
class HostSpan:
    """A call or a range of a thread of the host; a call's `correlation` is that of the work it launched."""

    name: str
    thread: str
    start_s: float
    end_s: float
    correlation: int | None = None


@dataclass(frozen=True)
class ProfilerTrace:
    """What a trace tells, each by start, in seconds from the trace's own time 0."""

    work: tuple[DeviceWork, ...] = ()
    calls: tuple[HostSpan, ...] = ()
    ranges: tuple[HostSpan, ...] = ()

    def during(self, name: str) -> ProfilerTrace:
        """What began within the only range called `name`, the range itself left out.

        Raises:
            FileFormatError: There is no such range, or there are several.
        """
        whole = [span for span in self.ranges if span.name == name]
        if len(whole) != 1:
            raise FileFormatError(f"the profiler's trace has {len(whole)} ranges called {name!r}, one is needed")
        first, last = whole[0].start_s, whole[0].end_s
        return ProfilerTrace(
            tuple(work for work in self.work if first <= work.start_s <= last),
            tuple(call for call in self.calls if first <= call.start_s <= last),
            tuple(span for span in self.ranges if first <= span.start_s <= last and span is not whole[0]),
        )

    def shifted(self, by_s: float) -> ProfilerTrace:
        """The same on another clock, on which all is `by_s` seconds later."""
        return ProfilerTrace(
            tuple(replace(work, start_s=work.start_s + by_s, end_s=work.end_s + by_s) for work in self.work),
            tuple(replace(call, start_s=call.start_s + by_s, end_s=call.end_s + by_s) for call in self.calls),
            tuple(replace(span, start_s=span.start_s + by_s, end_s=span.end_s + by_s) for span in self.ranges),
        )


def read_trace(data: Any) -> ProfilerTrace:
    """The trace in `data`, as the profiler's JSON gives it.

    Raises:
        FileFormatError: It is no such trace, or an event lacks what its category has, or has it wrong: names the event.

    Example:
        >>> place = {"device": 0, "stream": 7, "correlation": 5}
        >>> event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "ts": 20.0, "dur": 3.0, "args": place}
        >>> read_trace({"traceEvents": [event]}).work[0].end_s
        3e-06
    """
    rows = enumerate(listed(data, "traceEvents", "the trace of torch's profiler"))
    events = [_Event(k, row, row["cat"]) for k, row in rows if row.get("ph") == "X" and _wanted(row.get("cat"))]
    base_us = min((number(e.row, "ts", e) for e in events), default=0.0)
    work = [_work(e, base_us) for e in events if e.category in _WORK]
    calls = [_host(e, base_us) for e in events if e.category in _CALLS]
    ranges = [_host(e, base_us) for e in events if e.category == "user_annotation"]
    return ProfilerTrace(
        tuple(sorted(work, key=lambda w: (w.start_s, w.end_s, w.device, w.stream))),
        tuple(sorted(calls, key=_by_start)),
        tuple(sorted(ranges, key=_by_start)),
    )


@dataclass(frozen=True, slots=True)
class _Event:
    """An event of the file; its text says where it stands."""

    place: int
    row: Mapping[str, Any]
    category: str

    def __str__(self) -> str:
        return f"traceEvents[{self.place}] ({self.category} {reprlib.repr(self.row.get('name'))})"


def _wanted(category: Any) -> bool:
    return isinstance(category, str) and (category in _WORK or category in _CALLS or category == "user_annotation")


def _by_start(span: HostSpan) -> tuple[float, float, str, str]:
    return span.start_s, -span.end_s, span.thread, span.name


def _times(event: _Event, base_us: float) -> tuple[float, float]:
    """Start and end in seconds; the base is taken off first, for microseconds since long ago leave few digits."""
    start_us = number(event.row, "ts", event) - base_us
    end_us = start_us + number(event.row, "dur", event, least=0)
    if not math.isfinite(end_us):
        raise FileFormatError(f"{event} ends {end_us} µs after the first event begins: correct its 'ts' or 'dur'")
    return start_us / 1e6, end_us / 1e6


def _work(event: _Event, base_us: float) -> DeviceWork:
    args, name = entry(event.row, "args", dict, event), str(present(event.row, "name", event))
    return DeviceWork(
        name,
        "fill" if name == FILL else _WORK[event.category],
        # a copy between GPUs tells its device in its own words
        whole(args, "device", event) if "device" in args else whole(event.row, "pid", event),
        whole(args, "stream", event),
        *_times(event, base_us),
        whole(args, "correlation", event),
        whole(args, "graph node id", event) if args.get("graph node id") else None,  # 0 is no node
    )


def _host(event: _Event, base_us: float) -> HostSpan:
    args = entry(event.row, "args", dict, event) if "args" in event.row else {}
    thread = f"{present(event.row, 'pid', event)}/{present(event.row, 'tid', event)}"
    correlation = None if args.get("correlation") is None else whole(args, "correlation", event)
    return HostSpan(str(present(event.row, "name", event)), thread, *_times(event, base_us), correlation)


@dataclass(frozen=True, slots=True)
class Alignment:
    """What is to be added to the trace's seconds to have the host's, give or take `uncertainty_s`."""

    offset_s: float
    uncertainty_s: float


def align(ranges: Sequence[HostSpan], readings: Sequence[tuple[float, float, float]]) -> Alignment:
    """The offset that puts each range's start and end between the readings of the host's clock around them.

    Every range bounds the offset from below and above; the uncertainty is half of what all of them leave
    open, or half of what they contradict each other by.

    Args:
        ranges: In order.
        readings: Host seconds before, within and after each range.

    Raises:
        FileFormatError: There are fewer ranges than readings, or more, or none.

    Example:
        >>> align([HostSpan("clock", "1/1", 1.0, 2.0)], [(10.75, 11.25, 12.5)])
        Alignment(offset_s=10.0, uncertainty_s=0.25)
    """
    if len(ranges) != len(readings) or not ranges:
        raise FileFormatError(f"the profiler's trace has {len(ranges)} ranges for the clock, {len(readings)} were made")
    low, high = -math.inf, math.inf
    for span, (before, within, after) in zip(ranges, readings, strict=True):
        low = max(low, before - span.start_s, within - span.end_s)
        high = min(high, within - span.start_s, after - span.end_s)
    return Alignment((low + high) / 2, abs(high - low) / 2)
