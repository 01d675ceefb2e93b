"""A traced training step as a chain of layers: what each costs, keeps and hands on.

A layer is a forward task with the backward tasks of its gradients.

Not modelled: workspaces of operators; memory of gradients and activations that wait to be copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from graphsched.costs import Costs
from graphsched.errors import WorkloadError
from graphsched.estimates import task_cost
from graphsched.platform import Device
from graphsched.workload import Task, Value, Workload


@dataclass(frozen=True)
class Chain:
    """The layers of `work`.

    Attributes:
        work: A traced training step.
        forward: Forward tasks, in the order in which they were recorded.
        layer_of: Number of the layer of each forward and backward task.
    """

    work: Workload
    forward: Sequence[str]
    layer_of: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.forward)

    def seconds(self, cost_s: Mapping[str, float]) -> list[float]:
        """Forward and backward time of each layer, from that of each task."""
        found = [0.0] * len(self)
        for name, layer in self.layer_of.items():
            found[layer] += cost_s[name]
        return found

    @cached_property
    def changed(self) -> set[str]:
        """States that some task changes."""
        return {value.root for task in self.work.tasks for value in task.updates}

    @cached_property
    def home_of(self) -> dict[str, int]:
        """The first layer that uses each state; what an optimiser keeps for a parameter is where that is."""
        homes: dict[str, int] = {}
        for name, layer in self.layer_of.items():
            for read in self.work[name].reads:
                if read.value.kind == "state":
                    homes[read.value.root] = min(layer, homes.get(read.value.root, layer))
        for value in self.work.values.values():
            parameter = value.name.partition("/")[0]
            if value.kind == "state" and parameter in homes:
                homes.setdefault(value.name, homes[parameter])
        return homes

    @cached_property
    def gradients(self) -> list[Value]:
        """What backward tasks make and updates read."""
        found: dict[str, Value] = {}
        for task in self.work.tasks:
            if task.name not in self.layer_of:
                found |= {r.value.name: r.value for r in task.reads if r.value.producer in self.layer_of}
        return list(found.values())

    def is_kept(self, value: Value, reader: str) -> bool:
        """Whether `reader` is a backward task and `value` of the forward pass."""
        phases = self.work.graph.nodes
        return (
            value.producer is not None
            and phases[reader]["phase"] == "backward"
            and phases[value.producer]["phase"] == "forward"
        )

    def crossing_bytes(self) -> list[int]:
        """Bytes that cross a cut before each layer, forward and backward, in one pass; each value once a cut."""
        change = [0] * (len(self) + 1)
        for value, layers in self._reaches().values():
            change[min(layers) + 1] += value.nbytes
            change[max(layers) + 1] -= value.nbytes
        return list(accumulate(change[: len(self)]))

    def _reaches(self) -> dict[str, tuple[Value, set[int]]]:
        """Of each value (and state that changes) the layers that make or read it."""
        found: dict[str, tuple[Value, set[int]]] = {}
        for name, layer in self.layer_of.items():
            task = self.work[name]
            for value in (*task.outputs, *(read.value for read in task.reads)):
                if value.kind == "output" or value.name in self.changed:
                    found.setdefault(value.name, (value, set()))[1].add(layer)
        return found


def chain_of(work: Workload) -> Chain:
    """The layers of `work`, by the attributes ``phase`` and ``forward`` of its nodes.

    A backward task is of the layer of its forward task, but never of a later one than the backward tasks that it
    reads from.

    Raises:
        WorkloadError: A forward task comes after the update of what it reads.
    """
    phase = {name: work.graph.nodes[name].get("phase") for name in work.graph}
    forward = [name for name in work.graph if phase[name] == "forward"]
    layer_of = {name: layer for layer, name in enumerate(forward)}
    for name in forward:
        for read in work[name].reads:
            if read.source is not None and phase[read.source] != "forward":
                raise WorkloadError(
                    f"task {name!r} reads {read.value.name!r} after {read.source!r}: a pipeline needs a step whose "
                    "gradients go to the optimizer as they are (without clipping or scaling in between), and that "
                    "returns only its loss and what the forward pass makes"
                )
    for name in work.graph:
        if phase[name] == "backward":
            sources = [r.source for r in work[name].reads if r.source is not None and phase[r.source] == "backward"]
            own = layer_of.get(work.graph.nodes[name].get("forward"), len(forward) - 1)
            layer_of[name] = min([own, *(layer_of[source] for source in sources)])
    return Chain(work, forward, layer_of)


# -- time ------------------------------------------------------------------------------------------


def pass_seconds(
    tasks: Iterable[Task], whole: Workload, parts: int, costs: Costs | None, device: str
) -> dict[str, float]:
    """Seconds of each task: as measured; else a part of what the same task of the whole batch takes; else estimated.

    Args:
        tasks: Of one micro-batch.
        whole: The same step for the whole batch.
        parts: Micro-batches in it.
        costs: Measured costs; of several device models the one with most of the operations counts.
        device: Where the tasks would run.
    """
    tasks = list(tasks)
    same = {task.name: whole[task.name] for task in tasks if task.name in whole.graph}
    wanted = {task.signature for task in (*tasks, *same.values())}
    models = Counter(model for signature, model in costs or () if signature in wanted)
    kind = device.partition(":")[0]
    model = min(models, key=lambda name: (-models[name], name), default="")
    where = Device(device, kind, model)  # type: ignore[arg-type]
    found = {}
    for task in tasks:
        cost = task_cost(task, where, costs)
        scale = 1.0
        if cost.source == "estimated" and task.name in same:
            other = task_cost(same[task.name], where, costs)
            if other.source != "estimated":
                cost, scale = other, 1.0 / parts
        found[task.name] = cost.device_s * scale
    return found


# -- memory ----------------------------------------------------------------------------------------


class StageMemory:
    """Bytes of stages of a chain.

    A stage holds its parameters, their gradients and what the optimiser keeps for them; inputs; and for each
    micro-batch in flight what its backward tasks read of the forward pass.
    """

    def __init__(self, chain: Chain, input_bytes: Mapping[str, int]) -> None:
        """`input_bytes`: of the inputs for the whole batch, by name."""
        held = [0] * len(chain)
        for state, layer in chain.home_of.items():
            held[layer] += chain.work.values[state].nbytes
        for gradient in chain.gradients:
            held[chain.layer_of[str(gradient.producer)]] += gradient.nbytes
        self._held = [0, *accumulate(held)]
        kept: list[dict[str, int]] = [{} for _ in held]
        inputs: list[dict[str, int]] = [{} for _ in held]
        for name, layer in chain.layer_of.items():
            for value in (read.value for read in chain.work[name].reads):
                if value.kind == "input":
                    inputs[layer][value.name] = input_bytes[value.name]
                elif chain.is_kept(value, name):
                    kept[layer][value.name] = value.nbytes
        self._inputs, self._kept = _of_ranges(inputs), _of_ranges(kept)

    def nbytes(self, first: int, end: int, in_flight: int) -> int:
        """Of the stage from layer `first` to before `end` with so many micro-batches in flight."""
        held = self._held[end] - self._held[first] + self._inputs[first][end - first - 1]
        return held + in_flight * self._kept[first][end - first - 1]


def _of_ranges(named: Sequence[Mapping[str, int]]) -> list[list[int]]:
    """For each first layer and each last one from there on the bytes named in between, each name once."""
    table = []
    for first in range(len(named)):
        seen: dict[str, int] = {}
        row: list[int] = []
        for here in named[first:]:
            new = {name: nbytes for name, nbytes in here.items() if name not in seen}
            seen |= new
            row.append((row[-1] if row else 0) + sum(new.values()))
        table.append(row)
    return table
