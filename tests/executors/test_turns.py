"""A program in a process that was forked after it was made, whose threads are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, sys, torch
from graphsched.errors import ExecutionError
from graphsched.executors import Program
from graphsched.workload import Workload
from tests.executors.programs import WORKERS, by_hand

work = Workload()
work.task(torch.neg, work.input("x", torch.ones(1)), name="y")
with Program(by_hand(work, WORKERS, "cpu/w0"), timeout_s=100.0) as program:
    program.run()
    step = program.submit()
    child = os.fork()
    if child == 0:
        for call in (program.run, program.submit, program.state, program.reset, program.wait, step.result):
            try:
                call()
            except ExecutionError as error:
                print(error, flush=True)
    else:
        _, status = os.waitpid(child, 0)
        print(status, step.result()["y"].item(), program.run()["y"].item(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_is_refused_at_once_and_its_parent_goes_on() -> None:
    """x ──▶ y, a step under way; the child ends the with block without a word."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = (sys.executable, "-W", "ignore", "-c", SCRIPT)
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=90.0)
    *refused, last = ended.stdout.splitlines()
    assert last == "0 -1.0 -1.0", ended
    assert len(refused) == 6
    assert all(line.startswith("this program was made before the process was forked") for line in refused), refused
