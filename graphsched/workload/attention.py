"""Attention as one operator, whose result is the same on every device, by the fused kernels that torch has on each.

``torch.nn.functional.scaled_dot_product_attention`` takes another kernel on each kind of device and for each type of
numbers, and each keeps other things for the gradient. The operators here (``torch.ops.graphsched.attention`` and
``attention_backward``) keep the same: the logarithm of what a softmax divides by, in single precision. On a GPU they
call the kernel that torch itself would choose there (FlashAttention, cuDNN's, memory-efficient attention).

Not modelled: dropout of the weights, gradients of the bias and of the gradient, double precision, and heads of a size
that no kernel of GPUs takes as it is: see `fused_attention_takes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphsched.errors import TraceError
from graphsched.workload.names import NAMESPACE
from graphsched.workload.once import once

NAMES = ("attention", "attention_backward")
_ALIGNED = {"float32": 4, "float16": 8, "bfloat16": 8}  # sizes of heads are multiples of it
_ROWS = 32  # what the memory-efficient kernels keep is a multiple of it long
_COLUMNS = 16  # so far apart, or multiples of it, are the rows of a bias that they read
_DROPOUT = 0.0


def fused_attention_takes(query: Any, key: Any, value: Any) -> bool:
    """Whether all devices have a fused kernel for tensors of these shapes, (batch, heads, tokens, size), and types.

    Example:
        >>> import torch
        >>> x = torch.empty(2, 4, 10, 8)
        >>> fused_attention_takes(x, x, x), fused_attention_takes(x, x, x.double())
        (True, False)
    """
    shapes = [tuple(tensor.shape) for tensor in (query, key, value)]
    if any(len(shape) != 4 or 0 in shape for shape in shapes) or len({t.dtype for t in (query, key, value)}) > 1:
        return False
    (batch, heads, _, size), of_keys, of_values = shapes
    aligned = _ALIGNED.get(str(query.dtype).removeprefix("torch."))
    alike = of_keys == of_values == (batch, heads, of_keys[2], size)
    return alike and aligned is not None and size % aligned == 0


def attention_operator(name: str) -> Any:
    """``attention``, or ``attention_backward``.

    ``attention(query, key, value, bias, is_causal, scale)`` returns the output, of the shape of `query`, and the
    logarithms, of shape (batch, heads, tokens). `bias`, of shape (batch, heads, tokens, tokens of the keys), is added
    before the softmax.
    """
    import torch

    _library()
    return getattr(getattr(torch.ops, NAMESPACE), name).default


@once
def _library() -> Any:
    """What holds the operators, for as long as the process lives."""
    import torch
    from torch.utils.flop_counter import register_flop_formula, sdpa_backward_flop_count, sdpa_flop_count

    library: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    given, options = "Tensor query, Tensor key, Tensor value, Tensor? bias", "bool is_causal, float scale"
    library.define(f"attention({given}, {options}) -> (Tensor, Tensor)")
    made = "Tensor output, Tensor logarithms"
    library.define(f"attention_backward(Tensor grad, {given}, {made}, {options}) -> (Tensor, Tensor, Tensor)")
    for name, kernels in (("attention", _FORWARD), ("attention_backward", _BACKWARD)):
        for key, kernel in kernels.items():
            library.impl(name, kernel, key)
    torch.library.register_autograd(f"{NAMESPACE}::attention", _gradient, setup_context=_keep, lib=library)
    torch.library.register_autograd(f"{NAMESPACE}::attention_backward", _no_gradient, lib=library)
    own = getattr(torch.ops, NAMESPACE)
    forward: Any = sdpa_flop_count
    backward: Any = sdpa_backward_flop_count
    register_flop_formula(own.attention)(lambda *shapes, **_: forward(*shapes[:3]))
    register_flop_formula(own.attention_backward)(lambda *shapes, **_: backward(*shapes[:4]))
    return library


# -- gradients ---------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    query, key, value, bias, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(query, key, value, bias, *output)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, grad: Any, _: Any) -> tuple[Any, ...]:
    backward = attention_operator("attention_backward")
    return (*backward(grad, *ctx.saved_tensors, ctx.is_causal, ctx.scale), None, None, None)


def _no_gradient(_: Any, *grads: Any) -> Any:  # noqa: ARG001
    raise TraceError(
        "the gradient of a gradient of scaled_dot_product_attention is asked for, which fused attention has not: call "
        "it under torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"
    )


# -- kernels -----------------------------------------------------------------------------------------


def _on_cpus(query: Any, key: Any, value: Any, bias: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    import torch

    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    tensors = map(_with_whole_rows, (query, key, value))
    output, logarithms = forward(*tensors, _DROPOUT, is_causal, attn_mask=bias, scale=scale)
    return _laid_out(output, query), logarithms.contiguous()


def _backward_on_cpus(grad: Any, *given: Any) -> tuple[Any, ...]:
    import torch

    *tensors, bias, output, logarithms, is_causal, scale = given
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    inputs = map(_with_whole_rows, (grad, *tensors, output))
    found = backward(*inputs, logarithms, _DROPOUT, is_causal, attn_mask=bias, scale=scale)
    return tuple(map(_laid_out, found, tensors))


def _without_data(query: Any, key: Any, value: Any, *_: Any) -> tuple[Any, Any]:  # noqa: ARG001
    import torch

    return torch.empty_like(query), query.new_empty(query.shape[:3], dtype=torch.float32)


def _backward_without_data(_: Any, *given: Any) -> tuple[Any, ...]:
    import torch

    return tuple(map(torch.empty_like, given[:3]))


def _on_gpus(query: Any, key: Any, value: Any, bias: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    import torch

    aten = torch.ops.aten
    laid, (query, key, value) = query, map(_with_whole_rows, (query, key, value))
    match _chosen(query, key, value, bias, is_causal, scale):
        case "FLASH_ATTENTION":
            found = aten._scaled_dot_product_flash_attention(query, key, value, _DROPOUT, is_causal, scale=scale)
        case "CUDNN_ATTENTION":
            forward = aten._scaled_dot_product_cudnn_attention
            found = forward(query, key, value, bias, True, _DROPOUT, is_causal, scale=scale)
        case _:
            forward = aten._scaled_dot_product_efficient_attention
            found = forward(query, key, value, _aligned(bias), True, _DROPOUT, is_causal, scale=scale)
    batch, heads, tokens, _ = query.shape
    return _laid_out(found[0], laid), found[1].view(batch, heads, -1)[..., :tokens].contiguous()


def _backward_on_gpus(grad: Any, *given: Any) -> tuple[Any, ...]:
    import torch

    aten = torch.ops.aten
    query, key, value, bias, output, logarithms, is_causal, scale = given
    query, key, value, output, grad = map(_with_whole_rows, (query, key, value, output, grad))
    tensors, tokens = (grad, query, key, value), (query.shape[2], key.shape[2])
    unused = query.new_empty((), dtype=torch.int64)  # random numbers of a dropout
    ends: tuple[Any, ...]
    match _chosen(query, key, value, bias, is_causal, scale):
        case "FLASH_ATTENTION":
            backward = aten._scaled_dot_product_flash_attention_backward
            ends = None, None, *tokens, _DROPOUT, is_causal, unused, unused
            found = backward(*tensors, output, logarithms, *ends, scale=scale)
        case "CUDNN_ATTENTION":
            backward = aten._scaled_dot_product_cudnn_attention_backward
            ends = unused, unused, bias, None, None, *tokens, _DROPOUT, is_causal
            found = backward(*tensors, output, logarithms[..., None], *ends, scale=scale)
        case _:
            backward = aten._scaled_dot_product_efficient_attention_backward
            padded = torch.nn.functional.pad(logarithms, (0, -tokens[0] % _ROWS), value=float("inf"))
            ends = unused, unused, _DROPOUT, [True, True, True, False], is_causal
            output = output.transpose(1, 2).contiguous().transpose(1, 2)  # as the kernel takes it to lie
            found = backward(*tensors, _aligned(bias), output, padded, *ends, scale=scale)
    return tuple(map(_laid_out, found[:3], given[:3]))


_FORWARD = {"CPU": _on_cpus, "Meta": _without_data, "CUDA": _on_gpus}
_BACKWARD = {"CPU": _backward_on_cpus, "Meta": _backward_without_data, "CUDA": _backward_on_gpus}


def _chosen(query: Any, key: Any, value: Any, bias: Any, is_causal: bool, scale: float) -> str:
    """Name of the kernel that torch would take on this GPU."""
    import torch
    from torch.nn.attention import SDPBackend

    return SDPBackend(torch._fused_sdp_choice(query, key, value, bias, _DROPOUT, is_causal, scale=scale)).name


# -- how tensors lie ---------------------------------------------------------------------------------


def _laid_out(tensor: Any, like: Any) -> Any:
    """`tensor` in memory as torch lays out what is like `like`, so that all kernels return the same."""
    import torch

    wanted = torch.empty_like(like, device="meta").stride()
    steps = zip(tensor.shape, tensor.stride(), wanted, strict=True)
    lies_so = all(length == 1 or step == other for length, step, other in steps)
    return tensor if lies_so else torch.empty_like(like).copy_(tensor)


def _with_whole_rows(tensor: Any) -> Any:
    """`tensor` with the numbers of a head next to each other, which kernels rely on and do not check."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _aligned(bias: Any) -> Any:
    """`bias` with rows as far apart as kernels want them; what is the same for a batch, or heads, is there once."""
    import torch

    if bias is None or bias.shape[-1] % _COLUMNS == 0:
        return bias
    once = bias[tuple(slice(1) if stride == 0 else slice(None) for stride in bias.stride()[:3])]
    padded = torch.nn.functional.pad(once, (0, -bias.shape[-1] % _COLUMNS))
    return padded[..., : bias.shape[-1]].expand(bias.shape)
