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

    Those are cases that no CUDA graph can hold, that so many ranks are too few for, or that are optional and refused by
    their scheduler.

    Args:
        ranks: How many there are, for cases in mode ``distributed``; None: as many as needed.

    Raises:
        ScheduleError: None is left.
    """
    kept, notes = [], []
    for number, case in request.cases:
        refusal = None if case.is_baseline else _refusal(number, case, request, ranks)
        if refusal is None:
            kept.append((number, case))
        else:
            notes.append((case.mode, f"left out: {refusal}"))
    told = [note for _, note in notes]
    if all(case.is_baseline for _, case in kept) and notes:
        modes = " or ".join(dict.fromkeys(str(mode) for mode, _ in notes))
        error = ScheduleError if ranks is not None else CaptureError
        raise error("\n".join([f"no case can be run in {modes} mode", *told]))
    return replace(request, cases=kept), told


def _refusal(number: int, case: Case, request: Request, ranks: int | None) -> str | None:
    """Why a case cannot run in its mode; None if it can."""
    from graphsched.plan.ranks import compile_ranks

    try:
        plan = plan_of(number, case, request) if case.optional or case.mode in ("graph", RANKS_MODE) else None
    except CaptureError as error:
        return str(error)
    except GraphschedError as error:
        if not case.optional:
            raise
        return str(error) if repr(case.label) in str(error) else f"case {case.label!r}: {error}"
    try:
        if plan is not None and case.mode == RANKS_MODE:
            compile_ranks(plan, ranks)
    except (PlanError, ScheduleError) as error:
        return f"case {case.label!r}: {error}"
    return None


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
