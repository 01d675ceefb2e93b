"""A platform of round figures, small workloads, and random ones with their placements."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.workload import TensorSpec, Workload

MATRIX = TensorSpec((4, 4))
GPUS = ("cuda:0", "cuda:1", "cuda:2")


def hand_platform() -> Platform:
    """A CPU and three GPUs, every pair linked both ways: 1 s latency, 1 byte a second."""
    devices = (Device("cpu", "cpu", "CPU"), *(Device(name, "cuda", "GPU") for name in GPUS))
    links = []
    for a in devices:
        for b in devices:
            kinds = ("local",) if a is b else ("pinned", "pageable") if "cpu" in (a.name, b.name) else ("peer",)
            links += [Link(a.name, b.name, kind, 1.0, 1.0) for kind in kinds]  # type: ignore[arg-type]
    return Platform("hand", devices, tuple(links))


def op(*values: Any) -> None:
    """Stands for an operation; never called."""


def add(work: Workload, name: str, *values: Any, **more: Any) -> Any:
    """A task that makes one matrix."""
    return work.task(op, *values, name=name, outputs=[MATRIX], **more)


def sink(work: Workload, name: str, *values: Any, **more: Any) -> None:
    """A task that makes nothing."""
    work.task(op, *values, name=name, outputs=[], **more)


def plan_of(work: Workload, lanes: dict[str, str], *, order: list[str] | None = None, **placement: Any) -> Plan:
    """The plan of `work`, in the order of its tasks unless another is given."""
    placed = Placement(order or [t.name for t in work.tasks], lanes, **placement)
    plan = build_plan(work, hand_platform(), None, placed, scheduler="by_hand")
    plan.check()
    return plan


def actions(plan: Plan) -> str:
    """The lines of a plan's actions."""
    return plan.text.partition("actions\n")[2]


@st.composite
def plans(draw: st.DrawFn, max_tasks: int = 14) -> Plan:
    """A plan of a random workload, placed anywhere it may run, in a random order, with random waits of the thread."""
    devices = draw(st.sampled_from([["cuda:0"], ["cpu", "cuda:1"], ["cuda:0", "cuda:1"], ["cpu", *GPUS]]))
    work, placed = _workload(draw, draw(st.integers(1, max_tasks)), st.sampled_from(devices))
    lanes = {
        name: f"{device}/{'w' if device == 'cpu' else 's'}{draw(st.integers(0, 1))}" for name, device in placed.items()
    }
    order = _order(draw, work)
    waits = {name for name in order if draw(st.integers(0, 5)) == 0}
    copies = draw(st.sampled_from(["own", "compute"]))
    return build_plan(work, hand_platform(), None, Placement(order, lanes, waits, copies), scheduler="random")


def _workload(draw: st.DrawFn, n: int, device: st.SearchStrategy[str]) -> tuple[Workload, dict[str, str]]:
    """Tasks that read, update and look into what is there; and the device of each that runs."""
    work = Workload("random")
    homes = {"w": draw(device), "m": draw(device)}
    values: list[Any] = [work.input("x", MATRIX), work.input("g", MATRIX, device="cuda:0")]
    states = [work.state("w", MATRIX, device=draw(st.sampled_from([None, homes["w"]]))), work.state("m", MATRIX)]
    values += states
    placed: dict[str, str] = {}
    for i in range(n):
        kind = draw(st.sampled_from(["read", "read", "read", "sink", "update", "view", "copy", "barrier"]))
        read = [values[draw(st.integers(0, len(values) - 1))] for _ in range(draw(st.integers(1, 3)))]
        name = f"{kind}{i}"
        if kind == "update":
            state = states[draw(st.integers(0, len(states) - 1))]
            sink(work, name, state, *read, updates=state)
            placed[name] = homes[state.root]
        elif kind == "view":
            made = work.task(_view, read[0], name=name)
            values.append(made)
            if made.root in homes:
                states.append(made)
            placed[name] = homes.get(made.root) or draw(device)
        elif kind == "copy":
            values.append(work.copy(read[0], to=draw(device), name=name, pinned=draw(st.booleans())))
        elif kind == "barrier":
            work.barrier(name)
        else:
            made = add(work, name, *read) if kind == "read" else sink(work, name, *read)
            values += [made] if made is not None else []
            placed[name] = draw(device)
        if values[-1].kind == "output" and draw(st.integers(0, 7)) == 0:
            work.keep(values[-1])
    return work, placed


def _view(x: Any) -> Any:
    return x.t()


def _order(draw: st.DrawFn, work: Workload) -> list[str]:
    """A random topological order."""
    missing = {name: work.graph.in_degree(name) for name in work.graph}
    ready = [name for name, n in missing.items() if not n]
    order = []
    while ready:
        name = ready.pop(draw(st.integers(0, len(ready) - 1)))
        order.append(name)
        for after in work.graph.successors(name):
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    return order
