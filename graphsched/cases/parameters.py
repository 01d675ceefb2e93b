"""Parameters of an experiment: read from its signature, given as text or as Python values."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphsched.errors import ExperimentError

_SCALARS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an experiment.

    Attributes:
        name: As in the function's signature.
        kind: ``int``, ``float``, ``str`` or ``bool``: of the value, or of each item of a sequence.
        default: Value where none is given.
        sequence: ``tuple`` or ``list`` for parameters that hold several values, else None.

    Example:
        >>> Parameter("lanes", int, (1, 2), tuple).read("1,2,4")
        (1, 2, 4)
        >>> print(Parameter("size", int, 4000))
        size=4000
    """

    name: str
    kind: type
    default: Any
    sequence: type | None = None

    def __str__(self) -> str:
        items = self.default if self.sequence else (self.default,)
        return f"{self.name}={','.join(map(_text, items))}"

    def read(self, given: Any) -> Any:
        """The value of `given`, which is text (``"1,2,4"``) or already a value.

        Raises:
            ExperimentError: It is not of this parameter's type.
        """
        if self.sequence is None:
            return self._item(given, given)
        if isinstance(given, str):
            parts: Iterable[Any] = [part.strip() for part in given.split(",") if part.strip()]
        else:
            parts = given if isinstance(given, (tuple, list)) else [given]
        return self.sequence(self._item(part, given) for part in parts)

    def _item(self, item: Any, given: Any) -> Any:
        try:
            if self.kind is bool:
                return item if isinstance(item, bool) else _BOOLS[str(item).lower()]
            if isinstance(item, str) or (self.kind is float and type(item) is int):
                return self.kind(item)
            if type(item) is self.kind:
                return item
        except (ValueError, KeyError):
            pass
        wanted = _SCALARS[self.kind]
        wanted = f"a list such as 1,2,4, each {wanted}" if self.sequence else wanted
        raise ExperimentError(f"parameter {self.name!r} is {given!r}: {wanted} is needed (default {self})")


def _text(item: Any) -> str:
    return f"{item:g}" if isinstance(item, float) else str(item) or "''"


def read_signature(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of an experiment's function: all after the first, which is the platform.

    Raises:
        ExperimentError: One has no default, or a type that the command line cannot give.
    """
    arguments = list(inspect.signature(function).parameters.values())
    where = f"experiment {getattr(function, '__name__', function)!r}"
    if not arguments:
        raise ExperimentError(f"{where} takes no argument: its first one must be the platform")
    hints = _type_hints(function)
    return tuple(_parameter(where, argument, hints.get(argument.name)) for argument in arguments[1:])


def _type_hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):  # names that only a type checker imports
        return {}


def _parameter(where: str, argument: inspect.Parameter, hint: Any) -> Parameter:
    if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
        raise ExperimentError(f"{where} takes {argument}: name its parameters, each with a default")
    if argument.default is argument.empty:
        raise ExperimentError(f"{where}: parameter {argument.name!r} has no default: give it one")
    default = argument.default
    sequence = next((kind for kind in (tuple, list) if isinstance(default, kind)), None)
    kinds = [a for a in typing.get_args(hint) if a in _SCALARS] if sequence else [hint]
    kind = kinds[0] if kinds and kinds[0] in _SCALARS else None
    if kind is None:
        kind = type(default[0]) if sequence and default else type(default)
    if kind not in _SCALARS:
        raise ExperimentError(
            f"{where}: parameter {argument.name!r} has default {default!r}: "
            "int, float, str, bool, or a tuple or list of them is needed"
        )
    return Parameter(argument.name, kind, default, sequence)


def read_values(where: str, parameters: tuple[Parameter, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of all `parameters`: those of `given`, else defaults.

    Raises:
        ExperimentError: A name is unknown, or a value is of the wrong type.
    """
    known = {p.name: p for p in parameters}
    for name in given:
        if name not in known:
            listed = ", ".join(map(str, parameters)) or "none"
            raise ExperimentError(f"{where} has no parameter {name!r}; its parameters and defaults: {listed}")
    return {name: p.read(given[name]) if name in given else p.default for name, p in known.items()}
