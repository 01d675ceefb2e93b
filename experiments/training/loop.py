"""Training runs: epochs of steps with figures as they go, stopped and continued to the bit.

Not modelled: learning rates that change from step to step (trace again); a last batch of fewer images, which is left
out of each epoch; random numbers that tasks on several CPU lanes draw, whose order is not fixed.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from experiments.training.bar import Show, training_bar
from experiments.training.checkpoints import (
    Checkpoint,
    CheckpointFile,
    checksum,
    fingerprint,
)
from experiments.training.diverging import Diverging, not_finite
from experiments.training.interrupts import stopping
from experiments.training.results import reading
from experiments.training.same_run import check_left, check_same
from graphsched.errors import ExperimentError, FileFormatError
from models.data import Dataset, batches

Inputs = Callable[[Tensor, Tensor], Mapping[str, Tensor]]
Evaluate = Callable[[Mapping[str, Tensor]], float]


class Handle(Protocol):
    """What a step will have returned."""

    def result(self) -> Mapping[str, Tensor]: ...


class Step(Protocol):
    """A training step that keeps its states: a `gs.Program`, or `PlainStep`."""

    def submit(self, **inputs: Any) -> Handle: ...
    def state(self) -> dict[str, Any]: ...
    def reset(self, states: dict[str, Any]) -> None: ...


class Keeping(Protocol):
    """Where a run is kept, by one process or by all ranks together: a `CheckpointFile`, or `RankFile`."""

    path: Path
    ranks: int

    def read(self) -> Checkpoint | None: ...
    def write(self, checkpoint: Checkpoint) -> None: ...
    def random_states(self) -> list[list[Tensor]]: ...
    def set_random_states(self, states: list[list[Tensor]]) -> None: ...
    def agreed(self, stop: bool) -> bool: ...


@dataclass(eq=False)
class Course:
    """How far a run has come, and its figures.

    Attributes:
        epoch, step: Epochs that are over, and steps of the next one that are, from 0.
        history: Of each epoch that is over: ``loss`` and ``accuracy`` over its training, ``test_accuracy`` after it,
            ``seconds`` without the test, ``images``.
        running: Sums over the steps of the epoch that is not.
        before: Epochs of which some steps were not of this run, which went on from a checkpoint.
    """

    epoch: int = 0
    step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    running: dict[str, float] = field(default_factory=dict)
    before: int = 0

    def curves(self) -> dict[str, list[float]]:
        """Each figure over the epochs, as `plot_training` draws it; NaN where an epoch has none.

        Example:
            >>> Course(history=[{"loss": 2.0}, {"loss": 1.0, "test_accuracy": 0.5}]).curves()
            {'loss': [2.0, 1.0], 'test_accuracy': [nan, 0.5]}
        """
        names = dict.fromkeys(name for epoch in self.history for name in epoch)
        return {name: [epoch.get(name, math.nan) for epoch in self.history] for name in names}

    @property
    def timed(self) -> list[dict[str, float]]:
        """The epochs of `history` all steps of which are of this run."""
        return self.history[self.before :]

    @property
    def images_per_s(self) -> float | None:
        """Over those, tests left out; None: there are none."""
        seconds = sum(epoch["seconds"] for epoch in self.timed)
        return sum(epoch["images"] for epoch in self.timed) / seconds if seconds else None

    def add(self, loss: float, correct: int, images: int) -> None:
        """Count a step."""
        for name, value in (("loss", loss * images), ("correct", correct), ("images", images)):
            self.running[name] = self.running.get(name, 0.0) + value
        self.step += 1

    def means(self) -> dict[str, float]:
        """Loss, accuracy and time of the epoch that is not over."""
        images = self.running["images"]
        loss, accuracy = self.running["loss"] / images, self.running["correct"] / images
        return {"loss": loss, "accuracy": accuracy, "images": images, "seconds": self.running["seconds"]}

    def end_epoch(self, **more: float) -> None:
        """Begin the next epoch; `more` goes into the history of this one."""
        self.history.append(self.means() | more)
        self.epoch, self.step, self.running = self.epoch + 1, 0, {}


def train(
    step: Step,
    dataset: Dataset,
    *,
    epochs: int,
    batch: int,
    seed: int,
    rate: float | None = None,
    inputs: Inputs = lambda images, labels: {"input": images, "target": labels},
    evaluate: Evaluate | None = None,
    checkpoint: str | Path | Keeping | None = None,
    every: int | None = None,
    title: str = "training",
    quiet: bool = False,
) -> Course:
    """Train `epochs` epochs; each step is submitted before the figures of the one before are read.

    With a `checkpoint` the run is written there after each epoch, after `every` steps of one, and when it is
    interrupted: after the step that is under way, which is told on stderr. If the file is there the run goes on from
    it, to the bit as if it had not been stopped.

    Args:
        step: Its results are ``loss`` and ``output``, or those of parts of the batch (``0/loss``, ``0/output``).
        dataset: Images are learned from in an order that `seed` and the epoch tell.
        epochs: In all, with those of the checkpoint.
        batch: Images a step, all shards together.
        seed: From 0 on.
        rate: The learning rate, kept with the run: one that is over is no result of a run at another rate.
        inputs: From images and labels to the step's inputs by name.
        evaluate: From states to the accuracy on test images; called after each epoch.
        checkpoint: A file; on the ranks of a distributed run a `RankFile`.
        every: Steps between two checkpoints of an epoch; None: one at its end.
        title: Before the progress bar, and in errors.
        quiet: No progress bar, and no word on where an interrupted run is kept; there is no bar either where stderr is
            no terminal.

    Raises:
        ExperimentError: The loss is not finite: epoch and step are named. A number is wrong, or the checkpoint is of
            another network, batch, seed, images (to test by, too) or number of processes, has come further than
            `epochs`, or to its end at another rate. States are not finite: they are not kept.
        FileFormatError: The checkpoint is damaged, or has random numbers of another torch.
        KeyboardInterrupt: It was interrupted.
    """
    for name, value in (("epochs", epochs), ("every", every)):
        if value is not None and value < 1:
            raise ExperimentError(f"{name} is {value}: a number above 0 is needed")
    batches(dataset.train_images, dataset.train_labels, batch, seed=seed, drop_last=True)  # checked before anything
    kept = CheckpointFile(checkpoint) if isinstance(checkpoint, (str, Path)) else checkpoint
    run = _run_of(dataset, batch, seed, tested=evaluate is not None) if kept is not None else {}
    course = _continued(step, kept, run, epochs, rate) if kept is not None else Course()
    per_epoch = len(dataset.train_images) // batch
    known = not_finite(step.state()) if kept is not None or evaluate is not None else frozenset()
    with (
        _told(title, None if quiet else kept),
        stopping(kept is not None) as interrupted,
        training_bar(title, epochs, per_epoch, quiet=quiet) as show,
    ):
        asked = interrupted if kept is None else lambda: kept.agreed(interrupted())
        while course.epoch < epochs and not asked():
            given = batches(
                dataset.train_images, dataset.train_labels, batch, seed=seed, epoch=course.epoch, drop_last=True
            )
            part = islice(given, course.step, None if every is None else course.step + every)
            diverging = Diverging(title, per_epoch, kept and kept.path, course.epoch, course.step, known)
            _steps(step, part, course, inputs, diverging, show, asked)
            is_over = course.step >= per_epoch
            needed = kept is not None or (is_over and evaluate is not None)
            states = step.state() if needed else {}  # waits for what was submitted
            diverging.check(states, course.epoch + 1, course.step)
            if is_over:
                course.end_epoch(**({} if evaluate is None else {"test_accuracy": evaluate(states)}))
            if kept is not None:
                kept.write(_as_checkpoint(states, course, kept, run, rate))
    return course


@contextlib.contextmanager
def _told(title: str, kept: Keeping | None) -> Iterator[None]:
    """Say where a run is `kept`, if it is, when the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        if kept is not None and kept.path.exists():
            print(f"{title}: kept in {kept.path}: the same command goes on from there", file=sys.stderr, flush=True)
        raise


def _steps(
    step: Step,
    given: Iterator[tuple[Tensor, Tensor]],
    course: Course,
    inputs: Inputs,
    diverging: Diverging,
    show: Show,
    asked: Callable[[], bool],
) -> None:
    """The steps that are left of an epoch, or those until a stop is asked for."""
    pending: tuple[Handle, Tensor] | None = None
    before_s, began = course.running.get("seconds", 0.0), time.perf_counter()

    def read(handle: Handle, labels: Tensor) -> None:
        loss, output = reading(handle.result())
        if not math.isfinite(loss):
            raise diverging.error(f"the loss is {loss}", course.epoch + 1, course.step + 1)
        course.add(loss, int((output.argmax(1).cpu() == labels).sum()), len(labels))
        course.running["seconds"] = before_s + time.perf_counter() - began
        show(course.epoch, course.step, course.means())

    for images, labels in given:
        handle = step.submit(**inputs(images, labels))
        if pending is not None:
            read(*pending)
        pending = handle, labels
        if asked():
            break
    if pending is not None:
        read(*pending)


def _run_of(dataset: Dataset, batch: int, seed: int, *, tested: bool) -> dict[str, int]:
    """What a checkpoint has to be of, see `check_same`."""
    images, labels = dataset.train_images, dataset.train_labels
    run = {"batch": batch, "seed": seed, "images": len(images), "content": checksum(images, labels)}
    return run | {"tests": checksum(dataset.test_images, dataset.test_labels) if tested else 0}


def _continued(step: Step, kept: Keeping, run: dict[str, int], epochs: int, rate: float | None) -> Course:
    """Where the run that is `kept` was stopped, with the states of `step` and random numbers as they were then.

    What it was tested by stays in `run`, if it is not tested from now on.
    """
    found = kept.read()
    if found is None:
        return Course()
    check_same(found, kept.path, step.state(), ranks=kept.ranks, **run)
    check_left(found, kept.path, epochs, rate)
    run["tests"] = run["tests"] or found.tests
    try:
        kept.set_random_states(found.random)
    except FileFormatError as error:
        raise FileFormatError(f"{kept.path} is no checkpoint to go on from: {error}") from error
    step.reset(found.states)
    return Course(found.epoch, found.step, found.history, found.running, found.epoch + bool(found.step))


def _as_checkpoint(
    states: dict[str, Tensor], course: Course, kept: Keeping, run: dict[str, int], rate: float | None
) -> Checkpoint:
    return Checkpoint(
        states=states,
        epoch=course.epoch,
        step=course.step,
        rate=None if rate is None else float(rate),
        random=kept.random_states(),
        history=course.history,
        running=course.running,
        network=fingerprint(states),
        **run,
    )
