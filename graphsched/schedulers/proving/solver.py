"""OR-Tools' CP-SAT as schedulers use it: seconds in whole units, one answer, its proof."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from graphsched.errors import ScheduleError

FINEST = 10**6
"""Units a second at most where all seconds are to be whole numbers of units."""
LONGEST = 2**40
"""Units of a whole schedule at most, likewise."""
UNITS = 10**7
"""Units of a whole schedule where seconds are no whole numbers of any unit."""
TOLERANCE = 1e-4
"""Part of the makespan below which a gain does not count then."""

SEEDS, MOST_WORKERS = 2**31, 10_000
"""CP-SAT takes whole numbers below the first, positive or negative, as seeds, and so many threads at most."""

ROUNDING = 1e-12
"""Part of a sum of seconds that may be off."""

PROPAGATION = {
    "use_timetable_edge_finding_in_cumulative": True,
    "use_overload_checker_in_cumulative": True,
    "use_conservative_scale_overload_checker": True,
    "use_hard_precedences_in_cumulative": True,
    "use_strong_propagation_in_disjunctive": True,
    "exploit_all_precedences": True,
    "linearization_level": 0,
}
"""What finds out early that intervals are too full; off by default in CP-SAT, and what most proofs hang on here. Linear
relaxations say little about intervals, and take time."""


def check_solver() -> None:
    """Make sure that OR-Tools is installed.

    Raises:
        ScheduleError: It is not.
    """
    if importlib.util.find_spec("ortools") is None:
        raise ScheduleError(
            "scheduler 'optimal' needs OR-Tools, which is not installed: pip install 'graphsched[optimal]', "
            "or use scheduler 'search'"
        )


@dataclass(frozen=True)
class Grid:
    """Seconds as whole units.

    Attributes:
        per_s: Units a second.
        exact: Whether all seconds are whole numbers of units; else they are rounded down, so that bounds hold.
    """

    per_s: float
    exact: bool

    @classmethod
    def of(cls, seconds: Iterable[float], longest_s: float) -> Grid:
        """The grid for these seconds, and schedules of up to `longest_s`.

        Example:
            >>> Grid.of([0.5, 2.25], 10.0), Grid.of([1 / 3], 10.0).exact
            (Grid(per_s=100, exact=True), False)
        """
        found = list(seconds)
        for power in range(int(math.log10(FINEST)) + 1):
            per_s = 10**power
            if longest_s * per_s <= LONGEST and all((s * per_s).is_integer() for s in found):
                return cls(per_s, True)
        return cls(UNITS / longest_s if longest_s else 1.0, False)

    def units(self, seconds: float) -> int:
        """Of one task or copy: rounded down."""
        return math.floor(seconds * self.per_s)

    def least(self, bound_s: float) -> int:
        """The least makespan that a schedule may have which takes `bound_s` or more."""
        units = bound_s * self.per_s
        return math.ceil(units - ROUNDING * units) if self.exact else math.floor(units)

    def better(self, makespan_s: float) -> int:
        """The longest makespan that is worth finding when `makespan_s` is known."""
        known = makespan_s * self.per_s
        return round(known) - 1 if self.exact else math.floor(known * (1.0 - TOLERANCE))

    def seconds(self, units: float) -> float:
        """The seconds of so many units."""
        return units / self.per_s


@dataclass(frozen=True)
class Answer:
    """What the solver says.

    Attributes:
        values: By name of the variable group; None: no solution was found.
        bound: No solution is less, in units; None: there is no solution at all.
    """

    values: dict[str, list[int]] | None
    bound: float | None


@dataclass(frozen=True)
class Limits:
    """What a solver may use.

    Attributes:
        end_s: When it must end, by `time.perf_counter`.
        seconds: Of these, in all.
        effort: Work of each run of the solver at most, as it counts it, alike on all hosts; None: no such limit.
        workers: Threads; with one, the same seed gives the same answer, unless the clock ends it.
        seed: Of its choices.
    """

    end_s: float
    seconds: float
    effort: float | None
    workers: int
    seed: int

    def __post_init__(self) -> None:
        if not self.seconds >= 0.0:
            raise ScheduleError(f"seconds={self.seconds}: 0 or more are needed")
        if self.effort is not None and not self.effort >= 0.0:
            raise ScheduleError(f"effort={self.effort}: 0 or more is needed")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise ScheduleError(f"workers={self.workers}: the solver takes 1 to {MOST_WORKERS:,}")
        if not -SEEDS < self.seed < SEEDS:
            raise ScheduleError(f"seed={self.seed}: the solver takes whole numbers from {1 - SEEDS:,} to {SEEDS - 1:,}")

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return self.end_s - time.perf_counter()

    @property
    def used(self) -> float:
        """Part of the seconds that is used up, from 0 to 1."""
        return min(1.0, max(0.0, 1.0 - self.left_s / self.seconds)) if self.seconds else 1.0


def solve(model: Any, groups: dict[str, list[Any]], limits: Limits) -> Answer:
    """Minimise `model`, a `CpModel` with an objective, and read the values of some groups of its variables."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.max_time_in_seconds = max(limits.left_s, 0.01)
    if limits.effort is not None:
        parameters.max_deterministic_time = limits.effort
    parameters.num_workers = limits.workers
    parameters.random_seed = limits.seed
    for name, value in PROPAGATION.items():
        setattr(parameters, name, value)
    status = _interruptible(solver, model)
    assert status != cp_model.MODEL_INVALID, model.validate()
    if status == cp_model.INFEASIBLE:
        return Answer(None, None)
    solved = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    values = {name: [solver.value(v) for v in variables] for name, variables in groups.items()} if solved else None
    return Answer(values, solver.best_objective_bound)


def _interruptible(solver: Any, model: Any) -> int:
    """Run the solver so that Ctrl-C ends it and is then raised as ever.

    The solver's own way of catching it would hide it from the caller, and leave the process without Python's handler.
    """
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(solver.solve, model)
        try:
            return int(status.result())
        finally:
            while not status.done():
                solver.stop_search()
                wait([status], timeout=0.05)
