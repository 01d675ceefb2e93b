"""Mixes of kernels measured on an H200, and the rules of sharing held against them; the data: tests/data.

``python -m tests.simulator.mixes`` prints the table of docs/sharing.md; with ``--fit`` it first finds the
contention of every pair anew (from the pairs; no mix is looked at) and writes contention.json.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graphsched.calibration.contention import PairRun, in_flight, in_flight_of_copies, slowdown_beside
from graphsched.calibration.kernels import kernel_of
from graphsched.costs import Beside, Costs, Multiprocessors, TaskCost
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, kernel

DATA = Path(__file__).parents[1] / "data" / "h200-concurrency"
H200 = Multiprocessors(132, 65536, 2048, 233472, 32)
MODEL = "NVIDIA H200"
RELIEFS = {"mm:2048": 0.986, "bmm16:2048": 1.0}
"""As `calibration.block_relief` measured them on another H200; ``bmm16:512`` did not run on what was left of it."""

RULES = {
    "no sharing": Model(launch_queue=False, sharing=False),
    "curves": Model(launch_queue=False, pairs=False, block_queue=False),
    "pairs, added": Model(launch_queue=False, block_queue=False),
    "queue of blocks, curves": Model(launch_queue=False, pairs=False),
    "queue of blocks, pairs": Model(launch_queue=False),
}
HALVES = {"first half": (0, 1), "second half": (2, 3)}
"""Numbers modulo 4 of the mixes of each half: single-kind and mixed chains alternate in the data."""


@cache
def load(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def operations() -> list[str]:
    return list(load("pairs")["solo_us"])


@cache
def cost(operation: str) -> TaskCost:
    """Alone, by the run of the pairs; kernels of the profile."""
    mixes, solo_us = load("mixes"), load("pairs")["solo_us"][operation]
    rows, curve = mixes["kernels"][operation], mixes["curves_us"][operation]
    total = sum(row["us"] for row in rows)
    kernels = [
        kernel_of(row["grid"], row["block"], row["registers"], row["shared_bytes"], row["us"] / total) for row in rows
    ]
    kernels = [replace(kernel, relief=RELIEFS.get(operation, kernel.relief)) for kernel in kernels]
    points = [(int(k), us / curve["1"]) for k, us in curve.items()]
    return TaskCost(solo_us * 1e-6, concurrency=tuple(points), kernels=tuple(kernels), processors=H200)


def pair_run(operation: str, beside: str) -> PairRun:
    row = load("pairs")["pairs"][f"{operation}|{beside}"]
    alone_us = row["nodes"] * load("pairs")["solo_us"][operation]
    slower = slowdown_beside(alone_us, row["end_us"], row["beside_end_us"])
    return PairRun(row["nodes"], row["beside_nodes"], slower)


def slowdown(operation: str, beside: str) -> float:
    """As measured of the pair; beside a copy of itself by the curve, which is longer."""
    return cost(operation).slowdown(2) if operation == beside else pair_run(operation, beside).slowdown


def fitted() -> dict[str, list[list[float]]]:
    """Contention in flight of all pairs, by ``operation|beside``: numbers of copies, each with its factor."""
    found = {f"{a}|{a}": in_flight_of_copies(cost(a)) for a in operations()}
    for a, b in itertools.combinations(operations(), 2):
        both = in_flight((cost(a), cost(b)), (pair_run(a, b), pair_run(b, a)))
        found[f"{a}|{b}"], found[f"{b}|{a}"] = (((2, factor),) for factor in both)
    return {key: [[k, round(factor, 4)] for k, factor in found[key]] for key in load("pairs")["pairs"]}


@cache
def costs() -> Costs:
    """Costs of all operations and pairs, filed under the signatures of `tests.builders.kernel`."""
    signatures = _signatures()
    pairs = {}
    for key, points in load("contention").items():
        a, b = key.split("|")
        copies = tuple((k, factor) for k, factor in points)
        pairs[signatures[a], signatures[b], MODEL] = Beside(slowdown(a, b), copies=copies)
    return Costs({(signatures[a], MODEL): cost(a) for a in operations()}, pairs)


def _signatures() -> dict[str, str]:
    work = Workload()
    return {a: work.task(kernel, k, name=a, outputs=[]) or work[a].signature for k, a in enumerate(operations())}


def plan_of(chains: Sequence[Sequence[Sequence[Any]]]) -> Plan:
    """Chain k on lane k of one GPU; chains of copies on the copy lanes."""
    work, lanes = Workload(), {}
    for c, chain in enumerate(chains):
        for n, operation in enumerate(o for o, count in chain for _ in range(count)):
            name = f"c{c}n{n}"
            if operation.startswith(("h2d", "d2h")):
                source, target = ("cpu", "cuda:0") if operation.startswith("h2d") else ("cuda:0", "cpu")
                value = work.input(f"{name}x", TensorSpec((_nbytes(operation),), "uint8"), device=source)
                work.copy(value, to=target, name=name, pinned=True)
            else:
                work.task(kernel, operations().index(operation), name=name, outputs=[])
                lanes[name] = f"cuda:0/s{c}"
    placement = Placement([task.name for task in work.tasks], lanes)
    return build_plan(work, _platform(), costs(), placement, scheduler="by hand")


def _nbytes(operation: str) -> int:
    return int(operation.partition(":")[2]) * 10**6


def _platform() -> Platform:
    """One H200; a copy takes half of what two on one engine take together: alone, some took longer now and then."""
    links = (Link("cpu", "cuda:0", "pinned", *_line("h2d")), Link("cuda:0", "cpu", "pinned", *_line("d2h")))
    return Platform("mixes", (Device("cpu", "cpu"), Device("cuda:0", "cuda", MODEL)), links, {}, FREE)


def _line(way: str) -> tuple[float, float]:
    """Latency and bandwidth of copies, from those of 4 and of 16 MB."""
    short_s, long_s = (load("mixes")["copies_us"][f"{way}:{size}"]["2"] / 2 * 1e-6 for size in (4, 16))
    rate = 12e6 / (long_s - short_s)
    return short_s - 4e6 / rate, rate


def errors(numbers: Iterable[int], model: Model) -> tuple[list[float], list[float]]:
    """Absolute relative errors of makespans, and of the ends of lanes, of these mixes."""
    makespans, lanes = [], []
    for number in numbers:
        found, measured = ends_us(number, model), load("mixes")["mixes"][number]["graph_end_us"]
        lanes += _off(found, measured)
        makespans += _off([max(found)], [max(measured)])
    return makespans, lanes


def by_mode(model: Model) -> dict[str, tuple[list[float], list[float]]]:
    """As `errors`, of the mixes that were run in both modes: predictions beside each, and eager runs beside graphs."""
    mixes = {number: mix for number, mix in enumerate(load("mixes")["mixes"]) if "eager_end_us" in mix}
    predicted = [ends_us(number, model) for number in mixes]
    graph, eager = ([mix[f"{mode}_end_us"] for mix in mixes.values()] for mode in ("graph", "eager"))
    sides = {
        "predicted beside graphs": (predicted, graph),
        "predicted beside eager runs": (predicted, eager),
        "eager runs beside graphs": (eager, graph),
    }
    flat = itertools.chain.from_iterable
    return {
        name: (_off(map(max, found), map(max, held)), _off(flat(found), flat(held)))
        for name, (found, held) in sides.items()
    }


@cache
def ends_us(number: int, model: Model) -> list[float]:
    """When each lane of a mix is predicted to end, in microseconds."""
    chains = load("mixes")["mixes"][number]["chains"]
    plan = plan_of(chains)
    ends_s = predict(plan, model=model).end_s
    last = [plan.index_of[f"c{c}n{sum(count for _, count in chain) - 1}"] for c, chain in enumerate(chains)]
    return [float(ends_s[i]) * 1e6 for i in last]


def _off(found: Iterable[float], held: Iterable[float]) -> list[float]:
    return [abs(one / other - 1) for one, other in zip(found, held, strict=True)]


def figures(remainders: Sequence[int], model: Model) -> tuple[float, float, float, float]:
    """Median and 95th percentile of the makespan's error and of the lanes' ends, in per cent."""
    return quantiles(*errors([n for n in range(len(load("mixes")["mixes"])) if n % 4 in remainders], model))


def quantiles(makespans: Sequence[float], lanes: Sequence[float]) -> tuple[float, float, float, float]:
    """Median and 95th percentile of both, in per cent."""
    return tuple(float(100 * np.quantile(v, q)) for v in (makespans, lanes) for q in (0.5, 0.95))  # type: ignore[return-value]


def main() -> None:
    if "--fit" in sys.argv[1:]:
        rows = ",\n".join(f' "{key}": {value}' for key, value in fitted().items())
        (DATA / "contention.json").write_text("{\n" + rows + "\n}\n")
    line = "makespan {:4.1f} / {:4.1f}, lanes {:4.1f} / {:5.1f}"
    for name, model in RULES.items():
        halves = (figures(remainders, model) for remainders in (*HALVES.values(), range(4)))
        print(f"{name:27}", " | ".join(line.format(*f) for f in halves))
    for name, found in by_mode(RULES["queue of blocks, pairs"]).items():
        print(f"{name:27}", line.format(*quantiles(*found)))


if __name__ == "__main__":
    main()
