"""Kernels and copies on GPUs in round figures, beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphsched.costs import Beside, Costs, Kernel, Multiprocessors, TaskCost
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import kernel, planned, platform

Copy = tuple[str, str, int]
UNKNOWN = TaskCost(0.0)
KNOWN = TaskCost(
    0.0,
    concurrency=((2, 1.0),),
    kernels=(Kernel(8, 0, 128, 0),),
    processors=Multiprocessors(4, 65536, 2048, 233472, 32),
)
IN, OUT, PEER = ("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:1", "cuda:0")


def gpus(factors: Mapping[str, float], **options: object) -> Platform:
    """GPUs whose memory moves 100 bytes a second, joined by links of 50; `factors` of what kernels and copies cost."""
    here = platform(bandwidth=50.0, **options)  # type: ignore[arg-type]
    figures = {"bytes_per_s": 100.0, **factors}
    devices = tuple(replace(d, **figures) if d.kind == "cuda" else d for d in here.devices)
    links = tuple(link for link in here.links if (link.source, link.target) != ("cpu", "cpu"))  # pinning takes no time
    return replace(here, devices=devices, links=links)


def plan_of(
    kernels: Mapping[str, tuple[float, int, str]],
    copies: Mapping[str, Copy],
    where: Platform,
    *,
    late_s: float = 0.0,
    pairs: Mapping[tuple[int, int], float] | None = None,
    like: TaskCost | Mapping[str, TaskCost] = UNKNOWN,
    pinned: bool = True,
) -> Plan:
    """Kernels (seconds, bytes read, lane) and copies (source, target, bytes) that wait for nothing.

    Copies from the host wait `late_s` for what they copy. `pairs`: slowdowns by places of two kernels; `like`:
    the rest of their costs, or of each one's.
    """
    work, lanes = Workload(), {name: lane for name, (_, _, lane) in kernels.items()}
    costs: dict[tuple[str, str], TaskCost] = {}
    for place, (name, (seconds, nbytes, lane)) in enumerate(kernels.items()):
        x = work.input(f"{name}x", TensorSpec((nbytes,), "uint8"), device=lane.partition("/")[0])
        work.task(kernel, x, place, name=name, outputs=[])
        costs[work[name].signature, "GPU"] = replace(
            like[name] if isinstance(like, Mapping) else like, device_s=seconds
        )
    for name, (source, target, nbytes) in copies.items():
        spec = TensorSpec((nbytes,), "uint8")
        if source == "cpu" and late_s:
            value = work.task(kernel, name=f"{name}x", outputs=[spec], device="cpu", duration_s=late_s)
            lanes[f"{name}x"] = "cpu/w0"
        else:
            value = work.input(f"{name}x", spec, device=source)
        work.copy(value, to=target, name=name, pinned=pinned)
    signatures = [work[name].signature for name in kernels]
    known = {(signatures[a], signatures[b], "GPU"): Beside(factor) for (a, b), factor in (pairs or {}).items()}
    return planned(work, where, lanes, costs=Costs(costs, known))


def ends(plan: Plan, model: Model = Model()) -> dict[str, float]:
    return {span.action: span.end_s for span in predict(plan, model=model)}
