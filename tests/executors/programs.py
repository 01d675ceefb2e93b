"""Platforms, random workloads and placements for tests of executors, and the plain PyTorch run of a workload."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import networkx as nx
import torch

from graphsched.executors.collectives import in_host_memory
from graphsched.plan import Placement, Plan, build_plan
from graphsched.plan.builder import allowed_devices
from graphsched.platform import Device, Link, Platform
from graphsched.workload import TensorSpec, Value, Workload, fill

SIZE = 8


def machine(*names: str, threads: Mapping[str, int] | None = None, between: str = "peer") -> Platform:
    """Devices of these names and a cpu, every two linked; GPUs by links of memory `between`."""
    kinds: dict[str, Any] = {name: name.partition(":")[0] for name in (*names, "cpu")}
    devices = tuple(Device(n, kinds[n], "processor", threads=(threads or {}).get(n, 1)) for n in kinds)
    links = [Link(n, n, "local", 1e-6, 1e10) for n in kinds]
    for a, b in permutations(kinds, 2):
        gpus = kinds[a] == kinds[b] == "cuda"
        memory: Any = between if gpus else "pinned"
        links.append(Link(a, b, memory, 1e-5, 1e10))
    return Platform("machine", devices, tuple(links), cores=2)


WORKERS = machine("worker:0", "worker:1")


def by_hand(work: Workload, platform: Platform, lanes: Mapping[str, str] | str, **more: Any) -> Plan:
    """The plan that runs tasks in the order of the workload on these lanes (or all on one)."""
    if isinstance(lanes, str):
        lanes = {t.name: lanes for t in work.tasks if t.kind == "run"}
    plan = build_plan(work, platform, None, Placement(list(work.graph), lanes, **more), scheduler="by hand")
    plan.check()
    return plan


# -- operations over small whole numbers in float64: exact on every device ---------------------------


def add7(a: Any, b: Any) -> Any:
    return (a + b) % 7


def mm7(a: Any, b: Any) -> Any:
    return (a @ b) % 7


def both(a: Any, *, other: Any, factor: float) -> Any:
    return (a + other) % 7, (a * other * factor) % 7


def total(parts: Any, *, more: Any = ()) -> Any:
    return sum((*parts, *more.values()) if isinstance(more, Mapping) else (*parts, *more)) % 7


def step_(w: Any, g: Any) -> None:
    w.add_(torch.clone(torch.as_tensor(g))).remainder_(7)


def top(a: Any) -> Any:
    return a[: SIZE // 2]


def double_(part: Any) -> None:
    part.mul_(2).remainder_(7)


def wide(a: Any) -> Any:
    return torch.cat((a, a)) % 7


def slow(a: Any) -> Any:
    """On a GPU its stream gets far behind the others, which shows what does not wait for it."""
    if a.is_cuda:
        torch.cuda._sleep(300_000)
    return (a * 5) % 7


def messy(a: Any) -> Any:
    """A new tensor; and memory given back at once and full of NaN, which shows what is read too late."""
    for _ in range(2):
        torch.full((SIZE, SIZE), torch.nan, dtype=torch.float64, device=a.device)
    return (a * 3) % 7


def digits(seed: int, *shape: int) -> torch.Tensor:
    """Whole numbers from 0 to 6 in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 7, shape or (SIZE, SIZE), generator=generator).double()


def random_workload(
    seed: int, devices: Sequence[str], tasks: int = 14, memories: bool = True, pinned: bool = False
) -> Workload:
    """Inputs, states and views, several outputs, keyword and nested arguments, copies (all `pinned`), barriers."""
    rng = random.Random(seed)
    work = Workload(f"random{seed}")
    values = [work.input("x", digits(seed)), work.input("y", digits(seed + 1), device=rng.choice(devices))]
    states = [work.state(f"w{k}", digits(seed + k + 2), device=rng.choice(devices)) for k in range(2)]
    for i in range(tasks):
        a, b, c = (rng.choice(values + states) for _ in range(3))
        kind = rng.randrange(14)
        if kind == 0:
            values += work.task(both, a, other=b, factor=2.0, name=f"both{i}")
        elif kind == 1:
            values.append(work.task(total, [a, b], more={"c": c}, name=f"total{i}"))
        elif kind == 2:
            values.append(work.task(total, (a,), more=(b, c), name=f"sum{i}"))
        elif kind == 3:
            values.append(work.task(torch.t, a, name=f"t{i}"))
        elif kind in (4, 5):
            state = rng.choice(states)
            work.task(step_, state, a, updates=state, name=f"step{i}")
        elif kind == 6:
            state = rng.choice(states)
            part = work.task(top, state, name=f"top{i}")
            work.task(double_, part, updates=part, name=f"double{i}")
            values.append(work.task(wide, part, name=f"wide{i}"))
        elif kind in (7, 8) and memories:
            host = rng.choice([{"pinned": True}] if pinned else [{}, {"pinned": True}, {"fresh": True}])
            targets = [*devices] if a.device == "cpu" else [*devices, "cpu"]
            values.append(work.copy(a, to=rng.choice(targets), name=f"copy{i}", **host))
        elif kind == 9 and i % 3 == 0:
            work.barrier(f"barrier{i}")
        elif kind == 10:
            values.append(work.task(messy, a, name=f"messy{i}"))
        elif kind == 11:
            values.append(work.task(slow, a, name=f"slow{i}"))
        else:
            values.append(work.task(rng.choice([add7, mm7]), a, b, name=f"op{i}"))
    work.keep(*rng.sample(values, 2), states[0])
    return work


def random_plan(
    work: Workload, platform: Platform, seed: int, lanes: int = 3, on: Sequence[str] | None = None, waits: bool = True
) -> Plan:
    """Tasks in a random topological order, on random lanes (of the devices `on`), with a few waits."""
    rng = random.Random(seed)
    place: dict[str, str] = {}
    for task in work.tasks:
        if task.kind == "run":
            device = rng.choice([d for d in allowed_devices(task, platform, work) if on is None or d in on])
            place[task.name] = f"{device}/{'s' if device != 'cpu' else 'w'}{rng.randrange(lanes)}"
    order = random_order(work.graph, rng)
    wait_after = frozenset(rng.sample(order, len(order) // 8 if waits else 0))
    placement = Placement(order, place, wait_after, rng.choice(["own", "compute"]))
    plan = build_plan(work, platform, None, placement, scheduler="random")
    plan.check()
    return plan


def random_order(graph: nx.DiGraph, rng: random.Random) -> list[str]:
    """A random topological order."""
    degrees = dict(graph.in_degree())
    ready = [n for n in graph if not degrees[n]]
    order = []
    while ready:
        name = ready.pop(rng.randrange(len(ready)))
        order.append(name)
        for after in graph.successors(name):
            degrees[after] -= 1
            if not degrees[after]:
                ready.append(after)
    return order


class Plain:
    """The workload as plain PyTorch on one device: a loop over its tasks, with states of its own."""

    def __init__(self, work: Workload, device: str = "cpu") -> None:
        self.work = work
        self.device = device
        self.states = {v.name: self._own(v) for v in work.values.values() if v.kind == "state"}

    def _own(self, value: Value) -> torch.Tensor:
        return self.work.tensors[value.name].to(self.device, copy=True)

    def run(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """One step: the returned values by name."""
        found = dict(self.states)
        for value in self.work.values.values():
            if value.kind == "input":
                given = inputs.get(value.name, self.work.tensors.get(value.name))
                found[value.name] = given.to(self.device, copy=True)
        for task in self.work.tasks:
            reads = [found[r.value.name] for r in task.reads]
            if task.kind == "copy":
                found[task.name] = reads[0].clone()
            elif task.kind == "collective":
                results = in_host_memory(task.operation.name, reads)
                found.update(zip((v.name for v in task.outputs), results, strict=True))
            elif task.kind == "run":
                out = task.operation.function(*fill(task.operation.args, reads), **fill(task.operation.kwargs, reads))
                results = [] if out is None else [out] if isinstance(out, torch.Tensor) else list(out)
                found.update(zip((v.name for v in task.outputs), results, strict=True))
        return {v.name: found[v.name].clone() for v in self.work.returned()}


def assert_same(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    """Same names, same bits, whatever the devices."""
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name].cpu(), tensor.cpu()), name


def turned(operation: str, kind: str = "worker") -> Plan:
    """x0, x1 ──▶ t0, t1 on two devices, declared as contiguous and returned transposed ──▶ a collective."""
    work, devices = Workload(), [f"{kind}:{k}" for k in range(2)]
    given = [work.input(f"x{k}", torch.arange(16.0).view(4, 4) + 100 * k, device=d) for k, d in enumerate(devices)]
    outputs = [TensorSpec((4, 4))]
    values = [work.task(torch.t, x, name=f"t{k}", outputs=outputs) for k, x in enumerate(given)]
    work.collective(operation, values, devices=devices, name="made")
    return by_hand(work, machine(*devices), {f"t{k}": f"{device}/s0" for k, device in enumerate(devices)})


def fork_join(second: str = "cuda:0/s1") -> Plan:
    """x ──▶ a ──▶ c;  x ──▶ b ──▶ c: a and c on one lane, b on another."""
    work = Workload()
    x = work.input("x", torch.arange(4.0), device="cuda:0")
    a, b = work.task(torch.neg, x, name="a"), work.task(torch.exp, x, name="b")
    work.task(torch.add, a, b, name="c")
    names = sorted({"cuda:0", second.partition("/")[0]})
    return by_hand(work, machine(*names), {"a": "cuda:0/s0", "b": second, "c": "cuda:0/s0"})
