"""``scaled_dot_product_attention`` in a traced step: one operator of a fused kernel, where all devices have one.

Else it is products and a softmax: also where ``torch.nn.attention.sdpa_kernel`` leaves nothing but
``SDPBackend.MATH``, and under transforms of ``torch.func``.
"""

from __future__ import annotations

import inspect
import math
import types
from typing import Any

from graphsched.workload import attention_operator, fused_attention_takes

_NAME = "scaled_dot_product_attention"


def fused_attention() -> Any:
    """A mode of torch, of the thread that enters it, in which attention is the project's own operator."""
    import torch
    import torch.nn.functional as F
    from torch.overrides import TorchFunctionMode

    aten = getattr(torch.ops.aten, _NAME)
    calls = getattr(F, _NAME), aten, aten.default
    leaving = F.multi_head_attention_forward, torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward
    staying = {function: _staying(function) for function in leaving}

    class Fused(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in calls:
                return _attention(*args, **kwargs)
            if func not in staying:
                return func(*args, **kwargs)
            with self:
                return staying[func](*args, **kwargs)

    return Fused()


def by_products() -> Any:
    """A context in which torch itself computes attention by products and a softmax.

    Whether fused kernels were allowed around it is still to be seen, by a kind of backend that neither CPUs nor GPUs
    have; a context of the step's own says otherwise.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.MATH, *([SDPBackend.OVERRIDEABLE] if _allowed() else [])])


def _staying(function: Any) -> Any:
    """A copy of `function`, one of torch's in Python, that does not leave a mode for all that it calls."""
    asks = [name for name in function.__globals__ if name.startswith("has_torch_function")]
    known = function.__globals__ | dict.fromkeys(asks, lambda *_: False)
    code, name, defaults = function.__code__, function.__name__, function.__defaults__
    copy = types.FunctionType(code, known, name, defaults, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _attention(*args: Any, **kwargs: Any) -> Any:
    import torch

    made = _fused(*args, **kwargs) if _allowed() and _are_arguments(args, kwargs) else None
    if made is not None:
        return made
    with by_products():
        return getattr(torch.nn.functional, _NAME)(*args, **kwargs)


def _allowed() -> bool:
    """Whether the step lets torch take a fused kernel."""
    import torch

    at = torch._C
    fused = at._get_flash_sdp_enabled() or at._get_mem_efficient_sdp_enabled() or at._get_cudnn_sdp_enabled()
    return (fused or at._get_overrideable_sdp_enabled()) and at._functorch.peek_interpreter_stack() is None


def _are_arguments(args: Any, kwargs: Any) -> bool:
    """Whether these are arguments of `_fused`, tensors first; of others torch says what is wrong with them."""
    import torch

    try:
        given = inspect.signature(_fused).bind(*args, **kwargs)
    except TypeError:
        return False
    return all(isinstance(tensor, torch.Tensor) for tensor in given.args[:3])


def _fused(
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
    """What the project's own operator returns; None where it does not take this call."""
    query, key, value, mask = map(_in_region, (query, key, value, attn_mask))
    if dropout_p or (mask is not None and not _may_be_added(mask, query, is_causal)):
        return None
    if enable_gqa:
        key, value = (_repeated(tensor, query) for tensor in (key, value))
    if not fused_attention_takes(query, key, value):
        return None
    bias = None if mask is None else _bias(mask, query).expand(*query.shape[:3], key.shape[2])
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return attention_operator("attention")(query, key, value, bias, bool(is_causal), scale)[0]


def _in_region(tensor: Any) -> Any:
    """`tensor` as a region of ``torch.autocast`` casts it: see `gpu_casts`."""
    import torch

    if tensor is None or not torch.is_autocast_enabled("cpu"):
        return tensor
    lower = torch.get_autocast_dtype("cuda" if torch.is_autocast_enabled("cuda") else "cpu")
    return tensor.to(lower) if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor


def _may_be_added(mask: Any, query: Any, is_causal: bool) -> bool:
    """Whether kernels of all devices take it; the gradient of one is not theirs to compute."""
    import torch

    return not is_causal and not mask.requires_grad and mask.dtype in (torch.bool, query.dtype)


def _repeated(tensor: Any, query: Any) -> Any:
    """Each head of `tensor` for as many of `query` as share it, where these divide."""
    heads, own = (thing.shape[-3] if thing.dim() > 2 else 0 for thing in (query, tensor))
    share = heads // own if own and heads % own == 0 else 1
    return tensor.repeat_interleave(share, -3) if share > 1 else tensor


def _bias(mask: Any, query: Any) -> Any:
    """What is added to the scores in the place of a `mask`."""
    import torch

    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -math.inf)
