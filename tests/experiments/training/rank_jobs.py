"""What the processes of `test_on_ranks` do; as a script, a training that torchrun starts and that kills itself once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graphsched as gs
from experiments.training.loop import Course, train
from experiments.training.on_ranks import RankFile, RankStep
from graphsched.errors import GraphschedError
from graphsched.executors.distributed import RankProgram
from graphsched.partition import data_parallel, split
from models.data import Dataset
from tests.executors.programs import machine

BATCH, SEED, SHARDS = 8, 3, 2


def images() -> Dataset:
    """Images of four numbers; their largest is the label, so that it can be learned."""
    pixels = torch.rand(55, 4, generator=torch.Generator().manual_seed(1))
    labels = pixels.argmax(1)
    return Dataset(pixels[:44], labels[:44], pixels[44:], labels[44:])


def plan(dropout: float = 0.0, hidden: int = 6, mode: str = "distributed") -> gs.Plan:
    """A step of a perceptron with momenta on two workers, half of the batch on each."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 4))
    sgd = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    data = images()
    x, y = data.train_images[:BATCH], data.train_labels[:BATCH]
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=sgd)
    devices = [f"worker:{k}" for k in range(SHARDS)]
    return gs.schedule(data_parallel(work, devices), machine(*devices), scheduler="one_stream", mode=mode)


def run(step: Any, kept: Any = None, every: int | None = None, epochs: int = 3) -> Course:
    """Three epochs of five steps."""
    return train(
        step,
        images(),
        epochs=epochs,
        batch=BATCH,
        seed=SEED,
        inputs=lambda x, y: split({"input": x, "target": y}, SHARDS),
        checkpoint=kept,
        every=every,
        quiet=True,
    )


class Dying:
    """A step that rank `who` does not survive when it is submitted for the `last` time."""

    def __init__(self, step: RankStep, rank: int, who: int, last: int) -> None:
        self.step, self.rank, self.who, self.left = step, rank, who, last

    def submit(self, **inputs: Any) -> Any:
        self.left -= 1
        if self.left == 0 and self.rank == self.who:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.step.submit(**inputs)

    def state(self) -> Any:
        return self.step.state()

    def reset(self, states: Any) -> None:
        self.step.reset(states)


def train_on_ranks(
    rank: int, file: str, dies: tuple[int, int] | None, dropout: float = 0.0, hidden: int = 6, seed: int = 11
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """States and figures of a run kept in `file` after every third step; `dies`: a rank, and in which step."""
    made = plan(dropout, hidden)
    torch.manual_seed(seed + rank)
    with RankProgram(made, timeout_s=20.0) as program:
        step: Any = RankStep(program)
        if dies is not None:
            step = Dying(step, rank, *dies)
        course = run(step, RankFile(program, file.format(rank=rank)), every=3)
        return {name: t.numpy() for name, t in step.state().items()}, figures(course)


def figures(course: Course) -> list[dict[str, float]]:
    """The history without times."""
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in course.history]


def interrupted_on_rank_0(rank: int, file: str) -> list[int]:
    """Rank 0 hears Ctrl-C in its second step, rank 1 does not; where the checkpoint is then."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with RankProgram(plan(), timeout_s=20.0) as program:
        step = RankStep(program)
        submit, count = step.submit, iter(range(100))

        def heard(**inputs: Tensor) -> Any:
            if next(count) == 1 and rank == 0:
                signal.raise_signal(signal.SIGINT)
            return submit(**inputs)

        step.submit = heard  # type: ignore[method-assign]
        kept = RankFile(program, file)
        try:
            run(step, kept)
        except KeyboardInterrupt:
            assert rank == 0
        found = kept.read()
        assert found is not None
        return [found.epoch, found.step]


def cannot_write(rank: int, file: str) -> str:
    """A folder is in the place of the checkpoint when it is to be written."""
    with RankProgram(plan(), timeout_s=20.0) as program:
        step = RankStep(program)
        submit = step.submit

        def after_the_folder(**inputs: Tensor) -> Any:
            Path(file).mkdir(exist_ok=True)
            return submit(**inputs)

        step.submit = after_the_folder  # type: ignore[method-assign]
        try:
            run(step, RankFile(program, file), epochs=1)
        except GraphschedError as error:
            return f"{type(error).__name__}: {error}"
    return ""


def main(file: str, result: str) -> None:
    """As `train_on_ranks`; before torchrun's first restart rank 1 kills itself in its eighth step."""
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    began = Path(file).exists()
    states, history = train_on_ranks(rank, file, (1, 8) if attempt == 0 else None)
    if rank == 0:
        tensors = {name: torch.from_numpy(array) for name, array in states.items()}
        torch.save({"states": tensors, "history": history, "attempt": attempt, "went on": began}, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
