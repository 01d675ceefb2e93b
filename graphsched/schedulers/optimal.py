"""The best placement there is, with its proof, by constraint programming."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from graphsched.costs import Costs
from graphsched.errors import ScheduleError
from graphsched.plan import Placement, build_plan
from graphsched.platform import Platform
from graphsched.schedulers.asking.progress import Progress, report
from graphsched.schedulers.bounds import lower_bound
from graphsched.schedulers.bounds.fastest import Fastest, processors
from graphsched.schedulers.heft import heft
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.lanes import Copies, lane_counts
from graphsched.schedulers.proving.identical_model import identical_model
from graphsched.schedulers.proving.placement_model import placement_model
from graphsched.schedulers.proving.solver import TOLERANCE, Answer, Grid, Limits, check_solver, solve
from graphsched.schedulers.registry import register
from graphsched.schedulers.searching.budget import Budget
from graphsched.schedulers.searching.evolution import Schedule, evolve
from graphsched.schedulers.searching.identical import Identical, find_identical
from graphsched.schedulers.searching.instance import Instance, make_instance
from graphsched.schedulers.searching.list_decoding import by_task
from graphsched.schedulers.searching.placement_moves import Candidate, candidate, improve
from graphsched.schedulers.searching.trials import WITHOUT_DISPATCH
from graphsched.simulator import predict
from graphsched.workload import Workload

SEARCHED_TASKS, SEARCHES, SEARCHED = 100_000, 200, 0.2
"""Before the solver is asked a search places so many tasks, and all of them so many times a task at most, in so large a
part of the time at most."""
MOST_TASKS, MOST_INTERVALS = 2_000, 20_000
"""Of a model: tasks on identical processors; intervals of tasks and copies elsewhere."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A placement and what is known about it.

    Attributes:
        placement: The best one found.
        makespan_s: What it takes, by the clock of `schedulers.fast_clock`.
        bound_s: No placement on as many lanes takes less.
    """

    placement: Placement
    makespan_s: float
    bound_s: float

    @property
    def gap(self) -> float:
        """Part of the makespan that a better placement could save at most."""
        return max(0.0, 1.0 - self.bound_s / self.makespan_s) if self.makespan_s else 0.0

    @property
    def is_proven(self) -> bool:
        """Whether it is optimal, to within 0.01 % where times are no whole numbers of any unit."""
        return self.gap <= TOLERANCE * (1.0 + 1e-9)


@register("optimal")
def optimal(
    work: Workload,
    platform: Platform,
    costs: Costs,
    mode: str = "eager",
    *,
    lanes: int = 1,
    seed: int = 0,
    seconds: float = 10.0,
    effort: float | None = None,
    workers: int = 1,
    copies: Copies = "own",
) -> Placement:
    """The optimum of a small graph, or the best placement found in time, with a bound: see `find_optimum`.

    The plan's ``scheduler`` says ``optimal (proven)``, or by what part of its time a better plan on as many lanes could
    be shorter at most: of the time that the simulator has for its tasks and copies, which is longer than what the
    solver reckons with where copies share a capacity, or lanes a device. `Plan.bound_s` is the bound, where more lanes
    would not help and no operation is faster between others than in a row of its own (`CacheStates`).
    """
    found = find_optimum(
        work, platform, costs, lanes=lanes, seed=seed, seconds=seconds, effort=effort, workers=workers, copies=copies
    )
    takes_s = max(found.makespan_s, _simulated_s(work, platform, costs, found.placement))
    least_s = min(takes_s, max(found.bound_s, lower_bound(work, platform, costs, mode=mode)))
    found = replace(found, makespan_s=takes_s, bound_s=least_s)
    note = "proven" if found.is_proven else f"gap {found.gap:.2%}".replace("%", " %")
    bound_s = found.bound_s if _holds(work, platform, costs, lanes, mode) else None
    return replace(found.placement, bound_s=bound_s, note=note)


def _simulated_s(work: Workload, platform: Platform, costs: Costs, placement: Placement) -> float:
    """What tasks and copies take by the simulator, with all that they share."""
    return predict(build_plan(work, platform, costs, placement, scheduler="optimal"), model=WITHOUT_DISPATCH).makespan_s


def _holds(work: Workload, platform: Platform, costs: Costs, lanes: int, mode: str) -> bool:
    """Whether the bound holds for all plans: no more lanes are there, or nobody gains from others or from caches."""
    candidates = find_candidates(work, platform)
    counts, fastest = lane_counts(platform, candidates.used(), lanes), Fastest(work, platform, costs, mode)
    if any(count < processors(platform, name) for name, count in counts.items()):
        return False
    places = [(work[name], devices) for name, devices in candidates.devices.items()]
    in_a_row = Fastest(work, platform, costs, "eager")
    return all({*fastest.shares_s(task, devices)} == {in_a_row.alone_s(task, devices)} for task, devices in places)


def find_optimum(
    work: Workload,
    platform: Platform,
    costs: Costs | None = None,
    *,
    lanes: int = 1,
    seed: int = 0,
    seconds: float = 10.0,
    effort: float | None = None,
    workers: int = 1,
    copies: Copies = "own",
) -> Solution:
    """The best placement of a small graph, with a lower bound, by OR-Tools' CP-SAT.

    A search comes first. If what it finds takes as long as the lower bound of `schedulers.bounds`, it is optimal and
    no solver is needed. Else the solver looks for something better, with tasks in the windows that the paths before and
    after them leave; that there is nothing better is the proof. Where all processors are alike and nothing is copied
    the model is one of a shared resource (`schedulers.identical_model`), elsewhere one of places, copies and their
    lanes (`schedulers.placement_model`).

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks; default those of the platform.
        lanes: Compute lanes on each device: the optimum is one of plans with so many.
        seed: Of the search's and the solver's choices.
        seconds: Time for all, about. A run that ends before is repeated exactly with the same seed and one worker;
            one that the clock ends is not.
        effort: Work of the solver at most, as it counts it (about seconds of a fast host). With it, and `seconds` that
            are enough, a run that finds no proof is repeated exactly too.
        workers: Threads of the solver.
        copies: Lanes of the copies that the workload asks for.

    Not modelled: dispatch; lanes that share a device; copies that share capacities; what caches hold. A plan that is
    optimal here may lose to another one in `predict` by what these take.

    Raises:
        ScheduleError: OR-Tools is missing, the graph is too large, or an option is out of its range.
        PlatformError: No link brings a task's values to a device where it may run.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c"), ("b", "d")])
        >>> nx.set_node_attributes(graph, {"a": 2.0, "b": 10.0, "c": 10.0, "d": 1.0}, "duration_s")
        >>> two = Platform("two", (Device("worker:0", "worker"), Device("worker:1", "worker")))
        >>> found = find_optimum(Workload.from_graph(graph), two)
        >>> found.makespan_s, found.bound_s, found.is_proven
        (13.0, 13.0, True)
    """
    check_solver()
    costs = platform.costs if costs is None else costs
    limits = Limits(time.perf_counter() + seconds, seconds, effort, workers, seed)
    counts = lane_counts(platform, find_candidates(work, platform).used(), lanes)
    bound_s = lower_bound(work, platform, costs)
    identical = find_identical(work, platform, costs, counts)
    if identical is not None:
        return _on_identical(identical, bound_s, limits, copies)
    tasks = make_instance(work, platform, costs, counts, copies)
    known = tasks.read(heft(work, platform, costs, lanes=lanes, copies=copies))
    assert known is not None
    return _anywhere(tasks, candidate(tasks, *known), bound_s, limits)


def _search_budget(tasks: int, limits: Limits) -> Budget:
    iterations = min(SEARCHED_TASKS // max(1, tasks), SEARCHES * tasks)
    return Budget(iterations, SEARCHED * limits.seconds if limits.effort is None else None)


def _tell(limits: Limits, makespan_s: float, bound_s: float) -> None:
    report(Progress("optimal", limits.used, makespan_s, bound_s))


def _nothing_better(grid: Grid, makespan_s: float, bound_s: float) -> bool:
    """Whether no schedule could be better than one that is known by as much as counts."""
    return grid.better(makespan_s) < grid.least(bound_s)


def _proven_s(answer: Answer, grid: Grid, makespan_s: float, bound_s: float) -> float:
    """The lower bound after an answer to whether there is something better than `makespan_s`."""
    if answer.bound is not None:
        return max(bound_s, grid.seconds(answer.bound))
    return makespan_s if grid.exact else max(bound_s, grid.seconds(grid.better(makespan_s)))


# -- identical processors ------------------------------------------------------------------------


def _on_identical(tasks: Identical, bound_s: float, limits: Limits, copies: Copies) -> Solution:
    if len(tasks) > MOST_TASKS:
        raise _too_large(f"{MOST_TASKS:,} tasks", f"{len(tasks):,}")
    budget = _search_budget(len(tasks), limits)
    best = evolve(tasks, bound_s, budget, limits.seed, lambda makespan_s: _tell(limits, makespan_s, bound_s))
    grid = Grid.of(tasks.seconds, best.makespan_s)
    if not _nothing_better(grid, best.makespan_s, bound_s) and limits.left_s > 0.0:
        least, most = grid.least(bound_s), grid.better(best.makespan_s)
        model, starts = identical_model(tasks, grid, least, most, best.start_s)
        answer = solve(model, {"starts": starts}, limits)
        bound_s = _proven_s(answer, grid, best.makespan_s, bound_s)
        if answer.values is not None:
            start_s = by_task(tasks, answer.values["starts"])
            best = Schedule(start_s, tasks.makespan_s(start_s))
    _tell(limits, best.makespan_s, bound_s)
    return Solution(tasks.placement(best.start_s, copies), best.makespan_s, min(bound_s, best.makespan_s))


def _too_large(most: str, here: str) -> ScheduleError:
    return ScheduleError(f"scheduler 'optimal' solves graphs of up to {most}, this one has {here}: use 'search'")


# -- any platform --------------------------------------------------------------------------------


def _anywhere(tasks: Instance, begin: Candidate, bound_s: float, limits: Limits) -> Solution:
    if tasks.intervals > MOST_INTERVALS:
        raise _too_large(f"{MOST_INTERVALS:,} tasks × places and copies × pairs of devices", f"{tasks.intervals:,}")
    budget = _search_budget(len(tasks), limits)
    best = improve(tasks, [begin], bound_s, budget, limits.seed, lambda known: _tell(limits, known.makespan_s, bound_s))
    grid = Grid.of(tasks.all_seconds(), best.makespan_s)
    for ordered in (False, True):
        if _nothing_better(grid, best.makespan_s, bound_s) or limits.left_s <= 0.0:
            break
        answer, found = _placed(tasks, best, grid, bound_s, limits, ordered=ordered)
        if not ordered or tasks.copies_follow_readers:
            bound_s = _proven_s(answer, grid, best.makespan_s, bound_s)
        best = min(best, found, key=lambda known: known.makespan_s) if found is not None else best
        _tell(limits, best.makespan_s, bound_s)
    return Solution(tasks.placement(best.order, best.place), best.makespan_s, min(bound_s, best.makespan_s))


def _placed(
    tasks: Instance, best: Candidate, grid: Grid, bound_s: float, limits: Limits, *, ordered: bool
) -> tuple[Answer, Candidate | None]:
    """What the solver says, and what becomes of it where copies go in the order of their readers, as in a plan."""
    least, most = grid.least(bound_s), grid.better(best.makespan_s)
    made = placement_model(tasks, grid, least, most, ordered=ordered)
    made.hint(tasks, best)
    groups = {"starts": made.starts, "places": made.places}
    answer = solve(made.model, groups, limits)
    if answer.values is None:
        return answer, None
    starts, places = answer.values["starts"], answer.values["places"]
    order = tasks.by_start(starts, range(len(tasks)))
    return answer, candidate(tasks, order, places)
