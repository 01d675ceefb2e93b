"""Networks with branches: one Python function each, which computes with PyTorch or builds a workload.

A network calls every operation through a `Maker`: it either calls the function on tensors, or adds a task.
Weights are made when they are first asked for, by name, the same in every process.

Not modelled: training; the time that Python takes to call operations this way, a fraction of a microsecond each;
batch normalisation, which is part of the convolutions' weights at inference.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import graphsched as gs
from experiments._shared import SEED

Tensor = Any  # a torch.Tensor, or a gs.Value where a workload is built
HEADS = 16


@dataclass(frozen=True)
class Maker:
    """Calls operations, or adds them as tasks.

    Attributes:
        op: ``op(function, *args, **kwargs)``.
        weight: ``weight(name, *shape)``.
    """

    op: Callable[..., Tensor]
    weight: Callable[..., Tensor]

    def conv(self, x: Tensor, name: str, inp: int, out: int, kernel: int = 1) -> Tensor:
        """A convolution of `inp` to `out` channels that keeps the size of the picture."""
        weight, bias = self.weight(f"{name}_w", out, inp, kernel, kernel), self.weight(f"{name}_b", out)
        return self.op(torch.conv2d, x, weight, bias, padding=kernel // 2)

    def depthwise(self, x: Tensor, name: str, channels: int, kernel: int) -> Tensor:
        """A convolution of each channel by itself."""
        weight = self.weight(f"{name}_w", channels, 1, kernel, kernel)
        return self.op(torch.conv2d, x, weight, padding=kernel // 2, groups=channels)

    def relu(self, x: Tensor) -> Tensor:
        """The positive part."""
        return self.op(torch.relu, x)

    def cat(self, values: list[Tensor], dim: int = 1) -> Tensor:
        """Values side by side."""
        return self.op(torch.cat, values, dim=dim)


@dataclass(frozen=True, eq=False)
class Network:
    """A network with its input.

    Attributes:
        forward: ``forward(maker, x)``.
        x: The input, on the CPU.
        weights: Those asked for so far, on the CPU.
    """

    forward: Callable[[Maker, Tensor], Tensor]
    x: torch.Tensor
    weights: dict[str, torch.Tensor] = field(default_factory=dict)

    def weight(self, name: str, *shape: int) -> torch.Tensor:
        """The weight of this name: random, scaled so that values stay in range."""
        if name not in self.weights:
            generator = torch.Generator().manual_seed(random.Random(f"{SEED}/{name}").getrandbits(32))
            self.weights[name] = torch.randn(*shape, generator=generator) * _scale(shape)
        return self.weights[name]

    def weight_without_numbers(self, name: str, *shape: int) -> torch.Tensor:
        """A stand-in for a weight, which is made all the same."""
        return self.weight(name, *shape).to("meta")


def _scale(shape: tuple[int, ...]) -> float:
    """Of a convolution ``[out, in, rows, columns]``, a matrix ``[in, out]``, or a bias.

    Example:
        >>> _scale((64, 4, 3, 3)), _scale((100, 7)), _scale((8,))
        (0.16666666666666666, 0.1, 0.1)
    """
    if len(shape) == 1:
        return 0.1
    inputs = shape[1] * shape[2] * shape[3] if len(shape) == 4 else shape[0]
    return float(inputs**-0.5)


def as_workload(net: Network, device: str, name: str = "branches") -> gs.Workload:
    """The network as tasks on `device`, its input and weights there before time 0."""
    work = gs.Workload(name)
    values = {"x": work.input("x", net.x, device=device)}

    def weight(key: str, *shape: int) -> gs.Value:
        if key not in values:
            values[key] = work.input(key, net.weight(key, *shape), device=device)
        return values[key]

    def op(function: Callable[..., Any], *args: Any, **kwargs: Any) -> gs.Value:
        value: gs.Value = work.task(function, *args, device=device, **kwargs)
        return value

    net.forward(Maker(op, weight), values["x"])
    return work


class Module(torch.nn.Module):
    """The network as a module of PyTorch, its weights as buffers."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        net.forward(Maker(_call, net.weight_without_numbers), net.x.to("meta"))  # asks for every weight
        for name, tensor in net.weights.items():
            self.register_buffer(name, tensor)
        self.network = net.forward

    def forward(self, x: torch.Tensor) -> Any:
        """What the network makes of `x`."""
        return self.network(Maker(_call, self._weight), x)

    def _weight(self, name: str, *_: int) -> torch.Tensor:
        return getattr(self, name)  # type: ignore[no-any-return]


def as_module(net: Network, device: str) -> Module:
    """The network in plain PyTorch on `device`; its own weights stay on the CPU."""
    return Module(net).to(device)


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


# -- networks ----------------------------------------------------------------------------------------


def inception(depth: int, shrink: int) -> Network:
    """Cells of four branches, as the first of GoogLeNet.

    ::

            ╭─ 1×1 ────────────╮
            ├─ 1×1 ─ 3×3 ──────┤
        x ──┤                  ├─ cat ─ (the next cell)
            ├─ 1×1 ─ 5×5 ──────┤
            ╰─ max pool ─ 1×1 ─╯

    Source: C. Szegedy et al.: Going deeper with convolutions. CVPR 2015, table 1, inception (3a), whose
    channels every cell has here.
    """
    pixels = max(28 // shrink, 4)
    return Network(functools.partial(_inception, depth, shrink), _picture(max(192 // shrink, 1), pixels))


def _inception(depth: int, shrink: int, make: Maker, x: Tensor) -> Tensor:
    one, three_in, three, five_in, five, pool = (max(c // shrink, 1) for c in (64, 96, 128, 16, 32, 32))
    inp = max(192 // shrink, 1)
    for i in range(depth):
        left = make.relu(make.conv(x, f"c{i}_one", inp, one))
        middle = make.relu(make.conv(x, f"c{i}_three_in", inp, three_in))
        middle = make.relu(make.conv(middle, f"c{i}_three", three_in, three, 3))
        right = make.relu(make.conv(x, f"c{i}_five_in", inp, five_in))
        right = make.relu(make.conv(right, f"c{i}_five", five_in, five, 5))
        pooled = make.op(torch.max_pool2d, x, 3, stride=1, padding=1)
        pooled = make.relu(make.conv(pooled, f"c{i}_pool", inp, pool))
        x, inp = make.cat([left, middle, right, pooled]), one + three + five + pool
    return x


def transformer(depth: int, shrink: int) -> Network:
    """Blocks of a transformer whose 16 heads are computed apart, over 128 positions of 1024 features.

    ::

            ╭─ head 0: (q, k, v) ─ q kᵀ ─ softmax ─ · v ─╮
        x ──┤  …                                         ├─ cat ─ · Wo ─ + x ─ norm ─ MLP ─ + ─ norm
            ╰─ head 15 ──────────────────────────────────╯

    Source: A. Vaswani et al.: Attention is all you need. NeurIPS 2017, section 3; sizes of its larger model.
    """
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(max(128 // shrink, 2), max(1024 // shrink, HEADS), generator=generator)
    return Network(functools.partial(_transformer, depth, x.shape[1]), x)


def _transformer(depth: int, features: int, make: Maker, x: Tensor) -> Tensor:
    for i in range(depth):
        heads = [_head(make, x, f"b{i}_h{h}", features) for h in range(HEADS)]
        joined = make.op(torch.mm, make.cat(heads), make.weight(f"b{i}_o", HEADS * (features // HEADS), features))
        x = _normed(make, make.op(torch.add, x, joined), features)
        inner = make.op(torch.mm, x, make.weight(f"b{i}_up", features, 4 * features))
        inner = make.op(torch.nn.functional.gelu, inner)
        outer = make.op(torch.mm, inner, make.weight(f"b{i}_down", 4 * features, features))
        x = _normed(make, make.op(torch.add, x, outer), features)
    return x


def _head(make: Maker, x: Tensor, name: str, features: int) -> Tensor:
    width = features // HEADS
    q, k, v = (make.op(torch.mm, x, make.weight(f"{name}_{part}", features, width)) for part in "qkv")
    scores = make.op(torch.nn.functional.linear, q, k)  # q kᵀ; the scale is part of q's weights
    return make.op(torch.mm, make.op(torch.softmax, scores, dim=1), v)


def _normed(make: Maker, x: Tensor, features: int) -> Tensor:
    return make.op(torch.layer_norm, x, [features])


def nas(depth: int, shrink: int) -> Network:
    """Normal cells of NASNet-A: five sums of two branches each, most of them separable convolutions.

    Source: B. Zoph, V. Vasudevan, J. Shlens, Q. Le: Learning transferable architectures for scalable image
    recognition. CVPR 2018, figure 4; 44 channels at 28 × 28, as in its mobile network.
    """
    channels, pixels = max(44 // shrink, 1), max(28 // shrink, 4)
    return Network(functools.partial(_nas, depth, channels), _picture(channels, pixels))


def _nas(depth: int, channels: int, make: Maker, x: Tensor) -> Tensor:
    before, here = x, x
    inp_before = inp_here = channels
    for i in range(depth):
        cell = _nas_cell(
            make,
            f"c{i}",
            make.conv(make.relu(before), f"c{i}_before", inp_before, channels),
            make.conv(make.relu(here), f"c{i}_here", inp_here, channels),
            channels,
        )
        before, here, inp_before, inp_here = here, cell, inp_here, 6 * channels
    return here


def _nas_cell(make: Maker, name: str, before: Tensor, here: Tensor, channels: int) -> Tensor:
    separable = functools.partial(_separable, make, channels)
    average = functools.partial(make.op, torch.nn.functional.avg_pool2d, kernel_size=3, stride=1, padding=1)
    sums = [
        (separable(here, f"{name}_a", 3), here),
        (separable(before, f"{name}_b", 3), separable(here, f"{name}_c", 5)),
        (average(here), before),
        (average(before), average(before)),
        (separable(before, f"{name}_d", 5), separable(before, f"{name}_e", 3)),
    ]
    return make.cat([before, *(make.op(torch.add, a, b) for a, b in sums)])


def _separable(make: Maker, channels: int, x: Tensor, name: str, kernel: int) -> Tensor:
    """Twice: relu, a convolution of each channel by itself, one over channels."""
    for half in "12":
        x = make.depthwise(make.relu(x), f"{name}{half}_depth", channels, kernel)
        x = make.conv(x, f"{name}{half}_point", channels, channels)
    return x


def _picture(channels: int, pixels: int) -> torch.Tensor:
    return torch.randn(1, channels, pixels, pixels, generator=torch.Generator().manual_seed(SEED))


NETWORKS: Mapping[str, Callable[[int, int], Network]] = {
    "inception": inception,
    "transformer": transformer,
    "nas": nas,
}
