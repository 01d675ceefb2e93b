"""Arguments of operations as JSON: constants and slots, no code.

Numbers, text, None and lists stand for themselves; everything else is an object with one key: its kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from graphsched.errors import FileFormatError, WorkloadError
from graphsched.executors.operations import find_operation, name_of
from graphsched.workload import Operation, Slot

_OF_TORCH = ("dtype", "layout", "memory_format")


def to_json(thing: Any) -> Any:
    """An argument for JSON; see `from_json`.

    Raises:
        WorkloadError: It is something that JSON cannot hold without code.

    Example:
        >>> to_json([Slot(0), (2, None), float("inf")])
        [{'slot': 0}, {'tuple': [2, None]}, {'float': 'inf'}]
    """
    if thing is None or type(thing) in (bool, int, str):
        return thing
    if type(thing) is float:
        return thing if math.isfinite(thing) else {"float": repr(thing)}
    if isinstance(thing, Slot):
        return {"slot": thing.index}
    if isinstance(thing, Operation):
        return {"call": _call_to_json(thing)}
    if isinstance(thing, list):
        return [to_json(item) for item in thing]
    if isinstance(thing, tuple):
        return {"tuple": [to_json(item) for item in thing]}
    if isinstance(thing, Mapping) and all(isinstance(key, str) for key in thing):
        return {"dict": {key: to_json(item) for key, item in thing.items()}}
    return _other_to_json(thing)


def _call_to_json(operation: Operation) -> dict[str, Any]:
    name = None if operation.function is None else name_of(operation.function)
    if name is None:
        raise WorkloadError(f"the argument {operation.name!r} calls what another process would not find")
    kwargs = {key: to_json(item) for key, item in operation.kwargs.items()}
    return {"function": name, "args": [to_json(item) for item in operation.args], "kwargs": kwargs}


def _other_to_json(thing: Any) -> dict[str, Any]:
    if thing is Ellipsis:
        return {"ellipsis": None}
    if type(thing) is complex:
        return {"complex": [to_json(thing.real), to_json(thing.imag)]}
    if isinstance(thing, slice):
        return {"slice": [to_json(part) for part in (thing.start, thing.stop, thing.step)]}
    kind = type(thing).__name__
    if type(thing).__module__ == "torch" and kind in (*_OF_TORCH, "device"):
        return {kind: str(thing).removeprefix("torch.")}
    raise WorkloadError(f"the argument {str(thing)[:60]!r} of type {kind} cannot be written to a file without code")


def from_json(data: Any, reads: Sequence[Any]) -> Any:
    """The argument of `to_json`; a slot must be one of `reads`.

    Raises:
        FileFormatError: It is none.

    Example:
        >>> from_json({"tuple": [{"slot": 0}, {"float": "-inf"}]}, reads=["x"])
        (Slot(index=0), -inf)
    """
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return [from_json(item, reads) for item in data]
    if isinstance(data, Mapping) and len(data) == 1:
        kind, content = next(iter(data.items()))
        if kind in _READERS:
            return _READERS[kind](content, reads)
    raise FileFormatError(f"{str(data)[:60]!r} is no argument of a task")


def _slot(content: Any, reads: Sequence[Any]) -> Slot:
    if type(content) is not int or not 0 <= content < len(reads):
        raise FileFormatError(f"an argument stands for read number {content!r} of {len(reads)}")
    return Slot(content)


def _call(content: Any, reads: Sequence[Any]) -> Operation:
    if not isinstance(content, Mapping) or not isinstance(content.get("function"), str):
        raise FileFormatError(f"{str(content)[:60]!r} is no call of an operation")
    kwargs = content.get("kwargs", {})
    if not isinstance(kwargs, Mapping):
        raise FileFormatError(f"{kwargs!r} are no named arguments")
    named = {str(key): from_json(item, reads) for key, item in kwargs.items()}
    function = find_operation(content["function"])
    return Operation(content["function"], function, tuple(_items(content.get("args"), reads)), named)


def _of_torch(kind: str, name: Any) -> Any:
    """``torch.<name>`` if that is a `kind`."""
    import torch

    found = getattr(torch, str(name), None)
    if type(found).__name__ != kind:
        raise FileFormatError(f"torch.{name} is no {kind}")
    return found


def _device(content: Any, reads: Sequence[Any]) -> Any:  # noqa: ARG001
    import torch

    try:
        return torch.device(content)
    except (RuntimeError, TypeError) as error:
        raise FileFormatError(f"{content!r} is no device") from error


def _items(content: Any, reads: Sequence[Any]) -> list[Any]:
    if not isinstance(content, list):
        raise FileFormatError(f"{content!r} is no list")
    return [from_json(item, reads) for item in content]


_READERS: Mapping[str, Any] = {
    "slot": _slot,
    "call": _call,
    "float": lambda content, _: float(content),
    "tuple": lambda content, reads: tuple(_items(content, reads)),
    "dict": lambda content, reads: {key: from_json(item, reads) for key, item in content.items()},
    "ellipsis": lambda *_: Ellipsis,
    "complex": lambda content, reads: complex(*_items(content, reads)),
    "slice": lambda content, reads: slice(*_items(content, reads)),
    "device": _device,
    "dtype": lambda content, _: _of_torch("dtype", content),
    "layout": lambda content, _: _of_torch("layout", content),
    "memory_format": lambda content, _: _of_torch("memory_format", content),
}
