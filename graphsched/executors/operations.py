"""Operations of PyTorch by name: what a saved plan may call, found again in any process.

A file that names its operations may come from anywhere, so only functions over tensors count: PyTorch's
operators (``torch.mm``, ``torch.ops.aten.mm.default``, ``torch.Tensor.add_``), ``torch.nn.functional`` and
arithmetic of Python's ``operator``; nothing that reads files, loads code, changes settings or looks into memory
without a check of its bounds (of operators with a leading underscore only a few).

Not modelled: operators registered by other extensions (``torch.ops.<other>``), and users' own functions.
"""

from __future__ import annotations

import pkgutil
import types
from collections.abc import Callable
from typing import Any

from graphsched.errors import FileFormatError
from graphsched.workload import NAMESPACE, own_operator

ALLOWED = f"torch, torch.nn.functional, torch.Tensor, torch.ops.aten, torch.ops.{NAMESPACE} and operator"

_ARITHMETIC = {
    "abs", "add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "iadd", "imul", "invert", "isub", "itruediv", "le",
    "lshift", "lt", "matmul", "mod", "mul", "ne", "neg", "or_", "pos", "pow", "rshift", "sub", "truediv", "xor",
}  # fmt: skip
_REFUSED = {  # what opens a file, and what makes sparse tensors of indices that nobody checks
    "from_file", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor",
    "sparse_csc_tensor", "sparse_csr_tensor", "sparse_resize", "sparse_resize_", "sparse_resize_and_clear",
    "sparse_resize_and_clear_",
}  # fmt: skip
_PRIVATE = {  # that traces of networks hold; others look beyond their memory, or change settings
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_batch_norm_with_update", "_cdist_forward", "_conj",
    "_fused_rms_norm", "_linalg_det", "_linalg_eigh", "_linalg_slogdet", "_linalg_solve_ex", "_linalg_svd",
    "_log_softmax", "_log_softmax_backward_data", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training", "_prelu_kernel", "_prelu_kernel_backward", "_safe_softmax", "_softmax",
    "_softmax_backward_data", "_to_copy", "_unsafe_view",
}  # fmt: skip
_LISTS = "_foreach_"  # an operator for each tensor of lists, which checks them (those that begin with _fused_ do not)
_ATEN, _OWN = "torch.ops.aten", f"torch.ops.{NAMESPACE}"


def name_of(function: Callable[..., Any]) -> str | None:
    """Name under which `find_operation` finds `function` again; None if it does not.

    Example:
        >>> import torch
        >>> name_of(torch.nn.functional.linear), name_of(torch.Tensor.add_), name_of(torch.ops.aten.mm.default)
        ('torch.nn.functional.linear', 'torch.Tensor.add_', 'torch.ops.aten.mm.default')
        >>> name_of(lambda x: x)
    """
    if type(function).__name__ in ("OpOverload", "OpOverloadPacket"):
        names = [f"torch.ops.{function}"]
    else:
        own = getattr(function, "__name__", "")
        names = [f"{place}.{own}" for place in ("torch", "torch.nn.functional", "torch.Tensor", "operator")]
    return next((name for name in names if _found(name) is function), None)


def find_operation(name: str) -> Callable[..., Any]:
    """The operation of this name.

    Raises:
        FileFormatError: It is none that may be called, or this version of PyTorch does not have it.

    Example:
        >>> find_operation("operator.matmul")
        <built-in function matmul>
    """
    found: Callable[..., Any] | None = _found(name)
    if found is None:
        import torch

        raise FileFormatError(
            f"it calls {name!r}: only functions over tensors of {ALLOWED} may be called, as PyTorch "
            f"{torch.__version__} has them"
        )
    return found


def _found(name: str) -> Any:
    """The function of this name if it may be called, else None."""
    place, _, own = name.rpartition(".")
    if place == _ATEN or place.rpartition(".")[0] == _ATEN:
        return _aten(name.removeprefix(f"{_ATEN}.").split("."))
    if place.startswith(f"{_OWN}."):
        return own_operator(place.removeprefix(f"{_OWN}.")) if own == "default" else None
    allowed = _PLACES.get(place)
    if allowed is None or not own:
        return None
    found = getattr(pkgutil.resolve_name(place), own, None)
    return found if found is not None and allowed(own, found) else None


def _aten(names: list[str]) -> Any:
    """An operator of the dispatcher, or one of its overloads; TorchScript's own (``aten::save``) do not count."""
    import torch

    found: Any = torch.ops.aten
    for name in names:
        found = getattr(found, name, None)
    overloads = {"OpOverload": names[-1:], "OpOverloadPacket": None}.get(type(found).__name__, [])
    if overloads is None:
        overloads = found.overloads()
    there = any(_dispatched(names[0], "" if o == "default" else o) for o in overloads)
    return found if there and _may_be_called(names[0]) else None


def _may_be_called(operator: str) -> bool:
    private = operator.startswith("_") and not operator.startswith("__")
    return operator not in _REFUSED and (not private or operator in _PRIVATE or operator.startswith(_LISTS))


def _dispatched(operator: str, overload: str) -> bool:
    import torch

    try:
        torch._C._dispatch_find_schema_or_throw(f"aten::{operator}", overload)
    except RuntimeError:
        return False
    return True


def _is_operator(name: str, found: Any) -> bool:
    """A built-in function of ``torch`` that is an operator, or one of its compositions in Python."""
    import torch

    if isinstance(found, types.FunctionType):
        return name in torch.functional.__all__
    return hasattr(torch._C._VariableFunctions, name) and _aten([name]) is not None


def _is_functional(name: str, found: Any) -> bool:
    if isinstance(found, type) or name.startswith("_"):
        return False
    owner = getattr(found, "__module__", None)
    return owner in ("torch.nn.functional", "torch._C._nn") or (owner == "torch" and _is_operator(name, found))


def _is_method(name: str, found: Any) -> bool:
    """A built-in method, or one in Python (``split``, ``norm``), that bears an operator's name."""
    return isinstance(found, (types.MethodDescriptorType, types.FunctionType)) and _aten([name]) is not None


def _is_arithmetic(name: str, found: Any) -> bool:  # noqa: ARG001
    return name in _ARITHMETIC


_PLACES: dict[str, Callable[[str, Any], bool]] = {
    "torch": _is_operator,
    "torch.nn.functional": _is_functional,
    "torch.Tensor": _is_method,
    "operator": _is_arithmetic,
}
