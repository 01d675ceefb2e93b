"""Platforms written by hand, and each experiment at a small size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphsched.cases import Case, Experiment, find
from graphsched.plan import Plan
from graphsched.platform import Device, Link, Platform
from graphsched.schedulers import schedule

FOLDER = Path(__file__).parents[2] / "experiments"
SMALL: dict[str, dict[str, Any]] = {
    "attention": {"tokens": (4,), "rows": 8, "width": 16, "heads": 2, "layers": 1},
    "parallel_compute": {"size": 16, "products": 4},
    "overlap": {"size": 16, "products": 4},
    "cpu_gpu": {"size": 16, "products": 6, "cpu_products": 3},
    "independent_ops": {"sizes": (16, 8), "products": 8},
    "small_ops": {"sizes": (8, 16), "products": 8},
    "complex_graph": {"size": 16, "layers": 3, "width": 4},
    "hardware": {"sizes": (64, 4096)},
    "kvstore": {"networks": ("LeNet",), "devices": (1, 2), "cut_from_kib": 16},
    "multi_machine": {"mbytes": (0.04,), "servers": (1, 2), "rows": 2},
    "ring": {"mbytes": (0.004,)},
    "scaling": {"topologies": ("rail_optimised",), "networks": ("ResNet-18",), "gpus": (8, 16), "buckets": 64},
    "parameter_server": {"mbytes": (0.004,), "networks": ("LeNet",), "devices": (1, 2), "batch": 4, "steps": 2},
    "async_frontend": {"n": (1, 10, 200)},
    "contention": {"mbytes": 0.01, "size": 16, "blocks": 3, "seeds": (1,)},
    "random_graphs": {"size": 16, "layers": 4, "width": 4, "seeds": (1, 2), "cpu_seeds": (4,)},
    "task_bench": {"size": 16, "width": 4, "steps": 4},
    "schedulers": {
        "networks": ("LeNet", "inception", "stencil"),
        "schedulers": ("one_stream", "round_robin", "heft", "streams", "search"),
        "batch": 4,
        "size": 16,
        "simulations": 2,
        "iterations": 20,
    },
    "branches": {"depth": 1, "shrink": 16, "lanes": 4},
    "metg": {"width": 4, "steps": 3, "size": 16, "windows": (3, 7), "lanes": 4},
    "lenet_data_parallel": {"batch": 4, "steps": 2},
    "resnet18_data_parallel": {"batch": 1, "steps": 2, "ways": ("parallel", "ddp", "graph"), "inside": False},
    "partitioning": {"networks": ("LeNet",), "devices": (1, 2), "batch": 8, "micro_batches": 2},
    "symbolic": {"ways": ("imperative", "script", "eager", "graph"), "calls": (1, 4), "repeats": 1},
    "two_layer_mlp": {"hidden": 8, "batch": 64, "epochs": 1},
}


def load(name: str) -> Experiment:
    """The experiment of this name in the checkout."""
    return find(FOLDER / f"{name}.py")


def hand_written(kind: str, count: int, *, lanes: int = 8) -> Platform:
    """A host with `count` accelerators of `lanes` compute lanes, all of them linked."""
    names = [f"{kind}:{i}" for i in range(count)]
    devices = [Device("cpu", "cpu", "a CPU", lanes=8)]
    devices += [Device(name, kind, f"a {kind}", lanes=lanes) for name in names]  # type: ignore[arg-type]
    links = []
    for name in names:
        for memory, rate in (("pinned", 5e10), ("pageable", 1e10), ("fresh", 2e9)):
            links.append(Link("cpu", name, memory, 1e-5, rate, blocking=memory != "pinned"))  # type: ignore[arg-type]
            links.append(Link(name, "cpu", memory, 1e-5, rate, blocking=memory != "pinned"))  # type: ignore[arg-type]
        links += [Link(name, other, "peer", 1e-5, 3e11) for other in names if other != name]
    return Platform(f"{kind} x{count}", tuple(devices), tuple(links), cores=8)


def cases(name: str, platform: Platform, **params: Any) -> dict[str, Case]:
    """The cases of an experiment by label, small unless parameters are given; each label stands once."""
    made = list(load(name).cases(platform, **(SMALL[name] | params)))
    assert len({case.label for case in made}) == len(made)
    return {case.label: case for case in made}


def plan_of(case: Case, platform: Platform) -> Plan:
    """The plan of a case that is no baseline."""
    assert case.work is not None
    return schedule(case.work, platform, scheduler=case.scheduler, **case.options)
