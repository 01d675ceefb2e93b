"""Schedulers as words of the command line: ``heft``, ``round_robin lanes=2``, several between commas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsched.errors import ScheduleError


@dataclass(frozen=True)
class Choice:
    """A scheduler and its options, as they were asked for."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={_text(value)}" for key, value in self.options.items())])


def read_choices(texts: Sequence[str]) -> tuple[Choice, ...]:
    """The schedulers that texts name, each once, in order.

    An option's value is a number, true or false, or text; several values are joined by ``+``.

    Raises:
        ScheduleError: A text names none, or an option is not of the form NAME=VALUE.

    Example:
        >>> [str(choice) for choice in read_choices(["heft, round_robin lanes=2", "heft"])]
        ['heft', 'round_robin lanes=2']
        >>> read_choices(["some parts=a+b"])[0].options
        {'parts': ('a', 'b')}
    """
    found = [_choice(part) for text in texts for part in text.split(",")]
    return tuple({str(choice): choice for choice in found}.values())


def check_choice(choice: Choice) -> None:
    """Make sure that there is such a scheduler, and that it takes these options.

    Raises:
        ScheduleError: There is none, or it does not.
    """
    from graphsched.schedulers.asking.options import check_options
    from graphsched.schedulers.registry import find_scheduler

    check_options(choice.name, find_scheduler(choice.name), choice.options)


def _choice(text: str) -> Choice:
    words = text.split()
    if not words or "=" in words[0]:
        raise ScheduleError(f"{text!r} names no scheduler: as in --scheduler heft,cpop or 'round_robin lanes=2'")
    options: dict[str, Any] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals or not name or name in options:
            raise ScheduleError(f"option {word!r} of scheduler {words[0]!r}: NAME=VALUE is needed, each name once")
        parts = [_value(part) for part in value.split("+")]
        options[name] = tuple(parts) if len(parts) > 1 else parts[0]
    return Choice(words[0], options)


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float)) else text


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
