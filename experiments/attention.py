"""Attention by fused kernels: what does it bring a traced training step, beside plain PyTorch on the same GPU?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import graphsched as gs
from experiments._shared import SEED, check_known, check_sizes, counted, threads_of, torch_device
from experiments.training.results import PlainStep
from graphsched.errors import ExperimentError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WAYS = {"fused": nullcontext, "products and softmax": functools.partial(sdpa_kernel, SDPBackend.MATH)}
RATE = 0.01
ALIGNED = 8


@gs.experiment(source="Transformer (NeurIPS 2017), FlashAttention (NeurIPS 2022)")
def attention(
    platform: gs.Platform,
    tokens: tuple[int, ...] = (512, 2048),
    rows: int = 8192,
    width: int = 512,
    heads: int = 8,
    layers: int = 2,
    types: tuple[str, ...] = tuple(DTYPES),
) -> Iterator[gs.Case]:
    """Train PyTorch's own transformer encoder on one device, its attention fused or by products and a softmax.

    A step of SGD on `rows` tokens, in sequences of `tokens` each, without dropout; the feed-forward parts are four
    times as wide. Beside each: the same step in plain PyTorch, which takes a fused kernel where it has one.
    """
    check_sizes(tokens=tokens, rows=rows, width=width, heads=heads, layers=layers)
    check_known("type", types, DTYPES)
    if width % heads or width // heads % ALIGNED:
        raise ExperimentError(
            f"{heads} heads of a width of {width} do not have a multiple of {ALIGNED} numbers each, as fused kernels "
            f"want it: choose a width that is a multiple of {ALIGNED * heads}"
        )
    device = platform.accelerators(1)[0]
    for kind in types:
        for length in tokens:
            make = functools.partial(_network, width, heads, layers, DTYPES[kind])
            x = _tokens(max(1, rows // length), length, width, DTYPES[kind])
            where = f"{length} tokens, {kind}, {counted([device])}"
            yield gs.Case(f"plain PyTorch, {where}", baseline=_plain(make, x, platform, device))
            for way, within in WAYS.items():
                with within():
                    work = _step(make(), x, device)
                yield gs.Case(f"{way}, {where}", work, scheduler="one_stream")


def _network(width: int, heads: int, layers: int, dtype: torch.dtype) -> nn.Module:
    """The encoder, the same each time; random numbers of others stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True)
        return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(dtype)


def _tokens(batch: int, tokens: int, width: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(batch, tokens, width, generator=torch.Generator().manual_seed(SEED)).to(dtype)


def _step(net: nn.Module, x: Tensor, device: str) -> gs.Workload:
    sgd = torch.optim.SGD(net.parameters(), lr=RATE)
    return gs.trace(net, x, target=x, loss=F.mse_loss, optimizer=sgd, device=device, name="attention")


def _plain(make: Callable[[], nn.Module], x: Tensor, platform: gs.Platform, device: str) -> Callable[[], Tensor]:
    """A step in plain PyTorch on tokens that are on `device`; the first call puts them and the network there."""
    made: list[tuple[PlainStep, Tensor]] = []

    def call() -> Tensor:
        if not made:
            where = torch_device(device)
            net = make().to(where)
            within = functools.partial(threads_of, platform, device)
            step = PlainStep(net, F.mse_loss, torch.optim.SGD(net.parameters(), lr=RATE), where, within)
            made.append((step, x.to(where)))
        step, there = made[0]
        return step.submit(input=there, target=there).result()["loss"]

    return call
