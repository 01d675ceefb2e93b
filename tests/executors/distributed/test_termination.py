"""SIGTERM under torchrun, which sends it to all ranks once one has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.executors.distributed import jobs
from tests.executors.distributed.ranks import on_ranks

ROOT = Path(__file__).parents[3]
TORCHRUN_KILLS_S = 30.0  # after it has told ranks to end


@pytest.mark.slow
@pytest.mark.parametrize("where", ["run", "rest"])
def test_ranks_of_a_script_say_which_one_was_killed_in_a_run(where: str) -> None:
    """Of three the last is killed. At rest, in work of the script's own, SIGTERM ends the others as ever."""
    start = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3")
    script = ("-m", "tests.executors.distributed.killed_script", where)
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run((sys.executable, *start, *script), capture_output=True, text=True, env=env, timeout=150.0)
    assert ended.returncode == 1
    for line in ended.stdout.splitlines():
        if line.startswith("killed: "):
            assert time.time() - float(line.split()[1]) < TORCHRUN_KILLS_S
    said = sorted(line for line in ended.stdout.splitlines() if line.startswith("said: "))
    assert [line.split(": ")[1] for line in said] == (["rank 0", "rank 1"] if where == "run" else []), ended.stderr
    assert all("rank 2 is gone" in line for line in said)
    assert where == "run" or "traceback : Signal 9" in ended.stderr


@pytest.mark.slow
def test_the_end_of_a_forked_process_is_not_taken_for_that_of_its_rank() -> None:
    """As of a worker that loads data; it inherits what wakes its parent."""
    (only,) = on_ranks(jobs.told_to_end_beside_a_child, 1)
    assert only.result == (signal.SIGTERM, 0, 1), only
