"""What is worth saying of a timeline, in lines, and which of them come first.

The three that `graphsched run` prints answer three questions in turn: what binds the run (the device, lane
or thread with the largest part of the critical path, if that is at least `MAIN`); where the path's time went;
and what could be won: the largest loss of the path, or, where the makespan is no more than `NEAR` above the
bound of every plan, that there is little to win. What a loss is worth ends at that bound, and the line says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphsched.explanation.facts import Facts
from graphsched.explanation.limits import Limit
from graphsched.explanation.losses import Loss
from graphsched.explanation.parts import Part
from graphsched.explanation.path import Step
from graphsched.explanation.usage import Use
from graphsched.plan import HOST_LANE
from graphsched.quantities import seconds_text

NEAR = 0.02  # share of the makespan above the lower bound that is not worth another plan
MAIN = 0.5  # share of the critical path from which one resource binds the run
SMALL = 0.005  # share of the path that is not worth a word
LISTED = 5  # entries of the path's line
WORDS: Mapping[Part, str] = {
    "compute": "compute",
    "copy": "copies",
    "sharing": "slowed by others",
    "contention": "slowed by other copies",
    "slower": "slower than alone",
    "timing": "timing events",
    "latency": "latency",
    "dispatch": "dispatch",
    "return": "return from waits",
    "idle": "idle",
}
Shares = Mapping[tuple[Part, str], float]


def share_text(share: float) -> str:
    """A share in whole per cent, below 10 with a digit more.

    Example:
        >>> share_text(0.957), share_text(0.0123)
        ('96 %', '1.2 %')
    """
    return f"{share * 100:.0f} %" if share >= 0.0995 or share == 0 else f"{share * 100:.1f} %"


def path_shares(facts: Facts, path: Sequence[Step]) -> dict[tuple[Part, str], float]:
    """Seconds of the critical path by part and resource, the largest first.

    Resources are the devices for what their compute lanes do, copy lanes, and ``host/py`` for the thread.
    """
    resources = [lane.device if lane.kind == "compute" else lane.name for lane in facts.plan.lanes]
    seconds: dict[tuple[Part, str], float] = {}
    for step in path:
        where = resources[facts.plan.lane_of[step.action]] if step.kind == "action" else HOST_LANE
        for part, length in step.parts.items():
            seconds[part, where] = seconds.get((part, where), 0.0) + length
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def bound_line(facts: Facts, shares: Shares, uses: Sequence[Use]) -> str:
    """What binds the run: what the critical path is on for most of the time."""
    on: dict[str, float] = {}
    for (part, where), length in shares.items():
        if part not in ("latency", "idle"):
            on[where] = on.get(where, 0.0) + length
    if not on or not len(facts):
        return "bound by: nothing, for nothing ran"
    whole_s = facts.line.timed_makespan_s
    busy = {use.name: use.share for use in uses}
    name = max(on, key=lambda key: on[key])
    if on[name] >= MAIN * whole_s:
        return f"bound by: {_named(name)}, {share_text(busy[name])} busy"
    most = max(on, key=lambda key: busy[key])
    also = (
        f"{share_text(busy[most])} busy" if most == name else f"the busiest is {_named(most)}, {share_text(busy[most])}"
    )
    return f"bound by: no one resource; {_named(name)} has {share_text(on[name] / whole_s)} of the path, {also}"


def path_line(facts: Facts, shares: Shares) -> str:
    """Where the critical path's time went."""
    whole_s = facts.line.timed_makespan_s
    joined: dict[str, float] = {}
    for (part, where), length in shares.items():
        name = WORDS[part] + (
            f" on {_where(facts, where)}" if part in ("compute", "copy", "sharing", "contention") else ""
        )
        joined[name] = joined.get(name, 0.0) + length
    ordered = sorted(joined.items(), key=lambda item: -item[1])
    listed = [f"{share_text(length / whole_s)} {name}" for name, length in ordered if length >= SMALL * whole_s]
    return f"critical path: {', '.join(listed[:LISTED]) or 'empty'}"


def win_line(facts: Facts, losses: Sequence[Loss], limits: Sequence[Limit]) -> str:
    """What could be won: the largest loss, or how near the run is to the bound of every plan."""
    whole_s = facts.line.makespan_s
    bound = max((limit for limit in limits if limit.scope == "any plan"), key=lambda limit: limit.seconds)
    spare_s = whole_s - bound.seconds
    least = f"{seconds_text(bound.seconds)} ({_bound_name(bound)})"
    if spare_s < -SMALL * whole_s:
        return f"little to win: by the costs no plan takes less than {least}, and this one took {seconds_text(whole_s)}"
    if spare_s <= NEAR * whole_s:
        return f"little to win: no plan takes less than {least}, {share_text(bound.seconds / (whole_s or 1.0))} of this"
    if not losses or losses[0].seconds <= SMALL * whole_s:
        return f"to win by another plan: {seconds_text(spare_s)} at most; none takes less than {least}"
    if losses[0].seconds > spare_s:
        return f"{losses[0].text}; {seconds_text(spare_s)} to win at most, no plan takes less than {least}"
    return losses[0].text


def _where(facts: Facts, resource: str) -> str:
    """A device by its only compute lane, if it has no more."""
    lanes = facts.plan.lanes_of_device(resource)
    return lanes[0].name if len(lanes) == 1 else resource


def _named(resource: str) -> str:
    return "dispatch (host/py)" if resource == HOST_LANE else resource


def _bound_name(limit: Limit) -> str:
    names = {
        "path": "longest path",
        "intervals": "longest path and what must be done meanwhile",
        "link": "bytes over a link",
        "scheduler": "proven by the scheduler",
    }
    return names.get(limit.kind, limit.kind)
