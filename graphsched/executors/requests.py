"""Whether a plan can be made a program of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphsched.errors import ScheduleError, WorkloadError
from graphsched.plan import MODES, Plan, check_capturable, check_plan

ONE_PROCESS = ("eager", "graph")
LONGEST_S = 1e9  # of a time-out; no thread waits for more than some ten times as long


def checked(plan: Plan, mode: str | None, timeout_s: float, modes: Sequence[str] = ONE_PROCESS) -> Plan:
    """`plan` in `mode`, default its own; it must be one of `modes`.

    Raises:
        ScheduleError: It is no plan, there is no such mode, nothing for a graph to hold, or no time.
        WorkloadError: A task has no code.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import Workload
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> plan = build_plan(Workload(), here, None, Placement([], {}), scheduler="by hand")
        >>> checked(plan, "eager", 60.0) is plan
        True
    """
    check_plan(plan)
    mode = mode or plan.mode
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s <= LONGEST_S:
        raise ScheduleError(
            f"timeout_s is {timeout_s!r}: a number of seconds above 0 and up to {LONGEST_S:g} is needed"
        )
    if mode not in modes:
        ranks = "; execute runs it on the ranks that torchrun started" if mode in MODES else ""
        raise ScheduleError(f"mode {mode!r} cannot be run here: one of {', '.join(modes)}{ranks}")
    if not plan.work.runnable:
        raise WorkloadError(f"workload {plan.work.name!r} has tasks without code: it can be predicted, not run")
    if mode == "graph":
        check_capturable(plan)
    return plan if mode == plan.mode else replace(plan, mode=mode)
