"""Training steps as graphs over several devices: the cases, and the figures of many steps in a row."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

import graphsched as gs
from experiments.training.baselines import Setting, dataset, median_s
from graphsched.errors import ExperimentError
from graphsched.executors.collector import no_collector
from graphsched.partition import data_parallel, split
from graphsched.schedulers import one_lane

Batch = dict[str, Tensor]
"""Tensors of a batch by names of inputs."""


def training_step(setting: Setting, reduce: str, bucket_kib: int) -> gs.Workload:
    """A step of gradient descent over all devices, on images and labels that lie on the host.

    Args:
        setting: What is trained.
        reduce: How gradients are summed, see `data_parallel`.
        bucket_kib: Most KiB of gradients that are summed together.
    """
    net, (x, y) = setting.network(), setting.batch()
    optimizer = torch.optim.SGD(net.parameters(), lr=setting.lr)
    work = gs.trace(net, x, target=y, loss=functional.cross_entropy, optimizer=optimizer)
    return data_parallel(work, setting.devices, reduce=reduce, bucket_bytes=1024 * bucket_kib)


def counting(setting: Setting) -> gs.Workload:
    """How many images of a batch get the highest score for their label: a number from each device, of its part."""
    net, (x, y) = setting.network().eval(), setting.batch()

    def correct(images: Tensor, target: Tensor) -> Tensor:
        return (net(images).argmax(1) == target).sum()

    return data_parallel(gs.trace(correct, x, y, module=net, name="correct"), setting.devices)


@dataclass(frozen=True, eq=False)
class StepCase(gs.Case):
    """A case with figures that depend on the mode in which it is run.

    Attributes:
        figures: Of the mode.
    """

    _: KW_ONLY
    figures: Callable[[str], Mapping[str, float]] = lambda _: {}

    def in_mode(self, mode: str) -> gs.Case:
        """This case in `mode`, with the figures of that mode."""
        made = super().in_mode(mode)
        assert made.mode is not None
        return replace(made, metrics=functools.partial(self.figures, made.mode))


@dataclass(frozen=True)
class StepFigures:
    """Figures of a workload's steps in a row, measured and predicted, by mode.

    Attributes:
        setting: Where, on which batch, and how many.
        work, scheduler: What is run, and how.
    """

    setting: Setting
    work: gs.Workload
    scheduler: str

    def __call__(self, mode: str) -> dict[str, float]:
        """``step_s``, measured and predicted: what a step takes among many, (T(n) - T(1)) / (n - 1).

        ``step_with_loading_s``: the same where the thread puts a new batch in place for each step, while the step
        before is under way; ``images_per_s`` rests on it.
        """
        from graphsched.calibration import PaceMeter

        plan, here = self.plan(mode), self.setting.platform
        batch = given(self.work, *self.setting.batch(), len(self.setting.devices))
        with (
            contextlib.closing(PaceMeter(here, plan, gs.predict(plan).makespan_s)) as meter,
            no_collector(),
            gs.Program(plan) as program,
        ):
            measured_s = self._step_s(lambda n: program.time_steps(n, {}), meter.take)
            loading_s = self._step_s(functools.partial(loaded_s, program, batch), meter.take)
            pace = replace(meter.pace, launches=(), launch_colds=())  # what the record of a step keeps
        now = replace(plan, platform=here.at(pace))
        predicted_s = self._per_step(lambda n: gs.predict(now, steps=n).makespan_s)
        return {
            "step_s": measured_s,
            "step_call_s": pace.call_s,
            "step_predicted_s": predicted_s,
            "step_error": predicted_s / measured_s - 1,
            "step_with_loading_s": loading_s,
            "images_per_s": self.setting.images / loading_s,
        }

    def plan(self, mode: str) -> gs.Plan:
        """The plan in `mode`, with costs measured where they are not kept."""
        here, crowded = self.setting.platform, not one_lane(self.scheduler)
        costs = here.costs.merged(gs.profile(self.work, here, mode=mode, concurrency=crowded))
        plan = gs.schedule(self.work, here, costs, scheduler=self.scheduler, mode=mode)
        return replace(plan, costs=plan.costs.merged(gs.profile(plan, here, concurrency=crowded)))

    def _step_s(self, run: Callable[[int], float], between: Callable[[], object]) -> float:
        return self._per_step(lambda n: median_s(lambda: _after_others(run, between, n)))

    def _per_step(self, seconds: Callable[[int], float]) -> float:
        return (seconds(self.setting.steps) - seconds(1)) / (self.setting.steps - 1)


def given(work: gs.Workload, images: Tensor, labels: Tensor, count: int) -> Batch:
    """A whole batch as the inputs of `work`, which is split over `count` devices."""
    names = dict.fromkeys(v.name.partition("/")[2] for v in work.values.values() if v.kind == "input")
    return split({name: labels if name == "target" else images for name in names}, count)


def loaded_s(program: gs.Program, batch: Batch, steps: int) -> float:
    """Seconds of so many steps submitted one after another, each with its batch given anew."""
    program.wait()
    began = time.perf_counter()
    for _ in range(steps):
        program.submit(**batch)
    program.wait()
    return time.perf_counter() - began


def _after_others(run: Callable[[int], float], between: Callable[[], object], steps: int) -> float:
    """A run after something else and a run that does not count."""
    between()
    run(steps)
    return run(steps)


More = Callable[[str, StepFigures, str], Mapping[str, float]]
"""Further figures of a case, from its label, its steps and the mode."""


OnRanks = Callable[[str, StepFigures, gs.Plan], Mapping[str, float]]
"""Figures that all ranks of a distributed run take together, from a case's label, its steps and the plan."""


def step_case(
    name: str,
    setting: Setting,
    reduce: str,
    bucket_kib: int,
    scheduler: str,
    more: More,
    on_ranks: OnRanks | None = None,
) -> gs.Case:
    """The case of `training_step`; its label says how gradients are summed, if there is more than one device."""
    work = training_step(setting, reduce, bucket_kib)
    name = f"{name}, {reduce}" if len(setting.devices) > 1 else name
    return graph_case(name, setting, work, scheduler, more, on_ranks)


def graph_case(
    name: str,
    setting: Setting,
    work: gs.Workload,
    scheduler: str,
    more: More = lambda *_: {},
    on_ranks: OnRanks | None = None,
) -> gs.Case:
    """The case of a workload that is split over the devices, with the figures of many steps in a row."""
    label, steps = f"{name}, {setting.where}", StepFigures(setting, work, scheduler)
    return StepCase(
        label,
        work,
        scheduler=scheduler,
        on_ranks=None if on_ranks is None else functools.partial(on_ranks, label, steps),
        figures=lambda mode: {**steps(mode), **more(label, steps, mode)},
    )


def check_split(setting: Setting, epochs: int) -> None:
    """Make sure that a batch can be split and trained on.

    Raises:
        ExperimentError: It cannot; the parameter is named with its value.
    """
    if setting.images < len(setting.devices):
        raise ExperimentError(
            f"a batch of {setting.images} cannot be split over {len(setting.devices)} devices: each needs an image"
        )
    if setting.steps < 2:
        raise ExperimentError(f"parameter 'steps' is {setting.steps}: 2 or more in a row are needed")
    if epochs < 0:
        raise ExperimentError(f"parameter 'epochs' is {epochs}: 0 or more are needed")
    there = len(dataset(setting.folder).train_labels)
    if epochs and setting.images > there:
        raise ExperimentError(f"a batch of {setting.images} is more than the {there} images there are to learn from")
