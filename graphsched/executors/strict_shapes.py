"""Shapes that torch's kernels rely on and do not check themselves, as rules of a mode that looks at every call.

Most operators check what they are given, on fake tensors as on real ones. Those here do not: called with other shapes,
they read or write beyond their tensors' memory. Backward operators must get what the forward operator returns.

Not modelled: what kernels find by the values of tensors of indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphsched.errors import SignatureError
from graphsched.workload import fused_attention_takes

Arguments = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
"""Shapes that are required, by the names of an operator's arguments."""

_OF_CHANNELS = ("weight", "bias", "running_mean", "running_var", "mean", "invstd", "sum_dy", "sum_dy_xmu")
_OF_THIS_BATCH = ("save_mean", "save_var", "save_invstd")


def strict() -> Any:
    """A mode of torch in which a call of an operator whose shapes break a rule raises a `SignatureError`.

    Example:
        >>> import torch
        >>> x, mean, var = torch.rand(4, 3), torch.zeros(5), torch.ones(5)
        >>> with strict():
        ...     torch.ops.aten.native_batch_norm(x, None, None, mean, var, False, 0.1, 1e-5)
        Traceback (most recent call last):
        ...
        graphsched.errors.SignatureError: running_mean of aten::native_batch_norm is [5], [3] is needed
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Strict(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            check_call(func, args, kwargs or {})
            return func(*args, **(kwargs or {}))

    return Strict()  # type: ignore[no-untyped-call]


def check_call(operator: Any, args: tuple[Any, ...], kwargs: Arguments) -> None:
    """Make sure that a call of an overload of an operator keeps the rules.

    Raises:
        SignatureError: It does not; names the argument.
    """
    name = operator._schema.name
    rule = _batch_norm if "batch_norm" in name else _RULES.get(name.rpartition("::")[2])
    if rule is None:
        return
    given = {argument.name: value for argument, value in zip(operator._schema.arguments, args, strict=False)}
    given |= kwargs
    for argument, needed in rule(given).items():
        shape = getattr(given.get(argument), "shape", None)
        if shape is not None and tuple(shape) != tuple(needed):
            raise SignatureError(f"{argument} of {name} is {list(shape)}, {list(needed)} is needed")


def _batch_norm(given: Arguments) -> Shapes:
    """A number for each channel, and gradients like the input."""
    image = given["input"]
    if image.dim() < 2:
        raise SignatureError(f"input of a batch norm is {list(image.shape)}: two dimensions or more are needed")
    trains = given.get("train", given.get("update", True))
    vectors = (*_OF_CHANNELS, *(_OF_THIS_BATCH if trains else ()))
    return dict.fromkeys(vectors, (image.shape[1],)) | dict.fromkeys(("grad_out", "grad_output"), image.shape)


def _softmax_backward(given: Arguments) -> Shapes:
    return {"grad_output": given["output"].shape}


def _pool_backward(dimensions: int) -> Callable[[Arguments], Shapes]:
    def rule(given: Arguments) -> Shapes:
        import torch

        forward = getattr(torch.ops.aten, f"avg_pool{dimensions}d")
        names = ("self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
        return {"grad_output": forward(*(given[name] for name in names)).shape}

    return rule


def _convolution_backward(given: Arguments) -> Shapes:
    import torch

    kinds = [str(given[name].dtype) for name in ("grad_output", "input", "weight")]
    if len({*kinds}) > 1:
        raise SignatureError(f"a convolution's gradient, input and weight are {', '.join(kinds)}: one type is needed")
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    forward = torch.ops.aten.convolution(given["input"], given["weight"], None, *(given[name] for name in names))
    return {"grad_output": forward.shape}


def _layer_norm_backward(given: Arguments) -> Shapes:
    import torch

    names = ("input", "normalized_shape", "weight", "bias")
    out, mean, rstd = torch.ops.aten.native_layer_norm(*(given[name] for name in names), 1e-5)
    return {"grad_out": out.shape, "mean": mean.shape, "rstd": rstd.shape}


def _group_norm_backward(given: Arguments) -> Shapes:
    import torch

    sizes = (given[name] for name in ("N", "C", "HxW", "group"))
    out, mean, rstd = torch.ops.aten.native_group_norm(given["input"], given["weight"], None, *sizes, 1e-5)
    return {"grad_out": out.shape, "mean": mean.shape, "rstd": rstd.shape}


def _attention(given: Arguments) -> Shapes:
    """As many tokens and heads everywhere, of one type; results of the forward pass like what they are results of."""
    inputs = [given[name] for name in ("query", "key", "value")]
    if not fused_attention_takes(*inputs):
        found = ", ".join(f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}" for tensor in inputs)
        raise SignatureError(f"query, key and value of attention are {found}: no fused kernel takes these")
    query, key, _ = inputs
    kinds = {str(given[name].dtype) for name in ("bias", "grad", "output") if given.get(name) is not None}
    if kinds - {str(query.dtype)} or str(getattr(given.get("logarithms"), "dtype", "torch.float32")) != "torch.float32":
        raise SignatureError(f"attention of {query.dtype} is given a bias, results or a gradient of another type")
    shapes = {"bias": (*query.shape[:3], key.shape[2]), "logarithms": tuple(query.shape[:3])}
    return shapes | dict.fromkeys(("grad", "output"), tuple(query.shape))


_RULES: Mapping[str, Callable[[Arguments], Shapes]] = {  # by name, without a namespace
    "_log_softmax_backward_data": _softmax_backward,
    "_softmax_backward_data": _softmax_backward,
    "attention": _attention,
    "attention_backward": _attention,
    "avg_pool2d_backward": _pool_backward(2),
    "avg_pool3d_backward": _pool_backward(3),
    "convolution_backward": _convolution_backward,
    "native_group_norm_backward": _group_norm_backward,
    "native_layer_norm_backward": _layer_norm_backward,
}
