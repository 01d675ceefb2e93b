"""Attention as one operator: the same values on every device, those of products and a softmax."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from graphsched.errors import SignatureError, TraceError
from graphsched.executors.operations import find_operation, name_of
from graphsched.executors.strict_shapes import strict
from graphsched.workload import attention_operator, fake_mode, fused_attention_takes, own_operator

NEAR = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
SIZES = {"even": (2, 3, 32, 32, 8), "odd": (2, 3, 5, 7, 8), "one head": (1, 1, 9, 9, 64)}
"""Sequences, heads, tokens, tokens of the keys, numbers of a head."""


def tensors(size: str, dtype: torch.dtype, *, masked: bool = False, device: str = "cpu") -> list[Any]:
    """Query, key, value (heads after tokens in memory, as networks make them), and a bias or None."""
    torch.manual_seed(4)
    batch, heads, tokens, others, width = SIZES[size]
    made = [torch.randn(batch, n, heads, width).to(dtype).transpose(1, 2) for n in (tokens, others, others)]
    bias = torch.randn(1, heads, tokens, others).to(dtype).expand(batch, -1, -1, -1) if masked else None
    return [None if tensor is None else tensor.to(device) for tensor in (*made, bias)]


def by_products(query: Any, key: Any, value: Any, bias: Any, is_causal: bool, scale: float) -> list[torch.Tensor]:
    """Output, logarithms and the gradients of `ones`, in double precision."""
    query, key, value = (tensor.double().detach().requires_grad_() for tensor in (query, key, value))
    scores = query @ key.mT * scale
    if bias is not None:
        scores = scores + bias.double()
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    output = torch.softmax(scores, -1) @ value
    output.sum().backward()
    return [output.detach(), torch.logsumexp(scores, -1).detach(), query.grad, key.grad, value.grad]


def by_operators(*given: Any) -> list[torch.Tensor]:
    forward, backward = map(attention_operator, ("attention", "attention_backward"))
    *inputs, is_causal, scale = given
    made = forward(*given)
    return [*made, *backward(torch.ones_like(made[0]), *inputs, *made, is_causal, scale)]


def lying(tensors: list[torch.Tensor]) -> list[Any]:
    """Types, sizes, and how far apart elements are where there are several."""
    return [(t.dtype, [(n, step) for n, step in zip(t.shape, t.stride(), strict=True) if n > 1]) for t in tensors]


def assert_near(found: list[torch.Tensor], wanted: list[torch.Tensor], near: float) -> None:
    for tensor, like in zip(found, wanted, strict=True):
        assert float((tensor.double() - like).abs().max() / like.abs().max()) < near


CASES = list(itertools.product(SIZES, NEAR, ["plain", "causal", "bias"]))


@pytest.mark.parametrize(("size", "dtype", "kind"), CASES)
def test_products_and_a_softmax(size: str, dtype: torch.dtype, kind: str) -> None:
    given = (*tensors(size, dtype, masked=kind == "bias"), kind == "causal", 0.3)
    found = by_operators(*given)
    assert [tensor.dtype for tensor in found] == [dtype, torch.float32, dtype, dtype, dtype]
    assert_near(found, by_products(*given), NEAR[dtype])


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tokens before heads": lambda x: x,
    "heads before tokens": lambda x: x.contiguous(),
    "tokens before sequences": lambda x: x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3),
    "packed": lambda x: torch.cat([x, x, x], -1).transpose(1, 2).contiguous().transpose(1, 2)[..., : x.shape[-1]],
    "numbers apart": lambda x: x.mT.contiguous().mT,
}
KERNELS = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch says why it does not take the others
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("size", "dtype", "kind"), CASES)
def test_products_and_a_softmax_on_a_gpu(size: str, dtype: torch.dtype, kind: str, layout: str) -> None:
    """By the kernel that torch chooses, and by each that it could."""
    heads, bias = LAYOUTS[layout], kind == "bias"
    *inputs, added = tensors(size, dtype, masked=bias)
    given = (*map(heads, inputs), added, kind == "causal", 0.3)
    there = [thing.cuda() if isinstance(thing, torch.Tensor) else thing for thing in given]
    there[:3] = [heads(tensor.cuda()) for tensor in inputs]
    wanted, laid_out = by_products(*there), by_operators(*given)
    found = {"torch's choice": by_operators(*there)}
    whole = [tensor.contiguous() for tensor in there[:3]]
    for kernel in KERNELS:
        with sdpa_kernel([kernel, SDPBackend.MATH]):
            if torch._fused_sdp_choice(*whole, there[3], 0.0, there[4], scale=0.3) == kernel.value:
                found[kernel.name] = by_operators(*there)
    assert len(found) > 1
    for name, made in found.items():
        assert lying(made) == lying(laid_out), name
        assert_near(made, wanted, NEAR[dtype] if dtype is not torch.float32 else 2e-3)


@pytest.mark.gpu
def test_queries_that_see_no_key_are_told_alike_on_a_gpu() -> None:
    query, key, value, _ = tensors("odd", torch.float32)
    bias = torch.zeros(2, 3, 5, 7)
    bias[:, :, 2] = -math.inf
    here = by_operators(query, key, value, bias, False, 0.3)
    there = by_operators(*(tensor.cuda() for tensor in (query, key, value, bias)), False, 0.3)
    for place in (0, 2, 3, 4):
        torch.testing.assert_close(there[place].cpu(), here[place], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", SIZES)
def test_tensors_without_data_lie_as_those_with(size: str, layout: str) -> None:
    given = [None if tensor is None else LAYOUTS[layout](tensor) for tensor in tensors(size, torch.float32)]
    found = by_operators(*given, False, 0.3)
    assert_near(found, by_products(*given, False, 0.3), NEAR[torch.float32])
    with fake_mode():
        fakes = [torch.empty_strided(t.shape, t.stride()) for t in given[:3]]
        told = by_operators(*fakes, None, False, 0.3)
    assert lying(told) == lying(found)


def test_what_no_kernel_of_gpus_takes() -> None:
    x = torch.empty(2, 4, 10, 8)
    assert fused_attention_takes(x, x[:, :, :3], x[:, :, :3])
    for query, key, value in (
        (x[0], x[0], x[0]),  # a sequence alone
        (x[..., :6], x[..., :6], x[..., :6]),  # a size that is not aligned
        (x.half()[..., :4], x.half()[..., :4], x.half()[..., :4]),
        (x, x, x[..., :4]),  # values of another size
        (x, x[:, :2], x[:, :2]),  # fewer heads
        (x, x[:, :, :3], x),  # other tokens
        (x[:0], x[:0], x[:0]),
        (x, x[:, :, :0], x[:, :, :0]),
        (x.double(), x.double(), x.double()),
        (x, x.half(), x),
    ):
        assert not fused_attention_takes(query, key, value)


def test_gradients_of_gradients_are_refused() -> None:
    query, key, value, _ = tensors("even", torch.float32)
    query.requires_grad_()
    output, _ = attention_operator("attention")(query, key, value, None, False, 0.3)
    (grad,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(TraceError, match=r"sdpa_kernel\(SDPBackend\.MATH\)"):
        grad.sum().backward()


def test_operations_are_counted() -> None:
    """Two products of each query with each key, five for the gradient."""
    query, key, value, _ = tensors("odd", torch.float32)
    with FlopCounterMode(display=False) as counter:
        by_operators(query, key, value, None, False, 0.3)
    assert counter.get_total_flops() == (2 + 5) * 2 * (2 * 3) * 5 * 7 * 8


def test_files_name_them() -> None:
    for name in ("attention", "attention_backward"):
        operator = own_operator(name)
        assert find_operation(str(name_of(operator))) is operator


def test_other_shapes_are_refused() -> None:
    query, key, value, _ = tensors("odd", torch.float32)
    forward, backward = map(attention_operator, ("attention", "attention_backward"))
    output, logarithms = forward(query, key, value, None, False, 0.3)
    with strict():
        backward(output, query, key, value, None, output, logarithms, False, 0.3)
        for others in ((key, query), (key[..., :4], value), (key[:, :, :0], value[:, :, :0]), (key.half(), value)):
            with pytest.raises(SignatureError, match="no fused kernel takes these"):
                forward(query, *others, None, False, 0.3)
        with pytest.raises(SignatureError, match=r"bias of graphsched::attention is \[5, 7\]"):
            forward(query, key, value, torch.zeros(5, 7), False, 0.3)
        with pytest.raises(SignatureError, match="no fused kernel takes these"):
            forward(query[0], key[0], value[0], None, False, 0.3)
        for bias in (torch.zeros(2, 3, 5, 7, dtype=torch.bool), torch.zeros(2, 3, 5, 7).double()):
            with pytest.raises(SignatureError, match="of another type"):
                forward(query, key, value, bias, False, 0.3)
        with pytest.raises(SignatureError, match="of another type"):
            backward(output, query, key, value, None, output, logarithms.double(), False, 0.3)
        with pytest.raises(SignatureError, match=r"logarithms of graphsched::attention_backward is \[2, 3, 4\]"):
            backward(output, query, key, value, None, output, logarithms[..., :4], False, 0.3)
        with pytest.raises(SignatureError, match=r"grad of graphsched::attention_backward is \[2, 3, 4, 8\]"):
            backward(output[:, :, :4], query, key, value, None, output, logarithms, False, 0.3)
