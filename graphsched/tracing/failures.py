"""What a failed trace tells the user: the line of their code, and what to write instead."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from collections.abc import Iterator
from pathlib import Path

from graphsched.errors import GraphschedError, TraceError

ADVICE = (
    "a workload is the same in every run, so nothing in it can depend on the contents of tensors: use torch.where or "
    "a mask, or leave this part outside"
)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn an error of a trace into a `TraceError` that names the line of the user's code.

    Raises:
        TraceError: Anything was raised inside but an error of ours, which gets the line.
    """
    from torch._subclasses import fake_tensor

    depends = (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)
    try:
        yield
    except GraphschedError as error:
        raise TraceError(f"{line_of(error)}{error}") from error
    except depends as error:
        raise TraceError(f"{line_of(error)}this depends on data ({error}): {ADVICE}") from error
    except Exception as error:
        raise TraceError(f"{line_of(error)}{type(error).__name__}: {error}") from error


def line_of(error: BaseException) -> str:
    """``file:line: `code`: `` of the last line outside of torch and this package; empty if there is none."""
    import torch

    ours = tuple(str(Path(place).parent) for place in (torch.__file__, Path(__file__).parent / "here"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((*ours, "<frozen")) and Path(frame.filename).name != "contextlib.py":
            code = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{frame.filename}:{frame.lineno}: `{code}`: "
    return ""
