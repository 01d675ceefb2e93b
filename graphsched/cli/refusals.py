"""Whether the cases of a request can be run, found out before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphsched.cases import Case
from graphsched.cli.planning import plan_of
from graphsched.cli.ranks import MODE as RANKS_MODE
from graphsched.cli.request import Request
from graphsched.errors import CaptureError, GraphschedError, PlanError, ScheduleError, WorkloadError


def without_refused(request: Request, ranks: int | None = None) -> tuple[Request, list[str]]:
    """`request` less the cases that cannot be, with a note on each.

    Those are cases that no CUDA graph can hold, that so many ranks are too few for, whose scheduler fails, or that are
    optional and cannot be planned for another reason.

    Args:
        ranks: How many there are, for cases in mode ``distributed``; None: as many as needed.

    Raises:
        ScheduleError: None is left, or a scheduler or option does not exist.
        GraphschedError: A case that is not optional does not fit the platform or its costs.
    """
    kept: list[tuple[int, Case]] = []
    refused: list[tuple[str | None, GraphschedError]] = []
    for number, case in request.cases:
        refusal = None if case.is_baseline else _refusal(number, case, request, ranks)
        if refusal is None:
            kept.append((number, case))
        else:
            refused.append((case.mode, refusal))
    notes = [f"left out: {refusal}" for _, refusal in refused]
    if all(case.is_baseline for _, case in kept) and refused:
        modes = " or ".join(dict.fromkeys(str(mode) for mode, _ in refused))
        kind = CaptureError if all(isinstance(refusal, CaptureError) for _, refusal in refused) else ScheduleError
        raise kind("\n".join([f"no case can be run in {modes} mode", *notes]))
    return replace(request, cases=kept), notes


def _refusal(number: int, case: Case, request: Request, ranks: int | None) -> GraphschedError | None:
    """Why a case cannot run in its mode; None if it can."""
    from graphsched.plan.ranks import compile_ranks

    try:
        plan = plan_of(number, case, request)
        if case.mode == RANKS_MODE:
            compile_ranks(plan, ranks)
    except GraphschedError as error:
        if not case.optional and _is_of_request(error, case):
            raise
        told = repr(case.label) in str(error)
        return error if told else type(error)(f"case {case.label!r}: {error}")
    return None


def _is_of_request(error: GraphschedError, case: Case) -> bool:
    """Whether a case is wrong whatever its scheduler does: names of this or of options, the platform, costs.

    What a scheduler of others says of the last two is not relied on: ours say the same of other cases, if it is so.
    """
    from graphsched.schedulers.registry import find_scheduler, of_others

    if isinstance(error, (CaptureError, PlanError)):
        return False
    if isinstance(error, ScheduleError):
        return _wrongly_asked(case)
    return not of_others(find_scheduler(case.scheduler))


def _wrongly_asked(case: Case) -> bool:
    """Whether there is no such scheduler, or it does not take these options."""
    from graphsched.schedulers import schedulers
    from graphsched.schedulers.asking.options import check_options
    from graphsched.schedulers.registry import find_scheduler

    if case.scheduler not in schedulers():
        return True
    try:
        function = find_scheduler(case.scheduler)
    except ScheduleError:  # it is there, and cannot be loaded
        return False
    try:
        check_options(case.scheduler, function, case.options)
    except ScheduleError:
        return True
    return False


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
