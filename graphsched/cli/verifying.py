"""Running the cases of a request under the profiler, and holding both kinds of spans against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsched.cases import Case
from graphsched.cli.interrupts import check_interrupted
from graphsched.cli.naming import stem, title_of
from graphsched.cli.output import say
from graphsched.cli.perform import REPEATS_TAKE_S, Runner, stuck_after_s
from graphsched.cli.planning import measured_plan
from graphsched.cli.request import Request
from graphsched.errors import ExecutionError, FileFormatError
from graphsched.timeline import Timeline

if TYPE_CHECKING:
    from graphsched.comparison.profiler import Agreement
    from graphsched.executors.profiled import ProfiledRun
    from graphsched.formats.profiler_trace import Alignment, ProfilerTrace


@dataclass(frozen=True, eq=False)
class Verified:
    """What came of one case: an agreement and the trace's file, or why there is none."""

    number: int
    case: Case
    predicted: Timeline | None = None
    measured: Timeline | None = None
    agreement: Agreement | None = None
    file: Path | None = None
    failure: str | None = None

    def figures(self) -> dict[str, Any]:
        """For JSON; seconds, null where a figure is absent."""
        figures: dict[str, Any] = {
            "label": self.case.label,
            "scheduler": self.case.scheduler,
            "mode": self.case.mode,
            "predicted_s": None if self.predicted is None else self.predicted.makespan_s,
            "measured_s": None if self.measured is None else self.measured.makespan_s,
            "profiled_s": self.agreement.measured.timed_makespan_s if self.agreement else None,
        }
        if self.agreement is not None:
            figures |= self.agreement.figures() | {"expected_gap_s": expected_gap_s(self.agreement.measured)}
        return figures | ({"failure": self.failure} if self.failure else {})


def expected_gap_s(measured: Timeline) -> float:
    """What the timing events around an action are known to add to its lane: two in eager mode, nodes in a graph."""
    dispatch = measured.plan.platform.dispatch
    return 2 * dispatch.graph_node_s if measured.plan.mode == "graph" else dispatch.timed_gap_s


def verify_cases(request: Request, folder: Path, repeats: int) -> list[Verified]:
    """Measure all cases as ever, then run each once under the profiler; baselines are left out."""
    from graphsched.executors.profiled import run_profiled
    from graphsched.formats.profiler_trace import read_trace

    runner = Runner(request, folder, repeats, pictures=False)
    done = [_measured(runner, number, case) for number, case in request.cases if not case.is_baseline]
    lines = [one.measured for one in done if one.measured is not None]
    if not lines:
        return done
    say("all once more, under the profiler")
    timeout_s = stuck_after_s(max(line.timed_makespan_s for line in lines))
    runs, data = run_profiled(lines, timeout_s=timeout_s)
    trace, left = read_trace(data), iter(runs)
    return [
        one if one.measured is None else _verified(one, next(left), trace, folder, request.experiment.name)
        for one in done
    ]


def _measured(runner: Runner, number: int, case: Case) -> Verified:
    """Schedule, predict and execute a case without the profiler."""
    from graphsched.executors import execute
    from graphsched.simulator import predict

    check_interrupted()
    say(f"[{number}] {case.label}")
    here = runner.request.platform
    try:
        plan = measured_plan(case, here, runner.costs(case), runner.request.time_limit_s)
        predicted = predict(plan)
        timeout_s = stuck_after_s(predicted.makespan_s)
        measured = execute(plan, repeats=runner.repeats, timeout_s=timeout_s, at_most_s=REPEATS_TAKE_S)
    except ExecutionError as error:
        say(f"failed: {case.label}: {error}")
        return Verified(number, case, failure=str(error))
    return Verified(number, case, predicted, measured)


def _verified(
    one: Verified, run: ProfiledRun | ExecutionError, trace: ProfilerTrace, folder: Path, experiment: str
) -> Verified:
    from graphsched.formats.perfetto import write_perfetto
    from graphsched.formats.profiler_rows import profiler_process

    if isinstance(run, ExecutionError):
        return Verified(one.number, one.case, one.predicted, one.measured, failure=str(run))
    try:
        agreement = agreement_of(run, trace)
    except FileFormatError as error:
        return Verified(one.number, one.case, one.predicted, one.measured, failure=str(error))
    path = folder / f"{stem(experiment, one.number, one.case.label, one.case.mode)}.verify.perfetto.json"
    process = profiler_process(run.timeline.plan, agreement.matching, agreement.shifts_s)
    title = f"{title_of(one.case.label, one.case.mode)}, under the profiler"
    write_perfetto(path, one.predicted, run.timeline, title=title, more=[process])
    return Verified(one.number, one.case, one.predicted, one.measured, agreement, path)


def agreement_of(run: ProfiledRun, trace: ProfilerTrace) -> Agreement:
    """The spans of a run held against what the profiler's `trace` tells of it.

    Raises:
        FileFormatError: The trace lacks the ranges of the run or of its clock.
    """
    from graphsched.comparison.profiler import hold_against
    from graphsched.formats.kernel_matching import match_launches, match_replay

    part, clock, tolerance_s = _of_run(run, trace)
    if run.eager is None:
        matching = match_launches(part, run.timeline, tolerance_s)
    else:
        known, _, eager_tolerance_s = _of_run(run.eager, trace)
        eager = match_launches(known, run.eager.timeline, eager_tolerance_s)
        matching = match_replay(part, run.timeline, eager, tolerance_s)
    return hold_against(run.timeline, matching, clock.uncertainty_s)


def _of_run(run: ProfiledRun, trace: ProfilerTrace) -> tuple[ProfilerTrace, Alignment, float]:
    """What of the trace is of this run, on the clock of its spans; the clock, and how far all clocks may be off."""
    from graphsched.comparison.profiler import TOLERANCE_S
    from graphsched.formats.profiler_trace import align

    clock = align([span for span in trace.ranges if span.name == run.clock], run.readings)
    tolerance_s = clock.uncertainty_s + run.timeline.clock_uncertainty_s + TOLERANCE_S
    return trace.during(run.name).shifted(clock.offset_s - run.began_s), clock, tolerance_s


def failed(done: Sequence[Verified]) -> bool:
    """Whether a case could not be run or matched at all."""
    return any(one.failure for one in done)
