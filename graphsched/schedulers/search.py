"""Search over order and placement, from the best list schedule on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.asking.options import options_of
from graphsched.schedulers.asking.progress import Progress, report
from graphsched.schedulers.bounds import lower_bound
from graphsched.schedulers.lookahead import is_quick
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.lanes import Copies, lane_counts
from graphsched.schedulers.registry import find_scheduler, register
from graphsched.schedulers.searching.budget import Budget
from graphsched.schedulers.searching.evolution import evolve
from graphsched.schedulers.searching.identical import Identical, find_identical
from graphsched.schedulers.searching.instance import Instance, make_instance
from graphsched.schedulers.searching.placement_moves import Candidate, candidate, improve
from graphsched.schedulers.searching.trials import REFUSED, Trial, Trials, best_of
from graphsched.workload import Workload

STARTS = (
    *("critical_path", "heft", "peft", "cpop", "dls", "etf", "min_min", "max_min"),
    *("one_stream", "wavefront", "round_robin", "lookahead"),
)
"""List schedulers that a search begins with."""
LEAST_ITERATIONS, MOST_ITERATIONS, PLACED_TASKS = 200, 10_000, 1_000_000
"""Default budget: as many iterations as place so many tasks, about two seconds on one core, within these limits."""
ENDLESS = 2**62
FINALISTS = 5


@register("search")
def search(
    work: Workload,
    platform: Platform,
    costs: Costs,
    mode: str = "eager",
    *,
    lanes: int = 1,
    seed: int = 0,
    iterations: int | None = None,
    seconds: float | None = None,
    copies: Copies = "own",
) -> Placement:
    """The best placement found by changing list schedules, for as long as the budget lasts or until none can be better.

    It begins with what the list schedulers say (`STARTS`; without ``lookahead``, which is slow, for large workloads and
    where all processors are alike and nothing is copied). If one of them takes no longer than the lower bound, that is
    all. Else, on processors that are alike, list schedules breed (`schedulers.evolution`); elsewhere the best one is
    changed step by step (`schedulers.placement_moves`).
    Thousands of placements are tried by a clock that knows tasks, lanes and copies that queue for their lane
    (`schedulers.fast_clock`). The best of them and all list schedules are then simulated in `mode`, with all that
    `predict` counts, and the best by simulation is taken: so it is never predicted to be slower than one of these.

    With a budget of iterations alone, the default, the same seed gives the same placement everywhere. A budget of
    seconds ends the search where the clock says, so that a faster or idler host may find a better one.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks, as `schedule` has them for `mode`.
        mode: How the plan is meant to run.
        lanes: Compute lanes on each device.
        seed: Of all random choices.
        iterations: Placements tried; default 1,000,000 over the number of tasks, from 200 to 10,000, or without end
            where `seconds` are given.
        seconds: Seconds that the whole search may take; the first list schedule is made in any case.
        copies: Lanes of the copies that the workload asks for.

    Not modelled: lanes that share a device, dispatch, and copies that share capacities, but for the placements that are
    simulated.

    Raises:
        ScheduleError: An option is out of its range, or no list scheduler can place the workload.
        PlatformError: No link brings a task's values to a device where it may run.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> from graphsched.schedulers.scheduling import schedule
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c"), ("b", "d")])
        >>> nx.set_node_attributes(graph, {"a": 2.0, "b": 10.0, "c": 10.0, "d": 1.0, }, "duration_s")
        >>> two = Platform("two", (Device("worker:0", "worker"), Device("worker:1", "worker")))
        >>> schedule(Workload.from_graph(graph), two, scheduler="search", iterations=100)
        Plan(search iterations=100, 4 actions on 3 lanes of two)
    """
    counts = lane_counts(platform, find_candidates(work, platform).used(), lanes)
    budget = Budget(_default(work, seconds) if iterations is None else iterations, seconds)
    trials = Trials(work, platform, costs, mode, FINALISTS)
    enough_s = lower_bound(work, platform, costs, mode=mode)
    identical = find_identical(work, platform, costs, counts)
    with_lookahead = identical is None and is_quick(work)
    names = [name for name in STARTS if name != "lookahead" or with_lookahead]
    tried: list[Trial] = []
    for trial in _list_schedules(trials, names, lanes, copies):
        tried.append(trial)
        if trial.makespan_s <= enough_s or not budget.left:
            return best_of(tried).placement
    if identical is not None:
        found = _bred(identical, enough_s, budget, seed, copies)
    else:
        found = _changed(make_instance(work, platform, costs, counts, copies), tried, enough_s, budget, seed)
    return best_of([*tried, *map(trials.trial, found)]).placement


def _default(work: Workload, seconds: float | None) -> int:
    if seconds is not None:
        return ENDLESS
    return max(LEAST_ITERATIONS, min(MOST_ITERATIONS, PLACED_TASKS // max(1, len(work.graph))))


def _list_schedules(trials: Trials, names: Sequence[str], lanes: int, copies: Copies) -> Iterator[Trial]:
    """What list schedulers say.

    Raises:
        ScheduleError, PlatformError, CostError: None makes a plan: what stood in the way of the first.
    """
    refused: list[Exception] = []
    for name in names:
        function = find_scheduler(name)
        options = {"lanes": lanes} if "lanes" in options_of(function) else {}
        try:
            placement = function(trials.work, trials.platform, trials.costs, copies=copies, **options)
            yield Trial(placement, trials.makespan_s(placement))
        except REFUSED as error:
            refused.append(error)
    if len(refused) == len(names):
        raise refused[0]


def _bred(tasks: Identical, enough_s: float, budget: Budget, seed: int, copies: Copies) -> list[Placement]:
    def tell(makespan_s: float) -> None:
        if budget.is_news():
            report(Progress("search", budget.used, makespan_s, enough_s))

    return [tasks.placement(evolve(tasks, enough_s, budget, seed, tell).start_s, copies)]


def _changed(tasks: Instance, tried: Sequence[Trial], enough_s: float, budget: Budget, seed: int) -> list[Placement]:
    """The best candidates of a walk that begins with the list schedules."""
    read = [tasks.read(trial.placement) for trial in tried]
    begins = [candidate(tasks, *known) for known in read if known is not None]
    found: list[Candidate] = []

    def tell(best: Candidate) -> None:
        if not found or found[-1] is not best:
            found[:] = [*found[1 - FINALISTS :], best]
        if budget.is_news():
            report(Progress("search", budget.used, best.makespan_s, enough_s))

    if begins:
        improve(tasks, begins, enough_s, budget, seed, tell)
    return [tasks.placement(each.order, each.place) for each in reversed(found)]
