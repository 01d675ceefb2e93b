"""Parts of a platform file, read entry by entry, so that a wrong one is named with its place, value and remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from graphsched.errors import FileFormatError, PlatformError
from graphsched.platform.checks import check_number

Part = TypeVar("Part")
TEXTS = ("name", "kind", "model", "host", "source", "target", "memory")
FLAGS = ("blocking",)
LISTS = ("crosses", "sizes_bytes", "seconds", "written_s")
RATES = ("measured_bytes_per_s", "predicted_bytes_per_s")
PATTERN = ("flows", "fitted", *RATES)
RETIRED = ("crowded_in", "crowded_out", "item_s", "graph_look_ahead_s", "graph_seen_s")
"""Entries of older files, about what the model had and has no more: dropped on reading."""


def read_parts(kind: type[Part], rows: Any, entry: str) -> tuple[Part, ...]:
    """One `kind` (`Device`, `Link`) from each object of a list.

    Raises:
        FileFormatError: It is no list of objects, or one has an entry too many or too few.
        PlatformError: An entry is negative or not finite.
    """
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise FileFormatError(f"not a platform: {entry!r} is {_short(rows)}: a list of objects is needed")
    return tuple(read_part(kind, row, f"{entry}[{i}]") for i, row in enumerate(rows))


def read_part(kind: type[Part], row: Any, entry: str) -> Part:
    """One `kind` from an object; `entry` is its place in the file.

    Raises:
        FileFormatError: It is no object, or has an entry too many, too few or of another type.
        PlatformError: An entry is negative or not finite.

    Example:
        >>> from graphsched.platform.parts import Device
        >>> read_part(Device, {"name": "cpu"}, "devices[0]")
        Traceback (most recent call last):
        ...
        graphsched.errors.FileFormatError: not a platform: devices[0] lacks 'kind': add it
    """
    if not isinstance(row, Mapping):
        raise FileFormatError(f"not a platform: {entry} is {_short(row)}: an object is needed")
    row = {name: value for name, value in row.items() if name not in RETIRED}
    _check_names(kind, row, entry)
    for name in (name for name in TEXTS if name in row and not isinstance(row[name], str)):
        raise FileFormatError(f"not a platform: {name!r} of {entry} is {_short(row[name])}: text is needed")
    for name in (name for name in FLAGS if name in row and not isinstance(row[name], bool)):
        raise FileFormatError(f"not a platform: {name!r} of {entry} is {_short(row[name])}: true or false is needed")
    for name in (name for name in LISTS if name in row):
        _check_list(row[name], name, entry)
    try:
        return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})
    except PlatformError as error:
        raise PlatformError(f"{entry}: {error}") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"not a platform: {entry}: {error}") from error


def check_entries(data: Mapping[str, Any], names: Sequence[str]) -> None:
    """Make sure that the file's object has these entries.

    Raises:
        FileFormatError: One is missing.
    """
    for name in names:
        if name not in data:
            raise FileFormatError(f"not a platform: it lacks {name!r}: add it")


def read_name(name: Any) -> str:
    """The platform's name: text.

    Raises:
        FileFormatError: It is something else.
    """
    if not isinstance(name, str):
        raise FileFormatError(f"not a platform: 'name' is {_short(name)}: text is needed")
    return name


def read_provenance(provenance: Any) -> dict[str, Any]:
    """Where the figures come from: an object; its ``spread``, which intervals rest on, holds fractions.

    Its ``patterns``, if given, are transfers together, with their rates as measured and as predicted, bytes/s.

    Raises:
        FileFormatError: It is something else.
        PlatformError: A spread is negative or not finite, or a rate is not above 0.
    """
    spread = provenance.get("spread", {}) if isinstance(provenance, Mapping) else None
    if not isinstance(spread, Mapping):
        raise FileFormatError("not a platform: 'provenance', and 'spread' in it if given, must be objects")
    for name, value in spread.items():
        check_number(value, f"spread of {name!r}")
    patterns = provenance.get("patterns", ())
    if not isinstance(patterns, (list, tuple)):
        raise FileFormatError(f"not a platform: 'patterns' of provenance is {_short(patterns)}: a list is needed")
    for i, row in enumerate(patterns):
        _check_pattern(row, f"provenance.patterns[{i}]")
    return dict(provenance)


def read_cores(cores: Any) -> int:
    """Hardware threads: a whole number.

    Raises:
        FileFormatError: It is something else.
    """
    if isinstance(cores, bool) or not isinstance(cores, int):
        raise FileFormatError(f"not a platform: 'cores' is {_short(cores)}: a whole number is needed")
    return cores


def _check_names(kind: Any, row: Mapping[str, Any], entry: str) -> None:
    known = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(kind)}
    for name in row:
        if name not in known:
            raise FileFormatError(
                f"not a platform: {entry} has {name!r}: leave it out, or spell it as one of {', '.join(known)}"
            )
    for name, needed in known.items():
        if needed and name not in row:
            raise FileFormatError(f"not a platform: {entry} lacks {name!r}: add it")


def _check_pattern(row: Any, entry: str) -> None:
    """Make sure that a pattern tells its flows, whether capacities were fitted on it, and its rates."""
    if not isinstance(row, Mapping):
        raise FileFormatError(f"not a platform: {entry} is {_short(row)}: an object is needed")
    for name in (name for name in PATTERN if name not in row):
        raise FileFormatError(f"not a platform: {entry} lacks {name!r}: add it, or leave out the pattern")
    flows = row["flows"]
    if not isinstance(flows, (list, tuple)) or not flows or not all(map(_is_flow, flows)):
        raise FileFormatError(
            f"not a platform: 'flows' of {entry} is {_short(flows)}: a list of pairs of device names is needed"
        )
    if not isinstance(row["fitted"], bool):
        raise FileFormatError(
            f"not a platform: 'fitted' of {entry} is {_short(row['fitted'])}: true or false is needed"
        )
    for name in RATES:
        check_number(row[name], f"{name} of {entry}", positive=True)


def _is_flow(flow: Any) -> bool:
    return isinstance(flow, (list, tuple)) and len(flow) == 2 and all(isinstance(end, str) for end in flow)


def _check_list(value: Any, name: str, entry: str) -> None:
    items = "texts" if name == "crosses" else "numbers"
    wrong = not isinstance(value, (list, tuple)) or any(isinstance(v, str) != (items == "texts") for v in value)
    if wrong:
        raise FileFormatError(f"not a platform: {name!r} of {entry} is {_short(value)}: a list of {items} is needed")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
