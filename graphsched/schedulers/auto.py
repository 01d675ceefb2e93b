"""A portfolio: several schedulers are asked, each answer is simulated, and the best is taken."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from graphsched.costs import Costs
from graphsched.errors import CaptureError, GraphschedError, ScheduleError, ScheduleWarning
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.asking.answers import answer_of
from graphsched.schedulers.asking.options import options_of
from graphsched.schedulers.asking.watchdog import within
from graphsched.schedulers.lookahead import is_quick
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.registry import find_scheduler, of_others, register
from graphsched.schedulers.registry import schedulers as all_schedulers
from graphsched.schedulers.searching.trials import Trial, Trials, best_of
from graphsched.workload import Workload

PORTFOLIO = (
    "one_stream",
    "round_robin",
    "wavefront",
    "critical_path",
    "heft",
    "cpop",
    "peft",
    "dls",
    "etf",
    "min_min",
    "max_min",
    "work_stealing",
    "lookahead",
    "streams",
)

OTHERS_LIMIT_S = 60.0
"""For a scheduler of others, where no limit is given; ours end, and what they say must not depend on a clock."""


@dataclass(frozen=True, eq=False)
class Attempt:
    """What became of one scheduler of a portfolio.

    Attributes:
        scheduler: Its name.
        trial: Its placement and the seconds that are predicted for it; None where it failed.
        error: Why it failed; None where it did not.
    """

    scheduler: str
    trial: Trial | None
    error: GraphschedError | None = None


@register("auto")
def auto(
    work: Workload,
    platform: Platform,
    costs: Costs,
    mode: str = "eager",
    *,
    schedulers: str | Sequence[str] = PORTFOLIO,
    limit_s: float | None = None,
    simulations: int | None = None,
    copies: Copies = "own",
) -> Placement:
    """The best of what several schedulers say, by the simulator's word; the plan names the one that said it.

    One that fails is left out, with a warning that names it. Of several that are equally good it takes the one of the
    fewest lanes a device, else the first.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks, as `schedule` has them for `mode`.
        mode: How the plan is meant to run: ``eager``, ``graph`` or ``distributed``.
        schedulers: Names; default the list schedulers of this package and ``streams`` (`PORTFOLIO`), without
            ``lookahead`` where that is not quick (`lookahead.is_quick`).
        limit_s: Seconds after which each of them is ended; default none for those of this package, and
            `OTHERS_LIMIT_S` for others.
        simulations: How many those that simulate may make, told to ``streams``; default theirs.
        copies: Lanes of the copies that the workload asks for, told to those that have this option.

    Raises:
        ScheduleError: A name is wrong, or none of them makes a plan: the message says why each does not.
        GraphschedError: None of them makes a plan, and all for this one reason.

    Warns:
        ScheduleWarning: One of them failed.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> from graphsched.schedulers.scheduling import schedule
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> two = Platform("two", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
        >>> schedule(Workload.from_graph(graph), two, scheduler="auto", schedulers=("one_stream", "etf")).scheduler
        'auto schedulers=one_stream+etf (etf)'
    """
    names = _affordable(work) if schedulers == PORTFOLIO else _names(schedulers)
    told = {"copies": copies} | ({} if simulations is None else {"simulations": simulations})
    tried = attempts(work, platform, costs, mode, names, limit_s=limit_s, told=told)
    found = [attempt for attempt in tried if attempt.trial is not None]
    if not found:
        raise _all_failed(tried)
    for attempt in tried:
        if attempt.error is not None:
            text = f"left out of the portfolio: scheduler {attempt.scheduler!r}: {attempt.error}"
            warnings.warn(text, ScheduleWarning, stacklevel=2)
    best = best_of(attempt.trial for attempt in found if attempt.trial is not None)
    name = next(attempt.scheduler for attempt in found if attempt.trial is best)
    return replace(best.placement, note=name)


def attempts(
    work: Workload,
    platform: Platform,
    costs: Costs,
    mode: str,
    names: Sequence[str],
    *,
    limit_s: float | None = None,
    told: Mapping[str, Any] = MappingProxyType({}),
) -> list[Attempt]:
    """What each of the schedulers `names` says and what the simulator says to that; see `auto`.

    `told`: options, each told to those that have it.
    """
    trials = Trials(work, platform, costs, mode, left=0)
    return [_attempt(trials, name, limit_s, told) for name in names]


def _attempt(trials: Trials, name: str, limit_s: float | None, told: Mapping[str, Any]) -> Attempt:
    try:
        function = find_scheduler(name)
        known = options_of(function)
        options = {option: value for option, value in told.items() if option in known}
        ask = partial(answer_of, name, function, trials.work, trials.platform, trials.costs, trials.mode, options)
        limit_s = OTHERS_LIMIT_S if limit_s is None and of_others(function) else limit_s
        placement = within(limit_s, f"scheduler {name!r}", ask)
        return Attempt(name, Trial(placement, trials.makespan_s(placement)))
    except GraphschedError as error:
        return Attempt(name, None, error)


def _all_failed(tried: Sequence[Attempt]) -> GraphschedError:
    """The one error of all of `tried`, or one that tells them all; where none can be captured, the first will do."""
    names: dict[str, list[str]] = {}
    for attempt in tried:
        names.setdefault(str(attempt.error), []).append(attempt.scheduler)
    first = tried[0].error
    if first is not None and (len(names) == 1 or all(isinstance(attempt.error, CaptureError) for attempt in tried)):
        return first
    return ScheduleError(
        "no scheduler makes a plan: " + "; ".join(f"{', '.join(by)}: {why}" for why, by in names.items())
    )


def _affordable(work: Workload) -> list[str]:
    return [name for name in PORTFOLIO if name != "lookahead" or is_quick(work)]


def _names(schedulers: str | Sequence[str]) -> list[str]:
    names = [schedulers] if isinstance(schedulers, str) else list(dict.fromkeys(schedulers))
    known = set(all_schedulers())
    for name in names:
        if name not in known:
            find_scheduler(name)  # which says what there is
    if not names or "auto" in names:
        raise ScheduleError(f"schedulers={schedulers!r} of auto: one or more are needed, auto not among them")
    return names
