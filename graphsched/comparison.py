"""Two timelines of one plan, side by side: how far prediction and measurement are apart, and where."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphsched.errors import PlanError
from graphsched.formats.quantities import percent_text, seconds_text
from graphsched.plan import Plan
from graphsched.timeline import Timeline

Shares = NDArray[np.float64]
Bound = Literal["gpu", "host"]

GPU_SHARE = 0.5  # a case is bound by what takes most of its critical path
NAMED = 3  # estimates that the notes list by name


class Row(NamedTuple):
    """Errors of one action: predicted - measured, as shares of the measured timed makespan."""

    action: str
    lane: str
    start_error: float
    end_error: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of a prediction; made by `compare`.

    Attributes:
        predicted, measured: Timelines of one plan.
        makespan_error: predicted / measured - 1 of the makespans without timing events.
        actions: Numbers of the actions compared: all but waits, in plan order.
        start_errors, end_errors: For each of them predicted - measured, as a share of the measured
            timed makespan.
        lower_bound_s: Time that no schedule of this workload can beat, if one was given.
    """

    predicted: Timeline
    measured: Timeline
    makespan_error: float
    actions: NDArray[np.int64]
    start_errors: Shares
    end_errors: Shares
    lower_bound_s: float | None = None

    @property
    def spread(self) -> float | None:
        """Half the distance between the quartiles of the measured makespans, as a share of their median."""
        return self.measured.spread

    @property
    def task_start_error(self) -> dict[str, float]:
        """Median, 95th percentile and maximum of the absolute errors of starts."""
        return _summary(self.start_errors)

    @property
    def task_end_error(self) -> dict[str, float]:
        """Median, 95th percentile and maximum of the absolute errors of ends."""
        return _summary(self.end_errors)

    def worst(self, n: int = 5) -> list[Row]:
        """The `n` actions whose start or end is furthest off, worst first; ties in plan order."""
        size = np.maximum(np.abs(self.start_errors), np.abs(self.end_errors))
        order = np.argsort(-size, kind="stable")[:n]
        plan = self.measured.plan
        return [
            Row(plan.names[i], plan.lanes[plan.lane_of[i]].name, float(self.start_errors[k]), float(self.end_errors[k]))
            for k, i in zip(order, self.actions[order], strict=True)
        ]

    @cached_property
    def gpu_share(self) -> float:
        """Share of the predicted timed makespan that its critical path spends on lanes of GPUs.

        Of a span there, the time counts in which the thread is no longer busy issuing that action, less
        what its timing events take. Pageable copies, which the thread waits for, do not count.
        """
        line = self.predicted
        path = [i for i in line.critical_path() if _on_gpu(line.plan, i)]
        begins = np.maximum(line.start_s[path], line.issue_end_s[path])
        events_s = line.plan.platform.dispatch.timed_gap_s
        gpu_s = float(np.maximum(line.end_s[path] - begins - events_s, 0.0).sum())
        return gpu_s / line.timed_makespan_s if line.timed_makespan_s else 0.0

    @property
    def bound(self) -> Bound:
        """What takes most of the predicted critical path.

        ``gpu``: kernels and copies on lanes of GPUs; ``host``: dispatch, waits of the thread, CPU
        lanes (workers are CPU threads), pageable copies.
        """
        return "gpu" if self.gpu_share >= GPU_SHARE else "host"

    @cached_property
    def shares_device(self) -> bool:
        """Whether tasks on two compute lanes of one accelerator are predicted to run side by side."""
        line = self.predicted
        return any(_overlap(line, lanes) for lanes in _compute_lanes(line.plan))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know: estimates, uncertainty of clocks, notes of both timelines."""
        estimated = tuple(dict.fromkeys(self.predicted.estimated + self.measured.estimated))
        notes = [_estimates_note(estimated)] if estimated else []
        if uncertainty_s := self.measured.clock_uncertainty_s:
            notes.append(f"clocks of the devices agree within {seconds_text(uncertainty_s)}")
        return (*notes, *dict.fromkeys(self.predicted.notes + self.measured.notes))

    def __str__(self) -> str:
        return "\n".join([*_makespan_lines(self), *_error_lines(self), *_worst_lines(self), *_note_lines(self)])


def compare(predicted: Timeline, measured: Timeline, *, lower_bound_s: float | None = None) -> Comparison:
    """Errors of `predicted` against `measured`, two timelines of one plan.

    Args:
        predicted, measured: Timelines whose plans have the same actions on the same lanes.
        lower_bound_s: Time that no schedule can beat, to be shown beside the makespans.

    Raises:
        PlanError: The plans differ, or the two timelines are swapped.
    """
    if predicted.source == "measured" and measured.source == "predicted":
        raise PlanError("the timelines are swapped: compare(predicted, measured) takes the prediction first")
    check_same_plan(predicted, measured)
    actions = np.array([i for i, kind in enumerate(measured.plan.kinds) if kind != "wait"], dtype=np.int64)
    whole = measured.timed_makespan_s or 1.0
    return Comparison(
        predicted=predicted,
        measured=measured,
        makespan_error=_relative(predicted.makespan_s, measured.makespan_s),
        actions=actions,
        start_errors=(predicted.start_s[actions] - measured.start_s[actions]) / whole,
        end_errors=(predicted.end_s[actions] - measured.end_s[actions]) / whole,
        lower_bound_s=lower_bound_s,
    )


def check_same_plan(first: Timeline, second: Timeline) -> None:
    """Make sure that two timelines are of the same actions, in the same order, on the same lanes.

    Raises:
        PlanError: They are not; names the first difference.
    """
    if first.plan is second.plan:
        return
    if first.source == second.source:
        heads = (f"first {first.source}", f"second {second.source}")
    else:
        heads = (first.source, second.source)
    for i, (one, other) in enumerate(zip(_actions(first.plan), _actions(second.plan), strict=False)):
        if one != other:
            raise PlanError(
                f"the timelines are of two plans; action {i} is {' '.join(one)} ({heads[0]}) and "
                f"{' '.join(other)} ({heads[1]}): predict and execute one plan"
            )
    if len(first.plan) != len(second.plan):
        raise PlanError(
            f"the timelines are of two plans, of {len(first.plan)} actions ({heads[0]}) and "
            f"{len(second.plan)} ({heads[1]}): predict and execute one plan"
        )


def _actions(plan: Plan) -> Iterator[tuple[str, str, str, str]]:
    for kind, name, lane in zip(plan.kinds, plan.names, plan.lane_of, strict=True):
        yield kind, repr(name), "on", plan.lanes[lane].name


def _relative(predicted_s: float, measured_s: float) -> float:
    if predicted_s == measured_s:
        return 0.0
    return predicted_s / measured_s - 1 if measured_s else math.inf


def _summary(errors: Shares) -> dict[str, float]:
    if not len(errors):
        return {"median": 0.0, "p95": 0.0, "max": 0.0}
    median, p95, worst = np.percentile(np.abs(errors), (50, 95, 100))
    return {"median": float(median), "p95": float(p95), "max": float(worst)}


# -- what the time goes to ------------------------------------------------------------------------


def _on_gpu(plan: Plan, i: int) -> bool:
    lane = plan.lanes[plan.lane_of[i]]
    if lane.kind == "host" or plan.platform.device(lane.device).kind != "cuda":
        return False
    copy = plan.copies.get(i)
    return copy is None or not plan.platform.link(copy.source, copy.target, copy.memory).blocking


def _compute_lanes(plan: Plan) -> Iterator[set[int]]:
    """Numbers of the compute lanes of each accelerator."""
    for device in plan.platform.accelerators():
        names = plan.lanes_of_device(device)
        if len(names) > 1:
            yield {k for k, lane in enumerate(plan.lanes) if lane in names}


def _overlap(line: Timeline, lanes: set[int]) -> bool:
    """Whether spans of tasks on `lanes`, in order of their starts, reach into each other."""
    plan = line.plan
    tasks = [i for i, lane in enumerate(plan.lane_of) if lane in lanes and plan.kinds[i] in ("run", "collective")]
    tasks.sort(key=lambda i: (line.start_s[i], line.end_s[i]))
    end_s = -math.inf
    for i in tasks:
        if line.start_s[i] < end_s - 1e-9 and line.end_s[i] > line.start_s[i]:
            return True
        end_s = max(end_s, float(line.end_s[i]))
    return False


# -- the table ------------------------------------------------------------------------------------


def _makespan_lines(c: Comparison) -> list[str]:
    spread = "" if c.spread is None else f"±{c.spread:.2%}".replace("%", " %")
    error = percent_text(c.makespan_error)
    head = f"{'':<12}{'predicted':>12}{'measured':>12}{'error':>11}{'spread':>11}"
    figures = f"{seconds_text(c.predicted.makespan_s):>12}{seconds_text(c.measured.makespan_s):>12}"
    lines = [head.rstrip(), f"{'makespan':<12}{figures}{error:>11}{spread:>11}".rstrip()]
    if c.lower_bound_s is not None:
        lines.append(f"{'lower bound':<12}{seconds_text(c.lower_bound_s):>12}")
    return lines


def _error_lines(c: Comparison) -> list[str]:
    whole = seconds_text(c.measured.timed_makespan_s)
    lines = ["", f"{'error of':<12}{'median':>12}{'p95':>12}{'max':>11}   shares of {whole}, the timed makespan"]
    for name, summary in (("starts", c.task_start_error), ("ends", c.task_end_error)):
        median, p95, worst = (f"{share * 100:.2f} %" for share in summary.values())
        lines.append(f"{name:<12}{median:>12}{p95:>12}{worst:>11}")
    return lines


def _worst_lines(c: Comparison) -> list[str]:
    rows = c.worst()
    if not rows:
        return []
    names = max(len("worst action"), *(len(row.action) for row in rows))
    lanes = max(len("lane"), *(len(row.lane) for row in rows))
    lines = ["", f"{'worst action':<{names}}  {'lane':<{lanes}}{'start':>11}{'end':>11}"]
    for row in rows:
        errors = f"{percent_text(row.start_error):>11}{percent_text(row.end_error):>11}"
        lines.append(f"{row.action:<{names}}  {row.lane:<{lanes}}{errors}")
    return lines


def _note_lines(c: Comparison) -> list[str]:
    return ["", *(f"note: {note}" for note in c.notes)] if c.notes else []


def _estimates_note(names: tuple[str, ...]) -> str:
    listed = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = "the cost of 1 task is an estimate" if len(names) == 1 else f"the costs of {len(names)} tasks are estimates"
    return f"{what}: {listed}{more}"
