"""The user's cache folder: files that are set aside when they are broken, and never lost to another process."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from graphsched.errors import FileFormatError, GraphschedWarning, OutputError
from graphsched.files import read_json, write_text


def cache_folder() -> Path:
    """``$GRAPHSCHED_CACHE``, or ``~/.cache/graphsched``."""
    return Path(os.environ.get("GRAPHSCHED_CACHE") or "~/.cache/graphsched").expanduser()


def load_kept(path: Path, parse: Callable[[Any], Any]) -> Any | None:
    """``parse`` of the JSON in `path`; None if there is no such file.

    A file that is broken is renamed to ``<name>.broken``, with a warning.
    """
    if not path.exists():
        return None
    try:
        return parse(read_json(path))
    except FileFormatError as error:
        aside = path.with_name(path.name + ".broken")
        with contextlib.suppress(OSError):
            os.replace(path, aside)
        warnings.warn(f"{path} was set aside as {aside.name}: {error}", GraphschedWarning, stacklevel=2)
    return None


def keep(path: Path, content: Any) -> None:
    """Write `content` as JSON, whole; a folder that cannot be written costs a warning only."""
    try:
        write_text(path, json.dumps(content, indent=1) + "\n")
    except OutputError as error:
        warnings.warn(f"measured figures are not kept: {error}", GraphschedWarning, stacklevel=2)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold other processes of ours off `path` meanwhile; without effect where files cannot be locked."""
    try:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_name(f".{path.name}.lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except (ImportError, OSError):
        yield
