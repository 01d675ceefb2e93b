"""Row 6: LeNet trained data-parallel, by the text's own code, by PyTorch's, and as one graph over all devices."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import graphsched as gs
from experiments._shared import check_known, check_sizes
from experiments.training.baselines import Setting, baseline_case
from experiments.training.checkpoints import check_keeping
from experiments.training.ddp import Ranks
from experiments.training.in_process import Counting, FromScratch, Here
from experiments.training.learning import Courses
from experiments.training.replicas import check_split, counting, graph_case, step_case
from graphsched.partition.reducing import METHODS
from models.lenet import LeNet

TEXT_EPOCH_S = {1: 2.7, 2: 3.6}
TEXT_BATCH, TEXT_LR, TEXT_IMAGES = 256, 0.2, 60_000
WAYS = ("text", "ddp", "graph")
SCALINGS = ("fixed", "batch")

_last: list[Courses] = []  # of the run that is drawn at its end


def draw(platform: gs.Platform, folder: Path) -> tuple[Path, ...]:
    """Write loss and accuracy by epoch of all ways since the cases were made; nothing if none was trained."""
    path = folder / f"{platform.name}-lenet-data-parallel-accuracy.png"
    return _last[-1].draw(path, f"{platform.name}: LeNet, data parallel") if _last else ()


@gs.experiment(source="d2l.ai 12.5", pictures=draw)
def lenet_data_parallel(
    platform: gs.Platform,
    devices: tuple[int, ...] = (1, 2, 4),
    batch: int = 256,
    lr: float = 0.2,
    scaling: str = "fixed",
    ways: tuple[str, ...] = WAYS,
    reduce: tuple[str, ...] = ("gather",),
    bucket_kib: int = 1024,
    scheduler: str = "one_stream",
    steps: int = 20,
    tests: bool = True,
    epochs: int = 0,
    rates: tuple[float, ...] = (),
    data: str = "",
    checkpoints: str = "",
    every: int = 0,
) -> Iterator[gs.Case]:
    """Train LeNet on one device and on several, with the batch split between them.

    A case is one training step: images and labels from the host to the devices, forward, backward, the sum of
    gradients, the update of all replicas. The text's code sums after the whole backward pass, parameter by parameter,
    on the first device; a graph sums as soon as gradients are there, on all devices (`reduce`), as many together as
    `bucket_kib` says (0: each alone). `batch` images are split over the devices; with ``scaling=batch`` each of them
    gets `batch`. DistributedDataParallel has a process a device, with its part of the batch in pinned memory.

    The figure ``step_s`` is of `steps` in a row, waited for at the end only; of a graph also as predicted, and
    with a new batch put in place for each step while the one before is under way (``step_with_loading_s``).
    `tests`: one batch of test accuracy, by the text on the first device, by a graph counted on all of them.

    With `epochs` every way but DistributedDataParallel is trained from the same parameters on the same images in the
    same order; accuracy and loss are figures, and drawn by epoch. With `rates` graphs are trained at each of these
    learning rates too. With the text's `batch` and `lr` LeNet learns nothing in 120 steps, 10 epochs of the 3,072
    images that come with the project: name a folder with the full set (`data`), or take small batches (with
    ``batch=16`` 76 % of the test images are right after 8 epochs). In a folder `checkpoints` trainings are kept after
    each epoch, and after `every` steps of one, and the same command goes on from there. In mode ``distributed`` graphs
    are trained by all ranks; where torchrun starts these again (``--max-restarts``), they go on too.

    Source: d2l.ai 12.5; on its machines an epoch of 235 steps took 2.7 s on one GPU and 3.6 s on two (2.5 and 3.4 s
    on others).
    """
    check_known("scaling", (scaling,), SCALINGS)
    check_known("way", ways, WAYS)
    check_known("way to sum gradients", reduce, METHODS)
    check_sizes(devices=devices, batch=batch, lr=lr, rates=rates, steps=steps)
    check_keeping(checkpoints, every)
    courses = Courses("lenet_data_parallel", epochs, Path(checkpoints) if checkpoints else None, every or None)
    _last[:] = [courses]
    for used in (platform.accelerators()[:count] for count in devices if count <= len(platform.accelerators())):
        images = batch * len(used) if scaling == "batch" else batch
        setting = Setting(LeNet, platform, used, images, lr, steps, data or None)
        check_split(setting, epochs)
        yield from _by_others(setting, ways, courses)
        if "graph" in ways:
            yield from _by_graphs(setting, reduce, rates, bucket_kib, scheduler, courses)
        if tests:
            yield from _tests(setting, ways, scheduler)


def _by_graphs(
    setting: Setting,
    reduce: Sequence[str],
    rates: Sequence[float],
    bucket_kib: int,
    scheduler: str,
    courses: Courses,
) -> Iterator[gs.Case]:
    """Steps as graphs at each learning rate, by each way to sum gradients; on one device there is nothing to sum."""
    for rate in dict.fromkeys((setting.lr, *rates)):
        name = f"one graph, lr {rate:g}" if rates else "one graph"
        for way in reduce if len(setting.devices) > 1 else reduce[:1]:
            at_rate = replace(setting, lr=rate)
            yield step_case(name, at_rate, way, bucket_kib, scheduler, courses.by_graph, courses.by_ranks)


def _by_others(setting: Setting, ways: Sequence[str], courses: Courses) -> Iterator[gs.Case]:
    if "text" in ways:
        name = "the text's train_batch"
        start = functools.partial(FromScratch, setting)
        yield baseline_case(
            name,
            setting,
            lambda: Here(start(), setting),
            _reported_s(setting),
            functools.partial(courses.by_others, f"{name}, {setting.where}", setting, start),
        )
    if "ddp" in ways:
        yield baseline_case("DistributedDataParallel", setting, functools.partial(Ranks, setting))


def _tests(setting: Setting, ways: Sequence[str], scheduler: str) -> Iterator[gs.Case]:
    """One batch of test accuracy."""
    if "text" in ways and len(setting.devices) == 1:
        yield gs.Case(f"accuracy, plain PyTorch, {setting.where}", baseline=Counting(setting))
    if "graph" in ways:
        yield graph_case("accuracy, one graph", setting, counting(setting), scheduler)


def _reported_s(setting: Setting) -> float | None:
    """Seconds a step that the text's epochs come to, where all else is as in the text."""
    epoch_s = TEXT_EPOCH_S.get(len(setting.devices))
    if epoch_s is None or (setting.images, setting.lr) != (TEXT_BATCH, TEXT_LR):
        return None
    return epoch_s / math.ceil(TEXT_IMAGES / TEXT_BATCH)
