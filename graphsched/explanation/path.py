"""The critical path of a timeline, through actions and through what they wait for: the thread, lanes, queues.

The path is walked from the end of the timeline to time 0. Each step begins when the one before it ends,
so that the steps, and the parts that each is made of, add up to the timed makespan.

Not modelled: memory that is given back; a task that the thread's own work beside dispatch holds up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from graphsched.explanation.facts import Facts, is_wait
from graphsched.explanation.parts import Part, divide, divide_gap
from graphsched.explanation.starts import Cause, Queues, over_s, start_cause, start_latency_s
from graphsched.simulator.lane_costs import CPU, CUDA

StepKind = Literal["action", "thread", "end"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a critical path.

    Attributes:
        kind: ``action``: it ran; ``thread``: it issued actions, or returned from a wait; ``end``: it learnt
            that all is over.
        first, action: Of a thread's step the first and last action that it issued; else both the action.
        start_s, end_s: From the end of the step before to the end of this one.
        cause: Why it did not begin earlier.
        parts: What its time was spent on, in seconds; they add up to its length.
    """

    kind: StepKind
    first: int
    action: int
    start_s: float
    end_s: float
    cause: Cause
    parts: Mapping[Part, float]


def critical_path(facts: Facts) -> tuple[Step, ...]:
    """The steps of the critical path, first to last; empty for a timeline of no length.

    A step's cause is what was over last of all that it waited for.
    """
    queues = Queues(facts)
    step, node, by_thread = _end(facts)
    steps = [step]
    while node >= 0 and steps[-1].start_s > 0.0:
        if by_thread:
            step, node = _thread(facts, queues, node, steps[-1])
            by_thread = False
        else:
            step = _action(facts, node, steps[-1].start_s)
            node, by_thread = step.cause.by, step.cause.kind == "thread"
        steps.append(step)
    return tuple(step for step in reversed(steps) if step.end_s > step.start_s or _says_why(step))


def _says_why(step: Step) -> bool:
    """Whether a step of no length is worth keeping: the thread was held up, and what followed had been issued."""
    return step.kind == "thread" and step.cause.by >= 0


def _end(facts: Facts) -> tuple[Step, int, bool]:
    """The last step, the action before it, and whether that is its issue."""
    whole_s = facts.line.timed_makespan_s
    n = len(facts)
    if not n:
        return Step("end", -1, -1, 0.0, whole_s, Cause("start", -1, 0.0), {"return": whole_s}), -1, False
    last = max((i for i in range(n) if not is_wait(facts, i)), key=lambda i: (facts.end_s[i], -i), default=n - 1)
    issued = max((order[-1] for order in facts.orders if order), key=facts.issue_end_s.__getitem__)
    by_thread = facts.issue_end_s[issued] > facts.end_s[last] or is_wait(facts, last)
    ready_s = facts.issue_end_s[issued] if by_thread else facts.end_s[last]
    node = issued if by_thread else last
    at = min(whole_s, ready_s)
    cause = Cause("thread" if by_thread else "wait", node, ready_s)
    return Step("end", node, node, at, whole_s, cause, {"return": whole_s - at}), node, by_thread


def _action(facts: Facts, i: int, until_s: float) -> Step:
    """The step of action `i`, whose part of the path ends at `until_s`."""
    cause = start_cause(facts, i)
    held_by_thread = cause.kind == "thread"
    begin_s = min(until_s, facts.work_from_s(i) if held_by_thread else facts.start_s[i])
    launch_s = facts.columns.dispatch.launch_s if held_by_thread and facts.columns.kind[i] == CUDA else 0.0
    at = min(begin_s, max(0.0, over_s(facts, i, cause)))
    parts = divide(facts, i, begin_s, until_s, launch_s=launch_s)
    for part, seconds in divide_gap(facts, i, at, begin_s, start_latency_s(facts, i, cause)).items():
        parts[part] = parts.get(part, 0.0) + seconds
    return Step("action", i, i, at, until_s, cause, _above_zero(parts))


def _thread(facts: Facts, queues: Queues, last: int, after: Step) -> tuple[Step, int]:
    """The thread's step that ends with the issue of action `last`, and the action that it waited for."""
    until_s, at = after.start_s, after.start_s
    returned_s, rank = 0.0, facts.rank_of[last]
    for i in reversed(facts.issued_until(last)):
        begun_s = facts.begun_s(i, rank)
        goes_on = (i == last and after.kind == "action") or facts.columns.handed.get(i) == rank
        cause = _held(facts, queues, i, begun_s, at, goes_on=goes_on)
        if cause is not None:
            ended_s = min(at, facts.end_s[cause.by])
            returned_s += at - ended_s if cause.kind == "return" else 0.0
            break
        ended_s = max(0.0, min(at, begun_s))
        returned_s += at - ended_s if is_wait(facts, i) else 0.0
        at = ended_s
        if at <= 0.0:
            break
    if cause is None:
        cause, ended_s = Cause("start", -1, 0.0), 0.0
    parts: dict[Part, float] = {"dispatch": until_s - ended_s - returned_s, "return": returned_s}
    return Step("thread", i, last, ended_s, until_s, cause, _above_zero(parts)), cause.by


def _held(facts: Facts, queues: Queues, i: int, begun_s: float, until_s: float, *, goes_on: bool) -> Cause | None:
    """What held the thread up while it issued action `i`, from `begun_s` on.

    `goes_on`: that action itself did not, for this was before it ran, or the thread handed it to another.
    """
    ends = facts.end_s
    if is_wait(facts, i):
        j = facts.waited_for(i)
        return Cause("return", j, ends[j]) if j >= 0 and ends[j] > begun_s else None
    if facts.blocks(i) and not goes_on and ends[i] > begun_s:
        return Cause("blocking", i, ends[i])
    results = [j for j in facts.columns.waits[i] if facts.columns.kind[j] == CPU and facts.columns.kind[i] == CUDA]
    j = max(results, key=lambda j: (ends[j], -j), default=-1)
    if j >= 0 and facts.free_s(i, begun_s) < ends[j] <= until_s + facts.tolerance_s:
        return Cause("result", j, ends[j])
    j = queues.made_room(i, min(until_s, facts.issue_end_s[i]))
    return Cause("queue", j, ends[j]) if j >= 0 else None


def _above_zero(parts: Mapping[Part, float]) -> dict[Part, float]:
    return {part: seconds for part, seconds in parts.items() if seconds > 0.0}
