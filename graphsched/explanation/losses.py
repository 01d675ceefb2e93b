"""What the critical path lost: to dispatch, to others on a device or link, to standing in line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from graphsched.explanation.facts import Facts
from graphsched.explanation.parts import Part, in_the_way, served_before
from graphsched.explanation.path import Step
from graphsched.quantities import seconds_text
from graphsched.simulator.graph_mode import inside

LossKind = Literal["contention", "sharing", "line", "dispatch", "return", "latency", "idle", "slower"]

ORDER: tuple[LossKind, ...] = ("contention", "sharing", "line", "dispatch", "return", "latency", "idle", "slower")
MUCH = 0.1  # share by which issuing took longer than its costs say that is worth a word


@dataclass(frozen=True, slots=True)
class Loss:
    """Seconds of the critical path that were not spent on work, of one kind.

    Attributes:
        kind: A part of the path's steps; or ``line``: work of another kind, or for another end, that an action
            on the path stood behind on its lane though it was ready.
        seconds: In all.
        text: The same in a line, with the largest case.
    """

    kind: LossKind
    seconds: float
    text: str


def find_losses(facts: Facts, path: Sequence[Step]) -> tuple[Loss, ...]:
    """All losses of the path that are above the tolerance, largest first; ties in the order of `ORDER`."""
    found = [*_parts(facts, path), *_dispatch(facts, path), *_in_line(facts, path)]
    worth = [loss for loss in found if loss.seconds > facts.tolerance_s]
    return tuple(sorted(worth, key=lambda loss: (-loss.seconds, ORDER.index(loss.kind))))


def _parts(facts: Facts, path: Sequence[Step]) -> Iterator[Loss]:
    for part in ("contention", "sharing", "return", "latency", "idle", "slower"):
        steps = [step for step in path if part in step.parts]
        if steps:
            seconds = sum(step.parts[part] for step in steps)
            worst = max(steps, key=lambda step: step.parts[part])
            yield Loss(part, seconds, f"{seconds_text(seconds)} lost {_case(facts, part, worst, len(steps))}")


def _case(facts: Facts, part: Part, worst: Step, cases: int) -> str:
    name = facts.plan.names[worst.action] if worst.action >= 0 else "the end"
    most = f", {seconds_text(worst.parts[part])} of it" if cases > 1 else ""
    if part in ("contention", "sharing"):
        what = "links and engines" if part == "contention" else "a device"
        return f"to others on {what}{most} by {name}, {_beside(facts, worst)}"
    if part == "return":
        return "until the thread knew that a wait was over" + (f", {cases} times" if cases > 1 else "")
    if part == "slower":
        return f"by taking longer than alone with nothing beside{most} by {name}"
    if part == "idle":
        return f"waiting for nothing that shows here{most} before {name}"
    return f"to latency, in {cases} gaps before starts" if cases > 1 else f"to latency before {name}"


def _beside(facts: Facts, step: Step) -> str:
    """What was in the way: the copies served first, where the step stood behind them longer than it was slowed."""
    i = step.action
    first = served_before(facts, i, step.start_s) if facts.plan.kinds[i] == "copy" else -1
    if first >= 0 and facts.start_s[i] - step.start_s > step.parts.get("contention", 0.0) / 2:
        return f"which waited for the engine behind {facts.plan.names[first]}"
    found = in_the_way(facts, i, step.start_s, step.end_s)
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"beside {facts.plan.names[found[0]]}{more}"


def _dispatch(facts: Facts, path: Sequence[Step]) -> Iterator[Loss]:
    """What the thread's issuing took, and how that compares with its measured costs."""
    steps = [step for step in path if "dispatch" in step.parts]
    if not steps:
        return
    called = (i for step in steps for i in facts.issued_until(step.action, step.first))
    issued = facts.calls(i for i in called if facts.plan.kinds[i] != "wait")
    seconds = sum(step.parts["dispatch"] for step in steps)
    text = f"{seconds_text(seconds)} lost to dispatch: {_issued(facts, issued)}"
    text += f", {seconds_text(seconds / len(issued))} each" if len(issued) > 1 else ""
    text += f", in {len(steps)} goes between waits" if len(steps) > 1 else ""
    behind_s = sum(max(0.0, step.end_s - facts.issue_end_s[step.action]) for step in steps)  # until a graph begins
    expected_s = facts.issues_s(issued) + behind_s
    if issued and seconds > (1 + MUCH) * expected_s and seconds - expected_s > len(steps) * facts.tolerance_s:
        text += f"; by their costs it would be {seconds_text(expected_s)}"
    yield Loss("dispatch", seconds, text)


def _issued(facts: Facts, calls: Sequence[int]) -> str:
    """What the thread issued by these calls: `Facts.calls`."""
    graphs = facts.columns.graphs
    launches = [graphs.of[i] for i in calls if inside(facts.columns, i)] if graphs is not None else []
    others = len(calls) - len(launches)
    words = []
    if graphs is not None and len(launches) == 1:
        held = sum(k == launches[0] and kind != "wait" for k, kind in zip(graphs.of, facts.plan.kinds, strict=True))
        words.append(f"1 launch of a graph of {_actions(held)}")
    elif launches:
        words.append(f"{len(launches)} launches of graphs")
    if others or not launches:
        words.append(f"{_actions(others)} issued")
    return " and ".join(words)


def _actions(number: int) -> str:
    return f"{number} action{'s' * (number != 1)}"


def _in_line(facts: Facts, path: Sequence[Step]) -> Iterator[Loss]:
    """What copies on the path stood behind tasks of their lane, or tasks behind copies, though ready."""
    found = list(_held_up(facts, path))
    if not found:
        return
    seconds = sum(length for length, _ in found)
    _, worst = max(found, key=lambda case: case[0])
    names = facts.plan.names
    text = f"{seconds_text(seconds)} lost in line: {names[worst.action]} was ready, but on {facts.lane(worst.action)}"
    text += f" it stood behind {names[worst.cause.by]}"
    text += f", and {len(found) - 1} more like it" if len(found) > 1 else ""
    yield Loss("line", seconds, text)


def _held_up(facts: Facts, path: Sequence[Step]) -> Iterator[tuple[float, Step]]:
    """Steps that began a run of tasks, or of copies, behind a run of the other kind, and what could have overlapped."""
    lane_of, copies = facts.plan.lane_of, facts.plan.copies

    def alike(step: Step) -> tuple[str, int, bool]:
        return step.kind, lane_of[step.action] if step.kind == "action" else -1, step.action in copies

    runs = [list(run) for _, run in groupby(path, key=alike)]
    for before, run in pairwise(runs):
        first = run[0]
        unlike = first.kind == before[-1].kind == "action" and first.cause.kind == "lane"
        if unlike and facts.lane(first.action) == facts.lane(before[-1].action):
            yield min(first.cause.alone_s, _length(before), _length(run)), first


def _length(steps: Sequence[Step]) -> float:
    return steps[-1].end_s - steps[0].start_s
