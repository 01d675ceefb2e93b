"""How busy lanes, devices and the dispatching thread are, and what overlaps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from graphsched.explanation.facts import Facts, is_wait
from graphsched.explanation.parts import total
from graphsched.plan import HOST_LANE, Lane
from graphsched.timeline import Interval, merge


@dataclass(frozen=True, slots=True)
class Use:
    """What a lane, or all compute lanes of a device together, did with its time.

    Attributes:
        name: The lane's; a device's; ``host/py`` for the thread, which is busy when it issues, but not while it waits
            for what is over on a CPU lane.
        busy_s: Seconds with at least one action at work, from when its launch could reach the device.
        share: Of the timed makespan.
        overlap_s: Of `busy_s`, seconds beside work on other lanes that compute or copy.
        copied_beside_s: Of a device: seconds of compute beside copies from or to it; else 0.
        actions: Number of actions.
    """

    name: str
    busy_s: float
    share: float
    overlap_s: float
    copied_beside_s: float
    actions: int


def lane_uses(facts: Facts) -> tuple[Use, ...]:
    """Use of the thread and of each lane, in the order of the plan's lanes."""
    busy = [_intervals(facts, lane) for lane in facts.on_lane]
    crowded = _Cover(_depth_two(_once(facts)))
    thread = _thread_use(facts)
    return tuple(
        thread
        if lane.name == HOST_LANE
        else _use(facts, lane.name, busy[k], crowded, _Cover([]), len(facts.on_lane[k]))
        for k, lane in enumerate(facts.plan.lanes)
    )


def device_uses(facts: Facts) -> tuple[Use, ...]:
    """Use of each device's compute lanes together, in the order of the plan's lanes."""
    lanes = facts.plan.lanes
    busy = [_intervals(facts, lane) for lane in facts.on_lane]
    found = []
    for device in dict.fromkeys(lane.device for lane in lanes if lane.kind == "compute"):
        mine = [k for k, lane in enumerate(lanes) if lane.device == device and lane.kind == "compute"]
        others = [k for k, lane in enumerate(lanes) if lane.kind != "host" and k not in mine]
        copies = [k for k in others if _copies_of(lanes[k], device)]
        beside, copied = _Cover(_joined(busy, others)), _Cover(_joined(busy, copies))
        actions = sum(len(facts.on_lane[k]) for k in mine)
        found.append(_use(facts, device, _joined(busy, mine), beside, copied, actions))
    return tuple(found)


class _Cover:
    """Intervals that are apart from each other and in order, with the seconds before any time."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self._starts = [start for start, _ in intervals]
        self._ends = [end for _, end in intervals]
        self._before_s = [0.0, *accumulate(end - start for start, end in intervals)]

    def seconds_in(self, start_s: float, end_s: float) -> float:
        """Seconds of the intervals from `start_s` to `end_s`."""
        return self._until(end_s) - self._until(start_s)

    def _until(self, time_s: float) -> float:
        k = bisect_right(self._starts, time_s)
        return self._before_s[k] - (max(0.0, self._ends[k - 1] - time_s) if k else 0.0)


def _use(facts: Facts, name: str, busy: list[Interval], beside: _Cover, copied: _Cover, actions: int) -> Use:
    whole_s = facts.line.timed_makespan_s
    seconds = total(busy)
    overlap_s, copied_s = (sum(cover.seconds_in(*interval) for interval in busy) for cover in (beside, copied))
    return Use(name, seconds, seconds / whole_s if whole_s else 0.0, overlap_s, copied_s, actions)


def _thread_use(facts: Facts) -> Use:
    issues: list[Interval] = []
    for i in range(len(facts)):
        end_s = facts.issue_end_s[i]
        if is_wait(facts, i):
            j = facts.waited_for(i)
            issues.append((max(facts.issue_start_s[i], facts.end_s[j] if j >= 0 else 0.0), end_s))
        elif facts.blocks(i):
            issues += [(facts.issue_start_s[i], facts.work_from_s(i)), (facts.end_s[i], end_s)]
        else:
            issues.append((min(facts.there_s[i], end_s), end_s))
    return _use(facts, HOST_LANE, merge(issues), _Cover([]), _Cover([]), len(facts))


def _copies_of(lane: Lane, device: str) -> bool:
    return lane.kind != "compute" and device in (lane.device, lane.target)


def _intervals(facts: Facts, lane: Sequence[int]) -> list[Interval]:
    """When the actions of a lane are at work."""
    return merge((facts.work_from_s(i), facts.end_s[i]) for i in lane if not is_wait(facts, i))


def _once(facts: Facts) -> Iterator[list[Interval]]:
    """When the actions of each lane are at work, those on several lanes with the first of them alone."""
    lane_of = facts.plan.lane_of
    return (_intervals(facts, [i for i in lane if lane_of[i] == k]) for k, lane in enumerate(facts.on_lane))


def _joined(busy: Sequence[list[Interval]], lanes: Iterable[int]) -> list[Interval]:
    """When at least one of `lanes` is busy."""
    return merge(interval for k in lanes for interval in busy[k])


def _depth_two(lanes: Iterable[list[Interval]]) -> list[Interval]:
    """When at least two lanes are busy."""
    changes = sorted(
        (time, change) for busy in lanes for start, end in busy for time, change in ((start, 1), (end, -1))
    )
    depth, since, found = 0, 0.0, []
    for time, change in changes:
        depth += change
        if depth == 2 and change > 0:
            since = time
        elif depth == 1 and change < 0:
            found.append((since, time))
    return merge(found)
