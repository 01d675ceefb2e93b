"""Timelines as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

Source: Trace Event Format, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsched.errors import PlanError
from graphsched.files import write_text
from graphsched.formats.dependencies import arrows
from graphsched.formats.tracks import Slice, Track, tracks
from graphsched.plan import HOST_LANE, Plan
from graphsched.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Bar:
    """Something on a row, from `start_s` to `end_s`; `args` are shown when it is looked at."""

    name: str
    look: str
    start_s: float
    end_s: float
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Process:
    """Rows beside the timelines', by their names."""

    name: str
    rows: Mapping[str, Sequence[Bar]]


Event = dict[str, Any]
Place = tuple[int, int, int]  # thread, start and end in nanoseconds

_FIRST_THREAD = 10_000  # numbers of threads, apart from each other's and from those of processes


def to_perfetto(
    predicted: Timeline | None = None,
    measured: Timeline | None = None,
    *,
    title: str | None = None,
    more: Sequence[Process] = (),
) -> dict[str, Any]:
    """A trace of one timeline or both: a process each, a thread a lane, arrows for dependencies; then `more`.

    Slices of one thread never overlap: where clocks make them, the later one is cut. Times are
    rounded to nanoseconds; each slice has at least one, so that arrows find it.

    Raises:
        PlanError: Neither timeline is given.
    """
    lines = [line for line in (predicted, measured) if line is not None]
    if not lines:
        raise PlanError("nothing to export: give a predicted timeline, a measured one, or both")
    title = title or lines[0].plan.work.name
    events: list[Event] = []
    for pid, line in enumerate(lines, 1):
        events += _process(line, pid, title)
    for pid, process in enumerate(more, len(lines) + 1):
        events += _rows(process, pid, title)
    other = {"title": title} | {f"{line.source}_makespan_s": line.makespan_s for line in lines}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}


def write_perfetto(
    path: str | Path,
    predicted: Timeline | None = None,
    measured: Timeline | None = None,
    *,
    title: str | None = None,
    more: Sequence[Process] = (),
) -> None:
    """Write `to_perfetto` as JSON, whole or not at all.

    Raises:
        PlanError: Neither timeline is given.
        OutputError: The file cannot be written.
    """
    trace = to_perfetto(predicted, measured, title=title, more=more)
    write_text(path, json.dumps(trace, ensure_ascii=False, separators=(",", ":")) + "\n")


def _process(line: Timeline, pid: int, title: str) -> Iterator[Event]:
    yield from _process_named(line.source, pid, title)
    places: dict[int, Place] = {}
    for k, track in enumerate(tracks(line)):
        tid = pid * _FIRST_THREAD + k
        yield from _thread_named(track.lane.name, pid, tid)
        yield from _slices(line.plan, track, pid, tid, places)
    yield from _flows(line.plan, pid, places)


def _rows(process: Process, pid: int, title: str) -> Iterator[Event]:
    yield from _process_named(process.name, pid, title)
    for k, (name, bars) in enumerate(process.rows.items()):
        tid, free = pid * _FIRST_THREAD + k, 0
        yield from _thread_named(name, pid, tid)
        for bar in sorted(bars, key=lambda bar: (bar.start_s, bar.end_s, bar.name)):
            event, free = _complete(bar.name, bar.look, (bar.start_s, bar.end_s), free, (pid, tid))
            yield event | {"args": dict(bar.args)}


def _process_named(name: str, pid: int, title: str) -> Iterator[Event]:
    yield _named("process_name", pid, name=name)
    yield _named("process_labels", pid, labels=title)
    yield _named("process_sort_index", pid, sort_index=pid)


def _thread_named(name: str, pid: int, tid: int) -> Iterator[Event]:
    yield _named("thread_name", pid, name=name) | {"tid": tid}
    yield _named("thread_sort_index", pid, sort_index=tid - pid * _FIRST_THREAD) | {"tid": tid}


def _named(what: str, pid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "args": args}


def _slices(plan: Plan, track: Track, pid: int, tid: int, places: dict[int, Place]) -> Iterator[Event]:
    """Complete events of one thread; notes in `places` where each action ran."""
    free = 0
    for piece in track.slices:
        begun = max(free, round(piece.start_s * 1e9))
        event, free = _complete(piece.name, piece.look, (piece.start_s, piece.end_s), free, (pid, tid))
        if piece.look != "dispatch" and (track.lane.name != HOST_LANE or plan.kinds[piece.action] == "wait"):
            places.setdefault(piece.action, (tid, begun, free))
        yield event | {"args": _args(plan, piece, track.lane.device)}


def _complete(name: str, look: str, span_s: tuple[float, float], free: int, at: tuple[int, int]) -> tuple[Event, int]:
    """A complete event that begins at `free` nanoseconds or later; and the nanosecond that it ends at.

    Args:
        at: Process and thread.
    """
    start = max(free, round(span_s[0] * 1e9))
    end = max(start + 1, round(span_s[1] * 1e9))
    times = {"ts": _microseconds(start), "dur": _microseconds(end - start)}
    return {"ph": "X", "name": name, "cat": look, "pid": at[0], "tid": at[1], **times}, end


def _args(plan: Plan, piece: Slice, device: str) -> dict[str, Any]:
    i = piece.action
    copy, task = plan.copies.get(i), plan.task(i)
    args: dict[str, Any] = {"action": i, "kind": plan.kinds[i], "device": device}
    args["waits"] = [plan.names[j] for j in plan.waits[i]]
    if copy is not None:
        args |= {"bytes": copy.read.value.nbytes, "from": copy.source, "to": copy.target, "memory": copy.memory}
    elif task is not None:
        args["bytes"] = task.nbytes
    if piece.count > 1:
        args["actions"] = piece.count
    return args


def _flows(plan: Plan, pid: int, places: dict[int, Place]) -> Iterator[Event]:
    """An arrow a dependency: from within the slice that is needed to within the one that needs it."""
    for number, (source, target) in enumerate(arrows(plan)):
        if source not in places or target not in places:
            continue
        (source_thread, source_start, source_end), (target_thread, start, end) = places[source], places[target]
        arrives = min(max(start, source_end - 1), end - 1)
        leaves = min(source_end - 1, arrives)
        if leaves < source_start:
            continue  # by the clocks the second was over before the first began
        arrow = {"name": "dependency", "cat": "dependency", "id": pid * 10**9 + number, "pid": pid}
        yield arrow | {"ph": "s", "tid": source_thread, "ts": _microseconds(leaves)}
        yield arrow | {"ph": "f", "bp": "e", "tid": target_thread, "ts": _microseconds(arrives)}


def _microseconds(nanoseconds: int) -> float:
    """Microseconds that give back these nanoseconds to a reader that multiplies and cuts off."""
    number = nanoseconds / 1000
    return number if int(number * 1000) == nanoseconds else math.nextafter(number, math.inf)
