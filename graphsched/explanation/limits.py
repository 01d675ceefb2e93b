"""Times that no plan, or no run of this plan, can beat: work, the longest path, bytes over capacities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphsched.explanation.facts import Facts, is_wait
from graphsched.schedulers.bounds import capacity_rates, critical_path_bound, interval_bound, link_bound, work_bound
from graphsched.schedulers.bounds.fastest import Fastest
from graphsched.simulator.lane_costs import CPU


@dataclass(frozen=True, slots=True)
class Limit:
    """A lower bound, in seconds.

    Attributes:
        kind: ``work`` (a device's, or all devices'), ``path`` (the longest), ``intervals`` (the longest path, and
            what the busiest interval of it lacks), ``link`` (bytes over a capacity), ``scheduler`` (what that has
            proven), ``lane`` (its actions, one after the other), ``dispatch`` (issuing).
        scope: ``any plan`` of the workload on the platform, or ``this plan``.
        where: Device, capacity or lane; empty for the whole platform.
        seconds: From costs measured alone.
    """

    kind: Literal["work", "path", "intervals", "link", "scheduler", "lane", "dispatch"]
    scope: Literal["any plan", "this plan"]
    where: str
    seconds: float


def limits(facts: Facts) -> tuple[Limit, ...]:
    """All bounds: those of any plan, then those of this one, of each kind the largest."""
    plan = facts.plan
    asked = (plan.work, plan.platform, plan.costs)
    mine = [_largest(found) for found in (_work(facts), _links(facts), _lanes(facts)) if found]
    return (
        Limit("work", "any plan", "", work_bound(*asked, mode=plan.mode)),
        Limit("path", "any plan", "", critical_path_bound(*asked, mode=plan.mode)),
        Limit("intervals", "any plan", "", interval_bound(*asked, mode=plan.mode)),
        Limit("link", "any plan", "", link_bound(plan.work, plan.platform)),
        *([] if plan.bound_s is None else [Limit("scheduler", "any plan", "", plan.bound_s)]),
        *mine,
        Limit("path", "this plan", "", _path(facts)),
        Limit("dispatch", "this plan", "host/py", _issuing(facts)),
    )


def _largest(found: list[Limit]) -> Limit:
    return max(found, key=lambda limit: limit.seconds)


def _work(facts: Facts) -> list[Limit]:
    """Of each GPU: the part that its tasks take up at least of what they need most of, one after the other."""
    plan = facts.plan
    fastest = Fastest(plan.work, plan.platform, plan.costs, plan.mode)
    taken_s: dict[str, list[float]] = {}
    for i, task in enumerate(map(plan.task, range(len(plan)))):
        device = plan.platform.device(plan.lanes[plan.lane_of[i]].device) if plan.kinds[i] == "run" else None
        if task is None or device is None or device.kind != "cuda":
            continue
        parts_s = fastest.shares_s(task, (device.name,))
        before_s = taken_s.get(device.name, [0.0] * len(parts_s))
        taken_s[device.name] = [sum(both) for both in zip(before_s, parts_s, strict=True)]
    return [Limit("work", "this plan", device, max(parts_s)) for device, parts_s in taken_s.items()]


def _links(facts: Facts) -> list[Limit]:
    """Of each capacity: the bytes of all copies that cross it, at its highest rate."""
    nbytes: dict[str, int] = {}
    for i, copy in facts.plan.copies.items():
        for name in facts.crosses[i]:
            nbytes[name] = nbytes.get(name, 0) + copy.read.value.nbytes
    rates = capacity_rates(facts.plan.platform)
    return [Limit("link", "this plan", name, amount / rates[name]) for name, amount in nbytes.items()]


def _lanes(facts: Facts) -> list[Limit]:
    """Of each lane: its actions alone, one after the other."""
    work_s = facts.columns.work_s
    lanes = zip(facts.plan.lanes, facts.on_lane, strict=True)
    return [Limit("lane", "this plan", lane.name, sum(work_s[i] for i in on)) for lane, on in lanes if on]


def _issuing(facts: Facts) -> float:
    """Of the thread, or the rank's that has most to issue: all calls in a row, CPU lanes taken to be busy."""
    c, put_s = facts.columns, facts.columns.dispatch.put_s

    def saved_s(i: int) -> float:
        handed_over = put_s > 0.0 and c.kind[i] == CPU and c.previous[i] >= 0
        return max(0.0, c.call_s[i] - put_s) if handed_over else 0.0

    orders = c.orders or [list(range(len(facts)))]
    return max(facts.issues_s(order) - sum(map(saved_s, order)) for order in orders)


def _path(facts: Facts) -> float:
    """The longest path through waits and lanes, each action alone, the thread's waits included."""
    columns = facts.columns
    ends: list[float] = []
    thread = 0.0
    for i, waits in enumerate(columns.waits):
        before = columns.previous[i]
        ready = max((ends[j] for j in waits), default=0.0)
        if is_wait(facts, i):
            thread = max(thread, ready)
            ends.append(thread)
            continue
        ends.append(max(ready, thread, ends[before] if before >= 0 else 0.0) + columns.work_s[i])
    return max(ends, default=0.0)
