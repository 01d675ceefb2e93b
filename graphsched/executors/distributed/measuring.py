"""Running a plan on several ranks for its timeline: until they have their memory; spans of all on rank 0's clock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsched.executors.distributed.clock_offsets import Offset, RankClock, measure_offsets
from graphsched.executors.distributed.program import RankProgram
from graphsched.executors.stamps import Stamps
from graphsched.plan.ranks import RankLists
from graphsched.timeline import Halves, Interval

Seconds = NDArray[np.float64]
COLUMNS = ("issue_start", "issue_end", "start", "end")
GROWN_BYTES, STILL, MOST_GROWING = 1 << 20, 3, 20
PAGES_HELD = Path("/proc/self/statm")  # Linux: the second number


@dataclass(frozen=True, eq=False)
class RankSpans:
    """The spans of one rank's parts, as columns by row of its list, and when its run began; by its own clock."""

    columns: dict[str, Seconds]
    began_s: float
    uncertainty_s: float


@dataclass(frozen=True, eq=False)
class Spans:
    """The spans of a plan's actions as columns, in seconds from time 0, the run's makespan, and the clocks' error.

    Halves are those of `Timeline.halves_s`.
    """

    columns: dict[str, Seconds]
    makespan_s: float
    uncertainty_s: float
    halves_s: Halves


def warm_up(program: RankProgram, runs: int, at_most_s: float) -> None:
    """Run so many times, and then on until no rank's memory has grown in `STILL` runs, or for `at_most_s` seconds.

    A process that keeps its memory has enough for all messages of a run only after several, and new memory may cost
    more than the run: 3 ns a byte on a virtual machine that gives free memory back to its host. `MOST_GROWING` runs are
    enough in any case.
    """
    took_s, still = sum(program.time_once() for _ in range(runs)), 0
    for _ in range(MOST_GROWING if runs else 0):
        if took_s > at_most_s or still == STILL:
            return
        before = resident_bytes()
        took_s += program.time_once()
        grown = max(program.world.gather(resident_bytes() - before, program.watch.timeout_s, "the memory of all ranks"))
        still = still + 1 if grown < GROWN_BYTES else 0


def resident_bytes() -> int:
    """Memory that this process holds; 0 where the system does not tell as Linux does."""
    try:
        return int(PAGES_HELD.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def measured_spans(program: RankProgram) -> Spans:
    """The spans of one run that follows some like it, the same on all ranks, as the runs without timing events do.

    The first ones after clocks were compared find the processors' caches as that has left them.
    """
    from graphsched.executors.repeats import settle
    from graphsched.executors.timed_runs import Clocks, on_host_clock

    world, left_s = program.world, program.watch.timeout_s
    before = measure_offsets(world, left_s)
    clocks = Clocks(program)
    settle(lambda: program.time_spans()[2], program.whole)  # of which all ranks make the same number
    stamps, began, seconds = program.time_spans()
    clocks.finish()
    start, end = on_host_clock(program, stamps, clocks)
    mine = RankSpans(_columns(stamps, start, end), began, clocks.uncertainty_s)
    after = measure_offsets(world, left_s)
    everyone = world.collect(mine, left_s, "the spans of all ranks")
    found = merged(program.lists, everyone, before, after, seconds) if world.rank == 0 else None
    shared = world.share(found, left_s, "the spans of all ranks")
    assert isinstance(shared, Spans)
    return shared


def _columns(stamps: Stamps, start: Any, end: Any) -> dict[str, Seconds]:
    issue = {"issue_start": stamps.issue_start, "issue_end": stamps.issue_end}
    return {
        name: np.asarray(column, dtype=np.float64) for name, column in (issue | {"start": start, "end": end}).items()
    }


def merged(
    lists: RankLists,
    spans: Sequence[RankSpans],
    before: Sequence[Offset],
    after: Sequence[Offset],
    seconds: float,
) -> Spans:
    """The spans of all actions on rank 0's clock; time 0 is when the first rank began.

    A copy between ranks begins when both halves have, and ends when it has been received. A wait of all ranks ends when
    the first rank goes on, which is no sooner than the last one has come. So does a collective, which begins when the
    last of its ranks has come. The issue of a copy or collective is that of the rank that it begins on; those of other
    ranks are its halves. What would end before it begins, by no more than the clocks' error, ends as it begins.
    """
    clocks = [RankClock(*pair) for pair in zip(before, after, strict=True)]
    zero = min(clock.on_rank_0(mine.began_s) for clock, mine in zip(clocks, spans, strict=True))
    found = {name: np.full(len(lists.plan), np.nan) for name in COLUMNS}
    halves: dict[tuple[int, int], Interval] = {}
    for rank, parts in enumerate(lists.parts):
        on_rank_0 = np.vectorize(clocks[rank].on_rank_0, otypes=[np.float64])
        columns = {name: on_rank_0(column) if len(parts) else column for name, column in spans[rank].columns.items()}
        for row, part in enumerate(parts):
            if not part.signal:
                kind = "barrier" if lists.plan.kinds[part.action] == "wait" else part.kind
                times = {name: float(column[row]) - zero for name, column in columns.items()}
                _put(found, part.action, kind, times)
                issue = times["issue_start"], times["issue_end"]
                if rank == lists.places.ends[part.action][0]:
                    found["issue_start"][part.action], found["issue_end"][part.action] = issue
                elif kind != "barrier":
                    halves[part.action, rank] = issue
    late_s = clocks[0].on_rank_0(spans[0].began_s) - zero
    uncertainty_s = max(c.uncertainty_s + mine.uncertainty_s for c, mine in zip(clocks, spans, strict=True))
    backwards_s = found["start"] - found["end"]
    found["end"] = np.where(backwards_s <= uncertainty_s, np.maximum(found["start"], found["end"]), found["end"])
    return Spans(found, seconds + late_s, uncertainty_s, halves)


def _put(found: dict[str, Seconds], action: int, kind: str, times: dict[str, float]) -> None:
    """Put the times of one part where those of its action stand; parts of an action come by rank."""
    first = bool(np.isnan(found["start"][action]))
    if kind in ("run", "copy") or first:
        for name, time in times.items():
            found[name][action] = time
    elif kind == "barrier":
        found["end"][action] = min(found["end"][action], times["end"])
        found["start"][action] = min(found["start"][action], times["start"])
    else:
        found["start"][action] = max(found["start"][action], times["start"])
    if kind == "collective":
        found["end"][action] = min(found["end"][action], times["end"])
    if kind == "receive":
        found["end"][action] = times["end"]
