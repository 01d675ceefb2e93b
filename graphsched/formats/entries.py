"""Entries of JSON objects in files of others, read so that a wrong one is named with its place and value."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from graphsched.costs import MOST
from graphsched.errors import FileFormatError

Kind = TypeVar("Kind")
_WORDS: dict[type, str] = {str: "text", dict: "an object", list: "a list"}


def number_of(text: str) -> float:
    """The number that `text` says in the way of other programs, which know none of Python's; NaN: it says none.

    Example:
        >>> number_of("1.5e3"), number_of(" 2 "), number_of("1_0"), number_of("１"), number_of("ten")
        (1500.0, 2.0, nan, nan, nan)
    """
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def present(row: Any, key: str, where: object) -> Any:
    """The entry `key` of the object `row`, which stands at `where`, whatever it is.

    Raises:
        FileFormatError: It is missing.

    Example:
        >>> present({"id": 3}, "name", "tasks[0]")
        Traceback (most recent call last):
        ...
        graphsched.errors.FileFormatError: tasks[0] lacks 'name': add it
    """
    if not isinstance(row, (dict, Mapping)):  # the first is quick to tell
        raise FileFormatError(f"{where} is {reprlib.repr(row)}: an object is needed")
    if key not in row:
        raise FileFormatError(f"{where} lacks {key!r}: add it")
    return row[key]


def entry(row: Any, key: str, kind: type[Kind], where: object) -> Kind:
    """The entry `key` of the object `row`, which stands at `where`.

    Raises:
        FileFormatError: It is missing, or of another type.

    Example:
        >>> entry({"id": 3}, "id", str, "tasks[0]")
        Traceback (most recent call last):
        ...
        graphsched.errors.FileFormatError: 'id' of tasks[0] is 3: text is needed
    """
    value = present(row, key, where)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FileFormatError(f"{key!r} of {where} is {reprlib.repr(value)}: {_WORDS[kind]} is needed")
    return value


def number(row: Any, key: str, where: object, least: float = -math.inf) -> float:
    """The entry `key` of `row` as a finite number, `least` or more; text that reads like one is one.

    Raises:
        FileFormatError: It is missing, or something else.

    Example:
        >>> number({"dur": -5}, "dur", "event 3", least=0)
        Traceback (most recent call last):
        ...
        graphsched.errors.FileFormatError: 'dur' of event 3 is -5: a finite number, 0 or more, is needed
    """
    given = present(row, key, where)
    try:
        found = math.nan if isinstance(given, bool) else number_of(given) if isinstance(given, str) else float(given)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (math.isfinite(found) and found >= least):
        needed = "a finite number" if least == -math.inf else f"a finite number, {least:g} or more,"
        raise FileFormatError(f"{key!r} of {where} is {reprlib.repr(given)}: {needed} is needed")
    return found


def whole(row: Any, key: str, where: object) -> int:
    """The entry `key` of `row` as a whole number; text that reads like one is one.

    Raises:
        FileFormatError: It is missing, or something else.

    Example:
        >>> whole({"stream": "7"}, "stream", "event 3")
        7
    """
    given = present(row, key, where)
    try:
        is_none = isinstance(given, bool) or (isinstance(given, str) and math.isnan(number_of(given)))
        found = None if is_none else int(given)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or (isinstance(given, float) and found != given):
        raise FileFormatError(f"{key!r} of {where} is {reprlib.repr(given)}: a whole number is needed")
    return found


def listed(row: Any, key: str, where: str, *, needed: bool = True) -> Sequence[Mapping[str, Any]]:
    """The list of objects `key` of `row`; empty where it is absent and not `needed`.

    Raises:
        FileFormatError: It is missing, no list, or one of its items is no object.
    """
    if not needed and isinstance(row, Mapping) and row.get(key) is None:
        return ()
    found = entry(row, key, list, where)
    for i, item in enumerate(found):
        if not isinstance(item, (dict, Mapping)):
            raise FileFormatError(f"{key}[{i}] of {where} is {reprlib.repr(item)}: an object is needed")
    return found


def texts(row: Mapping[str, Any], key: str, where: str) -> list[str]:
    """The list of names `key` of `row`; empty where it is absent.

    Raises:
        FileFormatError: It is no list, or one of its items is no text.
    """
    found = entry(row, key, list, where) if row.get(key) is not None else []
    for i, item in enumerate(found):
        if not isinstance(item, str):
            raise FileFormatError(f"{key}[{i}] of {where} is {reprlib.repr(item)}: text is needed")
    return found


def whole_bytes(row: Mapping[str, Any], keys: Sequence[str], where: str) -> int:
    """The first of `keys` that `row` has: a whole number of bytes from 0 to 2**53.

    Raises:
        FileFormatError: There is none, or it is something else.
    """
    given = next((row[key] for key in keys if key in row), None)
    is_whole = isinstance(given, int) or (isinstance(given, float) and given.is_integer())
    if given is None or isinstance(given, bool) or not is_whole or not 0 <= given <= MOST:
        raise FileFormatError(
            f"{keys[0]!r} of {where} is {reprlib.repr(given)}: a whole number of bytes from 0 to 2**53 is needed"
        )
    return int(given)
