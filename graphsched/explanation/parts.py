"""What an action's time on its lane was spent on: its own work, and what others took."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from graphsched.explanation.facts import NOISE, Facts
from graphsched.simulator.lane_costs import CPU, CUDA
from graphsched.timeline import Interval, merge

Part = Literal["compute", "copy", "sharing", "contention", "slower", "timing", "latency", "dispatch", "return", "idle"]


def divide(facts: Facts, i: int, begin_s: float, end_s: float, *, launch_s: float = 0.0) -> dict[Part, float]:
    """What action `i` spent the time from `begin_s` to `end_s` on; the seconds add up to its length.

    `launch_s`: how much of what is beyond its time alone may be the latency of its launch.
    """
    length_s = end_s - begin_s
    is_run = facts.plan.kinds[i] != "copy"
    gap_s = facts.columns.behind_s(i) if facts.columns.kind[i] == CUDA else 0.0
    timing_s = min(length_s, gap_s)
    own_s = min(length_s - timing_s, facts.columns.work_s[i])
    excess_s = length_s - timing_s - own_s
    latency_s = min(excess_s, launch_s)
    excess_s -= latency_s
    if excess_s <= noise_s(facts, i):
        own_s, excess_s = own_s + excess_s, 0.0
    busy = _during(facts, in_the_way(facts, i, begin_s, end_s), begin_s, end_s) if excess_s else []
    shared_s = min(excess_s, total(busy))
    return {
        "compute" if is_run else "copy": own_s,
        "sharing" if is_run else "contention": shared_s,
        "slower": excess_s - shared_s,
        "timing": timing_s,
        "latency": latency_s,
    }


def divide_gap(facts: Facts, i: int, ready_s: float, begin_s: float, expected_s: float) -> dict[Part, float]:
    """What the time from `ready_s` to the start of action `i`, at `begin_s`, was spent on.

    `expected_s` of it is latency. In the rest a copy stands behind those that the engine serves first: what
    crosses a capacity that it crosses too.
    """
    gap_s = max(0.0, begin_s - ready_s)
    if gap_s <= expected_s + facts.tolerance_s:
        return {"latency": gap_s}
    served_s = 0.0
    if facts.plan.kinds[i] == "copy":
        served_s = min(gap_s - expected_s, total(beside(facts, i, ready_s, begin_s)))
    return {"latency": expected_s, "contention": served_s, "idle": gap_s - expected_s - served_s}


def served_before(facts: Facts, i: int, ready_s: float) -> int:
    """Of the copies that the engine served between `ready_s` and the start of copy `i` the one over last, or -1."""
    start_s = facts.start_s[i]
    found = rivals(facts, i, ready_s, start_s) if start_s - ready_s > facts.tolerance_s else []
    over = [j for j in found if facts.end_s[j] <= start_s + facts.tolerance_s]
    return max(over, key=lambda j: (facts.end_s[j], -j), default=-1)


def lost_s(facts: Facts, i: int) -> float:
    """How much longer action `i` took than alone because of what ran beside it."""
    parts = divide(facts, i, facts.work_from_s(i), facts.end_s[i])
    return parts.get("sharing", 0.0) + parts.get("contention", 0.0)


def noise_s(facts: Facts, i: int) -> float:
    """By how much action `i` may differ from its time alone without a cause."""
    if facts.line.source == "predicted":
        return facts.tolerance_s
    return max(facts.tolerance_s, NOISE * facts.columns.work_s[i])


def beside(facts: Facts, i: int, begin_s: float, end_s: float) -> list[Interval]:
    """When, in that time, rivals of action `i` ran: intervals apart from each other, in order."""
    return _during(facts, rivals(facts, i, begin_s, end_s), begin_s, end_s)


def _during(facts: Facts, actions: Sequence[int], begin_s: float, end_s: float) -> list[Interval]:
    return merge((max(begin_s, facts.work_from_s(j)), min(end_s, facts.end_s[j])) for j in actions)


def in_the_way(facts: Facts, i: int, begin_s: float, end_s: float) -> list[int]:
    """What slows action `i` in that time: its rivals, and of a copy the tasks that cost such copies something.

    By its figures: those that use the memory at its ends, and those on several lanes of a GPU (`simulator.traffic`).
    """
    return [j for j in others(facts, i, begin_s, end_s) if _rival(facts, i, j) or _slows(facts, i, j)]


def _slows(facts: Facts, i: int, j: int) -> bool:
    """Whether task `j` is in a pool where what runs slows copy `i`."""
    columns = facts.columns
    pool, pools = columns.resource[j], columns.pools
    if pool < 0 or facts.plan.kinds[j] != "run":
        return False
    slowed = {k for k, _ in columns.slowed.get(i, ())}
    return (pool in slowed and j in columns.shares) or pools + pool in slowed


def rivals(facts: Facts, i: int, begin_s: float, end_s: float) -> list[int]:
    """Actions on other lanes in that time that use what action `i` uses.

    Of a task: tasks on other lanes of its device, and copies from and to it; on CPU lanes whatever
    else runs on CPU lanes. Of a copy: copies that cross a capacity that it crosses.
    """
    return [j for j in others(facts, i, begin_s, end_s) if _rival(facts, i, j)]


def others(facts: Facts, i: int, begin_s: float, end_s: float) -> list[int]:
    """All actions on other lanes at work in that time, in plan order."""
    mine, kinds = facts.plan.lanes_of(i), facts.columns.lanes.kind
    found: set[int] = set()  # a collective is on several lanes
    for lane, on_lane in enumerate(facts.on_lane):
        if lane not in mine and kinds[lane] in (CUDA, CPU):
            found.update(_within(facts, on_lane, begin_s, end_s))
    return sorted(found)


def _within(facts: Facts, on_lane: Sequence[int], begin_s: float, end_s: float) -> Iterator[int]:
    """Actions of a lane at work in that time, by more than the tolerance."""
    first = bisect_right(on_lane, begin_s + facts.tolerance_s, key=facts.end_s.__getitem__)
    last = bisect_left(on_lane, end_s - facts.tolerance_s, lo=first, key=facts.start_s.__getitem__)
    return (j for j in on_lane[first:last] if facts.work_from_s(j) < end_s - facts.tolerance_s)


def _rival(facts: Facts, i: int, j: int) -> bool:
    mine, other = facts.crosses.get(i), facts.crosses.get(j)
    kind = facts.columns.kind
    if kind[i] == CPU:
        return kind[j] == CPU
    if mine is not None:
        return other is not None and not set(mine).isdisjoint(other)
    plan = facts.plan
    ends = {end for k in plan.lanes_of(j) for end in (plan.lanes[k].device, plan.lanes[k].target)}
    return kind[j] == CUDA and any(plan.lanes[k].device in ends for k in plan.lanes_of(i))


# -- intervals ------------------------------------------------------------------------------------


def total(intervals: Sequence[Interval]) -> float:
    """Seconds of intervals."""
    return sum(end - start for start, end in intervals)
