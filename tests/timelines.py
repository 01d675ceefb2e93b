"""Small plans, and timelines made by hand or by the plainest of rules, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload

MATRIX = TensorSpec((1000, 1000))  # 4 MB


def host(gpus: int = 2) -> Platform:
    """GPUs and a CPU, all joined; pageable copies block the dispatching thread."""
    names = [f"cuda:{k}" for k in range(gpus)]
    devices = (*(Device(name, "cuda", "GPU") for name in names), Device("cpu", "cpu", "CPU"))
    links = []
    for name in names:
        for ends in (("cpu", name), (name, "cpu")):
            links += [Link(*ends, "pinned", 1e-5, 5e10), Link(*ends, "pageable", 1e-5, 1e10, blocking=True)]
        links += [Link(name, other, "peer", 1e-5, 3e11) for other in names if other != name]
    return Platform("desk", devices, tuple(links), dispatch=Dispatch(timed_gap_s=0.0))


def product(*tensors: object) -> None:
    """Stands for an operation; never called."""


def add(work: Workload, name: str, *args: object) -> object:
    """A task that makes one matrix."""
    return work.task(product, *args, name=name, outputs=[MATRIX])


def plan_of(work: Workload, lanes: Mapping[str, str], *, platform: Platform | None = None, **placement: object) -> Plan:
    """The plan of `work` in the order of its tasks."""
    placed = Placement([task.name for task in work.tasks], lanes, **placement)  # type: ignore[arg-type]
    return build_plan(work, platform or host(), None, placed, scheduler="by_hand")


def timeline(
    plan: Plan,
    spans: Sequence[tuple[float, float]],
    *,
    issues: Sequence[tuple[float, float]] | None = None,
    source: str = "predicted",
    makespan_s: float | None = None,
    **more: object,
) -> Timeline:
    """A timeline from (start, end) of each action, and of its issue (default: none, at the start)."""
    start, end = (np.array([span[k] for span in spans], dtype=float) for k in (0, 1))
    issued = issues if issues is not None else [(span[0], span[0]) for span in spans]
    issue_start, issue_end = (np.array([span[k] for span in issued], dtype=float) for k in (0, 1))
    last = float(end.max(initial=0.0))
    whole = last if makespan_s is None else makespan_s
    figures = {"makespan_s": whole, "timed_makespan_s": last} | more
    return Timeline(plan, source, issue_start, issue_end, start, end, **figures)  # type: ignore[arg-type]


def simple_run(
    plan: Plan, duration_s: Callable[[int], float], *, issue_s: float = 8e-6, source: str = "predicted", **more: object
) -> Timeline:
    """A timeline by the plainest rule: the thread issues in order; lanes are first in, first out."""
    now, free, spans, issues = 0.0, dict.fromkeys(range(len(plan.lanes)), 0.0), [], []
    for i, lane in enumerate(plan.lane_of):
        ready = max((spans[j][1] for j in plan.waits[i]), default=0.0)
        if plan.kinds[i] == "wait":
            issues.append((now, now))
            spans.append((now, max(now, ready) + issue_s))
            now = spans[-1][1]
            continue
        issues.append((now, now + issue_s))
        now += issue_s
        start = max(now, free[lane], ready)
        free[lane] = start + duration_s(i)
        spans.append((start, free[lane]))
        copy = plan.copies.get(i)
        if copy and plan.platform.link(copy.source, copy.target, copy.memory).blocking:
            now = free[lane]
            issues[-1] = (issues[-1][0], now)
    return timeline(plan, spans, issues=issues, source=source, **more)


def overlap(products: int = 2, *, gpus: int = 1, pinned: bool = True, **placement: object) -> Plan:
    """Products on each GPU, each copied to the CPU.

    ::

        mm0.0 ─▶ copy0.0      mm1.0 ─▶ copy1.0
        mm0.1 ─▶ copy0.1      mm1.1 ─▶ copy1.1
    """
    work, lanes = Workload("overlap"), {}
    xs = [work.input(f"x{g}", MATRIX, device=f"cuda:{g}") for g in range(gpus)]
    for i in range(products):
        for g, x in enumerate(xs):
            y = add(work, f"mm{g}.{i}", x, x)
            lanes[f"mm{g}.{i}"] = f"cuda:{g}/s0"
            work.copy(y, to="cpu", pinned=pinned, name=f"copy{g}.{i}")  # type: ignore[arg-type]
    return plan_of(work, lanes, **placement)


def handover() -> Plan:
    """A value that two tasks of another GPU read, and a thread's wait at the end.

    ::

        cuda:0   a ──▶ a>cuda:1 ─┬─▶ b   cuda:1/s0
                                 └─▶ c   cuda:1/s1      barrier
    """
    work = Workload("handover")
    x = work.input("x", MATRIX, device="cuda:0")
    a = add(work, "a", x)
    add(work, "b", a)
    add(work, "c", a)
    work.barrier("end")
    return plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:1/s1"})
