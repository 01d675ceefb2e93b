"""Trainings for some epochs, by graphs over several devices and by code of others, all from the same start.

Test accuracy of a graph is counted on all its devices; that of code of others on one, as the text does.

Not modelled: a last batch of fewer images, which no way learns from.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

import graphsched as gs
from experiments._shared import SEED, threads_of, torch_device
from experiments.training.baselines import Setting, dataset
from experiments.training.checkpoints import file_for
from experiments.training.loop import Course, Evaluate, Inputs, Keeping, Step, train
from experiments.training.on_ranks import RankFile, RankStep
from experiments.training.replicas import StepFigures, counting, given
from graphsched.charts import plot_training
from graphsched.executors.distributed import RankProgram

NO_CLASS = -1
TEST_S = 600.0  # for a test on rank 0


@dataclass
class Courses:
    """What trainings of one run of an experiment have come to, by label.

    Attributes:
        experiment: Name of the experiment, of which files are named.
        epochs: Of each; with none nothing is trained.
        folder: Where trainings are kept after each epoch, to go on from there; None: they are not.
        every: Steps between two times that one is kept within an epoch; None: none.
        found: Their courses.
    """

    experiment: str
    epochs: int = 0
    folder: Path | None = None
    every: int | None = None
    found: dict[str, Course] = field(default_factory=dict)

    def by_graph(self, label: str, steps: StepFigures, mode: str) -> dict[str, float]:
        """Train by the plan of `steps` in `mode`; figures of the end, none without epochs."""
        if not self.epochs:
            return {}
        setting, count = steps.setting, len(steps.setting.devices)
        test = StepFigures(setting, counting(setting), steps.scheduler)
        with gs.Program(steps.plan(mode)) as program, gs.Program(test.plan(mode)) as counts:
            return self._train(
                f"{label}, {mode}",
                setting,
                program,
                lambda images, labels: given(steps.work, images, labels, count),
                lambda states: counted_accuracy(counts, setting, states),
                self._file(f"{label}, {mode}"),
            )

    def by_ranks(self, label: str, steps: StepFigures, plan: gs.Plan) -> dict[str, float]:
        """Train by all ranks of a distributed run, each of which calls this with the same `plan`.

        Test accuracy is that of plain PyTorch on rank 0.
        """
        if not self.epochs:
            return {}
        setting, count = steps.setting, len(steps.setting.devices)
        label = f"{label}, distributed"
        with RankProgram(plan) as program:
            world = program.world

            def accuracy(states: Mapping[str, Tensor]) -> float:
                first = {name.removeprefix("0/"): tensor for name, tensor in states.items() if name.startswith("0/")}
                found = plain_accuracy(setting, first) if world.rank == 0 else 0.0
                return float(world.share(found, TEST_S, "the test accuracy"))

            return self._train(
                label,
                setting,
                RankStep(program),
                lambda images, labels: given(steps.work, images, labels, count),
                accuracy,
                RankFile(program, file) if (file := self._file(label)) else None,
                quiet=world.rank > 0,
            )

    def by_others(self, label: str, setting: Setting, start: Callable[[], Step]) -> dict[str, float]:
        """Train by code of others; figures of the end, none without epochs."""
        if not self.epochs:
            return {}
        return self._train(
            label,
            setting,
            start(),
            lambda images, labels: {"input": images, "target": labels},
            lambda states: plain_accuracy(setting, states),
            self._file(label),
        )

    def _file(self, label: str) -> Path | None:
        return file_for(self.folder, self.experiment, label) if self.folder else None

    def _train(
        self,
        label: str,
        setting: Setting,
        step: Step,
        inputs: Inputs,
        evaluate: Evaluate,
        kept: Keeping | Path | None,
        *,
        quiet: bool = False,
    ) -> dict[str, float]:
        with threads_of(setting.platform, setting.devices[0]):
            course = train(
                step,
                dataset(setting.folder),
                epochs=self.epochs,
                batch=setting.images,
                seed=SEED,
                rate=setting.lr,
                inputs=inputs,
                evaluate=evaluate,
                checkpoint=kept,
                every=self.every,
                title=label,
                quiet=quiet,
            )
        self.found[label] = course
        last, seconds = course.history[-1], [epoch["seconds"] for epoch in course.timed]
        found = {name: last[name] for name in ("loss", "accuracy", "test_accuracy")}
        return found | ({"epoch_s": statistics.median(seconds)} if seconds else {})

    def draw(self, path: Path, title: str) -> tuple[Path, ...]:
        """Write loss and accuracy by epoch of all trainings to `path`; nothing if there are none."""
        if not self.found:
            return ()
        plot_training({label: course.curves() for label, course in self.found.items()}, path, title=title)
        return (path,)


def counted_accuracy(program: gs.Program, setting: Setting, states: Mapping[str, Tensor]) -> float:
    """Share of right answers on all test images, counted by `program`, which is one of `counting`.

    A last batch of fewer images is filled up with images that no answer is right for.
    """
    data, work = dataset(setting.folder), program.plan.work
    ours = setting.network().state_dict()
    program.reset({k: states[k] for k in program.state() if k.partition("/")[2] in ours})
    handles = []
    for start in range(0, len(data.test_labels), setting.images):
        images, labels = (whole[start : start + setting.images] for whole in (data.test_images, data.test_labels))
        missing = setting.images - len(labels)
        images = functional.pad(images, (0, 0) * (images.dim() - 1) + (0, missing))
        labels = functional.pad(labels, (0, missing), value=NO_CLASS)
        handles.append(program.submit(**given(work, images, labels, len(setting.devices))))
    right = sum(int(count) for handle in handles for count in handle.result().values())
    return right / len(data.test_labels)


def plain_accuracy(setting: Setting, states: Mapping[str, Tensor]) -> float:
    """Share of right answers on all test images, by the network in plain PyTorch on the first device.

    Args:
        setting: Of the network, the images and the device.
        states: Named as in the network's ``state_dict``, or so with ``module.`` before.
    """
    data, device = dataset(setting.folder), torch_device(setting.devices[0])
    net = setting.network().eval().to(device)
    ours = net.state_dict()
    bare = {name.removeprefix("module."): tensor for name, tensor in states.items()}
    net.load_state_dict({name: bare[name] for name in ours})
    right = 0
    with torch.no_grad():
        for images, labels in zip(
            data.test_images.split(setting.images), data.test_labels.split(setting.images), strict=True
        ):
            right += int((net(images.to(device)).argmax(1).cpu() == labels).sum())
    return right / len(data.test_labels)
