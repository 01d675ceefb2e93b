"""Attention in traced steps: one operator and one for its gradient, beside plain PyTorch.

::

    x ─ dense ─ attention ─ dense ─ loss
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import graphsched as gs
from graphsched.errors import TraceError
from graphsched.partition import data_parallel, tensor
from tests.executors.programs import by_hand, machine
from tests.tracing.steps import plain, run, worst

SGD = functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9)
TOKENS, WIDTH, HEADS = 6, 32, 4


class Attending(nn.Module):
    """Attention with options of `scaled_dot_product_attention`, over tokens that dense layers make."""

    def __init__(self, groups: int = HEADS, **options: Any) -> None:
        super().__init__()
        size = WIDTH // HEADS
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, groups * size)
        self.value, self.output = nn.Linear(WIDTH, groups * size), nn.Linear(WIDTH, WIDTH)
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [
            layer(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        ]
        options = {
            name: thing.to(x.dtype) if isinstance(thing, torch.Tensor) and thing.is_floating_point() else thing
            for name, thing in self.options.items()
        }
        mixed = F.scaled_dot_product_attention(*heads, **options)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Learning(Attending):
    """A bias of the scores is a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(TOKENS, TOKENS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.options = {"attn_mask": self.bias}
        return super().forward(x)


SEEN = torch.rand(TOKENS, TOKENS, generator=torch.Generator().manual_seed(2)) < 0.6
SEEN.fill_diagonal_(True)
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "plain": Attending,
    "causal": lambda: Attending(is_causal=True),
    "scale": lambda: Attending(scale=0.4),
    "mask": lambda: Attending(attn_mask=SEEN),
    "mask of sequences": lambda: Attending(attn_mask=SEEN.expand(4, 1, TOKENS, TOKENS)),
    "bias": lambda: Attending(attn_mask=torch.linspace(-1, 1, TOKENS * TOKENS).view(1, TOKENS, TOKENS)),
    "groups": lambda: Attending(2, enable_gqa=True),
    "layer of PyTorch": lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=True),
    "decoder of PyTorch": lambda: Decoder(),
}


class Decoder(nn.Module):
    """PyTorch's own: attention to itself under a mask, and to something else."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x[:, :4].flip(1), tgt_mask=~SEEN.to(x.device))


def example(name: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    net = NETWORKS[name]().to(dtype)
    return net, torch.randn(4, TOKENS, WIDTH).to(dtype), torch.randn(4, TOKENS, WIDTH).to(dtype)


def traced(net: nn.Module, x: Any, y: Any) -> gs.Workload:
    return gs.trace(net, x, target=y, loss=F.mse_loss, optimizer=SGD(net.parameters()))


def called(work: gs.Workload) -> set[str]:
    return {task.operation.name.split(".")[-2] for task in work.tasks if task.operation is not None}


def attentions(work: gs.Workload) -> list[tuple[str, str]]:
    """Those of the project's own, with the phases they are in."""
    tasks = [task.name for task in work.tasks if "torch.ops.graphsched.attention" in task.signature]
    return [(name, work.graph.nodes[name]["phase"]) for name in tasks]


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_are_those_of_torch(name: str, tmp_path: Path) -> None:
    net, x, y = example(name)
    work = traced(net, x, y)
    phases = [phase for _, phase in attentions(work)]
    layers = 2 if name.startswith("decoder") else 1
    assert phases == ["forward"] * layers + ["backward"] * layers
    found, states = run(work, steps=3)
    loss, output, after = plain(net, SGD, F.mse_loss, x, y, steps=3)
    assert worst({**found, **states}, {"loss": loss, "output": output, **dict(after.named_parameters())}) < 1e-4
    gs.save_plan(by_hand(work, machine(), "cpu/w0"), tmp_path / "attention.plan")
    with gs.Program(gs.load_plan(tmp_path / "attention.plan")) as program:
        assert torch.equal(program.run()["loss"], run(work)[0]["loss"])


def test_the_gradient_belongs_to_its_layer() -> None:
    net, x, y = example("layer of PyTorch")
    work = traced(net, x, y)
    (forward, _), (backward, _) = attentions(work)
    assert (forward, backward) == ("self_attn/attention", "self_attn.backward/attention_backward")
    assert work.graph.nodes[backward]["forward"] == forward
    assert work[forward].operation.flops == 4 * 4 * HEADS * TOKENS**2 * WIDTH // HEADS


@pytest.mark.parametrize("grain", ["operator", "module"])
def test_without_a_gradient(grain: str) -> None:
    net, x, _ = example("causal")
    work = gs.trace(net, x, grain=grain)
    assert torch.allclose(run(work)[0]["output"], net(x), atol=1e-6)
    assert "_softmax" not in " ".join(task.signature for task in work.tasks)

    @torch.no_grad()
    def forward(x: torch.Tensor) -> torch.Tensor:
        return net(x)

    assert len(attentions(gs.trace(forward, x))) == 1


def test_products_and_a_softmax_elsewhere() -> None:
    """Where not all devices have a kernel, and where the step asks for them."""
    net, x, y = example("plain")
    for other, given in {
        "double": (Attending().double(), x.double()),
        "dropout": (Attending(dropout_p=0.3), x),
        "a bias that learns": (Learning(), x),
    }.values():
        work = traced(other, given, y.to(given.dtype))
        assert not attentions(work)
        assert {"bmm", "_safe_softmax"} <= called(work)
        found, states = run(work, steps=2)
        loss, output, after = plain(other, SGD, F.mse_loss, given, y.to(given.dtype), steps=2)
        assert worst({**found, **states}, {"loss": loss, "output": output, **dict(after.named_parameters())}) < 1e-4
    with sdpa_kernel(SDPBackend.MATH):
        assert not attentions(traced(net, x, y))
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):
        assert attentions(traced(net, x, y))

    def forward(x: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            first = net(x)
        return net(first)

    assert len(attentions(gs.trace(forward, x))) == 1


HEADS_ALONE = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(1))
attend = F.scaled_dot_product_attention


def recomputed(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    made = checkpoint(lambda y: attend(y, y, y), x, use_reentrant=False)
    return torch.autograd.grad(made.square().sum(), x)[0]


def recomputed_by_backward(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    checkpoint(lambda y: attend(y, y, y), x, use_reentrant=False).square().sum().backward()
    assert x.grad is not None
    return x.grad


def in_a_region(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return attend(x, x, x)


FUSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "of torch.ops": lambda x: torch.ops.aten.scaled_dot_product_attention(x, x, x),
    "by place": lambda x: attend(x, x, x, None, 0.0, True),
    "groups that are all": lambda x: attend(x, x, x, enable_gqa=True),
    "without autograd": torch.inference_mode()(lambda x: attend(x, x, x)),
    "computed again": recomputed,
    "computed again by backward": recomputed_by_backward,
    "in a region": in_a_region,
}


ELSE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one sequence": lambda x: attend(x[0], x[0], x[0]),
    "another size of values": lambda x: attend(x, x, x[..., :4]),
    "a gradient by torch.func": lambda x: torch.func.grad(lambda y: attend(y, y, y).square().sum())(x),
    "several at once": lambda x: torch.vmap(lambda y: attend(y, y, y), randomness="same")(x.repeat(2, 1, 1, 1, 1)),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", [*FUSED, *ELSE])
def test_other_ways_to_call_it(name: str) -> None:
    call = {**FUSED, **ELSE}[name]
    work = gs.trace(call, HEADS_ALONE)
    assert bool(attentions(work)) == (name in FUSED)
    assert not [task.signature for task in work.tasks if "for_cpu" in task.signature]
    near = 0.05 if name == "in a region" else 1e-4
    torch.testing.assert_close(run(work)[0]["output"], call(HEADS_ALONE), atol=near, rtol=near)
    assert ("groups" in name) <= (len(work.tasks) == 1)  # nothing is repeated


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_script_calls_operators_of_all_devices() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    script = torch.jit.script(forward)
    work = gs.trace(lambda x: script(x), HEADS_ALONE)
    assert {"bmm", "_safe_softmax"} <= called(work)


def test_what_torch_refuses_is_refused() -> None:
    x = HEADS_ALONE
    for call, reason in (
        (lambda x: attend(x, x, x, torch.ones(6, 6, dtype=torch.bool), is_causal=True), "when is_causal=True"),
        (lambda x: attend(x, x, x, torch.ones(6, 5)), "6.*5"),
        (lambda x: attend(x, x, x, torch.ones(6, 6, dtype=torch.float64)), "Expected attn_mask dtype"),
        (lambda x: attend(x, x.half(), x.half()), "to have the same dtype"),
        (lambda x: attend(x, x[:, :3], x[:, :3], enable_gqa=True), "must divide"),
        (lambda x: attend(x, x), "missing 1 required positional argument"),
        (lambda x: attend(x, x, x, masks=None), "unexpected keyword argument 'masks'"),
    ):
        with pytest.raises(TraceError, match=reason):
            gs.trace(call, x)


def test_a_mask_in_another_precision_is_added_to_scores() -> None:
    """Kernels of GPUs take none: a network in half precision under a mask that is not."""
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=True).bfloat16()
    mask, x = nn.Transformer.generate_square_subsequent_mask(TOKENS), torch.randn(2, TOKENS, WIDTH).bfloat16()
    work = gs.trace(lambda x: layer(x, x, tgt_mask=mask), x, module=layer)
    assert len(attentions(work)) == 1  # the layer's other one, without a mask
    wanted = layer(x, x, tgt_mask=mask)
    torch.testing.assert_close(run(work)[0]["output"], wanted, atol=0.05, rtol=0.05)


def test_other_threads_keep_operators_of_torch() -> None:
    x, found = HEADS_ALONE.clone().requires_grad_(), []

    def forward(y: torch.Tensor) -> torch.Tensor:
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(lambda: type(attend(x, x, x).grad_fn).__name__).result())
        return attend(y, y, y)

    assert len(attentions(gs.trace(forward, HEADS_ALONE))) == 1
    assert len(found) == 1
    assert "graphsched" not in found[0]


def test_several_threads_trace_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        works = list(pool.map(lambda _: gs.trace(lambda y: attend(y, y, y), HEADS_ALONE), range(8)))
    assert [len(attentions(work)) for work in works] == [1] * 8


def test_torch_has_its_own_again_afterwards() -> None:
    net, x, y = example("plain")
    before = net(x)
    traced(net, x, y)
    net.double()
    again = net(x.double())
    again.sum().backward()
    assert torch.allclose(again.float(), before, atol=1e-5)
    assert type(F.scaled_dot_product_attention(*[x[None].requires_grad_()] * 3).grad_fn).__name__.startswith(
        "ScaledDot"
    )


def test_gradients_of_gradients_name_the_way_out() -> None:
    net, x, _ = example("plain")

    def penalised(x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return {"penalty": torch.autograd.grad(slope.square().sum(), x)[0]}

    with pytest.raises(TraceError, match=r"sdpa_kernel\(SDPBackend\.MATH\)"):
        gs.trace(penalised, x, module=net)

    def by_products(x: torch.Tensor) -> dict[str, torch.Tensor]:
        with sdpa_kernel(SDPBackend.MATH):
            return penalised(x)

    assert torch.allclose(run(gs.trace(by_products, x, module=net))[0]["penalty"], by_products(x)["penalty"], atol=1e-5)


@pytest.mark.parametrize("name", ["layer of PyTorch", "mask", "mask of sequences"])
def test_heads_over_workers(name: str) -> None:
    """Each worker attends with its own heads; their outputs are summed."""
    net, x, y = example(name)
    work = traced(net, x, y)
    split = tensor(work, ["worker:0", "worker:1"])
    own = [name for name, _ in attentions(split)]
    assert len(own) == 4
    heads = {split[name].outputs[0].spec.shape[1] for name in own}
    assert heads == {HEADS // 2}
    plan = gs.schedule(split, machine("worker:0", "worker:1"), scheduler="one_stream")
    with gs.Program(plan) as program:
        found = program.run()
    loss, output, _ = plain(net, SGD, F.mse_loss, x, y, steps=1)
    assert worst(found, {"loss": loss, "output": output}) < 1e-4


def test_shards_of_the_batch() -> None:
    net, x, y = example("layer of PyTorch")
    split = data_parallel(traced(net, x, y), ["worker:0", "worker:1"])
    assert len(attentions(split)) == 4
    plan = gs.schedule(split, machine("worker:0", "worker:1"), scheduler="one_stream")
    with gs.Program(plan) as program:
        found = program.run()
    assert worst(found, {"loss": plain(net, SGD, F.mse_loss, x, y, steps=1)[0]}) < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_on_a_gpu(name: str, dtype: torch.dtype, mode: str) -> None:
    """Beside plain PyTorch there."""
    net, x, y = example(name, dtype)
    work = gs.trace(net, x, target=y, loss=F.mse_loss)
    assert attentions(work)
    with gs.Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode=mode) as program:
        found = {name: tensor.cpu().float() for name, tensor in program.run().items()}
    net.cuda()
    if "attn_mask" in getattr(net, "options", {}):
        net.options["attn_mask"] = net.options["attn_mask"].cuda()
    output = net(x.cuda())
    loss = F.mse_loss(output, y.cuda())
    loss.backward()
    wanted = {"loss": loss, "output": output, **{f"grad/{name}": p.grad for name, p in net.named_parameters()}}
    wanted.pop("grad/key.bias", None)  # which is 0 but for rounding
    near = 2e-3 if dtype is torch.float32 else 0.05
    assert worst(found, {name: thing.detach().cpu().float() for name, thing in wanted.items()}) < near
