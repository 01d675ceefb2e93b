"""Names and signatures of operations: what a measured cost is filed under."""

from __future__ import annotations

import functools
import hashlib
import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any

from graphsched.workload.tasks import Read, Slot


def operation_name(function: Callable[..., Any]) -> str:
    """Where `function` is found again, or its name with a hash of its code.

    A function that a module holds under its qualified name is named ``module.name``; code outside
    torch carries a hash as well, so that editing it makes a new name.

    Example:
        >>> import math
        >>> operation_name(math.sqrt)
        'math.sqrt'
    """
    if isinstance(function, functools.partial):
        return f"partial({operation_name(function.func)},{_stable(function.args)},{_stable(function.keywords)})"
    module = getattr(function, "__module__", None) or "torch"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    name = name or type(function).__qualname__
    if _found_again(module, getattr(function, "__name__", name), function):
        module, name = module.removesuffix("._C._nn"), getattr(function, "__name__", name)
        if not isinstance(function, types.FunctionType) or module.split(".")[0] == "torch":
            return f"{module}.{name}"
    elif _found_again("torch", getattr(function, "__name__", name), function):
        return f"torch.{getattr(function, '__name__', name)}"
    elif not _python_code(function):
        return f"{module}.{name}" if not str(name).startswith(module) else str(name)
    return f"{module}.{name}#{_code_hash(function)}"


def _found_again(module: str, name: str, function: Callable[..., Any]) -> bool:
    try:
        return getattr(importlib.import_module(module), name, None) is function
    except ImportError:
        return False


def _python_code(function: Callable[..., Any]) -> types.CodeType | None:
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(getattr(type(function), "__call__", None), "__code__", None)
    return code


def _code_hash(function: Callable[..., Any]) -> str:
    parts: list[str] = []
    code = _python_code(function)
    if code is not None:
        parts += _code_parts(code)
        for name in code.co_names:  # module-level helpers and constants that the body names
            used = getattr(function, "__globals__", {}).get(name)
            if used is not None:
                parts.append(f"{name}={_stable(used)}")
    parts.append(_stable(getattr(function, "__defaults__", None)))
    parts.append(_stable(getattr(function, "__kwdefaults__", None)))
    for cell in getattr(function, "__closure__", None) or ():
        parts.append(_stable(cell.cell_contents))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _code_parts(code: types.CodeType) -> list[str]:
    parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames)]
    for constant in code.co_consts:
        parts += _code_parts(constant) if isinstance(constant, types.CodeType) else [repr(constant)]
    return parts


def _stable(thing: Any) -> str:
    """A text of `thing` that is the same in every process: no addresses."""
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, (list, tuple)):
        return f"{type(thing).__name__}({','.join(map(_stable, thing))})"
    if isinstance(thing, Mapping):
        return f"{{{','.join(f'{_stable(k)}:{_stable(v)}' for k, v in thing.items())}}}"
    code = _python_code(thing) if isinstance(thing, (types.FunctionType, types.MethodType)) else None
    if code is not None:
        return f"{thing.__qualname__}#{hashlib.sha256(repr(_code_parts(code)).encode()).hexdigest()[:12]}"
    if hasattr(thing, "shape") and hasattr(thing, "dtype"):
        return f"tensor{tuple(thing.shape)}{thing.dtype}"
    text = repr(thing)
    return type(thing).__qualname__ if " at 0x" in text else text


def signature(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], reads: tuple[Read, ...]) -> str:
    """Signature of an operation applied to its reads.

    Example:
        >>> from graphsched.workload.tasks import TensorSpec, Value
        >>> x = Value("x", "input", 16, TensorSpec((2, 2)))
        >>> signature("torch.mm", (Slot(0), Slot(0)), {}, (Read(x),))
        'torch.mm($0,$0) $0=float32[2,2]'
    """
    arguments = [_argument(a) for a in args] + [f"{k}={_argument(v)}" for k, v in kwargs.items()]
    specs = " ".join(f"${i}={r.value.spec or r.value.nbytes}" for i, r in enumerate(reads))
    return f"{name}({','.join(arguments)}) {specs}".rstrip()


def _argument(thing: Any) -> str:
    if isinstance(thing, Slot):
        return f"${thing.index}"
    if isinstance(thing, list):
        return f"[{','.join(map(_argument, thing))}]"
    if isinstance(thing, tuple):
        return f"({','.join(map(_argument, thing))})"
    if isinstance(thing, Mapping):
        return f"{{{','.join(f'{k}:{_argument(v)}' for k, v in thing.items())}}}"
    return _stable(thing)
