"""Random layered graphs of mixed kernels and explicit copies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

import graphsched as gs
from experiments._shared import random_matrix

SINGLE, HALF = "float32", "bfloat16"
KINDS = {"mm": 8, "add": 3, "softmax": 2, "layer_norm": 2, "centre": 2, "away": 2}  # shares of the tasks
ON_CPU = ("add", "softmax", "centre")  # kinds that a CPU can do in reasonable time


class Mixture:
    """Builds random tasks over matrices of `size` rows and `size` or `size` / 2 columns, in two precisions.

    Inputs lie on the first device before time 0. With `cpu`, light tasks on the narrower matrices may run
    on the CPU too.
    """

    def __init__(self, devices: Sequence[str], size: int, seed: int, *, cpu: bool) -> None:
        self.work = gs.Workload("random_graphs")
        self.devices = tuple(devices)
        self.widths = (size, max(size // 2, 1))
        self.rng = random.Random(seed)
        self._cpu = cpu
        self._weights: dict[tuple[int, int, str], gs.Value] = {}
        x = random_matrix(size, size)
        first = self.devices[0]
        self.given = [self.work.input("x", x, device=first), self.work.input("h", x.bfloat16(), device=first)]

    def task(self, function: Callable[..., Any], *args: Any, name: str, light: bool = False, **kwargs: Any) -> gs.Value:
        """One task that may run on any of the devices; if it is `light`, on the CPU too."""
        where = (*self.devices, "cpu") if light and self._cpu else self.devices
        value: gs.Value = self.work.task(function, *args, name=name, device=where, **kwargs)
        return value

    def add_any(self, earlier: Sequence[Sequence[gs.Value]], name: str) -> gs.Value:
        """A random task that reads a value of the last layer and, if it reads two, one of any layer."""
        first = self.rng.choice(earlier[-1])
        others = [v for layer in earlier for v in layer if v.spec == first.spec and v is not first]
        kind = self.rng.choices(list(KINDS), weights=list(KINDS.values()))[0]
        impossible = (kind == "add" and not others) or (kind == "away" and self._may_be_on_cpu(first))
        if kind == "mm" or impossible:
            return self.product(first, f"{name}/mm")
        light = kind in ON_CPU and _columns(first) == self.widths[1]
        if kind == "add":
            return self.task(torch.lerp, first, self.rng.choice(others), 0.5, name=f"{name}/mean", light=light)
        if kind == "away":
            return self.away_and_back(first, name)
        one: Callable[..., gs.Value] = {"softmax": self.softmax, "layer_norm": self.norm, "centre": self.centred}[kind]
        return one(first, name, light=light)

    def product(self, value: gs.Value, name: str) -> gs.Value:
        """The product of `value` with a given matrix; of half precision only with square ones."""
        narrow = _dtype(value) == SINGLE
        width = self.rng.choice(self.widths) if narrow else self.widths[0]
        return self.task(torch.mm, value, self._weight(_columns(value), width, _dtype(value)), name=name)

    def softmax(self, value: gs.Value, name: str, *, light: bool) -> gs.Value:
        """Rows of `value` as shares that sum to one."""
        return self.task(torch.softmax, value, dim=1, name=f"{name}/softmax", light=light)

    def norm(self, value: gs.Value, name: str, *, light: bool) -> gs.Value:
        """Rows of `value` with mean 0 and variance 1."""
        return self.task(F.layer_norm, value, (_columns(value),), name=f"{name}/norm", light=light)

    def centred(self, value: gs.Value, name: str, *, light: bool) -> gs.Value:
        """`value` less the mean of each row, in two tasks: the row's sum, and the difference."""
        total = self.task(torch.sum, value, dim=1, keepdim=True, name=f"{name}/sum", light=light)
        share = 1 / _columns(value)
        return self.task(torch.sub, value, total, alpha=share, name=f"{name}/centre", light=light)

    def away_and_back(self, value: gs.Value, name: str) -> gs.Value:
        """A copy of `value` to pinned memory of the host, and from there to one of the devices."""
        away = self.work.copy(value, to="cpu", pinned=True, name=f"{name}/away")
        return self.work.copy(away, to=self.rng.choice(self.devices), pinned=True, name=f"{name}/back")

    def _may_be_on_cpu(self, value: gs.Value) -> bool:
        return value.producer is not None and "cpu" in self.work[value.producer].devices

    def _weight(self, rows: int, width: int, dtype: str) -> gs.Value:
        key = (rows, width, dtype)
        if key not in self._weights:
            tensor = random_matrix(rows, width).to(getattr(torch, dtype))
            name = f"w{rows}x{width}.{dtype}"
            self._weights[key] = self.work.input(name, tensor, device=self.devices[0])
        return self._weights[key]


def _columns(value: gs.Value) -> int:
    assert value.spec is not None
    return value.spec.shape[1]


def _dtype(value: gs.Value) -> str:
    assert value.spec is not None
    return value.spec.dtype


def mixture(devices: Sequence[str], size: int, layers: int, width: int, *, seed: int, cpu: bool = False) -> gs.Workload:
    """`layers` layers of `width` / 2 to `width` random tasks, each of which reads values of earlier layers.

    Products in single and half precision, means, softmax, layer norm, sums, and copies to the host's
    pinned memory and back.
    """
    mix = Mixture(devices, size, seed, cpu=cpu)
    earlier: list[list[gs.Value]] = [mix.given]
    for i in range(layers):
        count = mix.rng.randint(max(width // 2, 1), width)
        earlier.append([mix.add_any(earlier, f"l{i}/t{k}") for k in range(count)])
    return mix.work
