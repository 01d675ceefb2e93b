"""The types of what norms keep and return, which torch tells otherwise on fake tensors.

Of an input in less precision than the other arguments (mixed precision), kernels keep statistics in the type of those,
and gradients have the types of what they are gradients of.

Where all arguments have less, kernels of GPUs keep single precision: see `half_norms`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

_KEEP_TWO = frozenset(
    f"aten::{name}"
    for name in (
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "_batch_norm_with_update",
        "native_layer_norm",
        "native_group_norm",
    )
)
_RETURN_RUNNING = "aten::_native_batch_norm_legit_functional"
_GROUP_NORM_BACKWARD = "aten::native_group_norm_backward"


def as_kernels_return(operator: Any, args: Sequence[Any], result: Any) -> Any:
    """Fake tensors like those of `result`, of the types that kernels return where `operator` is a norm."""
    import torch

    name = operator._schema.name
    tensors = [given for given in args if isinstance(given, torch.Tensor)]
    if name in _KEEP_TWO:
        kept = tensors[min(1, len(tensors) - 1)]
        returned = args[3:5] if name == _RETURN_RUNNING else ()
        return _typed(result, [None, kept, kept, *returned])
    if name == _GROUP_NORM_BACKWARD:
        return _typed(result, [args[1], args[4], args[4]])
    return result


def _typed(result: Sequence[Any], likes: Sequence[Any]) -> tuple[Any, ...]:
    """`result`, each of the type of what stands in its place among `likes`; None: as it is."""
    pairs = itertools.zip_longest(result, likes)
    return tuple(tensor if tensor is None or like is None else tensor.to(like.dtype) for tensor, like in pairs)
