"""``torch.autocast("cuda")`` in a traced step: the casts of a GPU, though what is traced is on the CPU.

Torch casts by the device of a tensor, and not the same on a CPU as on a GPU (norms and softmax, for two). While such a
region is open, its rules for GPUs stand in place of those for CPUs. Which operators have a rule is torch's to say;
those that are not listed here take single precision.

Not modelled: a region of ``torch.autocast("cpu")`` inside.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from graphsched.errors import TraceError

LOWER = {
    "_convolution", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution", "einsum", "gru_cell",
    "linalg_multi_dot", "linalg_vecdot", "linear", "lstm_cell", "matmul", "mm", "mv", "prelu", "rnn_relu_cell",
    "rnn_tanh_cell", "scaled_dot_product_attention",
}  # fmt: skip
"""Operators that compute in the region's type."""

WIDEST = {
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "index_put", "scatter_add", "tensordot",
    "vdot",
}  # fmt: skip
"""Operators that compute in the widest type of their arguments."""

_UNSAFE = "binary_cross_entropy"
_ON_CPUS, _ON_GPUS = "AutocastCPU", "AutocastCUDA"


@contextlib.contextmanager
def gpu_casts() -> Iterator[None]:
    """Regions of ``torch.autocast("cuda")`` cast what is on the CPU, as they do what is on a GPU."""
    import torch

    rules = _Rules()
    switch, clear = torch.set_autocast_enabled, torch.clear_autocast_cache  # what regions call as they begin and end

    def switched(*args: Any) -> None:
        switch(*args)
        rules.follow(switch)

    def cleared() -> None:
        clear()
        rules.cast_before.clear()

    torch.set_autocast_enabled, torch.clear_autocast_cache = switched, cleared  # type: ignore[assignment]
    try:
        rules.follow(switch)
        yield
    finally:
        torch.set_autocast_enabled, torch.clear_autocast_cache = switch, clear
        rules.leave(switch)


class _Rules:
    """Those of GPUs for tensors on the CPU, in force or not.

    Attributes:
        cast_before: Parameters with what they were cast to in this region, by identity and type.
    """

    def __init__(self) -> None:
        self.cast_before: dict[tuple[int, Any], tuple[Any, Any]] = {}
        self._library: Any = None
        self._before = False

    def follow(self, switch: Callable[..., None]) -> None:
        """Be in force while a region for GPUs is open."""
        import torch
        from torch.library import fallthrough_kernel as pass_through

        if not torch.is_autocast_enabled("cuda"):
            self.leave(switch)
        elif self._library is None:
            self._before = torch.is_autocast_enabled("cpu")
            self._library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
                for name, has_rule in _operators():
                    call = functools.partial(self._call, _overload(name)) if has_rule else pass_through
                    self._library.impl(name, call, _ON_CPUS)
            switch("cpu", True)

    def leave(self, switch: Callable[..., None]) -> None:
        """Let torch's own rules for CPUs be in force again."""
        if self._library is not None:
            switch("cpu", self._before)
            self._library._destroy()
            self._library = None

    def _call(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _ON_CPUS))):
            args, kwargs = self._cast(operator, args, kwargs)
            return operator(*args, **kwargs)

    def _cast(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments as the rule of `operator` wants them."""
        import torch
        from torch.utils._pytree import tree_map_only

        name = operator._schema.name.partition("::")[2]
        lower = torch.get_autocast_dtype("cuda")
        if name == _UNSAFE:
            raise TraceError(
                'binary_cross_entropy is unsafe under torch.autocast("cuda") and refused by PyTorch there: use '
                "binary_cross_entropy_with_logits (BCEWithLogitsLoss), or leave the region before it"
            )
        if name in LOWER:
            wanted = lower
        elif name in WIDEST:
            wanted = functools.reduce(torch.promote_types, [t.dtype for t in _floats((args, kwargs))], lower)
        else:
            wanted = torch.float32
            names = [argument.name for argument in operator._schema.arguments]
            if "dtype" in names:
                given = dict(zip(names, args, strict=False)) | kwargs
                typed = given.get("dtype") is not None or not _floats(args[:1])
                return (args, kwargs) if typed else ((), given | {"dtype": wanted})
        args, kwargs = tree_map_only(torch.Tensor, functools.partial(self._as, wanted), (args, kwargs))
        return args, kwargs

    def _as(self, wanted: Any, tensor: Any) -> Any:
        """`tensor` in the type `wanted`; of a parameter one copy a region."""
        import torch

        if tensor.dtype == wanted or not _floats(tensor):
            return tensor
        whole = tensor.is_leaf and tensor.requires_grad and tensor.dtype == torch.float32
        if not whole or not torch.is_autocast_cache_enabled():
            return tensor.to(wanted)
        key = id(tensor), wanted
        if key not in self.cast_before:
            self.cast_before[key] = tensor, tensor.to(wanted)
        return self.cast_before[key][1]


@functools.cache
def _operators() -> tuple[tuple[str, bool], ...]:
    """Names of the operators that torch has a rule for on CPUs or GPUs, and whether it has one on GPUs."""
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    return tuple((name, has(name, _ON_GPUS)) for name in names if has(name, _ON_GPUS) or has(name, _ON_CPUS))


def _overload(name: str) -> Any:
    import torch

    operator, _, overload = name.partition("::")[2].partition(".")
    return getattr(getattr(torch.ops.aten, operator), overload or "default")


def _floats(thing: Any) -> list[Any]:
    """Tensors in `thing` that regions cast: of floating point, but for double precision."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(thing) if isinstance(leaf, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.is_floating_point() and tensor.dtype != torch.float64]
