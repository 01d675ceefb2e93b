"""What a recorded run holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphsched.errors import FileFormatError
from graphsched.plan import Plan
from graphsched.plan.model import HEAD_LINES
from graphsched.platform import Pace, Platform
from graphsched.timeline import COLUMNS, HALVES, Timeline, halves_in
from graphsched.workload import Workload

if TYPE_CHECKING:
    from graphsched.simulator import Model

T = TypeVar("T")
Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Setup:
    """What several cases were run with.

    Attributes:
        environment: Versions of software and driver.
        platform: What the cases were predicted on and ran on, with the costs that they use.
        seed: Of all random numbers.
        parameters: The experiment's.
    """

    environment: Mapping[str, Any]
    platform: Platform
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("environment", "parameters"):  # as a file gives them back: tuples become lists
            object.__setattr__(self, name, json.loads(json.dumps(getattr(self, name), default=str)))

    def same(self, other: Setup) -> bool:
        """Whether both may be stored as one: equal, and no cost that both hold differs."""
        mine, theirs = self.platform, other.platform
        return (
            (self.environment, self.seed, self.parameters) == (other.environment, other.seed, other.parameters)
            and (mine.name, mine.digest()) == (theirs.name, theirs.digest())
            and all(mine.costs[key] == theirs.costs[key] for key in mine.costs if key in theirs.costs)
        )


@dataclass(frozen=True, eq=False)
class CaseRecord:
    """One case as it was run; a baseline has samples only.

    Attributes:
        setup: What it was run with.
        label, scheduler, mode, options: The case's; a baseline has no scheduler.
        predicted_s: Predicted time of one run.
        samples_s: Measured times of one run; `measured_s` is their median.
        reported_s: The figure that the source printed.
        estimated: Tasks whose costs were estimates.
        metrics: Further measured figures, the unit in each name.
        workload: The workload without code (`Workload.to_dict`).
        plan_text: The plan (`Plan.text`).
        timed_makespan_s, clock_uncertainty_s, notes: Of the measured timeline.
        pace: How fast the dispatching thread and CPU lanes were meanwhile, as far as it was taken.
        stamped: Whether stamps timed the tasks of its graphs (`plan.stamped`); None: not told, as they would now.
        spans: Its columns.
    """

    setup: Setup
    label: str
    scheduler: str | None
    mode: str
    options: Mapping[str, Any] = field(default_factory=dict)
    predicted_s: float | None = None
    samples_s: tuple[float, ...] = ()
    measured_s: float | None = None
    spread: float | None = None
    reported_s: float | None = None
    estimated: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    workload: Mapping[str, Any] | None = None
    plan_text: str | None = None
    timed_makespan_s: float | None = None
    clock_uncertainty_s: float = 0.0
    pace: Pace = field(default_factory=Pace)
    stamped: bool | None = None
    notes: tuple[str, ...] = ()
    spans: Columns | None = None

    @property
    def key(self) -> tuple[str, str | None, str]:
        """What a later run of the same case replaces it by."""
        return (self.label, self.scheduler, self.mode)

    @property
    def error(self) -> float | None:
        """Signed fraction: predicted / measured - 1; None for a baseline."""
        return error_of(self.predicted_s, self.measured_s)

    def figures(self) -> dict[str, Any]:
        """The figures of the case, by the keys that `graphsched run --json` prints."""
        return {
            "label": self.label,
            "scheduler": self.scheduler,
            "mode": self.mode,
            "predicted_s": self.predicted_s,
            "measured_s": self.measured_s,
            "spread": self.spread,
            "reported_s": self.reported_s,
            "error": self.error,
            "options": dict(self.options),
            "metrics": dict(self.metrics),
            "estimated": list(self.estimated),
        }

    @cached_property
    def work(self) -> Workload:
        """The workload, without code.

        Raises:
            FileFormatError: The case is a baseline, or its workload cannot be read.
        """
        if self.workload is None:
            raise FileFormatError(f"case {self.label!r} is a baseline: it has no workload and no plan")
        return Workload.from_dict(self.workload)

    @cached_property
    def plan(self) -> Plan:
        """The plan that ran.

        Raises:
            FileFormatError: The case is a baseline.
            PlanError: The text does not fit the workload or platform.
        """
        work, platform = self.work, self.setup.platform.at(self.pace)
        if self.stamped is False and platform.dispatch.graph_stamp_s:
            platform = replace(platform, dispatch=replace(platform.dispatch, graph_stamp_s=0.0))
        return Plan.from_text(_with_digests(self.plan_text or "", work, platform), work, platform, platform.costs)

    @cached_property
    def measured(self) -> Timeline:
        """The measured timeline.

        Raises:
            FileFormatError: The case is a baseline, or its spans do not fit its plan.
        """
        plan = self.plan
        spans = self.spans or {}
        if any(len(spans.get(name, ())) != len(plan) for name in COLUMNS):
            raise FileFormatError(f"case {self.label!r} has {len(plan)} actions, its spans are of another number")
        return Timeline(
            plan=plan,
            source="measured",
            makespan_s=self.measured_s or 0.0,
            timed_makespan_s=self.timed_makespan_s or 0.0,
            samples_s=self.samples_s,
            clock_uncertainty_s=self.clock_uncertainty_s,
            estimated=self.estimated,
            notes=self.notes,
            issue_start_s=spans["issue_start_s"],
            issue_end_s=spans["issue_end_s"],
            start_s=spans["start_s"],
            end_s=spans["end_s"],
            halves_s=halves_in(spans, len(plan)),
        )

    def repredict(self, model: Model | None = None) -> Timeline:
        """Simulate the recorded plan again, with other model switches if given.

        Raises:
            FileFormatError: A figure of its costs or platform is beyond what can be reckoned with.
        """
        from graphsched.simulator import Model, predict

        line = self._reckoned(partial(predict, self.plan, mode=self.mode, model=model or Model()))
        if not callable(line.find_interval):
            return line
        return replace(line, find_interval=partial(self._reckoned, line.find_interval))

    def _reckoned(self, find: Callable[[], T]) -> T:
        try:
            return find()
        except OverflowError as error:
            raise FileFormatError(
                f"case {self.label!r} cannot be simulated again, for a figure of its costs or platform is out of all "
                f"proportion ({error}): run the experiment again"
            ) from error


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A recorded run of an experiment.

    Attributes:
        experiment: Its name.
        source: Where its system and figures come from.
        cases: In the order of the experiment.
    """

    experiment: str
    source: str
    cases: tuple[CaseRecord, ...]

    @property
    def platform(self) -> str:
        """Name of the platform of the first case."""
        return self.cases[0].setup.platform.name if self.cases else ""

    def figures(self) -> dict[str, Any]:
        """The object that `graphsched run --json` prints."""
        return {
            "experiment": self.experiment,
            "platform": self.platform,
            "cases": [case.figures() for case in self.cases],
        }


def _with_digests(text: str, work: Workload, platform: Platform) -> str:
    """A recorded plan's text with the digests that its workload and platform have now.

    They stand in the same file, so the plan is theirs; a field that the model has gained since changes
    the digests of both, and has its default.
    """
    lines = text.split("\n")
    if len(lines) > HEAD_LINES:
        heads = f"workload {work.digest()} {work.name}", f"platform {platform.digest()} {platform.name}"
        lines[1], lines[2] = (" ".join(head.split()) for head in heads)  # as `plan.text` writes them
    return "\n".join(lines)


def columns_in(spans: Container[str]) -> tuple[str, ...]:
    """Names of the columns that spans have: those of every timeline, and that of halves where they have it.

    Example:
        >>> columns_in({"halves": []})
        ('issue_start_s', 'issue_end_s', 'start_s', 'end_s', 'halves')
    """
    return (*COLUMNS, *(name for name in (HALVES,) if name in spans))


def error_of(predicted_s: float | None, measured_s: float | None) -> float | None:
    """Signed fraction by which a prediction is off; None without both.

    Example:
        >>> error_of(1.5, 2.0)
        -0.25
    """
    if predicted_s is None or not measured_s:
        return None
    return predicted_s / measured_s - 1
