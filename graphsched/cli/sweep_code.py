"""The code that the figures of a sweep rest on, as a hash: where it has changed, points are computed again."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

from graphsched.cli.scheduler_words import Choice
from graphsched.schedulers.registry import Scheduler

MODELS = "models"  # a folder beside that of the experiments, which they import from


def code_digest(experiment: Path | None, choice: Choice | None) -> str:
    """Hash of this package, what an experiment may import from beside it, and the schedulers of others that are asked.

    Args:
        experiment: Its file, if it has one.
        choice: The scheduler; None: the cases' own, which may be any.
    """
    import graphsched

    files = [*python_files(Path(graphsched.__file__).parent)]
    if experiment is not None:
        files += [*python_files(experiment.parent), *python_files(experiment.parent.parent / MODELS)]
    files += [file for function in _asked(choice) for file in _files_of(function)]
    digest = hashlib.sha256()
    for file in dict.fromkeys(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def python_files(folder: Path) -> Iterator[Path]:
    """Python files of a folder and of those in it that can be imported from, in order of their names.

    Folders without Python files of their own, and links to folders, are not entered.
    """
    yield from sorted(file for file in folder.glob("*.py") if file.is_file())
    for inner in sorted(folder.glob("*/")):
        if inner.name.isidentifier() and not inner.is_symlink() and any(inner.glob("*.py")):
            yield from python_files(inner)


def _asked(choice: Choice | None) -> Iterator[Scheduler]:
    """Schedulers of others that decide: the one chosen and those that its options name, or all."""
    from graphsched.errors import ScheduleError
    from graphsched.schedulers.registry import find_scheduler, of_others, schedulers

    words = schedulers() if choice is None else (choice.name, *_words(choice))
    for name in schedulers():
        if name in words:
            try:
                function = find_scheduler(name)
            except ScheduleError:  # it is broken, and says so where it is asked
                continue
            if of_others(function):
                yield function


def _words(choice: Choice) -> Iterator[str]:
    for value in choice.options.values():
        yield from map(str, value if isinstance(value, tuple) else (value,))


def _files_of(function: Scheduler) -> Iterator[Path]:
    """The files of the package that a function is from, or of its module alone."""
    name = str(getattr(function, "__module__", ""))
    for module in (name.partition(".")[0], name):
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is not None and Path(file).is_file():
            yield from python_files(Path(file).parent) if Path(file).name == "__init__.py" else [Path(file)]
            return
