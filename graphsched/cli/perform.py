"""Predicting and running the cases of a request, one after the other."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphsched.cases import Case
from graphsched.cli.environment import environment
from graphsched.cli.interrupts import check_interrupted
from graphsched.cli.naming import draw, stem, title_of
from graphsched.cli.output import say
from graphsched.cli.ranks import MODE as RANKS_MODE
from graphsched.cli.ranks import check_ranks, figures_on_ranks, tell_case
from graphsched.cli.request import SEED, Request
from graphsched.costs import Costs
from graphsched.errors import (
    CaptureError,
    ExecutionError,
    GraphschedError,
    OutputError,
    PlanError,
    ScheduleError,
    WorkloadError,
)
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.quantities import seconds_text
from graphsched.records import CaseRecord, RunRecord, Setup, record_baseline, record_case, save_run
from graphsched.timeline import Timeline

LONG_PLAN = 50_000  # actions
ONE_LANE = ("sequential", "one_stream")  # schedulers that let no two operations run side by side on a GPU
REPEATS_TAKE_S = 10.0  # after which five repeats of a case are enough
LEAST_TIMEOUT_S, TIMEOUT = 60.0, 20.0  # a run is stuck after this, and so many times the prediction


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of one case.

    Attributes:
        number, case: Which.
        predicted: The predicted timeline, where that is all; None for a baseline.
        record: Of a real run that succeeded.
        failure: What went wrong, in a line or a few; beside a record: that its pictures could not be written.
        files: Pictures and traces written.
        explanation: The three most useful lines about the measured timeline.
        plan: What was predicted.
    """

    number: int
    case: Case
    predicted: Timeline | None = None
    record: CaseRecord | None = None
    failure: str | None = None
    files: tuple[Path, ...] = ()
    explanation: tuple[str, ...] = ()
    plan: Plan | None = None

    @property
    def peak_bytes(self) -> int | None:
        """Predicted peak memory of the GPU that needs the most; None without GPUs, or where finding it takes long."""
        if self.plan is None or len(self.plan) > LONG_PLAN:
            return None
        gpus = [peak.nbytes for device, peak in self.plan.peak_memory.items() if device.startswith("cuda")]
        return max(gpus, default=None)

    @property
    def lower_bound_s(self) -> float | None:
        """No plan takes less; None for a baseline, or where finding it takes long."""
        if self.plan is None or len(self.plan) > LONG_PLAN:
            return None
        from graphsched.schedulers.bounds import bound_of

        return bound_of(self.plan)

    def figures(self) -> dict[str, Any]:
        """For JSON: the keys of a recorded case, null where a figure is absent."""
        case, line = self.case, self.predicted
        if self.record is not None:
            return self.record.figures()
        figures = {
            "label": case.label,
            "scheduler": None if case.is_baseline else case.scheduler,
            "mode": case.mode,
            "predicted_s": line.makespan_s if line else None,
            "measured_s": None,
            "spread": None,
            "reported_s": case.reported_s,
            "error": None,
            "options": dict(case.options),
            "metrics": {},
            "estimated": list(line.estimated) if line else [],
        }
        return figures | ({"failure": self.failure} if self.failure else {})


@dataclass
class Runner:
    """Runs cases for real, each distinct workload measured once.

    Attributes:
        request, out, repeats, pictures: What to run, and what to write where.
        on_ranks: The platform for cases in mode ``distributed``, with what messages take there.
    """

    request: Request
    out: Path
    repeats: int = 20
    pictures: bool = True
    on_ranks: Platform | None = None
    _costs: dict[tuple[str, str, bool], Costs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.setup = Setup(environment(), self.request.platform, SEED, self.request.values)

    def run(self) -> tuple[list[Outcome], list[str]]:
        """Run all cases and write what came of them; returns outcomes and names of files.

        When it is interrupted, the cases that are done are written nevertheless.
        """
        from graphsched.executors.collector import left_alone

        outcomes: list[Outcome] = []
        try:
            with left_alone():
                for outcome in self._outcomes():
                    outcomes.append(outcome)
        finally:
            files = self.save(outcomes)
        return outcomes, files

    def _outcomes(self) -> Iterator[Outcome]:
        """Run one case after the other; one that fails says so, and the others go on."""
        for number, case in self.request.cases:
            check_interrupted()
            say(f"[{number}] {title_of(case.label, case.mode)}")
            try:
                yield self.baseline(number, case) if case.is_baseline else self.case(number, case)
            except ExecutionError as error:
                yield self._failed(number, case, str(error))
            except Exception as error:
                yield self._failed(number, case, f"{type(error).__name__}: {error}")

    def _failed(self, number: int, case: Case, message: str) -> Outcome:
        if os.environ.get("GRAPHSCHED_DEBUG"):
            traceback.print_exc()
        say(f"failed: {case.label}: {message}")
        return Outcome(number, case, failure=message)

    def baseline(self, number: int, case: Case) -> Outcome:
        """Time the code of others."""
        from graphsched.executors import time_callable

        assert case.baseline is not None
        samples = time_callable(case.baseline, repeats=self.repeats)
        record = record_baseline(self.setup, case.label, samples, reported_s=case.reported_s, metrics=_metrics(case))
        return Outcome(number, case, record=record)

    def case(self, number: int, case: Case) -> Outcome:
        """Measure the costs of a case, schedule, predict and execute it, and draw both timelines.

        The speed of the dispatching thread and of CPU lanes is taken between the runs; the prediction rests on it.
        """
        from graphsched.calibration import PaceMeter, at_pace
        from graphsched.executors import execute
        from graphsched.explanation import explain
        from graphsched.simulator import predict

        if case.mode == RANKS_MODE:
            check_ranks()
        here = (self.on_ranks if case.mode == RANKS_MODE else None) or self.request.platform
        plan = measured_plan(case, here, self.costs(case))
        expected_s = predict(plan).makespan_s
        timeout_s = max(LEAST_TIMEOUT_S, TIMEOUT * expected_s)
        with contextlib.closing(PaceMeter(here, plan, expected_s)) as meter:
            if plan.mode == RANKS_MODE:
                tell_case(number, plan, self.repeats, timeout_s, REPEATS_TAKE_S)
            measured = execute(
                plan, repeats=self.repeats, timeout_s=timeout_s, at_most_s=REPEATS_TAKE_S, between=meter.take
            )
        metrics = figures_on_ranks(case, plan) if plan.mode == RANKS_MODE else _metrics(case)
        now = at_pace(here, meter.call_s, meter.colds, meter.product_s)
        predicted = predict(replace(plan, platform=now))
        record = record_case(
            replace(self.setup, platform=here),
            case.label,
            predicted,
            measured,
            scheduler=case.scheduler,
            options=case.options,
            reported_s=case.reported_s,
            metrics=metrics,
        )
        headlines = explain(measured).headlines
        outcome = Outcome(number, case, record=record, explanation=headlines, plan=predicted.plan)
        return self._drawn(outcome, predicted, measured) if self.pictures else outcome

    def _drawn(self, outcome: Outcome, predicted: Timeline, measured: Timeline) -> Outcome:
        """`outcome` with its pictures; what was measured stays where they cannot be written."""
        number, case = outcome.number, outcome.case
        name, title = stem(self.request.experiment.name, number, case.label, case.mode), title_of(case.label, case.mode)
        try:
            return replace(outcome, files=draw(self.out, name, title, predicted, measured))
        except OutputError as error:
            say(f"not drawn: {case.label}: {error}")
            return replace(outcome, failure=str(error))

    def costs(self, case: Case) -> Costs:
        """Costs of the case's workload in its mode, measured where they are not kept."""
        from graphsched.calibration import profile

        assert case.work is not None
        mode, crowded = case.mode or "eager", case.scheduler not in ONE_LANE
        key = case.work.digest(), mode, crowded
        if key not in self._costs:
            found = profile(case.work, self.request.platform, mode=mode, concurrency=crowded)
            self._costs[key] = self.request.costs.merged(found)
        return self._costs[key]

    def save(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Write the recorded run of those cases that succeeded; names of all files, this one first."""
        files = [str(path) for outcome in outcomes for path in outcome.files]
        records = tuple(outcome.record for outcome in outcomes if outcome.record)
        if not records:
            return files
        experiment = self.request.experiment
        saved = save_run(RunRecord(experiment.name, experiment.source, records), self.out)
        if self.pictures and experiment.pictures is not None:
            files += map(str, experiment.pictures(self.request.platform, self.out))
        return [str(saved), *files]


def make_plan(case: Case, platform: Platform, costs: Costs) -> Plan:
    """The plan of a case that is no baseline."""
    from graphsched.cli.search_bar import searches_shown
    from graphsched.schedulers import schedule

    assert case.work is not None
    asked = {"scheduler": case.scheduler, "mode": case.mode or "eager", **case.options}
    try:
        with searches_shown(seconds_text):
            return schedule(case.work, platform, costs, **asked)
    except ScheduleError as error:
        raise type(error)(f"case {case.label!r}: {error}") from error


def plan_of(number: int, case: Case, request: Request) -> Plan:
    """The plan of a case of `request` with the costs that are known, made once."""
    key = number, case.mode
    if key not in request.plans:
        request.plans[key] = make_plan(case, request.platform, request.costs)
    return request.plans[key]


def measured_plan(case: Case, here: Platform, costs: Costs) -> Plan:
    """The plan of a case at the present speed of the dispatching thread, with measured pairs: see `with_pairs`.

    A scheduler that simulates is asked a second time, with the pairs of its first plan, where these were not known.
    """
    from graphsched.calibration import at_pace, present_call_s
    from graphsched.schedulers.registry import find_scheduler, takes_mode

    now = at_pace(here, present_call_s(here))
    plan = make_plan(case, now, costs)
    if case.scheduler in ONE_LANE:
        return plan
    paired = with_pairs(plan, here)
    if paired.costs == plan.costs or not takes_mode(find_scheduler(case.scheduler)):
        return paired
    return with_pairs(make_plan(case, now, paired.costs), here)


def with_pairs(plan: Plan, platform: Platform) -> Plan:
    """`plan` with what the operations that it lets run side by side cost each other, measured where it is not kept."""
    from graphsched.calibration import profile

    return replace(plan, costs=plan.costs.merged(profile(plan, platform)))


def without_refused(request: Request, ranks: int | None = None) -> tuple[Request, list[str]]:
    """`request` less the cases that cannot be, with a note on each.

    Those are cases that no CUDA graph can hold, that so many ranks are too few for, or that are optional and refused by
    their scheduler.

    Args:
        ranks: How many there are, for cases in mode ``distributed``; None: as many as needed.

    Raises:
        ScheduleError: None is left.
    """
    kept, notes = [], []
    for number, case in request.cases:
        refusal = None if case.is_baseline else _refusal(number, case, request, ranks)
        if refusal is None:
            kept.append((number, case))
        else:
            notes.append((case.mode, f"left out: {refusal}"))
    told = [note for _, note in notes]
    if all(case.is_baseline for _, case in kept) and notes:
        modes = " or ".join(dict.fromkeys(str(mode) for mode, _ in notes))
        error = ScheduleError if ranks is not None else CaptureError
        raise error("\n".join([f"no case can be run in {modes} mode", *told]))
    return replace(request, cases=kept), told


def _refusal(number: int, case: Case, request: Request, ranks: int | None) -> str | None:
    """Why a case cannot run in its mode; None if it can."""
    from graphsched.plan.ranks import compile_ranks

    try:
        plan = plan_of(number, case, request) if case.optional or case.mode in ("graph", RANKS_MODE) else None
    except CaptureError as error:
        return str(error)
    except GraphschedError as error:
        if not case.optional:
            raise
        return str(error) if repr(case.label) in str(error) else f"case {case.label!r}: {error}"
    try:
        if plan is not None and case.mode == RANKS_MODE:
            compile_ranks(plan, ranks)
    except (PlanError, ScheduleError) as error:
        return f"case {case.label!r}: {error}"
    return None


def check_cases(request: Request, modes: Sequence[str] = ("eager", "graph")) -> None:
    """Make sure, without measuring anything, that every case can be run here, in one of `modes`.

    Raises:
        GraphschedError: A scheduler, option, device or link does not exist, or a workload has no code.
    """
    for number, case in request.cases:
        if case.work is None:
            continue
        if case.mode not in modes:
            raise ScheduleError(f"mode {case.mode!r} cannot be run yet: one of {', '.join(modes)}")
        if not case.work.runnable:
            raise WorkloadError(
                f"case {case.label!r} has tasks without code (a graph of durations): use predict instead of run"
            )
        plan_of(number, case, request)


def predict_cases(request: Request) -> list[Outcome]:
    """Predict all cases; baselines have no prediction."""
    from graphsched.simulator import predict

    outcomes = []
    for number, case in request.cases:
        line = None if case.is_baseline else predict(plan_of(number, case, request))
        outcomes.append(Outcome(number, case, line, plan=line.plan if line else None))
    return outcomes


def _metrics(case: Case) -> Mapping[str, float]:
    return dict(case.metrics()) if case.metrics is not None else {}
