"""What commands print: one JSON object or tables on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, TextIO

NONE = "–"
NARROW, COMFORTABLE = 16, 32
"""Characters of a column of text for which headings of numbers are broken: within words, and between words."""

_json_only: ContextVar[TextIO | None] = ContextVar("stdout for JSON only", default=None)


@contextlib.contextmanager
def only_json(asked: bool) -> Iterator[None]:
    """If `asked`, let nothing but `print_json` reach stdout.

    What users' code prints goes to stderr, and so does what libraries and child processes write, as NCCL's log.
    """
    if not asked:
        yield
        return
    with _set_aside(sys.stdout) as out:
        token = _json_only.set(out)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            _json_only.reset(token)


@contextlib.contextmanager
def _set_aside(stream: TextIO) -> Iterator[TextIO]:
    """`stream` on a file descriptor of its own, while stderr's stands in its place; as it is if it has another one."""
    try:
        replaceable = stream.fileno() == 1 and sys.stderr.fileno() == 2
    except (AttributeError, OSError):  # one is in memory, or closed
        replaceable = False
    if not replaceable:
        yield stream
        return
    stream.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with open(os.dup(kept), "w", encoding=stream.encoding, errors=stream.errors) as out:
            yield out
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def print_json(data: Mapping[str, Any]) -> None:
    """Print one object, and nothing else, on stdout; characters that its encoding may not have are escaped."""
    out = _json_only.get() or sys.stdout
    print(json_text(data, ascii_only=not (out.encoding or "utf-8").lower().startswith("utf")), file=out)


def json_text(data: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """`data` as JSON; numbers that are not finite, which it has not, are null, and what else it has not is text.

    Example:
        >>> json_text({"time_s": float("nan"), "on": {1}})
        '{\\n "time_s": null,\\n "on": "{1}"\\n}'
    """
    return json.dumps(_finite(data), indent=1, ensure_ascii=ascii_only, allow_nan=False, default=str)


def _finite(thing: Any) -> Any:
    if isinstance(thing, (int, Integral)):
        return thing if isinstance(thing, int) else int(thing)
    if isinstance(thing, Real):  # numpy's, too
        return float(thing) if math.isfinite(thing) else None
    if isinstance(thing, Mapping):
        return {key: _finite(value) for key, value in thing.items()}
    return [_finite(item) for item in thing] if isinstance(thing, (list, tuple)) else thing


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Print a table; columns whose name begins with ``>`` are set to the right, and their cells never broken."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [tuple(row) for row in rows]
    terminal = shutil.get_terminal_size().columns
    room = terminal if sys.stdout.isatty() else max(160, terminal)
    gaps = 3 * len(columns) - 1
    widths = _widths(columns, cells, room - gaps)
    for column, width in zip(columns, widths, strict=True):
        if column.startswith(">"):
            table.add_column(Text(column.removeprefix(">")), justify="right", width=width, overflow="fold")
        else:
            table.add_column(Text(column), min_width=width)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(width=max(room, sum(widths) + gaps), highlight=False).print(table)


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[int]:
    """Columns of numbers: how wide; columns of text: how wide at least.

    Headings of numbers are broken only where text would else get little room. If all of that is not enough, the table
    is wider than `room`.
    """
    heads = [column.removeprefix(">") for column in columns]
    numbers = [i for i, column in enumerate(columns) if column.startswith(">")]
    needed = [max((len(row[i]) for row in cells), default=0) for i in range(len(columns))]
    whole = [max(len(head), width) for head, width in zip(heads, needed, strict=True)]
    words = [max(needed[i], *map(len, heads[i].split())) for i in numbers]
    widths = [whole[i] for i in numbers]
    for least, wanted in ((words, COMFORTABLE), ([needed[i] or 1 for i in numbers], NARROW)):
        text = sum(min(width, wanted) for i, width in enumerate(whole) if i not in numbers)
        widths = _narrowed(widths, least, room - text)
    found = dict(zip(numbers, widths, strict=True))
    return [found.get(i, min(width, NARROW)) for i, width in enumerate(whole)]


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widest made narrower until all fit in `room`, none below its `least`.

    Example:
        >>> _narrowed([9, 5, 8], [4, 5, 6], 18), _narrowed([9, 5, 8], [4, 5, 6], 0)
        ([6, 5, 7], [4, 5, 6])
    """
    found = list(widths)
    while sum(found) > room and (loose := [i for i, width in enumerate(found) if width > least[i]]):
        found[max(loose, key=lambda i: found[i])] -= 1
    return found


def say(text: str) -> None:
    """Print a line for people on stderr."""
    print(text, file=sys.stderr, flush=True)


def seconds(value: float | None, *, estimated: bool = False) -> str:
    """Seconds for a table; ``~`` marks what rests on estimates.

    Example:
        >>> seconds(0.1323), seconds(0.1323, estimated=True), seconds(None)
        ('132.3 ms', '~132.3 ms', '–')
    """
    from graphsched.quantities import seconds_text

    return NONE if value is None else ("~" if estimated else "") + seconds_text(value)


def percent(value: float | None, *, signed: bool = False) -> str:
    """A fraction in per cent, for a table; `signed`: with a plus sign too.

    Example:
        >>> percent(0.0123), percent(0.0123, signed=True), percent(-0.0123), percent(None)
        ('1.23 %', '+1.23 %', '-1.23 %', '–')
    """
    from graphsched.quantities import percent_text

    if value is None:
        return NONE
    return percent_text(value) if signed else percent_text(value).removeprefix("+")


def value_text(value: Any) -> str:
    """A parameter's value as the command line takes it.

    Example:
        >>> value_text((1, 2)), value_text(0.5)
        ('1,2', '0.5')
    """
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def print_rows(rows: Sequence[Mapping[str, Any]], *, title: str = "") -> None:
    """Print rows of named figures, scaled for people by the unit at the end of each name."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numbers = {key for key in columns if all(_is_number(row.get(key)) for row in rows)}
    heads = [(">" if key in numbers else "") + unit_free(key) for key in columns]
    print_table(heads, [[figure(key, row.get(key)) for key in columns] for row in rows], title=title)


def unit_free(name: str) -> str:
    """The name of a figure without the unit that `figure` puts beside its value.

    Example:
        >>> unit_free("bandwidth_bytes_per_s"), unit_free("latency_s"), unit_free("actions_per_s")
        ('bandwidth', 'latency', 'actions / s')
    """
    for ending, shown in (("_bytes_per_s", ""), ("_nbytes", ""), ("_bytes", ""), ("_per_s", " / s"), ("_s", "")):
        if name.endswith(ending):
            return name.removesuffix(ending).replace("_", " ") + shown
    return name.replace("_", " ")


def figure(name: str, value: Any) -> str:
    """`value` for people, scaled by the unit at the end of its name.

    Example:
        >>> figure("latency_s", 9.7e-6), figure("bandwidth_bytes_per_s", 5.35e10), figure("tasks", 10000)
        ('9.7 µs', '53.5 GB/s', '10,000')
        >>> figure("actions_per_s", 123456.7), figure("contention", True), figure("name", None)
        ('123,457', 'yes', '–')
    """
    from graphsched.quantities import bytes_text, seconds_text

    if value is None or isinstance(value, bool):
        return {None: NONE, True: "yes", False: "no"}[value]
    if not _is_number(value):
        return str(value)
    if name.endswith(("_excess", "_share")):
        return percent(value)
    if name.endswith("_bytes_per_s"):
        return f"{bytes_text(value)}/s"
    if name.endswith("bytes"):
        return bytes_text(value)
    if (name.endswith("_s") and not name.endswith("_per_s")) or name == "seconds":
        return seconds_text(value)
    return f"{value:,.0f}" if isinstance(value, Integral) or abs(value) >= 1000 else f"{value:.4g}"


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, Real)


def show_warning(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """Print a warning as one line; takes the place of `warnings.showwarning`."""
    say(f"warning: {message}")
