"""The two-layer perceptron of d2l.ai fig. 12.3.1: its step in plain PyTorch and as a graph, and trainings with both."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graphsched as gs
from experiments._shared import SEED, threads_of, torch_device
from experiments.training.central_parameters import central_parameters
from experiments.training.checkpoints import file_for
from experiments.training.evaluating import Evaluation
from experiments.training.loop import Course, Evaluate, Inputs, Keeping, Step, train
from experiments.training.on_ranks import RankFile, RankStep
from experiments.training.results import PlainStep
from graphsched.executors.distributed import RankProgram
from graphsched.partition.batches import split
from models.data import Dataset, batches, load
from models.mlp import two_layer_mlp

TEST_S = 600.0  # for what rank 0 does alone


@dataclass(eq=False)
class Perceptron:
    """What all cases of one run share, and how their trainings went.

    Attributes:
        platform: Where.
        hidden: Units of the first layer.
        batch, lr, epochs: Images a step on all devices together, learning rate, epochs of a training.
        data: A folder with the full set; None: the part that comes with the project.
        checkpoints: A folder to keep trainings in, and to go on from; None: they are not kept.
        every: Steps between two times that a training is kept within an epoch; None: none.
        courses: Trainings that are over, by label.
    """

    platform: gs.Platform
    hidden: int
    batch: int
    lr: float
    epochs: int
    data: str | None = None
    checkpoints: str | None = None
    every: int | None = None
    courses: dict[str, Course] = field(default_factory=dict)

    @functools.cached_property
    def dataset(self) -> Dataset:
        return load(self.data)

    @functools.cached_property
    def first_batch(self) -> tuple[Tensor, Tensor]:
        """Images and labels of the first step."""
        images, labels = self.dataset.train_images, self.dataset.train_labels
        return next(batches(images, labels, self.batch, seed=SEED, drop_last=True))

    def network(self) -> nn.Sequential:
        """The network before the first step, the same each time; random numbers of others stay as they are."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            return two_layer_mlp(hidden=self.hidden)

    def plain(self, device: str) -> PlainStep:
        """The step in plain PyTorch on one device."""
        where = torch_device(device)
        net = self.network().to(where)
        sgd = torch.optim.SGD(net.parameters(), lr=self.lr)
        return PlainStep(net, F.cross_entropy, sgd, where, functools.partial(threads_of, self.platform, device))

    def workload(self, devices: Sequence[str], grain: str) -> gs.Workload:
        """The step as a graph over the CPU and `devices`."""
        net = self.network()
        sgd = torch.optim.SGD(net.parameters(), lr=self.lr)
        images, labels = self.first_batch
        work = gs.trace(net, images, target=labels, loss=F.cross_entropy, optimizer=sgd, grain=grain)
        return central_parameters(work, devices)

    def figures(self, label: str, plan: gs.Plan, devices: Sequence[str]) -> dict[str, float]:
        """Figures of a training by `plan`, and how far its first step is from plain PyTorch."""
        with gs.Program(plan) as program, self._test(devices[0]) as evaluate:
            program.run()
            worst = self._difference(program.state(), devices[0])
            program.reset()
            found = self._trained(label, program, self._parts(devices), evaluate, self._file(label))
        return {"max_abs_difference": worst} | found

    def rank_figures(self, label: str, plan: gs.Plan, *, devices: Sequence[str]) -> dict[str, float]:
        """As `figures`, by all ranks of a distributed run, each of which calls this with the same `plan`.

        Test accuracy is counted, and plain PyTorch's step made, on rank 0.
        """
        label = f"{label}, distributed"
        with RankProgram(plan) as program, contextlib.ExitStack() as kept:
            first, share = program.world.rank == 0, program.world.share
            test = kept.enter_context(self._test(devices[0])) if first else None
            step = RankStep(program)
            program.run()
            after = step.state()
            worst = share(self._difference(after, devices[0]) if first else 0.0, TEST_S, "the plain step")
            program.reset()
            found = self._trained(
                label,
                step,
                self._parts(devices),
                lambda states: float(share(test(states) if test else 0.0, TEST_S, "the test accuracy")),
                RankFile(program, file) if (file := self._file(label)) else None,
                quiet=not first,
            )
        return {"max_abs_difference": worst} | found

    def plain_figures(self, label: str, device: str) -> dict[str, float]:
        """Figures of a training in plain PyTorch."""
        with self._test(device) as evaluate:
            step = self.plain(device)
            return self._trained(label, step, lambda x, y: {"input": x, "target": y}, evaluate, self._file(label))

    def _parts(self, devices: Sequence[str]) -> Inputs:
        return lambda images, labels: split({"input": images, "target": labels}, len(devices))

    def _test(self, device: str) -> Evaluation:
        images, labels = self.dataset.test_images, self.dataset.test_labels
        return Evaluation(self.network(), images, labels, self.platform, device)

    def _difference(self, after: Mapping[str, Tensor], device: str) -> float:
        """The largest difference of a parameter after the first step from plain PyTorch's on `device`."""
        images, labels = self.first_batch
        plain = self.plain(device)
        plain.submit(input=images, target=labels)
        return max(float((after[name].cpu() - t.cpu()).abs().max()) for name, t in plain.state().items())

    def _trained(
        self,
        label: str,
        step: Step,
        inputs: Inputs,
        evaluate: Evaluate,
        kept: Keeping | Path | None,
        *,
        quiet: bool = False,
    ) -> dict[str, float]:
        course = self.courses[label] = train(
            step,
            self.dataset,
            epochs=self.epochs,
            batch=self.batch,
            seed=SEED,
            rate=self.lr,
            inputs=inputs,
            evaluate=evaluate,
            checkpoint=kept,
            every=self.every,
            title=label,
            quiet=quiet,
        )
        last = course.history[-1]
        shown = {"loss": last["loss"], "train_accuracy": last["accuracy"], "test_accuracy": last["test_accuracy"]}
        images_per_s = course.images_per_s
        return shown | ({} if images_per_s is None else {"images_per_s": images_per_s})

    def _file(self, label: str) -> Path | None:
        """Where the training of this label is kept."""
        return file_for(self.checkpoints, "two_layer_mlp", label) if self.checkpoints else None
