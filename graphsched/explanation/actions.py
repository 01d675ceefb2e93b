"""One action: why it started when it did, what it waited for, what ran beside it, its slack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphsched.explanation.facts import Facts, is_wait
from graphsched.explanation.parts import Part, divide, divide_gap, others, served_before
from graphsched.explanation.starts import Cause, over_s, possible_causes, start_cause, start_latency_s
from graphsched.quantities import seconds_text

LISTED = 6  # actions beside, in the text
SHOWN = 0.005  # share of a span below which its part before the action was ready is left out of the text


@dataclass(frozen=True, slots=True)
class Beside:
    """An action that ran at the same time, and for how many seconds of it."""

    action: str
    lane: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ActionReport:
    """What happened to one action.

    Attributes:
        action, lane, kind: Which.
        issue_start_s, issue_end_s, start_s, end_s: Its span.
        cause: What it waited for last, and so why it started when it did.
        waited_for: All that it waited for, what was over last first.
        names: Of the actions that these causes bear numbers of.
        thread: Which thread issued it, of several ranks the last that did.
        behind: The copy that the engine served before it, once it was ready; empty if none.
        parts: What its time was spent on, from when it was ready to its end; seconds.
        beside: What ran at the same time, the longest first.
        slack_s: By how much its end may move before the whole takes longer.
        critical: Whether the critical path goes through it.
    """

    action: str
    lane: str
    kind: str
    issue_start_s: float
    issue_end_s: float
    start_s: float
    end_s: float
    cause: Cause
    waited_for: tuple[Cause, ...]
    names: Mapping[int, str]
    thread: str
    behind: str
    parts: Mapping[Part, float]
    beside: tuple[Beside, ...]
    slack_s: float
    critical: bool

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "action": self.action,
            "lane": self.lane,
            "kind": self.kind,
            "issue_start_s": self.issue_start_s,
            "issue_end_s": self.issue_end_s,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "waited_for": [
                {"kind": cause.kind, "action": self.names.get(cause.by), "ready_s": cause.ready_s}
                for cause in self.waited_for
            ],
            "behind": self.behind or None,
            "parts_s": dict(self.parts),
            "beside": [{"action": b.action, "lane": b.lane, "seconds": b.seconds} for b in self.beside],
            "slack_s": self.slack_s,
            "critical": self.critical,
        }


def report_action(facts: Facts, i: int, *, slack_s: float, critical: bool) -> ActionReport:
    """The report of action `i`."""
    plan = facts.plan
    cause, waited_for = _causes(facts, i)
    begin_s = facts.work_from_s(i)
    behind = -1
    if is_wait(facts, i):
        last_s = min(facts.end_s[i], max(facts.start_s[i], cause.ready_s))
        parts: dict[Part, float] = {"idle": last_s - facts.start_s[i], "return": facts.end_s[i] - last_s}
    else:
        ready_s = min(begin_s, over_s(facts, i, cause))
        parts = _parts(facts, i, ready_s, cause)
        behind = served_before(facts, i, ready_s) if plan.kinds[i] == "copy" else -1
    found = (
        Beside(
            plan.names[j],
            facts.lane(j),
            min(facts.end_s[i], facts.end_s[j]) - max(begin_s, facts.work_from_s(j)),
        )
        for j in others(facts, i, begin_s, facts.end_s[i])
    )
    return ActionReport(
        action=plan.names[i],
        lane=facts.lane(i),
        kind=plan.kinds[i],
        issue_start_s=facts.issue_start_s[i],
        issue_end_s=facts.issue_end_s[i],
        start_s=facts.start_s[i],
        end_s=facts.end_s[i],
        cause=cause,
        waited_for=waited_for,
        names={c.by: plan.names[c.by] for c in waited_for if c.by >= 0},
        thread=f"the thread{facts.of_rank(i)}",
        behind=plan.names[behind] if behind >= 0 else "",
        parts={part: seconds for part, seconds in parts.items() if seconds > 0.0},
        beside=tuple(sorted(found, key=lambda b: -b.seconds)),
        slack_s=slack_s,
        critical=critical,
    )


def _parts(facts: Facts, i: int, ready_s: float, cause: Cause) -> dict[Part, float]:
    """What action `i` spent its time on from `ready_s`, when the last cause was over."""
    begin_s = facts.work_from_s(i)
    launch_s = facts.columns.dispatch.launch_s if cause.kind == "thread" else 0.0
    parts = divide(facts, i, begin_s, facts.end_s[i], launch_s=launch_s)
    for part, seconds in divide_gap(facts, i, ready_s, begin_s, start_latency_s(facts, i, cause)).items():
        parts[part] = parts.get(part, 0.0) + seconds
    return parts


def _causes(facts: Facts, i: int) -> tuple[Cause, tuple[Cause, ...]]:
    """What action `i` waited for last, and all that it waited for."""
    if not is_wait(facts, i):
        chosen = start_cause(facts, i)
        rest = [cause for cause in possible_causes(facts, i) if (cause.kind, cause.by) != (chosen.kind, chosen.by)]
        return chosen, (chosen, *sorted(rest, key=lambda cause: -cause.ready_s))
    thread = Cause("thread", i, facts.issue_start_s[i])
    waits = [Cause("return", j, facts.end_s[j]) for j in facts.columns.waits[i]]
    ordered = sorted([*waits, thread], key=lambda cause: -cause.ready_s)
    return replace(ordered[0]), tuple(ordered)


def _lines(report: ActionReport) -> Iterator[str]:
    span = f"{seconds_text(report.start_s)} to {seconds_text(report.end_s)}"
    yield f"{report.action} on {report.lane}: {span} ({_length(report)})"
    yield f"  {_why(report)}"
    for cause in report.waited_for[1:]:
        yield f"  before that: {_ready(report, cause)} at {seconds_text(cause.ready_s)}"
    if report.behind:
        yield f"  then stood behind {report.behind} for what both go over"
    spent = ", ".join(f"{seconds_text(s)} {part}" for part, s in sorted(report.parts.items(), key=lambda p: -p[1]))
    yield f"  spent: {spent or 'nothing'}"
    if report.beside:
        listed = ", ".join(f"{b.action} on {b.lane} {seconds_text(b.seconds)}" for b in report.beside[:LISTED])
        more = len(report.beside) - LISTED
        yield f"  beside: {listed}{f' and {more} more' if more > 0 else ''}"
    else:
        yield "  beside: nothing"
    on_path = "on the critical path" if report.critical else "not on the critical path"
    yield f"  slack: {seconds_text(report.slack_s)}, {on_path}"


def _length(report: ActionReport) -> str:
    """The length of the span; it begins when the lane came to the action, which may not have been issued yet."""
    length_s = report.end_s - report.start_s
    before_s = length_s - sum(report.parts.values())
    if before_s <= SHOWN * length_s:
        return seconds_text(length_s)
    return f"{seconds_text(length_s)}, of which {seconds_text(before_s)} before it was ready"


def _why(report: ActionReport) -> str:
    cause = report.cause
    words = f"waited last for: {_ready(report, cause)} at {seconds_text(cause.ready_s)}"
    if cause.alone_s > 0.0 and len(report.waited_for) > 1:
        words += f"; all else was ready {seconds_text(cause.alone_s)} earlier"
    return words


def _ready(report: ActionReport, cause: Cause) -> str:
    name = report.names.get(cause.by, "")
    return {
        "wait": f"{name}, over",
        "return": f"{name}, over",
        "lane": f"its lane, free after {name}",
        "thread": f"{report.thread}, which {'had issued' if report.kind != 'wait' else 'came to'} it",
    }[cause.kind]
