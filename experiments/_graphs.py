"""Task graphs with complex dependencies, and their values computed in plain PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

import graphsched as gs
from experiments._shared import random_matrix
from graphsched.workload import Task, fill


class Network:
    """Builds tasks on `devices` over matrices of `size` rows and `size`, `size` / 2 or `size` / 4 columns.

    Inputs lie on the first device before time 0. Products are with matrices of columns that sum to
    about one, so that values stay finite however many there are in a row.
    """

    def __init__(self, devices: Sequence[str], size: int) -> None:
        self.work = gs.Workload("complex_graph")
        self.devices = tuple(devices)
        self.size = size
        self.widths = (size, max(size // 2, 1), max(size // 4, 1))
        self._weights: dict[tuple[int, int], gs.Value] = {}
        self.x = self.work.input("x", random_matrix(size, size), device=self.devices[0])

    def task(self, function: Callable[..., Any], *args: Any, name: str, **kwargs: Any) -> gs.Value:
        """One task that may run on any of the devices."""
        value: gs.Value = self.work.task(function, *args, name=name, device=self.devices, **kwargs)
        return value

    def mm(self, value: gs.Value, width: int, *, name: str) -> gs.Value:
        """The product of `value` with a given matrix of `width` columns."""
        return self.task(torch.mm, value, self._weight(columns(value), width), name=name)

    def softmax(self, value: gs.Value, *, name: str) -> gs.Value:
        """Rows of `value` as shares that sum to one."""
        return self.task(torch.softmax, value, dim=1, name=name)

    def _weight(self, rows: int, width: int) -> gs.Value:
        if (rows, width) not in self._weights:
            tensor = random_matrix(rows, width)
            self._weights[rows, width] = self.work.input(f"w{rows}x{width}", tensor, device=self.devices[0])
        return self._weights[rows, width]


def columns(value: gs.Value) -> int:
    """Columns of a matrix."""
    assert value.spec is not None
    return value.spec.shape[1]


def diamonds(devices: Sequence[str], size: int, layers: int, width: int) -> gs.Workload:
    """`layers` diamonds in a row: a product, `width` arms of different length, and their join.

    ::

              ╭─ mm ─ softmax ─╮
        relu ─┼─ mm ───────────┼─ cat ─ mm ─ (the next diamond)
              ╰─ mm ─ softmax ─╯
    """
    net = Network(devices, size)
    value = net.x
    for i in range(layers):
        top = net.task(torch.relu, value, name=f"d{i}/top")
        arms = [net.mm(top, net.widths[k % 3], name=f"d{i}/arm{k}") for k in range(width)]
        arms[::2] = [net.softmax(arm, name=f"d{i}/arm{2 * k}/softmax") for k, arm in enumerate(arms[::2])]
        value = net.mm(net.task(torch.cat, arms, dim=1, name=f"d{i}/join"), size, name=f"d{i}/end")
    return net.work


def fan_out(devices: Sequence[str], size: int, layers: int, width: int) -> gs.Workload:
    """One product that `width` chains of `layers` products read; all ends are returned."""
    net = Network(devices, size)
    root = net.mm(net.x, size, name="root")
    for k in range(width):
        value = root
        for i in range(layers):
            value = net.mm(value, net.widths[(i + k) % 3], name=f"chain{k}/mm{i}")
    return net.work


def fan_in(devices: Sequence[str], size: int, layers: int, width: int) -> gs.Workload:
    """`width` chains of `layers` products, added pair by pair until one value is left."""
    net = Network(devices, size)
    values = []
    for k in range(width):
        value = net.x
        for i in range(layers):
            value = net.mm(value, size if i == layers - 1 else net.widths[(i + k) % 3], name=f"chain{k}/mm{i}")
        values.append(value)
    level = 0
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        added = [net.task(torch.add, a, b, name=f"add{level}/{k}") for k, (a, b) in enumerate(pairs)]
        values, level = added + values[len(added) * 2 :], level + 1
    net.mm(values[0], size, name="end")
    return net.work


def random_layers(devices: Sequence[str], size: int, layers: int, width: int, *, seed: int) -> gs.Workload:
    """`layers` layers of 1 to `width` tasks of random kinds, each of which reads values of earlier layers."""
    rng = random.Random(seed)
    net = Network(devices, size)
    earlier: list[list[gs.Value]] = [[net.x]]
    for i in range(layers):
        count = rng.randint(max(width // 2, 1), width)
        earlier.append([_random_task(net, rng, earlier, f"l{i}/t{k}") for k in range(count)])
    return net.work


def _random_task(net: Network, rng: random.Random, earlier: list[list[gs.Value]], name: str) -> gs.Value:
    """Mostly products; the first read is of the layer before, the second of any layer, if one fits."""
    first = rng.choice(earlier[-1])
    fitting = [v for layer in earlier for v in layer if columns(v) == columns(first) and v is not first]
    kind = rng.choices(("mm", "add", "softmax", "relu"), weights=(6, 2, 1, 1))[0]
    if kind == "mm":
        return net.mm(first, rng.choice(net.widths), name=f"{name}/mm")
    if kind == "add" and fitting:
        return net.task(torch.add, first, rng.choice(fitting), name=f"{name}/add")
    if kind == "softmax":
        return net.softmax(first, name=f"{name}/softmax")
    return net.task(torch.relu, first, name=f"{name}/relu")


def plain_values(work: gs.Workload, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The returned values of `work`, its tasks run one after the other in plain PyTorch.

    `inputs` are on the device that computes; a copy stays there, as its values are the same. Not
    modelled: updates in place.
    """
    values = dict(inputs)
    uses = {name: work.graph.out_degree(name) for name in work.graph}
    for task in work.tasks:
        operands = [values[read.value.name] for read in task.reads]
        (output,) = task.outputs
        values[output.name] = operands[0] if task.kind == "copy" else _called(task, operands)
        for read in task.reads:  # freed after the last use, as Python would
            if read.source is not None:
                uses[read.source] -= 1
                if not uses[read.source]:
                    del values[read.value.name]
    return {value.name: values[value.name] for value in work.returned()}


def _called(task: Task, operands: list[torch.Tensor]) -> torch.Tensor:
    operation = task.operation
    assert operation is not None
    assert operation.function is not None
    result: torch.Tensor = operation.function(*fill(operation.args, operands), **fill(operation.kwargs, operands))
    return result
