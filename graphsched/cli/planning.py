"""Plans of cases: on the costs that are known, or on those measured for them."""

from __future__ import annotations

from dataclasses import replace

from graphsched.cases import Case
from graphsched.cli.output import say
from graphsched.cli.request import Request
from graphsched.costs import Costs
from graphsched.errors import ScheduleError
from graphsched.plan import Plan
from graphsched.platform import Pace, Platform
from graphsched.quantities import seconds_text


def make_plan(case: Case, platform: Platform, costs: Costs, time_limit_s: float | None = None) -> Plan:
    """The plan of a case that is no baseline; its scheduler is ended after `time_limit_s` seconds."""
    from graphsched.cli.search_bar import searches_shown
    from graphsched.schedulers import schedule

    assert case.work is not None
    asked = {"scheduler": case.scheduler, "mode": case.mode or "eager", "time_limit_s": time_limit_s, **case.options}
    try:
        with searches_shown(seconds_text):
            return schedule(case.work, platform, costs, **asked)
    except ScheduleError as error:
        raise type(error)(f"case {case.label!r}: {error}") from error


def plan_of(number: int, case: Case, request: Request) -> Plan:
    """The plan of a case of `request` with the costs that are known, made once."""
    key = number, case.mode
    if key not in request.plans:
        request.plans[key] = make_plan(case, request.platform, request.costs, request.time_limit_s)
    return request.plans[key]


def measured_plan(case: Case, here: Platform, costs: Costs, time_limit_s: float | None = None) -> Plan:
    """The plan of a case at the present speed of the dispatching thread, with measured pairs: see `with_pairs`.

    A scheduler that simulates is asked a second time, with the pairs of its first plan, where these were not known.
    Says how many pairs stay unknown.
    """
    from graphsched.calibration import present_call_s
    from graphsched.schedulers.registry import find_scheduler, one_lane, takes_mode

    now = here.at(Pace(present_call_s(here)))
    plan = make_plan(case, now, costs, time_limit_s)
    if one_lane(case.scheduler):
        return plan
    paired = with_pairs(plan, here)
    if paired.costs != plan.costs and takes_mode(find_scheduler(case.scheduler)):
        paired = with_pairs(make_plan(case, now, paired.costs, time_limit_s), here)
    _tell_unmeasured(paired)
    return paired


def _tell_unmeasured(plan: Plan) -> None:
    """Say how many pairs of operations that may run side by side have no measured cost."""
    from graphsched.calibration.meeting import meetings, unmeasured

    left = unmeasured(plan, plan.costs)
    if left:
        say(
            f"{len(left)} of {len(meetings(plan))} pairs of operations that may run side by side are not measured: "
            "there was no time for them, or they take too many launches"
        )


def with_pairs(plan: Plan, platform: Platform) -> Plan:
    """`plan` with what the operations that it lets run side by side cost each other, measured where it is not kept."""
    from graphsched.calibration import profile

    return replace(plan, costs=plan.costs.merged(profile(plan, platform)))
