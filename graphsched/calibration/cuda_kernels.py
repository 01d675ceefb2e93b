"""What each operation launches on a CUDA device, from one session of torch's profiler."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graphsched.calibration.kernels import Launched, launched_between
from graphsched.calibration.serial_run import Step, failures_named
from graphsched.errors import GraphschedError

SEPARATOR_CYCLES = 2000


def launched_by(steps: Iterable[Step], device: int) -> dict[str, Launched]:
    """What each step's operation launches, by signature.

    Each call stands between two spin kernels in the trace. Empty if the trace is not whole, or there
    is no profiler here.

    Raises:
        TaskFailedError: A task raised; names it, its device and its inputs' shapes.
    """
    signatures: list[str] = []
    try:
        trace = _trace(steps, device, signatures)
        found = launched_between(trace, "spin_kernel")
    except GraphschedError:
        raise
    except Exception:  # a profiler that cannot work here fails in many ways, and what it shows can be done without
        return {}
    return dict(zip(signatures, found, strict=True)) if len(found) == len(signatures) else {}


def _trace(steps: Iterable[Step], device: int, signatures: list[str]) -> Any:
    """Chrome trace of all steps' calls; `signatures` gets theirs, in order."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with warnings.catch_warnings(), torch.cuda.device(device), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CUDA]) as session:
            for step in steps:
                _call_between_spins(step)
                signatures.append(step.task.signature)
        path = Path(folder) / "trace.json"
        session.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def _call_between_spins(step: Step) -> None:
    import torch

    sleep: Any = torch.cuda._sleep
    call = step.bound()
    with failures_named(step.task, step.device):
        call()  # what only the first call does is not counted
        torch.cuda.synchronize()
        sleep(SEPARATOR_CYCLES)
        call()
        sleep(SEPARATOR_CYCLES)
        torch.cuda.synchronize()
