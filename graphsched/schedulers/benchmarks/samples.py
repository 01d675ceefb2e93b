"""Small workloads and platforms of many kinds, generated: what a scheduler must be able to handle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import networkx as nx

from graphsched.platform import Device, Link, Platform
from graphsched.workload import TensorSpec, Value, Workload

BLOCK = TensorSpec((256, 256))
SECONDS = (0.0, 1e-5, 1e-4, 1e-4, 1e-3)
SIZES = (0, 1, 1_000_000)
KINDS = (
    "nothing",
    "one task",
    "independent",
    "chain",
    "fork and join",
    "random",
    "bound to devices",
    "copies",
    "states",
)


@dataclass(frozen=True, eq=False)
class Sample:
    """A workload on a platform.

    Attributes:
        label: What kind of workload on what platform, and its number.
        work, platform: These; the platform carries no costs, for all tasks have durations.
    """

    label: str
    work: Workload
    platform: Platform


def samples(count: int, seed: int = 0, *, names: Callable[[int], str] = "t{}".format) -> Iterator[Sample]:
    """`count` workloads of all kinds in turn, on platforms in turn; the same for the same seed.

    Args:
        count: How many.
        seed: Of everything that is drawn.
        names: Name of the task of a number: other names give the same workloads under these.

    Example:
        >>> [(sample.label, len(sample.work)) for sample in samples(3)]
        [('0 (nothing, one GPU)', 0), ('1 (one task, two GPUs and a CPU)', 1), ('2 (independent, four workers)', 9)]
    """
    platforms = tuple(_platforms().items())
    for number in range(count):
        kind, (where, platform) = KINDS[number % len(KINDS)], platforms[number % len(platforms)]
        drawn = random.Random(f"{seed} {number}")
        work = _WAYS[kind](drawn, [device.name for device in platform.devices], names)
        yield Sample(f"{number} ({kind}, {where})", work, platform)


def _platforms() -> dict[str, Platform]:
    cpu = Device("cpu", "cpu", lanes=4)
    return {
        "one GPU": _joined("one", [Device("cuda:0", "cuda")]),
        "two GPUs and a CPU": _joined("two", [Device("cuda:0", "cuda"), Device("cuda:1", "cuda"), cpu]),
        "four workers": _joined("four", [Device(f"worker:{k}", "worker", lanes=2) for k in range(4)]),
        "a CPU": _joined("cpu", [cpu]),
    }


def _joined(name: str, devices: Sequence[Device]) -> Platform:
    """Every two devices joined by a link; they share what leads into a device."""
    pairs = [*permutations([d.name for d in devices], 2), *((d.name, d.name) for d in devices)]
    links = [Link(a, b, "local" if a == b else "peer", 1e-6, 1e10, () if a == b else (f"{b}/in",)) for a, b in pairs]
    return Platform(name, tuple(devices), tuple(links), {f"{d.name}/in": 1.5e10 for d in devices}, cores=1000)


# -- workloads ---------------------------------------------------------------------------------

_Way = Callable[[random.Random, Sequence[str], Callable[[int], str]], Workload]


def _graph(drawn: random.Random, edges: Sequence[tuple[int, int]], size: int, names: Callable[[int], str]) -> Workload:
    dag = nx.DiGraph()
    dag.add_nodes_from((names(i), {"duration_s": drawn.choice(SECONDS)}) for i in range(size))
    dag.add_edges_from((names(a), names(b), {"nbytes": drawn.choice(SIZES)}) for a, b in edges)
    return Workload.from_graph(dag)


def _random_edges(drawn: random.Random, size: int) -> list[tuple[int, int]]:
    return [(before, i) for i in range(size) for before in sorted(drawn.sample(range(i), min(i, drawn.randint(0, 3))))]


def _bound(drawn: random.Random, devices: Sequence[str], names: Callable[[int], str]) -> Workload:
    """Tasks with a duration for some devices only: they may run nowhere else."""
    dag = nx.DiGraph()
    for i in range(drawn.randint(2, 12)):
        some = sorted(drawn.sample(devices, drawn.randint(1, len(devices))))
        dag.add_node(names(i), duration_s={name: drawn.choice(SECONDS) for name in some})
    edges = _random_edges(drawn, len(dag))
    dag.add_edges_from((names(a), names(b), {"nbytes": drawn.choice(SIZES)}) for a, b in edges)
    return Workload.from_graph(dag)


def _copies(drawn: random.Random, devices: Sequence[str], names: Callable[[int], str]) -> Workload:
    """Copies that the workload asks for, and barriers."""
    work = Workload()
    values = [work.input("x", BLOCK, device=devices[0])]
    for i in range(drawn.randint(3, 12)):
        kind = drawn.choice(("run", "run", "copy", "barrier"))
        if kind == "barrier":
            work.barrier(names(i))
        elif kind == "copy":
            values.append(work.copy(drawn.choice(values), to=drawn.choice(devices), pinned=True, name=names(i)))
        else:
            values.append(_task(work, names(i), [drawn.choice(values)], drawn))
    return work


def _states(drawn: random.Random, devices: Sequence[str], names: Callable[[int], str]) -> Workload:
    """Tasks that read and update states, with a home and without one."""
    work = Workload()
    values = [work.input("x", BLOCK, device=devices[-1])]
    states = [work.state(f"w{k}", BLOCK, device=drawn.choice([None, devices[0]])) for k in range(2)]
    for i in range(drawn.randint(3, 12)):
        state = drawn.choice(states)
        if drawn.random() < 0.5:
            _task(work, names(i), [state, drawn.choice(values)], drawn, [state])
        else:
            values.append(_task(work, names(i), [state], drawn))
    return work


def _task(
    work: Workload, name: str, reads: Sequence[Value], drawn: random.Random, updates: Sequence[Value] = ()
) -> Value:
    seconds = drawn.choice(SECONDS)
    made: Value = work.task(_stub, *reads, name=name, outputs=[BLOCK], duration_s=seconds, updates=updates)
    return made


def _stub(*tensors: object) -> None:
    """Stands for an operation; never called."""


_WAYS: dict[str, _Way] = {
    "nothing": lambda _drawn, _devices, _names: Workload(),
    "one task": lambda drawn, _, names: _graph(drawn, [], 1, names),
    "independent": lambda drawn, _, names: _graph(drawn, [], 9, names),
    "chain": lambda drawn, _, names: _graph(drawn, [(i, i + 1) for i in range(8)], 9, names),
    "fork and join": lambda drawn, _, names: _graph(
        drawn, [*((0, i) for i in range(1, 9)), *((i, 9) for i in range(1, 9))], 10, names
    ),
    "random": lambda drawn, _, names: _graph(drawn, _random_edges(drawn, 14), 14, names),
    "bound to devices": _bound,
    "copies": _copies,
    "states": _states,
}
