"""Why two actions that might have overlapped did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from graphsched.errors import PlanError
from graphsched.explanation.facts import Facts, gather, is_wait
from graphsched.explanation.names import find_action
from graphsched.explanation.parts import lost_s, rivals
from graphsched.explanation.starts import Queues, possible_causes, start_cause
from graphsched.formats.dependencies import dependencies
from graphsched.quantities import seconds_text
from graphsched.timeline import Timeline

WhyNotKind = Literal[
    "overlapped", "dependency", "barrier", "lane", "blocking", "dispatch", "queue", "behind", "device", "engine",
    "unexplained",
]  # fmt: skip
GAIN = 0.9  # two actions gain nothing side by side if they lose this much of the time that they share
NAMED = 6  # actions of a path that are named


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why two actions did not overlap, or what that brought.

    Attributes:
        first, second: Their names, the one that started first before the other.
        kind: ``overlapped``; ``dependency`` (`through` is the path); ``barrier`` (`through` is the thread's
            wait); ``lane``; ``blocking`` (the thread waited for a pageable copy); ``dispatch`` (issued too
            late); ``queue`` (so, because the launch queue was full); ``behind`` (the second waited for
            others: `through`); ``device`` or ``engine``: side by side, but what both use was full, or the engine
            served the first before the second.
        through: Names of the actions between.
        overlap_s: Seconds in which both were at work.
        apart_s: Seconds from the end of the first to the start of the second.
        text: All this in a sentence.
    """

    first: str
    second: str
    kind: WhyNotKind
    through: tuple[str, ...]
    overlap_s: float
    apart_s: float
    text: str

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def why_not(timeline: Timeline, a: str | int, b: str | int) -> WhyNot:
    """Why actions `a` and `b` (names or numbers) did not overlap in `timeline`.

    The first of these that holds: they did; one needs the other; the thread waited between them; they
    share a lane; the thread was held by the first; the second was issued after the first had ended; it
    waited for others.

    Raises:
        PlanError: There is no such action, or both are the same, or one is a wait of the thread.
    """
    return why_not_in(gather(timeline), a, b)


def why_not_in(facts: Facts, a: str | int, b: str | int) -> WhyNot:
    """`why_not` for facts gathered before."""
    pair = [find_action(facts.plan, a), find_action(facts.plan, b)]
    for i in pair:
        if is_wait(facts, i):
            raise PlanError(f"{facts.plan.names[i]!r} is a wait of the dispatching thread: name a task or a copy")
    if pair[0] == pair[1]:
        raise PlanError(f"{facts.plan.names[pair[0]]!r} is named twice: name two actions")
    one, two = sorted(pair, key=lambda i: (facts.work_from_s(i), i))
    begin_s, end_s = facts.work_from_s(two), min(facts.end_s[one], facts.end_s[two])
    if end_s - begin_s > facts.tolerance_s:
        return _together(facts, one, two, end_s - begin_s)
    kind, through, reason = _reason(facts, one, two)
    names = facts.plan.names
    apart_s = max(0.0, facts.work_from_s(two) - facts.end_s[one])
    text = f"{names[two]} and {names[one]} did not overlap: {reason}"
    return WhyNot(names[one], names[two], kind, tuple(names[k] for k in through), 0.0, apart_s, text)


def _together(facts: Facts, one: int, two: int, overlap_s: float) -> WhyNot:
    names = facts.plan.names
    kind: WhyNotKind = "overlapped"
    text = f"{names[one]} and {names[two]} ran side by side for {seconds_text(overlap_s)}"
    if two in rivals(facts, one, facts.work_from_s(one), facts.end_s[one]):
        lost = lost_s(facts, one) + lost_s(facts, two)
        if lost >= GAIN * overlap_s:
            kind = "device" if facts.plan.kinds[one] == "run" or facts.plan.kinds[two] == "run" else "engine"
            full = f"{facts.plan.lanes[facts.plan.lane_of[one]].device} was full"
            full = full if kind == "device" else f"{_shared(facts, one, two)} was busy with both"
            text += f" and gained nothing: together they took {seconds_text(lost)} longer than alone ({full})"
        elif lost > facts.tolerance_s:
            text += f"; together they took {seconds_text(lost)} longer than alone"
    return WhyNot(names[one], names[two], kind, (), overlap_s, 0.0, text)


def _shared(facts: Facts, one: int, two: int) -> str:
    return ", ".join(name for name in facts.crosses[one] if name in facts.crosses[two])


Reason = tuple[WhyNotKind, tuple[int, ...], str]


def _reason(facts: Facts, one: int, two: int) -> Reason:
    """Why `two` started after `one` was over: kind, actions between, and the same in words."""
    names = facts.plan.names
    low, high = min(one, two), max(one, two)
    path = _path(facts, low, high)
    if path is not None:
        listed = " → ".join(_shortened([names[k] for k in path]))
        return "dependency", path[1:-1], f"{names[high]} needs {names[low]} ({listed})"
    barrier = _barrier(facts, low, high)
    if barrier >= 0:
        return "barrier", (barrier,), f"the thread waited for all before at {names[barrier]} in between"
    if shared := _lane_of_both(facts, one, two):
        return "lane", (), f"both are on {shared}, which runs one action after the other"
    if facts.blocks(one) and one < two:
        return "blocking", (), f"{names[one]} is a pageable copy, which held the thread until it was over"
    return _late(facts, one, two)


def _late(facts: Facts, one: int, two: int) -> Reason:
    names, cause = facts.plan.names, start_cause(facts, two)
    ready_s = possible_causes(facts, two)[-1].ready_s  # by its issue
    late_s = ready_s - facts.end_s[one]
    if late_s > -facts.tolerance_s and (cause.kind == "thread" or cause.ready_s > ready_s):
        return _issued_late(facts, one, two, late_s)
    if cause.ready_s < facts.end_s[one] and one in rivals(facts, two, cause.ready_s, facts.start_s[two]):
        shared = _shared(facts, one, two) if one in facts.crosses and two in facts.crosses else ""
        if shared:
            return "engine", (), f"{names[two]} was ready, but {shared} served {names[one]} first"
    chain = _behind(facts, one, two)
    if chain:
        how = " which ".join(f"{_held_by(facts, k, j)}" for k, j in zip((two, *chain), chain, strict=False))
        return "behind", chain, f"{names[two]} {how}"
    if cause.kind == "thread" and facts.line.source == "predicted":
        return _issued_late(facts, one, two, facts.work_from_s(two) - facts.end_s[one])
    return "unexplained", (), f"nothing held {names[two]} back that this timeline shows"


def _issued_late(facts: Facts, one: int, two: int, late_s: float) -> Reason:
    """`two` could run so much after the end of `one`, by its issue."""
    names = facts.plan.names
    room = Queues(facts).made_room(two, facts.issue_end_s[two])
    if room >= 0:
        return (
            "queue",
            (room,),
            f"the launch queue was full when {names[two]} was issued, until {names[room]} ended",
        )
    after = f"{seconds_text(max(0.0, late_s))} after {names[one]} had ended"
    after = after if facts.launched_s[two] > facts.end_s[one] - facts.tolerance_s else f"and could run {after}"
    by = f" by the thread{rank}" if (rank := facts.of_rank(two)) else ""
    return "dispatch", (), f"{names[two]} was issued late{by}, {after}"


def _held_by(facts: Facts, i: int, j: int) -> str:
    over = f"{facts.plan.names[j]} (over at {seconds_text(facts.end_s[j])})"
    shared = _lane_of_both(facts, i, j)
    return f"stood on {shared} behind {over}" if shared else f"waited for {over}"


def _lane_of_both(facts: Facts, i: int, j: int) -> str:
    """The first lane that both are on; empty if there is none."""
    lanes, other = facts.plan.lanes, facts.plan.lanes_of(j)
    return next((lanes[k].name for k in facts.plan.lanes_of(i) if k in other), "")


def _behind(facts: Facts, one: int, two: int) -> tuple[int, ...]:
    """What `two` waited for, and what that waited for, back to what ran when `one` did."""
    chain: list[int] = []
    i = two
    while len(chain) < NAMED:
        cause = start_cause(facts, i)
        if cause.kind not in ("wait", "lane"):
            break
        i = cause.by
        chain.append(i)
        if facts.work_from_s(i) < facts.end_s[one]:
            break
    return tuple(chain)


def _barrier(facts: Facts, low: int, high: int) -> int:
    """The first wait of the thread between two actions, or -1; it waits for all that was issued before."""
    return next((k for k in range(low + 1, high) if is_wait(facts, k)), -1)


def _path(facts: Facts, low: int, high: int) -> tuple[int, ...] | None:
    """A shortest path of dependencies from action `low` to action `high`; None where there is none."""
    needed = _needed(facts, low, high)
    came: dict[int, int] = {high: -1}
    todo = [high]
    for i in todo:
        if i == low:
            return tuple(_follow(came, low))
        for j in needed.get(i, ()):
            if j >= low and j not in came:
                came[j] = i
                todo.append(j)
    return None


def _follow(came: Mapping[int, int], i: int) -> list[int]:
    path = []
    while i >= 0:
        path.append(i)
        i = came[i]
    return path


def _needed(facts: Facts, low: int, high: int) -> dict[int, list[int]]:
    """What each action needs: what makes or brings what it reads, and what must come before without data."""
    plan = facts.plan
    needed: dict[int, list[int]] = {}
    for j, i in dependencies(plan):
        if low <= j and i <= high and not is_wait(facts, j) and not is_wait(facts, i):
            needed.setdefault(i, []).append(j)
    for i in range(low, high + 1):
        task = plan.task(i)
        for name in task.after if task is not None else ():
            before = plan.index_of.get(name)
            if before is not None and not is_wait(facts, before) and not is_wait(facts, i):
                needed.setdefault(i, []).append(before)
    return needed


def _shortened(path: list[str]) -> list[str]:
    return path if len(path) <= NAMED else [*path[: NAMED // 2], "…", *path[-NAMED // 2 :]]
