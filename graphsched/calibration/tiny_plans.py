"""Small plans of tiny operations that differ in one thing only, for measuring what calls cost.

Not modelled: GPUs without peer access, whose copies are timed here as if they had it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from graphsched.calibration.tiny_tasks import KINDS, CallsOf, add_task, device_of, functions_on, operators_on
from graphsched.executors.program import Program
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.platform.dispatch import BLOCKING_BYTES
from graphsched.platform.parts import LinkMemory
from graphsched.processes import cores
from graphsched.workload import Value, Workload

ACTIONS = 240
MIXED = 2, 6, len(KINDS)  # kinds of the plans of several
ROUNDS = 2  # of all kinds, in what calls are timed behind: some 0.2 ms, as long as a small plan

Build = Callable[[Workload, list[Value]], Mapping[str, str]]


def plans_on(gpus: tuple[int, ...]) -> dict[str, tuple[Build, tuple[int, ...]]]:
    """What to run, and on which GPUs; the first is the plainest."""
    first = gpus[:1]
    plans: dict[str, tuple[Build, tuple[int, ...]]] = {
        "row": (plain_row, first),
        "chain": (_chain_over(1), first),
        "lanes": (_two_lanes, first),
        "to and fro": (_chain_over(2), first),
        "copies in": (_copies_in, first),
        "copies out": (_copies_out, first),
        "blocking in": (_blocking_in, first),
        "blocking out": (_blocking_out(fresh=False), first),
        "fresh out": (_blocking_out(fresh=True), first),
        **{kind: (_mixed([kind]), first) for kind in KINDS},
        **{f"{count} kinds": (_mixed(KINDS[:count]), first) for count in MIXED},
        "company": (_company, gpus),
    }
    if len(gpus) > 1:
        both = gpus[:2]
        plans |= {"gpus": (_two_lanes, both), "copies across": (_copies_across, both)}
        plans |= {"between gpus": (chain_round(ACTIONS // 2), both)}
    return plans


def program_of(build: Build, gpus: tuple[int, ...], mode: str = "eager", threads: int = 1) -> Program:
    """A program of the tasks that `build` adds, each on the lane that it says; one input lies on each GPU.

    A lane of the CPU has so many `threads`.
    """
    import torch

    names = [f"cuda:{i}" for i in gpus]
    work = Workload("calibration")
    generator = torch.Generator().manual_seed(0)  # the user's goes on as it was
    inputs = [work.input(f"x{i}", torch.rand(8, 8, generator=generator), device=n) for i, n in enumerate(names)]
    lanes = build(work, inputs)
    devices = (Device("cpu", "cpu", threads=threads), *(Device(name, "cuda") for name in names))
    ends = [(a, b) for a in ("cpu", *names) for b in ("cpu", *names) if a != b]
    links = tuple(Link(a, b, memory, 1e-5, 1e10) for a, b in ends for memory in _memories(a, b))
    here = Platform("here", devices, links, cores=cores())
    placement = Placement([task.name for task in work.tasks], lanes)
    return Program(build_plan(work, here, None, placement, scheduler="calibration"), mode=mode)


def _memories(source: str, target: str) -> Sequence[LinkMemory]:
    return ("pinned", "pageable", "fresh") if "cpu" in (source, target) else ("peer",)


def plain_row(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Independent tasks on one lane."""
    return _on_lanes(work, inputs, [(0, 0)])


def _two_lanes(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Independent tasks, in turn on two lanes: of one GPU, or of two."""
    return _on_lanes(work, inputs, [(0, 0), (len(inputs) - 1, 1)])


def _on_lanes(work: Workload, inputs: list[Value], lanes: Sequence[tuple[int, int]]) -> dict[str, str]:
    placed = {}
    for i in range(ACTIONS):
        gpu, lane = lanes[i % len(lanes)]
        device = device_of(inputs[gpu])
        _add_plain(work, inputs[gpu], f"t{i}", device)
        placed[f"t{i}"] = f"{device}/s{lane}"
    return placed


def _add_plain(work: Workload, x: Value, name: str, device: str) -> Value:
    """The plainest task: what it returns is declared, for fake tensors would take a second of imports to tell."""
    import torch

    assert x.spec is not None
    added: Value = work.task(torch.neg, x, name=name, device=device, outputs=[x.spec])
    return added


def _chain_over(lanes: int) -> Build:
    """A chain that goes round the lanes of one GPU: each task's result is given back after the next.

    Over two, every step has a wait and a record.
    """

    def build(work: Workload, inputs: list[Value]) -> dict[str, str]:
        value, placed = inputs[0], {}
        device = device_of(value)
        for i in range(ACTIONS):
            value = _add_plain(work, value, f"t{i}", device)
            placed[f"t{i}"] = f"{device}/s{i % lanes}"
        return placed

    return build


def chain_round(tasks: int, stage: int = 1) -> Build:
    """A chain that goes on to the next GPU behind every `stage` tasks, by a copy of its result, and round them all."""

    def build(work: Workload, inputs: list[Value]) -> dict[str, str]:
        value, placed = inputs[0], {}
        for i in range(tasks):
            device = device_of(inputs[i // stage % len(inputs)])
            value = _add_plain(work, value, f"t{i}", device)
            placed[f"t{i}"] = f"{device}/s0"
        return placed

    return build


def _mixed(kinds: Sequence[str], calls: CallsOf = functions_on, actions: int = ACTIONS) -> Build:
    """Independent tasks on one lane, of these kinds in turn; `calls`: how they are called, default as functions."""

    def build(work: Workload, inputs: list[Value]) -> dict[str, str]:
        device = device_of(inputs[0])
        for i in range(actions):
            add_task(work, kinds[i % len(kinds)], inputs[0], f"t{i}", calls)
        return {f"t{i}": f"{device}/s0" for i in range(actions)}

    return build


def other_functions(work: Workload, inputs: list[Value]) -> Mapping[str, str]:
    """Independent tasks on one lane, of all kinds in turn, `ROUNDS` of each."""
    return _mixed(KINDS, actions=ROUNDS * len(KINDS))(work, inputs)


def other_operators(work: Workload, inputs: list[Value]) -> Mapping[str, str]:
    """The same tasks, called as operators: through other code of PyTorch, and of the interpreter, than functions."""
    return _mixed(KINDS, operators_on, ROUNDS * len(KINDS))(work, inputs)


def company_order(gpus: int) -> list[tuple[str, int, int]]:
    """Kinds of call on so many GPUs, (kind, GPU, other GPU), each once, in an order that hardly repeats a device.

    Example:
        >>> len(company_order(1)), len(company_order(4))
        (14, 68)
    """
    tasks = [(kind, gpu, gpu) for kind in KINDS for gpu in range(gpus)]
    copies = [(kind, gpu, gpu) for kind in ("copies in", "copies out") for gpu in range(gpus)]
    across = [("copies across", a, b) for a in range(gpus) for b in range(gpus) if a != b]
    found = tasks + copies + across
    random.Random(0).shuffle(found)
    return found


def company_actions(gpus: int) -> int:
    """Actions of the plan of all kinds: whole rounds, so that a run begins as it goes on.

    Example:
        >>> company_actions(1), company_actions(4)
        (252, 272)
    """
    kinds = len(company_order(gpus))
    return -(-ACTIONS // kinds) * kinds


def _company(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Independent tasks and copies of all kinds on all GPUs: each is called again after all the others."""
    return _of_all_kinds(work, inputs, company_actions(len(inputs)))


def company_once(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """The same, one of each."""
    return _of_all_kinds(work, inputs, len(company_order(len(inputs))))


def _of_all_kinds(work: Workload, inputs: list[Value], actions: int) -> dict[str, str]:
    """So many independent tasks and copies, going round all kinds."""
    import torch

    host = work.input("host", torch.ones(1024), device="cpu")
    order, placed = company_order(len(inputs)), {}
    for i in range(actions):
        kind, gpu, other = order[i % len(order)]
        if kind.startswith("copies"):
            target = "cpu" if kind == "copies out" else device_of(inputs[other])
            work.copy(host if kind == "copies in" else inputs[gpu], to=target, pinned=True, name=f"c{i}")
        else:
            add_task(work, kind, inputs[gpu], f"t{i}")
            placed[f"t{i}"] = f"{device_of(inputs[gpu])}/s0"
    return placed


def _copies_in(work: Workload, _: list[Value]) -> dict[str, str]:
    """Copies of pinned host memory to the GPU."""
    import torch

    host = work.input("host", torch.ones(1024), device="cpu")
    for i in range(ACTIONS):
        work.copy(host, to="cuda:0", pinned=True, name=f"c{i}")
    return {}


def _copies_out(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Copies from the GPU to pinned host memory."""
    for i in range(ACTIONS):
        work.copy(inputs[0], to="cpu", pinned=True, name=f"c{i}")
    return {}


def _blocking_in(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Copies to the GPU, each from the memory that a copy to the host has just written, pageable memory both."""
    device = device_of(inputs[0])
    there = work.copy(page_on(work, device), to="cpu", name="out")
    for i in range(ACTIONS):
        work.copy(there, to=device, name=f"c{i}")
    return {}


def _blocking_out(*, fresh: bool) -> Build:
    """Copies from the GPU to pageable memory, which `fresh` makes new for each."""

    def build(work: Workload, inputs: list[Value]) -> dict[str, str]:
        page = page_on(work, device_of(inputs[0]))
        for i in range(ACTIONS):
            work.copy(page, to="cpu", fresh=fresh, name=f"c{i}")
        return {}

    return build


def page_on(work: Workload, device: str) -> Value:
    """An input of `BLOCKING_BYTES` on `device`."""
    import torch

    return work.input("page", torch.ones(BLOCKING_BYTES, dtype=torch.uint8), device=device)


def _copies_across(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Copies to another GPU."""
    for i in range(ACTIONS):
        work.copy(inputs[0], to=device_of(inputs[1]), name=f"c{i}")
    return {}
