"""Predicting and running the cases of a request, one after the other."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphsched.cases import Case
from graphsched.cases.loading import import_paths
from graphsched.cli.environment import environment
from graphsched.cli.interrupts import check_interrupted
from graphsched.cli.naming import draw, stem, title_of
from graphsched.cli.outcome import Outcome
from graphsched.cli.output import say
from graphsched.cli.planning import measured_plan, plan_of
from graphsched.cli.progress import counting
from graphsched.cli.ranks import MODE as RANKS_MODE
from graphsched.cli.ranks import check_ranks, figures_on_ranks, tell_case
from graphsched.cli.request import SEED, Request
from graphsched.costs import Costs
from graphsched.errors import ExecutionError, GraphschedError, OutputError
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.records import RunRecord, Setup, record_baseline, record_case, save_run
from graphsched.timeline import Timeline

REPEATS_TAKE_S = 10.0  # after which five repeats of a case are enough
LEAST_TIMEOUT_S, TIMEOUT = 60.0, 20.0  # a run is stuck after this, and so many times the prediction


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
            with left_alone(), import_paths(self.request.experiment.path):
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
            except (Exception, SystemExit) as error:  # a baseline may be a script that exits
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
        from graphsched.explanation import explain
        from graphsched.simulator import predict

        if case.mode == RANKS_MODE:
            check_ranks()
        here = (self.on_ranks if case.mode == RANKS_MODE else None) or self.request.platform
        plan = measured_plan(case, here, self.costs(case), self.request.time_limit_s)
        measured, now = self._executed(number, plan, here, predict(plan).makespan_s)
        metrics = figures_on_ranks(case, plan) if plan.mode == RANKS_MODE else _metrics(case)
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

    def _executed(self, number: int, plan: Plan, here: Platform, expected_s: float) -> tuple[Timeline, Platform]:
        """What was measured of `plan`, and `here` at the speed that the host had meanwhile."""
        from graphsched.calibration import PaceMeter
        from graphsched.executors import execute

        timeout_s = stuck_after_s(expected_s)
        with contextlib.closing(PaceMeter(here, plan, expected_s)) as meter:
            if plan.mode == RANKS_MODE:
                tell_case(number, plan, self.repeats, timeout_s, REPEATS_TAKE_S)
            measured = execute(
                plan, repeats=self.repeats, timeout_s=timeout_s, at_most_s=REPEATS_TAKE_S, between=meter.take
            )
        return measured, here.at(meter.pace)

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
        from graphsched.schedulers import one_lane

        assert case.work is not None
        mode, crowded = case.mode or "eager", not one_lane(case.scheduler)
        key = case.work.digest(), mode, crowded
        if key not in self._costs:
            with counting("operations to measure") as report:
                found = profile(case.work, self.request.platform, mode=mode, concurrency=crowded, report=report)
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
            files += self._pictures(saved)
        return [str(saved), *files]

    def _pictures(self, saved: Path) -> list[str]:
        """What the experiment draws itself; code of others, whose failure costs nothing else."""
        experiment = self.request.experiment
        assert experiment.pictures is not None
        try:
            with import_paths(experiment.path):
                return [str(path) for path in experiment.pictures(self.request.platform, self.out)]
        except GraphschedError:
            raise
        except (Exception, SystemExit) as error:
            raise ExecutionError(
                f"the pictures of experiment {experiment.name!r} cannot be drawn: {type(error).__name__}: {error}; "
                f"what was measured is in {saved}"
            ) from error


def stuck_after_s(expected_s: float) -> float:
    """Seconds after which a run that is expected to take `expected_s` counts as stuck."""
    return max(LEAST_TIMEOUT_S, TIMEOUT * expected_s)


def predict_cases(request: Request) -> list[Outcome]:
    """Predict all cases; baselines have no prediction."""
    from graphsched.simulator import predict

    outcomes = []
    for number, case in request.cases:
        line = None if case.is_baseline else predict(plan_of(number, case, request))
        outcomes.append(Outcome(number, case, line, plan=None if line is None else line.plan))
    return outcomes


def _metrics(case: Case) -> Mapping[str, float]:
    return dict(case.metrics()) if case.metrics is not None else {}
