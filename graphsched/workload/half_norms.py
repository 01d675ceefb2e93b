"""Norms of what is wholly in half precision, whose statistics are in single precision on every device.

Kernels of GPUs keep them so, those of CPUs in the type of their arguments. Operators of the project's own
(``torch.ops.graphsched``, named as those of ``torch.ops.aten`` that they call) turn what a CPU keeps into single
precision, and back for the gradient, which loses nothing. So a workload has the same values wherever its tasks run.

Not modelled: running statistics that are no states (those of instance norms).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from graphsched.workload.names import NAMESPACE
from graphsched.workload.once import once

_KEPT = {  # places of the statistics: among results, among arguments
    "native_batch_norm": ((1, 2), ()),
    "_batch_norm_with_update": ((1, 2), ()),
    "native_layer_norm": ((1, 2), ()),
    "native_batch_norm_backward": ((), (5, 6)),
    "batch_norm_backward": ((), (5, 6)),
    "native_layer_norm_backward": ((), (3, 4)),
}
NAMES = tuple(_KEPT)


def keeping_single(operator: Any, args: Sequence[Any]) -> Any:
    """`operator`, or that of the project's own for it if it is a norm, or a gradient of one, wholly in half precision.

    Example:
        >>> import torch
        >>> x = torch.ones(2, 4, dtype=torch.bfloat16)
        >>> keeping_single(torch.ops.aten.native_layer_norm.default, (x, [4], None, None, 1e-5))
        <OpOverload(op='graphsched.native_layer_norm', overload='default')>
    """
    import torch

    space, _, name = operator._schema.name.partition("::")
    if space != "aten" or name not in _KEPT:
        return operator
    given = [arg for place, arg in enumerate(args) if place not in _KEPT[name][1] and isinstance(arg, torch.Tensor)]
    half = (torch.float16, torch.bfloat16)
    return half_norm(name) if all(arg.dtype in half for arg in given if arg.is_floating_point()) else operator


def half_norm(name: str) -> Any:
    """The operator of the project's own for ``torch.ops.aten.<name>``."""
    import torch

    _library()
    return getattr(getattr(torch.ops, NAMESPACE), name).default


@once
def _library() -> Any:
    """What holds the operators, for as long as the process lives."""
    import torch

    library: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, (results, arguments) in _KEPT.items():
        operator = getattr(torch.ops.aten, name).default
        library.define(str(operator._schema).removeprefix("aten::"))
        on_cpus = functools.partial(_on_cpus, operator, results, arguments)
        library.impl(name, operator, "CUDA")
        library.impl(name, on_cpus, "CPU")
        library.impl(name, on_cpus, "Meta")
    return library


def _on_cpus(operator: Callable[..., Any], results: Sequence[int], arguments: Sequence[int], *given: Any) -> Any:
    """What `operator` returns, statistics at the places `results` in single precision, as they come at `arguments`."""
    args = list(given)
    for place in arguments:
        args[place] = None if args[place] is None else args[place].to(given[1].dtype)
    found = operator(*args)
    return tuple(tensor.float() if place in results else tensor for place, tensor in enumerate(found))
