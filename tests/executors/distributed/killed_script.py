"""A script as users write them, for torchrun: its last rank is killed in its task, or between two runs."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import torch

from graphsched.errors import RankError
from graphsched.executors import RankProgram
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import by_hand, machine


def kill(x: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def main(in_run: bool) -> None:
    """Every rank but the last says what it ends with, if it can."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    names = [f"worker:{k}" for k in range(size)]
    work = Workload()
    value = work.input("x", torch.ones(4), device="worker:0")
    for k in range(size):
        function = kill if in_run and k == size - 1 else torch.neg
        value = work.task(function, value, name=f"t{k}", outputs=[TensorSpec((4,))])
    work.keep(value)
    plan = by_hand(work, machine(*names), {f"t{k}": f"worker:{k}/s0" for k in range(size)})
    with RankProgram(plan, timeout_s=30.0) as program:
        try:
            program.run()
        except RankError as error:
            print(f"said: {error}", flush=True)
            sys.exit(1)
        if rank == size - 1:
            print(f"killed: {time.time()}", flush=True)
            kill(None)
        time.sleep(200)


if __name__ == "__main__":
    main(in_run=sys.argv[1] == "run")
