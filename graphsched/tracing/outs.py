"""Operators that write their results to tensors given as ``out=``.

They are the operators that return them, and copies into those tensors.

Not modelled: ``out=`` tensors of another shape, which PyTorch would give other memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphsched.errors import TraceError


def written_out(call: Callable[[Any, Any, Any], Any], function: Any, args: Any, kwargs: Any) -> Any:
    """What `function` returns, the tensors of ``out=``, once `call` has called other operators in its place.

    Raises:
        TraceError: No operator returns the results, or they have another shape.
    """
    import torch

    places = [argument.name for argument in function._schema.arguments if argument.is_out]
    given = [kwargs[name] for name in places]
    result = call(_returning(function), args, {key: value for key, value in kwargs.items() if key not in places})
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    for tensor, value in zip(given, results, strict=True):
        if tensor.shape != value.shape:
            raise TraceError(
                f"{function} writes a result of shape {tuple(value.shape)} to out= of shape {tuple(tensor.shape)}: let "
                "it return its result"
            )
        call(torch.ops.aten.copy_.default, (tensor, value), {})
    return given[0] if len(given) == 1 else tuple(given)


def _returning(function: Any) -> Any:
    """The operator that returns what `function` writes to ``out=``."""
    import torch

    schema = function._schema
    wanted = [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]
    packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
    for overload in (getattr(packet, name) for name in packet.overloads()):
        takes = [(argument.name, str(argument.type)) for argument in overload._schema.arguments]
        if takes == wanted and not overload._schema.is_mutable:
            return overload
    raise TraceError(f"{function} writes to out=: let it return its result")
