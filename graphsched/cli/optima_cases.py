"""Which graphs and numbers of processors a folder asks for, and what is known about them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsched.errors import FileFormatError

TABLE = "best.csv"
COLUMNS = ("graph", "processors", "best")
PROCESSORS = (2, 4, 8, 16)
"""For graphs of a folder without a table."""


@dataclass(frozen=True)
class KnownCase:
    """A graph file and a number of processors.

    Attributes:
        path: The file.
        name: As the table has it: its path in the folder.
        processors: How many.
        best: The shortest makespan known, in the file's own unit; None: none is.
    """

    path: Path
    name: str
    processors: int
    best: float | None


def known_cases(folder: Path) -> list[KnownCase]:
    """The cases of a folder: the rows of its ``best.csv``, or all its graphs on 2, 4, 8 and 16 processors.

    Rows whose graph is not there are left out, so that a part of a collection needs no table of its own.

    Raises:
        FileFormatError: There is no such folder, it holds no graph, the table cannot be read, or a row of it is wrong:
            names the line.
    """
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.stg"))}
    if not files:
        raise FileFormatError(f"{folder} is no folder with graphs: files that end in .stg are needed in it")
    if not (folder / TABLE).is_file():
        return [KnownCase(path, name, m, None) for name, path in files.items() for m in PROCESSORS]
    cases = list(_rows(folder / TABLE, _text(folder / TABLE), files))
    if not cases:
        raise FileFormatError(f"{folder / TABLE} names no graph of the folder: name them as in {next(iter(files))!r}")
    return cases


def _text(table: Path) -> str:
    """The table's text; spreadsheets put a mark before UTF-8, which is no part of it."""
    try:
        return table.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise FileFormatError(f"cannot read {table}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FileFormatError(f"{table}, line {line}: {error.reason}: UTF-8 is needed, save it as that") from error


def _rows(table: Path, text: str, files: Mapping[str, Path]) -> Iterator[KnownCase]:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise FileFormatError(f"{table} has no column {missing[0]!r}: {', '.join(COLUMNS)} are needed")
    for row in rows:
        where = f"{table}, line {rows.line_num}"
        processors, best = _number(row, "processors", where), _number(row, "best", where)
        if processors < 1 or processors != int(processors):
            raise FileFormatError(f"{where}: {row['processors']} processors: a whole number above 0 is needed")
        if str(row["graph"]) in files:
            yield KnownCase(files[row["graph"]], row["graph"], int(processors), best)


def _number(row: Mapping[str, Any], column: str, where: str) -> float:
    try:
        found = float(row[column])
    except (TypeError, ValueError):
        found = -1.0
    if not 0.0 <= found < float("inf"):
        raise FileFormatError(f"{where}: {column} is {row[column]!r}: a number, 0 or more, is needed")
    return found
