"""Names and signatures of operations: what a measured cost is filed under."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from graphsched.workload.tasks import Operation, Read, Slot

Seen = dict[int, Any]  # objects described so far, by id: each is described once, so that circles end

_ADDRESS = " at 0x"  # in the text of an object that has none of its own
_OVERLOADS = ("OpOverload", "OpOverloadPacket")
_WITHOUT_CODE = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_INSTALLED = tuple(sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib"))


def operation_name(function: Callable[..., Any]) -> str:
    """Where `function` is found again, or its name with a hash of its code.

    A function that a module holds under its qualified name is named ``module.name``; code outside
    torch carries a hash as well, so that editing it makes a new name. The hash covers the code, its
    defaults, what a closure captured, the module's helpers and constants that it names, and the
    attributes of a method's or callable's object; of tensors only shape and type. An object whose class has an
    `operation_name` is named by that.

    Example:
        >>> import math
        >>> operation_name(math.sqrt)
        'math.sqrt'
    """
    return _name(function, {})


def lasting(function: Any) -> bool:
    """Whether the name of `function` stays as it is: it has no code of Python, whose name has a hash of it.

    Example:
        >>> import math
        >>> lasting(math.sqrt), lasting(lambda x: x)
        (True, False)
    """
    return type(function) in _WITHOUT_CODE or type(function).__name__ in _OVERLOADS


def _name(function: Any, seen: Seen) -> str:
    if isinstance(function, functools.partial):
        parts = (_stable(function.args, seen), _stable(function.keywords, seen))
        return f"partial({_name(function.func, seen)},{','.join(parts)})"
    if type(function).__name__ in _OVERLOADS:
        return f"torch.ops.{function}"
    if hasattr(type(function), "operation_name"):
        return str(function.operation_name)
    module = getattr(function, "__module__", None) or "torch"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    name = name or type(function).__qualname__
    if _found_again(module, getattr(function, "__name__", name), function):
        module, name = module.removesuffix("._C._nn"), getattr(function, "__name__", name)
        if not isinstance(function, types.FunctionType) or module.split(".")[0] == "torch":
            return f"{module}.{name}"
    elif _found_again("torch", getattr(function, "__name__", name), function):
        return f"torch.{getattr(function, '__name__', name)}"
    elif _python_function(function) is None:
        return f"{module}.{name}" if not str(name).startswith(module) else str(name)
    return f"{module}.{name}#{_code_hash(function, seen)}"


def _found_again(module: str, name: str, function: Callable[..., Any]) -> bool:
    try:
        return getattr(importlib.import_module(module), name, None) is function
    except ImportError:
        return False


def _python_function(thing: Any) -> types.FunctionType | None:
    """The Python code behind a function, a bound method or a callable object; None for built-in code."""
    thing = getattr(thing, "__func__", thing)
    if not isinstance(thing, types.FunctionType):
        thing = inspect.getattr_static(type(thing), "__call__", None)
    return thing if isinstance(thing, types.FunctionType) else None


def _code_hash(function: Any, seen: Seen) -> str:
    if id(function) in seen:
        return "seen"
    seen[id(function)] = function
    parts = [_stable(thing, seen) for thing in _captured(function)]
    python = _python_function(function)
    if python is not None:
        parts += _code_parts(python.__code__)
        parts += [f"{name}={_stable(used, seen)}" for name, used in _globals(python)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _captured(function: Any) -> Iterator[Any]:
    """What the behaviour of `function` depends on beside code and globals."""
    python = _python_function(function)
    if python is not None:
        yield python.__defaults__
        yield python.__kwdefaults__
        for cell in python.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not yet assigned
                yield None
    if python is not function:
        owner = getattr(function, "__self__", function)
        yield None if owner is function and python is None else _state(owner)


def _state(owner: Any) -> Any:
    if isinstance(owner, (type, types.ModuleType)) or not (hasattr(owner, "__dict__") or _ADDRESS in repr(owner)):
        return owner
    attributes = _attributes(owner)
    return owner if attributes is None else attributes


def _attributes(thing: Any) -> Mapping[str, Any] | None:
    """Attributes of an object, those in slots among them; None: its class has none."""
    slotted = [vars(kind) for kind in type(thing).__mro__ if "__slots__" in vars(kind)]
    if not slotted and not hasattr(thing, "__dict__"):
        return None
    slots = [name for made in slotted for name, slot in made.items() if isinstance(slot, types.MemberDescriptorType)]
    return {**getattr(thing, "__dict__", {}), **{name: getattr(thing, name) for name in slots if hasattr(thing, name)}}


def _code_parts(code: types.CodeType) -> list[str]:
    parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames)]
    for constant in code.co_consts:
        parts += _code_parts(constant) if isinstance(constant, types.CodeType) else [_stable(constant, {})]
    return parts


def _globals(python: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Module-level helpers and constants that the code names; installed libraries are taken as they are."""
    if not python.__code__.co_filename.startswith(_INSTALLED):
        for name in _global_names(python.__code__):
            if python.__globals__.get(name) is not None:
                yield name, python.__globals__[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that the body uses, those inside its lambdas and comprehensions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _stable(thing: Any, seen: Seen) -> str:
    """A text of `thing` that is the same in every process: no addresses, no order of a hash."""
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, Operation):
        return _call(thing.name, thing.args, thing.kwargs)
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}"
    if isinstance(thing, (list, tuple)):
        return f"{type(thing).__name__}({','.join(_stable(t, seen) for t in thing)})"
    if isinstance(thing, (set, frozenset)):
        return f"{type(thing).__name__}({','.join(sorted(_stable(t, seen) for t in thing))})"
    if isinstance(thing, Mapping):
        return f"{{{','.join(f'{_stable(k, seen)}:{_stable(v, seen)}' for k, v in thing.items())}}}"
    if isinstance(thing, (functools.partial, types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return _name(thing, seen)
    if isinstance(thing, np.generic):
        return f"{thing.dtype}({thing.item()!r})"
    if hasattr(thing, "shape") and hasattr(thing, "dtype"):
        return f"tensor{tuple(thing.shape)}{thing.dtype}"
    return _object(thing, seen)


def _object(thing: Any, seen: Seen) -> str:
    """Its own text; its type and attributes where that text is an address or leaves constants out (modules)."""
    text = repr(thing)
    if _ADDRESS not in text and not hasattr(thing, "_parameters"):
        return text
    attributes = None if id(thing) in seen else _attributes(thing)
    if attributes is None:
        return type(thing).__qualname__
    seen[id(thing)] = thing
    return f"{type(thing).__qualname__}{_stable(attributes, seen)}"


def signature(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], reads: tuple[Read, ...]) -> str:
    """Signature of an operation applied to its reads.

    Example:
        >>> from graphsched.workload.specs import TensorSpec
        >>> from graphsched.workload.tasks import Value
        >>> x = Value("x", "input", 16, TensorSpec((2, 2)))
        >>> signature("torch.mm", (Slot(0), Slot(0)), {}, (Read(x),))
        'torch.mm($0,$0) $0=float32[2,2]'
    """
    specs = " ".join(f"${i}={r.value.spec or r.value.nbytes}" for i, r in enumerate(reads))
    return f"{_call(name, args, kwargs)} {specs}".rstrip()


def _call(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    arguments = [_argument(a) for a in args] + [f"{k}={_argument(v)}" for k, v in kwargs.items()]
    return f"{name}({','.join(arguments)})"


def _argument(thing: Any) -> str:
    if isinstance(thing, Slot):
        return f"${thing.index}"
    if isinstance(thing, Operation):
        return _call(thing.name, thing.args, thing.kwargs)
    if isinstance(thing, list):
        return f"[{','.join(map(_argument, thing))}]"
    if isinstance(thing, tuple):
        return f"({','.join(map(_argument, thing))})"
    if isinstance(thing, Mapping):
        return f"{{{','.join(f'{k}:{_argument(v)}' for k, v in thing.items())}}}"
    if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:  # what a task returns may hang on its elements
        return f"{_stable(thing, {})}#{hashlib.sha256(thing.tobytes()).hexdigest()[:12]}"
    return _stable(thing, {})
