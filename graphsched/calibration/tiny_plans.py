"""Small plans of tiny operations that differ in one thing only, for measuring what calls cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphsched.executors.program import Program
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.workload import Value, Workload

ACTIONS = 240
WAITS = 30

Build = Callable[[Workload, list[Value]], Mapping[str, str]]


def plans_on(gpus: tuple[int, ...]) -> dict[str, tuple[Build, tuple[int, ...]]]:
    """What to run, and on which GPUs; the first is the plainest."""
    first = gpus[:1]
    plans: dict[str, tuple[Build, tuple[int, ...]]] = {
        "row": (plain_row, first),
        "lanes": (_two_lanes, first),
        "to and fro": (_to_and_fro, first),
        "mixed": (_mixed(KINDS), first),
        "copies in": (_copies_in, first),
        "copies out": (_copies_out, first),
        **{kind: (_mixed([kind]), first) for kind in KINDS},
    }
    if len(gpus) > 1:
        both = gpus[:2]
        plans |= {"gpus": (_two_lanes, both), "copies across": (_copies_across, both)}
        plans |= {"between gpus": (_between_gpus, both)}
    return plans


def program_of(build: Build, gpus: tuple[int, ...]) -> Program:
    """A program of the tasks that `build` adds, each on the lane that it says; one input lies on each GPU."""
    import torch

    names = [f"cuda:{i}" for i in gpus]
    work = Workload("calibration")
    inputs = [work.input(f"x{i}", torch.rand(8, 8), device=name) for i, name in enumerate(names)]
    lanes = build(work, inputs)
    devices = (Device("cpu", "cpu"), *(Device(name, "cuda") for name in names))
    ends = [(a, b) for a in ("cpu", *names) for b in ("cpu", *names) if a != b]
    links = tuple(Link(a, b, "pinned" if "cpu" in (a, b) else "peer", 1e-5, 1e10) for a, b in ends)
    here = Platform("here", devices, links)
    placement = Placement([task.name for task in work.tasks], lanes)
    return Program(build_plan(work, here, None, placement, scheduler="calibration"))


def plain_row(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Independent tasks on one lane."""
    return _on_lanes(work, inputs, [(0, 0)])


def _two_lanes(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Independent tasks, in turn on two lanes: of one GPU, or of two."""
    return _on_lanes(work, inputs, [(0, 0), (len(inputs) - 1, 1)])


def _on_lanes(work: Workload, inputs: list[Value], lanes: Sequence[tuple[int, int]]) -> dict[str, str]:
    import torch

    placed = {}
    for i in range(ACTIONS):
        gpu, lane = lanes[i % len(lanes)]
        device = _device(inputs[gpu])
        work.task(torch.neg, inputs[gpu], name=f"t{i}", device=device)
        placed[f"t{i}"] = f"{device}/s{lane}"
    return placed


def _to_and_fro(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """A chain that goes to and fro between two lanes of one GPU: a wait and a record at every step."""
    import torch

    value, placed = inputs[0], {}
    device = _device(value)
    for i in range(ACTIONS):
        value = work.task(torch.neg, value, name=f"t{i}", device=device)
        placed[f"t{i}"] = f"{device}/s{i % 2}"
    return placed


def _between_gpus(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """A chain that goes to and fro between two GPUs: a task, a copy of its result, a task that reads the copy, …"""
    import torch

    value, placed = inputs[0], {}
    for i in range(ACTIONS // 2):
        device = _device(inputs[i % 2])
        value = work.task(torch.neg, value, name=f"t{i}", device=device)
        placed[f"t{i}"] = f"{device}/s0"
    return placed


def waits_of(size: int) -> Build:
    """Products of matrices of `size` rows, a wait of the thread after each."""

    def build(work: Workload, inputs: list[Value]) -> dict[str, str]:
        import torch

        device = _device(inputs[0])
        x = work.input("wide", torch.rand(size, size), device=device)
        for i in range(WAITS):
            work.task(torch.mm, x, x, name=f"t{i}", device=device)
            work.barrier()
        return {f"t{i}": f"{device}/s0" for i in range(WAITS)}

    return build


def _mixed(kinds: Sequence[str]) -> Build:
    """Independent tasks on one lane, of these kinds in turn."""

    def build(work: Workload, inputs: list[Value]) -> dict[str, str]:
        import torch

        calls: dict[str, tuple[Any, ...]] = {
            "neg": (torch.neg, inputs[0]),
            "add": (torch.add, inputs[0], inputs[0]),
            "softmax": (torch.softmax, inputs[0], 1),
            "sum": (torch.sum, inputs[0], 1),
            "mm": (torch.mm, inputs[0], inputs[0]),
            "relu": (torch.relu, inputs[0]),
        }
        device = _device(inputs[0])
        for i in range(ACTIONS):
            function, *args = calls[kinds[i % len(kinds)]]
            work.task(function, *args, name=f"t{i}", device=device)
        return {f"t{i}": f"{device}/s0" for i in range(ACTIONS)}

    return build


KINDS = ("neg", "add", "softmax", "sum", "mm", "relu")


def _copies_in(work: Workload, _: list[Value]) -> dict[str, str]:
    """Copies of pinned host memory to the GPU."""
    import torch

    host = work.input("host", torch.rand(1024), device="cpu")
    for i in range(ACTIONS):
        work.copy(host, to="cuda:0", pinned=True, name=f"c{i}")
    return {}


def _copies_out(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Copies from the GPU to pinned host memory."""
    for i in range(ACTIONS):
        work.copy(inputs[0], to="cpu", pinned=True, name=f"c{i}")
    return {}


def _copies_across(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """Copies to another GPU."""
    for i in range(ACTIONS):
        work.copy(inputs[0], to=_device(inputs[1]), name=f"c{i}")
    return {}


def _device(value: Value) -> str:
    assert isinstance(value.device, str)
    return value.device
