"""Finding experiments: a file, a folder, ``file.py::name``, or a name alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from graphsched.cases.experiments import Experiment
from graphsched.cases.loading import load_module
from graphsched.errors import ExperimentError

FOLDER = Path("experiments")


@dataclass(frozen=True)
class Found:
    """What `discover` found: experiments, by file and place in it, and what kept other files from loading."""

    experiments: tuple[Experiment, ...]
    errors: tuple[ExperimentError, ...] = ()


def load_file(file: str | Path) -> tuple[Experiment, ...]:
    """The experiments that `file` defines, in order.

    Raises:
        ExperimentError: The file does not exist or cannot be loaded.
    """
    file = Path(file)
    if not file.is_file():
        raise ExperimentError(f"there is no file {file}: give an experiment's .py file, or its name")
    module = load_module(file)
    return tuple(
        replace(thing, path=file.resolve())
        for thing in vars(module).values()
        if isinstance(thing, Experiment) and thing.function.__module__ == module.__name__
    )


def discover(path: str | Path = FOLDER) -> Found:
    """All experiments of a folder (its ``*.py`` files, those that begin with ``_`` left out), or of one file.

    A file that cannot be loaded does not hide the others: its error is in the result.

    Raises:
        ExperimentError: There is no such folder or file, or an empty text names none.
    """
    path, _, name = str(path).partition("::")
    if not (path or name):
        raise ExperimentError("an empty text names no experiment: give its name, its file or a folder of such files")
    if name or Path(path).is_file():
        return Found((find(f"{path}::{name}"),) if name else load_file(path))
    if not Path(path).is_dir():
        raise ExperimentError(
            f"there is no folder {path!r} here: call graphsched where your experiments folder is, or name one"
        )
    found: list[Experiment] = []
    errors: list[ExperimentError] = []
    for file in _files(Path(path)):
        try:
            found += load_file(file)
        except ExperimentError as error:
            errors.append(error)
    return Found(tuple(found), tuple(errors))


def find(name: str | Path) -> Experiment:
    """The one experiment called ``file.py::name``, ``file.py``, a folder's only one, or `name` in ``./experiments``.

    Raises:
        ExperimentError: There is none (near names are listed), or more than one.
    """
    text = str(name)
    path, _, wanted = text.partition("::")
    if wanted or path.endswith(".py"):
        return _pick(load_file(path), wanted or Path(path).stem, text, only=not wanted)
    if "/" in path or not _is_name(path):
        found = discover(path)
        return _pick(found.experiments, "", text, only=True, errors=found.errors)
    first = FOLDER / f"{path}.py"
    if first.is_file():
        for made in load_file(first):
            if made.name == path:
                return made
    if not FOLDER.is_dir():
        raise ExperimentError(
            f"no experiment {path!r}: there is no folder 'experiments' here; give its file, as in file.py::{path}"
        )
    found = discover(FOLDER)
    return _pick(found.experiments, path, text, errors=found.errors)


def _files(folder: Path) -> Iterable[Path]:
    return sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))


def _is_name(text: str) -> bool:
    return text.isidentifier()


def _pick(
    found: tuple[Experiment, ...],
    wanted: str,
    asked: str,
    *,
    only: bool = False,
    errors: tuple[ExperimentError, ...] = (),
) -> Experiment:
    """The experiment `wanted`; with `only` also one that is alone, whatever its name."""
    named = [made for made in found if made.name == wanted]
    if len(named) == 1:
        return named[0]
    if only and len(found) == 1:
        return found[0]
    if len(named) > 1:
        places = ", ".join(f"{made.path}::{wanted}" for made in named)
        raise ExperimentError(f"experiment {asked!r} is there more than once: name one of {places}")
    raise ExperimentError(_unknown(asked, wanted, [made.name for made in found], errors))


def _unknown(asked: str, wanted: str, names: list[str], errors: tuple[ExperimentError, ...]) -> str:
    near = difflib.get_close_matches(wanted, names, cutoff=0.5)
    if not names:
        listed = "there are none: a function that yields cases, under @gs.experiment(source=...), makes one"
    else:
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        listed = f"{meant}there are {', '.join(names)}"
    broken = "".join(f"\nnot loaded: {error}" for error in errors)
    return f"no single experiment {asked!r}: {listed}{broken}"
