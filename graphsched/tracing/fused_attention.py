"""``scaled_dot_product_attention`` in a traced step: one operator of a fused kernel, where all devices have one.

Else, and where ``torch.nn.attention.sdpa_kernel`` leaves nothing but ``SDPBackend.MATH``, products and a softmax.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from graphsched.workload import attention_operator, fused_attention_takes

_NAME, _KEY = "scaled_dot_product_attention", "AutogradCPU"


@contextlib.contextmanager
def fused_attention() -> Iterator[None]:
    """Attention of tensors on the CPU, as those of a trace are, by the project's own operator."""
    import torch

    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl(_NAME, _attention, _KEY)
    try:
        yield
    finally:
        library._destroy()


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    import torch

    if enable_gqa:
        key, value = (_repeated(tensor, query) for tensor in (key, value))
    bias = _bias(attn_mask, query)
    fused = dropout_p == 0.0 and not (is_causal and bias is not None) and not getattr(bias, "requires_grad", False)
    if not (fused and _allowed() and fused_attention_takes(query, key, value)):
        made = torch.ops.aten._scaled_dot_product_attention_math
        return made(query, key, value, bias, dropout_p, is_causal, scale=scale)[0]
    if bias is not None:
        bias = bias.expand(*query.shape[:3], key.shape[2])
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return attention_operator("attention")(query, key, value, bias, is_causal, scale)[0]


def _allowed() -> bool:
    import torch

    at = torch._C
    return at._get_flash_sdp_enabled() or at._get_mem_efficient_sdp_enabled() or at._get_cudnn_sdp_enabled()


def _repeated(tensor: Any, query: Any) -> Any:
    """Each head of `tensor` for as many of `query` as share it."""
    return tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], -3)


def _bias(mask: Any, query: Any) -> Any:
    """What is added to the scores in the place of a `mask`."""
    import torch

    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -math.inf)
