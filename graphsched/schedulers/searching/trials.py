"""Placements tried by simulation: what each would take, each simulated once and no more of them than agreed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property

from graphsched.costs import Costs
from graphsched.errors import CostError, PlatformError, ScheduleError
from graphsched.plan import Lane, Placement, Plan, build_plan
from graphsched.platform import Platform
from graphsched.simulator import Model, predict
from graphsched.workload import Workload

REFUSED = (ScheduleError, PlatformError, CostError)
"""Why a placement may make no plan (no link, more lanes than there are, no CUDA graph can hold it)."""

UNTIMED = Model(timing=False)
"""Everything but a second simulation with timing events; `makespan_s` is the same."""

WORTH = 1.1  # times the least seconds so far: what takes longer than that on average is simulated no further

WITHOUT_DISPATCH = Model(
    dispatch=False, launch_queue=False, waits=False, timing=False, blocking=False, pace=False
)  # what is left is the tasks' own time, and that of transfers

_model: ContextVar[Model] = ContextVar("what placements are tried by", default=UNTIMED)


@contextmanager
def tried_by(model: Model) -> Iterator[None]:
    """Schedulers asked inside try placements by `model`: whoever compares plans by it finds the best as they do.

    Example:
        >>> with tried_by(WITHOUT_DISPATCH):
        ...     print(_model.get().blocking)
        False
    """
    token = _model.set(model)
    try:
        yield
    finally:
        _model.reset(token)


@dataclass(frozen=True, eq=False)
class Trial:
    """A placement and the seconds that are predicted for it."""

    placement: Placement
    makespan_s: float

    @cached_property
    def lanes_each(self) -> int:
        """Most compute lanes that the placement takes on one device."""
        devices = [Lane.named(name).device for name in dict.fromkeys(self.placement.lanes.values())]
        return max((devices.count(device) for device in devices), default=0)


@dataclass(eq=False)
class Trials:
    """Simulates placements of one workload, until a number of simulations is used up.

    What hangs on chance counts for those that may be the best (`WORTH`); others have their seconds on average: one
    simulation instead of several, see `simulator.chance`.

    Attributes:
        mode: How the plan is to run: ``eager`` or ``graph``.
        left: Simulations left.
        model: What counts; default `UNTIMED`, or as whoever asks says (`tried_by`).
    """

    work: Workload
    platform: Platform
    costs: Costs
    mode: str
    left: int
    model: Model = field(default_factory=_model.get)
    _known: dict[tuple[object, ...], float] = field(default_factory=dict)
    _least_s: float = math.inf

    def makespan_s(self, placement: Placement) -> float:
        """Predicted seconds of `placement`, whatever is left.

        Raises:
            ScheduleError, PlatformError, CostError: It makes no plan, or none for this mode.
        """
        key = _key(placement)
        if key not in self._known:
            plan = build_plan(self.work, self.platform, self.costs, placement, scheduler="streams", mode=self.mode)
            self._known[key] = self._predicted_s(plan)
        return self._known[key]

    def _predicted_s(self, plan: Plan) -> float:
        found_s = predict(plan, model=replace(self.model, chance=False)).makespan_s
        if self.model.chance and found_s < WORTH * self._least_s and _hangs_on_chance(plan):
            found_s = predict(plan, model=self.model).makespan_s
        self._least_s = min(self._least_s, found_s)
        return found_s

    def trial(self, placement: Placement) -> Trial:
        """`placement` with its seconds: infinite where it makes no plan, or no simulation is left."""
        if _key(placement) in self._known:
            return Trial(placement, self.makespan_s(placement))
        if self.left < 1:
            return Trial(placement, math.inf)
        self.left -= 1
        try:
            return Trial(placement, self.makespan_s(placement))
        except REFUSED:
            return Trial(placement, self._known.setdefault(_key(placement), math.inf))


def _hangs_on_chance(plan: Plan) -> bool:
    """Whether more than one simulation may be needed: a graph over several GPUs."""
    tasks = (lane.device for lane in plan.lanes if lane.kind == "compute")
    return plan.mode == "graph" and len({name for name in tasks if plan.platform.device(name).kind == "cuda"}) > 1


def _key(placement: Placement) -> tuple[object, ...]:
    lanes = tuple(placement.lanes.get(name) for name in placement.order)
    return tuple(placement.order), lanes, frozenset(placement.wait_after), placement.copies


def best_of(trials: Iterable[Trial]) -> Trial:
    """The trial of least seconds; of equal ones that of the fewest lanes, else the first."""
    return min(trials, key=lambda trial: (trial.makespan_s, trial.lanes_each))


def fewest_lanes(trials: Iterable[Trial], most_s: float) -> Trial:
    """The trial of the fewest lanes a device of those that take no more than `most_s`; of equal ones the best."""
    return min(
        (trial for trial in trials if trial.makespan_s <= most_s),
        key=lambda trial: (trial.lanes_each, trial.makespan_s),
    )
