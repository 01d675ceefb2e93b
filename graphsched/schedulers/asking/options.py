"""Options of schedulers: the keyword-only parameters of their functions, checked before they are called."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from graphsched.errors import ScheduleError
from graphsched.schedulers.registry import Scheduler


def options_of(function: Scheduler) -> dict[str, inspect.Parameter]:
    """The options that a scheduler takes, in order, with types as objects.

    Raises:
        ScheduleError: Python cannot tell, as of some functions written in C.
    """
    try:
        signature = _signature(function)
    except (TypeError, ValueError) as error:
        raise ScheduleError(f"{function!r} is no scheduler: {error}: wrap it in a function of Python") from error
    return {n: p for n, p in signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def _signature(function: Scheduler) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # types that are imported for checkers only, or that this Python does not know
        return inspect.signature(function)


def check_options(name: str, function: Scheduler, given: Mapping[str, Any]) -> None:
    """Make sure that scheduler `name` takes the options `given`, names and values.

    Raises:
        ScheduleError: It does not; the message lists the options that it has.
    """
    options = options_of(function)
    for option, value in given.items():
        if option not in options:
            listed = ", ".join(map(_described, options.values())) or "none"
            raise ScheduleError(f"scheduler {name!r} has no option {option!r}: its options are {listed}")
        if not _fits(value, options[option].annotation):
            needed = _described(options[option])
            one = ", not several" if isinstance(value, (list, tuple)) and "several" not in needed else ""
            raise ScheduleError(f"option {option}={value!r} of scheduler {name!r}: {needed} is needed{one}")
    for option, parameter in options.items():
        if parameter.default is inspect.Parameter.empty and option not in given:
            raise ScheduleError(f"scheduler {name!r} needs the option {_described(parameter)}")


def described(name: str, function: Scheduler, given: Mapping[str, Any]) -> str:
    """Name and options of a schedule for people: those that differ from the default, in the function's order."""
    options = options_of(function).items()
    words = [f"{n}={_value_text(given[n])}" for n, p in options if n in given and given[n] != p.default]
    return " ".join([name, *words])


def _value_text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _fits(value: Any, kind: Any) -> bool:
    """Whether `value` is of type `kind`; types that cannot be checked here fit."""
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is Sequence:
        return isinstance(value, (list, tuple)) and all(_fits(each, get_args(kind)[0]) for each in value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (bool, str, type(None)):
        return isinstance(value, kind)
    return True


def _described(parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    text = parameter.name if kind is inspect.Parameter.empty else f"{parameter.name}: {_type_text(kind)}"
    return text if parameter.default is inspect.Parameter.empty else f"{text} = {parameter.default!r}"


def _type_text(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(map(_type_text, get_args(kind)))
    if get_origin(kind) is Literal:
        return " | ".join(map(repr, get_args(kind)))
    if get_origin(kind) is Sequence:
        return f"several of {_type_text(get_args(kind)[0])}"
    return "None" if kind is type(None) else getattr(kind, "__name__", str(kind))
