"""Written causes of large errors: a file that people write beside recorded runs.

``causes.toml`` lies in the folder of the runs, or in the one above::

    [[cause]]
    experiment = "complex_graph"       # patterns as of file names; what is left out fits all
    platform = "h200-*"
    label = "random-2, sequential, *"
    scheduler = "sequential"
    cause = "Each wait of the thread takes 12 µs longer after a task of several launches."
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from graphsched.errors import FileFormatError

NAME = "causes.toml"
_PATTERNS = ("experiment", "platform", "label", "scheduler", "mode")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the predictions of some cases are far off.

    Attributes:
        patterns: By key of a case's figures; all must fit.
        text: The cause.
    """

    patterns: Mapping[str, str]
    text: str

    def fits(self, figures: Mapping[str, Any]) -> bool:
        """Whether it is about the case of these figures.

        Example:
            >>> Cause({"label": "a, *"}, "noise").fits({"label": "a, 2 GPUs", "mode": "eager"})
            True
        """
        return all(fnmatchcase(str(figures[key]), pattern) for key, pattern in self.patterns.items())


def find_causes(folders: Iterable[str | Path]) -> list[Cause]:
    """The causes written beside runs in `folders` (or files), or in the folder above each.

    Raises:
        FileFormatError: A file of causes cannot be read, or an entry is wrong.
    """
    files: dict[Path, None] = {}
    for folder in map(Path, folders):
        here = (folder if folder.is_dir() else folder.parent).resolve()
        files.update((place / NAME, None) for place in (here, here.parent) if (place / NAME).is_file())
    return [cause for file in files for cause in _read(file)]


def _read(file: Path) -> list[Cause]:
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))["cause"]
        return [_cause(number, dict(entry)) for number, entry in enumerate(entries, 1)]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{file} is no list of causes ({type(error).__name__}: {error}): it holds tables [[cause]], each with "
            f"the text cause = … and at least one pattern of {', '.join(_PATTERNS)}"
        ) from error


def _cause(number: int, entry: dict[str, Any]) -> Cause:
    """An entry as read; ValueError if it is wrong."""
    text = entry.pop("cause", None)
    if not entry or not all(isinstance(part, str) and part.strip() for part in (text, *entry.values())):
        raise ValueError(f"entry {number} lacks a text or a pattern")
    for key in entry:
        if key not in _PATTERNS:
            raise ValueError(f"entry {number} has a pattern of {key!r}")
    return Cause(entry, str(text))


def cause_of(figures: Mapping[str, Any], causes: Sequence[Cause]) -> str | None:
    """The first written cause for the case of these figures, or None."""
    return next((cause.text for cause in causes if cause.fits(figures)), None)
