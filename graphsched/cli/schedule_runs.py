"""Schedules of a graph file: what each scheduler makes of it, with no cost of dispatch."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphsched.cli.interrupts import check_interrupted
from graphsched.cli.scheduler_words import Choice
from graphsched.costs import Costs
from graphsched.errors import error_text
from graphsched.formats.graph_files import GraphFile
from graphsched.formats.plain_graphs import identical, workload_of
from graphsched.platform import Device, Platform
from graphsched.schedulers.searching.trials import WITHOUT_DISPATCH, tried_by
from graphsched.simulator.model import switched
from graphsched.timeline import Timeline
from graphsched.workload import Workload

ROUNDING = 1.0 + 1e-9  # what a makespan may fall below a bound by adding up in another order


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be scheduled, and where.

    Attributes:
        work, platform, costs: As for `schedule`.
        processors: How many there are: those asked for, or the platform's devices that tasks may use.
        bounds: Lower bounds of the makespan by name.
    """

    work: Workload
    platform: Platform
    costs: Costs
    processors: int
    bounds: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Scheduled:
    """What came of one scheduler: a timeline, or the error that ended it."""

    choice: Choice
    line: Timeline | None = None
    error: Exception | None = None

    @property
    def makespan(self) -> float | None:
        """In the file's unit; None where it failed."""
        return None if self.line is None else self.line.makespan_s

    @property
    def failure(self) -> str:
        """What went wrong, for people."""
        text = "" if self.error is None else error_text(self.error)
        return text if repr(self.choice.name) in text else f"scheduler {self.choice.name!r}: {text}"


def on_processors(file: GraphFile, count: int) -> Job:
    """The graph of a file on so many processors that are alike, data passed for nothing.

    More processors than tasks make no difference: so many are used.
    """
    work = workload_of(identical(file.graph), file.path.name.partition(".")[0] or "graph")
    used = min(count, len(work))
    names = (f"worker:{k}" for k in range(used))
    devices = tuple(Device(name, "worker", lanes=1) for name in names)
    platform = _without_dispatch(Platform(f"{count} processors", devices, cores=used))
    return Job(work, platform, Costs(), count, _bounds(work, platform, Costs()))


def on_platform(file: GraphFile, platform: Platform, costs: Costs) -> Job:
    """The graph of a file on the devices and links of a platform."""
    from graphsched.schedulers.placing.candidates import find_candidates

    used = find_candidates(file.work, platform).used()
    return Job(file.work, _without_dispatch(platform), costs, len(used), _bounds(file.work, platform, costs))


def _without_dispatch(platform: Platform) -> Platform:
    """`platform` as schedulers that simulate are to see it: dispatch takes no time."""
    return replace(platform, dispatch=switched(platform.dispatch, WITHOUT_DISPATCH))


def _bounds(work: Workload, platform: Platform, costs: Costs) -> dict[str, float]:
    """By name; the largest is `schedulers.lower_bound`."""
    from graphsched.schedulers.bounds import bounds_by_name

    return bounds_by_name(work, platform, costs)


def run_all(job: Job, choices: Sequence[Choice], limit_s: float) -> Iterator[Scheduled]:
    """What comes of each scheduler within `limit_s` seconds; one that fails keeps no other from being tried.

    Their names and options have been checked: `schedule` takes arguments of its own, which are no options.
    """
    for choice in choices:
        check_interrupted()
        try:
            yield Scheduled(choice, line=_timeline(job, choice, limit_s))
        except Exception as error:
            if os.environ.get("GRAPHSCHED_DEBUG"):
                traceback.print_exc()
            yield Scheduled(choice, error=error)


def _timeline(job: Job, choice: Choice, limit_s: float) -> Timeline:
    from graphsched.schedulers import schedule
    from graphsched.simulator import predict

    asked = {"scheduler": choice.name, "time_limit_s": limit_s, **choice.options}
    with tried_by(WITHOUT_DISPATCH):  # as `predict` below, or what is best by simulation were not the shortest here
        plan = schedule(job.work, job.platform, job.costs, **asked)
    return predict(plan, model=WITHOUT_DISPATCH)


def disproved(found: Sequence[Scheduled]) -> list[Scheduled]:
    """Those whose schedulers claim that every plan takes longer than one that was found."""
    best = best_of(found)
    if best is None or best.makespan is None:
        return []
    most = best.makespan * ROUNDING
    return [one for one in found if one.line is not None and (one.line.plan.bound_s or 0.0) > most]


def without_bound(one: Scheduled) -> Scheduled:
    """What came of a scheduler whose claim is disproved."""
    return one if one.line is None else replace(one, line=replace(one.line, plan=replace(one.line.plan, bound_s=None)))


def bounds_of(job: Job, found: Sequence[Scheduled]) -> dict[str, float]:
    """Lower bounds by name: of the job, and those proven by one of the schedulers; the largest counts."""
    plans = {str(one.choice): one.line.plan for one in found if one.line is not None}
    proven = {f"proven by {name}": plan.bound_s for name, plan in plans.items() if plan.bound_s is not None}
    return {**job.bounds, **proven}


def best_of(found: Sequence[Scheduled]) -> Scheduled | None:
    """The shortest schedule, the first of several; None where all failed."""
    done = [one for one in found if one.makespan is not None]
    return min(done, key=lambda one: one.makespan or 0.0) if done else None
