"""The table of a sweep: one row a case of each point, as CSV or Parquet."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphsched.cli.output import value_text
from graphsched.cli.sweep_grid import Point
from graphsched.errors import OutputError
from graphsched.files import write_bytes, write_text

SUFFIXES = (".csv", ".parquet")
PREFIX = "param_"
_OWN = ("platform", "mode", "scheduler", "case", "predicted_s", "lower_bound_s", "reported_s", "estimated", "error")

Row = Mapping[str, Any]


def check_table(path: Path) -> None:
    """Make sure that a table of this name can be written.

    Raises:
        OutputError: The suffix is another one, it is a folder, or Parquet cannot be written here.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise OutputError(f"cannot write a table {str(path)!r}: its name ends in {' or '.join(SUFFIXES)}")
    if path.is_dir():
        raise OutputError(f"cannot write a table {str(path)!r}: there is a folder of this name")
    if suffix == ".parquet":
        _pyarrow("pyarrow")


def column_of(parameter: str) -> str:
    """The column of a parameter: its name, or ``param_NAME`` where another column bears that, or may.

    Example:
        >>> column_of("size"), column_of("mode"), column_of("param_mode")
        ('size', 'param_mode', 'param_param_mode')
    """
    return f"{PREFIX}{parameter}" if parameter in _OWN or parameter.startswith(PREFIX) else parameter


def flat_row(point: Point, row: Row) -> dict[str, Any]:
    """A row of the table: where the case stands in the grid, and what was predicted."""
    params = {column_of(key): value for key, value in point.values.items()}
    plain = {key: value if isinstance(value, (int, float)) else value_text(value) for key, value in params.items()}
    found = {"platform": point.platform_name, "mode": row["mode"] or point.mode}
    scheduler = row["scheduler"] or (None if point.scheduler is None else str(point.scheduler))
    return found | {"scheduler": scheduler} | plain | {key: row[key] for key in _OWN[3:]}


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Write the table, whole or not at all; the same rows give the same bytes.

    Raises:
        OutputError: It cannot be written.
    """
    if path.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(path, text.getvalue())
        return
    content = io.BytesIO()
    table = _pyarrow("pyarrow").Table.from_pylist([dict(row) for row in rows])
    _pyarrow("pyarrow.parquet").write_table(table, content)
    write_bytes(path, content.getvalue())


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OutputError("tables in Parquet need pyarrow: install it (pip install pyarrow), or name a .csv") from error
