"""Plans and timelines whose explanation can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphsched.explanation.facts import Facts, gather
from graphsched.explanation.path import Step, critical_path
from graphsched.plan import Plan
from graphsched.platform import Dispatch, Platform
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform, workload
from tests.timelines import timeline


def predicted(
    durations: Mapping[str, object],
    lanes: Mapping[str, str],
    edges: Sequence[tuple[str, str, int]] = (),
    *,
    where: Platform | None = None,
    **more: object,
) -> Timeline:
    """The prediction of tasks of these seconds on these lanes; by default dispatch is free."""
    return predict(planned(workload(durations, edges), where or platform(), lanes, **more))  # type: ignore[arg-type]


def charged(**seconds: float) -> Dispatch:
    """Free dispatch but for these costs."""
    return replace(FREE, **seconds)  # type: ignore[arg-type]


def served_in_turn() -> Timeline:
    """Measured: two copies of 1 s alone, ready at 0, from the CPU by one engine; up1 starts when up0 is over."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "int8"))
    for k in range(2):
        work.copy(x, to=f"cuda:{k}", name=f"up{k}")
    plan = planned(work, platform(shared={"out cpu": 100.0}), {})
    return timeline(plan, [(0.0, 1.0), (1.0, 2.0)], issues=[(0.0, 0.0)] * 2, source="measured")


def steps_of(line: Timeline) -> list[tuple[str, str, str]]:
    """Kind, action and cause of each step of the critical path."""
    names = line.plan.names
    return [(step.kind, names[step.action], step.cause.kind) for step in critical_path(gather(line))]


def path_of(line: Timeline) -> tuple[Facts, tuple[Step, ...]]:
    """The facts of a timeline and its critical path."""
    facts = gather(line)
    return facts, critical_path(facts)


def parts_of(line: Timeline) -> dict[str, float]:
    """Seconds of the critical path by part."""
    seconds: dict[str, float] = {}
    for step in critical_path(gather(line)):
        for part, length in step.parts.items():
            seconds[part] = seconds.get(part, 0.0) + length
    return seconds


def number(plan: Plan, name: str) -> int:
    """Number of an action."""
    return plan.index_of[name]
