"""`explain`: a timeline that says what binds it, where its time went, and what could be won."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from graphsched.explanation.actions import ActionReport, report_action
from graphsched.explanation.facts import Facts, gather
from graphsched.explanation.limits import Limit, limits
from graphsched.explanation.lines import bound_line, path_line, path_shares, share_text, win_line
from graphsched.explanation.losses import Loss, find_losses
from graphsched.explanation.names import find_action
from graphsched.explanation.pairs import WhyNot, why_not_in
from graphsched.explanation.parts import Part
from graphsched.explanation.path import Step, critical_path
from graphsched.explanation.slack import slacks
from graphsched.explanation.usage import Use, device_uses, lane_uses
from graphsched.quantities import seconds_text
from graphsched.timeline import Timeline, check_timeline

STEPS = 12  # steps of the critical path in the text, the longest


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a timeline took as long as it did; made by `explain`.

    Attributes:
        timeline: What is explained.
        path: The critical path, first step to last; the steps' parts add up to the timed makespan.
    """

    timeline: Timeline
    path: tuple[Step, ...]
    _facts: Facts = field(repr=False)

    @cached_property
    def parts_s(self) -> dict[Part, float]:
        """Seconds of the critical path by what they were spent on, the largest first; their sum is the makespan."""
        seconds: dict[Part, float] = {}
        for step in self.path:
            for part, length in step.parts.items():
                seconds[part] = seconds.get(part, 0.0) + length
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """Lower bounds, of any plan and of this one."""
        return limits(self._facts)

    @cached_property
    def lanes(self) -> tuple[Use, ...]:
        """How busy the thread and each lane are."""
        return lane_uses(self._facts)

    @cached_property
    def devices(self) -> tuple[Use, ...]:
        """How busy each device's compute lanes are together."""
        return device_uses(self._facts)

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """What the critical path lost, largest first."""
        return find_losses(self._facts, self.path)

    @cached_property
    def slack_s(self) -> list[float]:
        """Seconds by which each action's end may move before the whole takes longer, by action."""
        return slacks(self._facts)

    @cached_property
    def headlines(self) -> tuple[str, str, str]:
        """The three most useful lines: what binds the run, where the time went, what could be won."""
        shares = path_shares(self._facts, self.path)
        return (
            bound_line(self._facts, shares, (*self.devices, *self.lanes)),
            path_line(self._facts, shares),
            win_line(self._facts, self.losses, self.limits),
        )

    def action(self, name: str | int) -> ActionReport:
        """Why an action started when it did, what it waited for, what ran beside it, its slack.

        Raises:
            PlanError: There is none of that name or number; the nearest names are offered.
        """
        i = find_action(self.timeline.plan, name)
        return report_action(self._facts, i, slack_s=self.slack_s[i], critical=i in self._on_path)

    def why_not(self, a: str | int, b: str | int) -> WhyNot:
        """Why two actions did not overlap: see `graphsched.explanation.why_not`."""
        return why_not_in(self._facts, a, b)

    @cached_property
    def _on_path(self) -> frozenset[int]:
        ran = {step.action for step in self.path if step.kind == "action"}
        plan = self.timeline.plan
        waits = (i for s in self.path if s.kind == "thread" for i in self._facts.issued_until(s.action, s.first))
        return frozenset(ran | {i for i in waits if plan.kinds[i] == "wait"})

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds."""
        names = self.timeline.plan.names
        return {
            "source": self.timeline.source,
            "timed_makespan_s": self.timeline.timed_makespan_s,
            "headlines": list(self.headlines),
            "parts_s": dict(self.parts_s),
            "path": [_step_to_dict(step, names) for step in self.path],
            "losses": [_public(loss, ("kind", "seconds", "text")) for loss in self.losses],
            "limits": [_public(limit, ("kind", "scope", "where", "seconds")) for limit in self.limits],
            "lanes": [_public(use, _USE) for use in self.lanes],
            "devices": [_public(use, _USE) for use in self.devices],
        }


_USE = ("name", "busy_s", "share", "overlap_s", "copied_beside_s", "actions")


def explain(timeline: Timeline) -> Explanation:
    """Say why `timeline`, predicted or measured, took as long as it did.

    The explanation is of the run that the spans are of, timing events included.

    Raises:
        PlanError: `timeline` is none.
        CostError: A task has durations for other devices only.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device, Dispatch, Platform
        >>> from graphsched.schedulers import schedule
        >>> from graphsched.simulator import predict
        >>> from graphsched.workload import Workload
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c")])
        >>> nx.set_node_attributes(graph, {"a": 1.0, "b": 2.0, "c": 0.5}, "duration_s")
        >>> free = Dispatch(sync_s=0, handoff_s=0, wake_s=0)
        >>> platform = Platform("desk", (Device("cpu", "cpu"),), dispatch=free, cores=2)
        >>> plan = schedule(Workload.from_graph(graph), platform, scheduler="round_robin", lanes=2)
        >>> explanation = explain(predict(plan))
        >>> print("\\n".join(explanation.headlines))
        bound by: cpu, 100 % busy
        critical path: 100 % compute on cpu
        little to win: no plan takes less than 3 s (longest path), 100 % of this
        >>> explanation.action("c").slack_s
        1.5

    Not modelled: what another order or another plan would do; predict that plan.
    """
    check_timeline(timeline)
    facts = gather(timeline)
    return Explanation(timeline, critical_path(facts), facts)


def _public(thing: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def _step_to_dict(step: Step, names: Any) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "first": names[step.first] if step.first >= 0 else None,
        "action": names[step.action] if step.action >= 0 else None,
        "start_s": step.start_s,
        "end_s": step.end_s,
        "cause": step.cause.kind,
        "by": names[step.cause.by] if step.cause.by >= 0 else None,
        "parts_s": dict(step.parts),
    }


# -- text -----------------------------------------------------------------------------------------


def _lines(e: Explanation) -> Iterator[str]:
    yield from e.headlines
    yield from _loss_lines(e)
    yield from _limit_lines(e)
    yield from _use_lines(e)
    yield from _path_lines(e)


def _loss_lines(e: Explanation) -> Iterator[str]:
    if e.losses:
        yield from ("", "lost on the critical path", *(f"  {loss.text}" for loss in e.losses))


def _limit_lines(e: Explanation) -> Iterator[str]:
    whole_s = e.timeline.timed_makespan_s or 1.0
    known = [limit for limit in e.limits if limit.seconds > 0.0]
    if known:
        yield from ("", f"lower bounds, of {seconds_text(e.timeline.timed_makespan_s)}")
    for limit in known:
        what = f"{limit.kind} {limit.where}".rstrip()
        share = share_text(limit.seconds / whole_s)
        yield f"  {limit.scope:<9}  {what:<24} {seconds_text(limit.seconds):>10} {share:>7}"


def _use_lines(e: Explanation) -> Iterator[str]:
    several = {u.name for u in e.devices if sum(u.name == lane.device for lane in _compute(e)) > 1}
    yield from ("", f"{'busy':<24} {'time':>12} {'share':>7} {'beside others':>15} {'actions':>8}")
    for use in (*(u for u in e.devices if u.name in several), *e.lanes):
        overlap = share_text(use.overlap_s / use.busy_s) if use.busy_s else "–"
        figures = f"{seconds_text(use.busy_s):>10} {share_text(use.share):>7} {overlap:>15} {use.actions:>8}"
        yield f"  {use.name:<24} {figures}"


def _compute(e: Explanation) -> list[Any]:
    return [lane for lane in e.timeline.plan.lanes if lane.kind == "compute"]


def _path_lines(e: Explanation) -> Iterator[str]:
    longest = sorted(range(len(e.path)), key=lambda k: (round(e.path[k].start_s - e.path[k].end_s, 12), k))[:STEPS]
    of = f", the {STEPS} longest" if len(e.path) > STEPS else ""
    if e.path:
        yield from ("", f"critical path: {len(e.path)} step{'s' * (len(e.path) != 1)}{of}")
    names = e.timeline.plan.names
    for k in sorted(longest):
        step = e.path[k]
        spent = " + ".join(f"{seconds_text(s)} {part}" for part, s in step.parts.items())
        yield f"  {seconds_text(step.start_s):>10}  {_step_name(step, e._facts)}: {spent}; {_because(step, names)}"


def _step_name(step: Step, facts: Facts) -> str:
    names = facts.plan.names
    if step.kind == "end":
        return "end"
    if step.kind == "action":
        return names[step.action]
    place = f"at {names[step.action]}"
    if step.first != step.action:
        place = f"from {names[step.first]} to {names[step.action]}"
    return f"thread{facts.of_rank(step.action)} {place}"


def _because(step: Step, names: Mapping[int, str] | Any) -> str:
    name = names[step.cause.by] if step.cause.by >= 0 else ""
    return {
        "wait": f"waited for {name}",
        "lane": f"behind {name} on its lane",
        "thread": "as soon as it was issued",
        "queue": f"the launch queue was full until {name} ended",
        "blocking": f"held by the pageable copy {name}",
        "result": f"waited for {name}, a result of the CPU",
        "return": f"waited for {name}",
        "start": "from the start",
    }[step.cause.kind]
