"""A plan that goes to a file and runs in another process, which never sees the code that made it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

import graphsched as gs
from graphsched.errors import ExecutionError

READER = """
import json, sys, time
import torch
import graphsched as gs
path, results = sys.argv[1:]
gs.load_plan, gs.Program  # imported on first use
began = time.perf_counter()
plan = gs.load_plan(path)
loaded = time.perf_counter()
with gs.Program(plan) as program:
    torch.save({name: value.cpu() for name, value in program.run().items()}, results)
foreign = sorted(name for name in sys.modules if name.split(".")[0] in ("experiments", "tests"))
print(json.dumps({"load_s": loaded - began, "foreign": foreign}))
"""


def reloaded(plan: gs.Plan) -> dict[str, float]:
    """Save `plan`, run it in a new process, and compare: bytes of the file, seconds, largest difference (0 is right).

    Raises:
        ExecutionError: The process failed, or imported the code that made the plan.
    """
    with tempfile.TemporaryDirectory() as folder:
        file, results = Path(folder) / "network.plan", Path(folder) / "results.pt"
        began = time.perf_counter()
        gs.save_plan(plan, file)
        saved_s = time.perf_counter() - began
        found = _run_reader(file, results)
        there = torch.load(results, weights_only=True)
        nbytes = file.stat().st_size
    with gs.Program(plan) as program:
        here = {name: value.cpu() for name, value in program.run().items()}
    return {"file_nbytes": nbytes, "save_s": saved_s, "load_s": found["load_s"], **_difference(here, there)}


def _run_reader(file: Path, results: Path) -> dict[str, Any]:
    package = str(Path(gs.__file__).parents[1])
    command = [sys.executable, "-c", READER, str(file), str(results)]
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parent, env=environment)
    if done.returncode:
        raise ExecutionError(f"the saved plan did not run in a new process: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if found["foreign"]:
        raise ExecutionError(f"the new process imported {', '.join(found['foreign'])}: it must not need them")
    return found


def rescripted(scripted: Any, x: torch.Tensor) -> dict[str, float]:
    """The same of a TorchScript module, as the text saves it; loaded in this process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*torch\.jit\.(save|load).* is deprecated", DeprecationWarning)
        buffer = io.BytesIO()
        began = time.perf_counter()
        torch.jit.save(scripted, buffer)
        saved = time.perf_counter()
        nbytes = buffer.tell()
        buffer.seek(0)
        loaded: Any = torch.jit.load(buffer)  # type: ignore[no-untyped-call]
    seconds = {"file_nbytes": nbytes, "save_s": saved - began, "load_s": time.perf_counter() - saved}
    return seconds | _difference({"y": scripted(x).cpu()}, {"y": loaded(x).cpu()})


def _difference(here: dict[str, torch.Tensor], there: dict[str, torch.Tensor]) -> dict[str, float]:
    worst = max(float((value - there[name]).abs().max()) for name, value in here.items())
    return {"loaded_max_abs_difference": worst}
