"""Comparing two timelines of one plan: `compare` and what it returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphsched.comparison.attribution import Attribution, attribute
from graphsched.comparison.bound import GPU_SHARE, Bound, gpu_share, shares_device
from graphsched.comparison.errors import Shares, noisy, relative_error, summary
from graphsched.comparison.span_ends import span_ends_s
from graphsched.comparison.text import comparison_text, estimates_note
from graphsched.errors import PlanError
from graphsched.plan import Plan
from graphsched.quantities import seconds_text
from graphsched.timeline import Timeline, check_timeline


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
    def noisy(self) -> bool:
        """Whether the measured spread is above `NOISY_SPREAD`: the error says little then."""
        return noisy(self.spread)

    @property
    def inside(self) -> bool | None:
        """Whether the measured makespan lies in the prediction's 90 % interval; None if it has none."""
        if self.predicted.interval_s is None:
            return None
        low_s, high_s = self.predicted.interval_s
        return low_s <= self.measured.makespan_s <= high_s

    @property
    def task_start_error(self) -> dict[str, float]:
        """Median, 95th percentile and maximum of the absolute errors of starts."""
        return summary(self.start_errors)

    @property
    def task_end_error(self) -> dict[str, float]:
        """Median, 95th percentile and maximum of the absolute errors of ends."""
        return summary(self.end_errors)

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
        """Share of the predicted timed makespan that its critical path spends on lanes of GPUs."""
        return gpu_share(self.predicted)

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
        return shares_device(self.predicted)

    @cached_property
    def attribution(self) -> Attribution | None:
        """What the error comes from, class by class; see `attribute` for how, and for when there is none."""
        return attribute(self.predicted, self.measured)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know: estimates, uncertainty of clocks, notes of both timelines."""
        estimated = tuple(dict.fromkeys(self.predicted.estimated + self.measured.estimated))
        notes = [estimates_note(estimated)] if estimated else []
        if uncertainty_s := self.measured.clock_uncertainty_s:
            notes.append(f"clocks of the devices agree within {seconds_text(uncertainty_s)}")
        return (*notes, *dict.fromkeys(self.predicted.notes + self.measured.notes))

    def __str__(self) -> str:
        return comparison_text(self)


def compare(predicted: Timeline, measured: Timeline, *, lower_bound_s: float | None = None) -> Comparison:
    """Errors of `predicted` against `measured`, two timelines of one plan.

    Args:
        predicted, measured: Timelines whose plans have the same actions on the same lanes.
        lower_bound_s: Time that no schedule can beat, to be shown beside the makespans.

    Raises:
        PlanError: One is no timeline, the plans differ, or the two timelines are swapped.
    """
    check_same_plan(predicted, measured)
    if predicted.source == "measured" and measured.source == "predicted":
        raise PlanError("the timelines are swapped: compare(predicted, measured) takes the prediction first")
    actions = np.array([i for i, kind in enumerate(measured.plan.kinds) if kind != "wait"], dtype=np.int64)
    whole = measured.timed_makespan_s or 1.0
    return Comparison(
        predicted=predicted,
        measured=measured,
        makespan_error=relative_error(predicted.makespan_s, measured.makespan_s),
        actions=actions,
        start_errors=(predicted.start_s[actions] - measured.start_s[actions]) / whole,
        end_errors=(span_ends_s(predicted)[actions] - measured.end_s[actions]) / whole,
        lower_bound_s=lower_bound_s,
    )


def check_same_plan(first: Timeline, second: Timeline) -> None:
    """Make sure that two timelines are of the same actions, in the same order, on the same lanes.

    Raises:
        PlanError: They are not, or one is no timeline; names the first difference.
    """
    check_timeline(first)
    check_timeline(second)
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
