"""Loading a Python file that is no part of a package."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from graphsched.errors import ExperimentError, error_text


@contextlib.contextmanager
def import_paths(file: Path | None) -> Iterator[None]:
    """Let imports find what lies beside `file` and beside its folder, while the block runs."""
    added = [] if file is None else [str(file.parent), str(file.parent.parent)]
    sys.path[:0] = added
    try:
        yield
    finally:
        for path in added:
            with contextlib.suppress(ValueError):
                sys.path.remove(path)


def load_module(file: Path) -> ModuleType:
    """Run `file` as a module and return it.

    Raises:
        ExperimentError: It cannot be read, or fails; the message names file and line.
    """
    file = file.resolve()
    name = _module_name(file)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ExperimentError(f"{file} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with import_paths(file):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ExperimentError(_describe(file, error)) from error
    return module


def _module_name(file: Path) -> str:
    """The same in every process, as costs are filed under it; another one if a different file has it already."""
    name = f"experiments.{file.stem}"
    other = getattr(sys.modules.get(name), "__file__", None)
    if other is None or Path(other).resolve() == file:
        return name
    return f"{name}_{sha256(str(file).encode()).hexdigest()[:8]}"


def _describe(file: Path, error: BaseException) -> str:
    shown = _shown(file)
    if isinstance(error, SyntaxError) and error.filename:
        line = f"\n    {error.text.strip()}" if error.text else ""
        return f"{_shown(Path(error.filename))}:{error.lineno}: syntax error: {error.msg}{line}"
    if isinstance(error, OSError) and error.filename and Path(error.filename) == file:
        return f"cannot read {shown}: {error.strerror}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    where = f"{shown}:{lines[-1]}" if lines else shown
    return f"{where}: cannot be loaded: {error_text(error)}"


def _shown(file: Path) -> str:
    """`file` as short as it can be named from here."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)
