"""`DistributedDataParallel` driven from one process: a process a device, NCCL on GPUs and Gloo on CPUs.

The processes stay, and wait for orders on pipes. So one call is one step of all of them; the pipes add some 20 µs to
it, which figures that the processes measure themselves do not have.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch.multiprocessing

from experiments.training.baselines import Setting
from experiments.training.ddp_rank import NO_MULTICAST, Job, Order, rank_process
from graphsched.cases.loading import import_paths
from graphsched.errors import ExecutionError, StuckError

START_S = 300.0  # PyTorch is loaded and connections are made
ANSWER_S = 300.0  # the first step may be compiled
END_S = 10.0


class Ranks:
    """A group of processes that train one network; see `experiments.training.baselines.Stepping`.

    Args:
        setting: What they train, a process for each device, which has its part of the batch in pinned memory.
        compiled: Whether by torch.compile.

    Raises:
        ExecutionError: A process failed; all are ended.
        StuckError: One did not answer in time; all are ended.
    """

    def __init__(self, setting: Setting, compiled: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory()
        job = Job(setting, compiled, str(Path(self._folder.name) / "meeting"))
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._end = weakref.finalize(self, _end, self._processes, self._pipes, self._folder)
        with _children_can_import(), _environment(NO_MULTICAST):
            for rank in range(len(setting.devices)):
                self._start(rank, job)
        self._answers(START_S)

    def _start(self, rank: int, job: Job) -> None:
        context: Any = torch.multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=rank_process, args=(rank, job, theirs), name=f"rank {rank}", daemon=True)
        process.start()
        theirs.close()  # so that the pipe ends when the process does
        self._processes.append(process)
        self._pipes.append(ours)

    def step(self) -> None:
        """One step of all processes, waited for."""
        self._ask(("step", 1))

    def many_s(self, steps: int) -> float:
        """Seconds of so many steps in a row, as rank 0 measures it."""
        return self._ask(("time", steps))

    def close(self) -> None:
        """End the processes."""
        self._end()

    def _ask(self, order: Order) -> float:
        if not self._end.alive:
            raise ExecutionError("the processes of DistributedDataParallel have been ended: start others")
        with contextlib.suppress(OSError):  # of a process that has ended, which its answer tells
            for pipe in self._pipes:
                pipe.send(order)
        return self._answers(ANSWER_S)[0]

    def _answers(self, timeout_s: float) -> list[float]:
        """What all processes answer, by rank; if one fails or is late, all are ended."""
        answers: dict[int, float] = {}
        deadline = time.monotonic() + timeout_s
        try:
            while missing := [rank for rank in range(len(self._pipes)) if rank not in answers]:
                here = wait([self._pipes[rank] for rank in missing], max(deadline - time.monotonic(), 0.0))
                if not here:
                    raise StuckError(f"{self._called(missing[0])}: no answer within {timeout_s:g} s")
                answers |= {rank: self._answer(rank) for rank in missing if self._pipes[rank] in here}
        except BaseException:
            for process in self._processes:
                process.kill()
            self._end()
            raise
        return [answers[rank] for rank in sorted(answers)]

    def _answer(self, rank: int) -> float:
        try:
            answer = self._pipes[rank].recv()
        except (EOFError, OSError) as error:
            self._processes[rank].join(END_S)
            code = self._processes[rank].exitcode
            raise ExecutionError(f"{self._called(rank)}: ended with exit code {code}") from error
        if isinstance(answer, str):
            raise ExecutionError(f"{self._called(rank)}: {answer}")
        return float(answer)

    def _called(self, rank: int) -> str:
        return f"DistributedDataParallel, rank {rank} of {len(self._pipes)}"


def _end(processes: Sequence[Any], pipes: Sequence[Connection], folder: tempfile.TemporaryDirectory[str]) -> None:
    """Tell all processes to end, and end those that do not."""
    for pipe in pipes:
        with contextlib.suppress(OSError):
            pipe.send(None)
    deadline = time.monotonic() + END_S
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0.0))
        if process.is_alive():
            process.kill()
            process.join()
    for pipe in pipes:
        pipe.close()
    folder.cleanup()


@contextlib.contextmanager
def _children_can_import() -> Iterator[None]:
    """Let processes that are started meanwhile find the checkout, as this one did."""
    with import_paths(Path(__file__).resolve()):
        yield


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Variables for processes that are started meanwhile, which read some of them when they load PyTorch."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
