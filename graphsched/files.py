"""Reading and writing files: whole or not at all, with errors that name the file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from graphsched.errors import FileFormatError, OutputError


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write `content` to `path` through a temporary file beside it, so that it is never half there.

    Raises:
        OutputError: The folder or file cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def write_text(path: str | Path, text: str) -> None:
    """Write `text` as UTF-8; see `write_bytes`.

    Raises:
        OutputError: The folder or file cannot be written, or a character is half of one.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise OutputError(f"cannot write {path}: UTF-8 has no {half!r}, half of a character: leave it out") from error
    write_bytes(path, content)


def check_folder(path: str | Path) -> Path:
    """Make folder `path` if need be and make sure that files can be written there.

    Raises:
        OutputError: They cannot.
    """
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(f"cannot write into folder {path}: {error.strerror or error}") from error
    return path


def read_json(path: str | Path) -> Any:
    """The object in a JSON file.

    Raises:
        FileFormatError: It cannot be read, or is truncated; the message says where.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is no complete JSON file: {error}") from error
