"""What a failed trace tells the user: the line of their code, and what to write instead."""

from __future__ import annotations

import contextlib
import linecache
import logging
import os
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from graphsched.errors import GraphschedError, TraceError

ADVICE = (
    "a workload is the same in every run, so nothing in it can depend on the contents of tensors: use torch.where or "
    "a mask, or leave this part outside"
)
_READS = (".numpy() is not supported", "FakeTensor.__format__")  # what PyTorch says where tensors have no data


@contextlib.contextmanager
def explained(path: Sequence[str] = ()) -> Iterator[None]:
    """Turn an error of a trace into a `TraceError` that names the line of the user's code.

    Args:
        path: The modules that run; the last one is named where no line of the user's is to blame.

    Raises:
        TraceError: Anything was raised inside but an error of ours, which gets the line.
    """
    from torch._subclasses import fake_tensor

    log = logging.getLogger(fake_tensor.__name__)  # which prints what is told here
    before, log.disabled = log.disabled, True
    depends = (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)
    try:
        yield
    except Exception as error:
        place = line_of(error) or (f"in module {path[-1]!r}: " if path and path[-1] else "")
        if isinstance(error, GraphschedError):
            raise TraceError(f"{place}{error}") from error
        if isinstance(error, depends) or any(words in str(error) for words in _READS):
            raise TraceError(f"{place}this depends on data ({error}): {ADVICE}") from error
        raise TraceError(f"{place}{type(error).__name__}: {error}") from error
    finally:
        log.disabled = before


def line_of(error: BaseException) -> str:
    """``file:line: `code`: `` of the last line outside of torch and this package; empty if there is none."""
    import torch

    ours = tuple(f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parents[1]))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((*ours, "<frozen")) and Path(frame.filename).name != "contextlib.py":
            code = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{frame.filename}:{frame.lineno}: `{code}`: "
    return ""
