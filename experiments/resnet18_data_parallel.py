"""Row 8: ResNet-18 trained data-parallel, by what PyTorch has for it, and as one graph over all devices."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

import graphsched as gs
from experiments._calls import missing_for_compile
from experiments._shared import check_known, check_sizes
from experiments.training.baselines import Setting, baseline_case
from experiments.training.checkpoints import check_keeping
from experiments.training.ddp import Ranks
from experiments.training.in_process import Here, whole_network
from experiments.training.inside import seconds_of, watched
from experiments.training.learning import Courses
from experiments.training.replicas import check_split, step_case
from graphsched.charts import plot_stages
from graphsched.charts.stages import Stage
from graphsched.errors import GraphschedWarning
from graphsched.partition.reducing import METHODS
from models.resnet import resnet18

TEXT_EPOCH_S = {1: 18.1, 2: 12.6, 4: 13.0}
TEXT_BATCH, TEXT_IMAGES = 256, 60_000
WAYS = ("parallel", "ddp", "compile", "graph")
MEMORY_FORMATS = ("contiguous", "channels_last")

_last: list[Courses] = []  # of the run that is drawn at its end
_inside: dict[str, list[Stage]] = {}  # by label; of that run too


def draw(platform: gs.Platform, folder: Path) -> tuple[Path, ...]:
    """Write loss and accuracy by epoch of all ways, and where steps of nn.DataParallel spend their time.

    Of what was trained and watched since the cases were made.
    """
    path = folder / f"{platform.name}-resnet18-data-parallel-accuracy.png"
    found = _last[-1].draw(path, f"{platform.name}: ResNet-18, data parallel") if _last else ()
    if not _inside:
        return found
    inside = folder / f"{platform.name}-resnet18-data-parallel-inside.png"
    plot_stages(_inside, inside, title=f"{platform.name}: where a step of ResNet-18 spends its time, under a profiler")
    return *found, inside


@gs.experiment(source="d2l.ai 12.6", pictures=draw)
def resnet18_data_parallel(
    platform: gs.Platform,
    devices: tuple[int, ...] = (1, 2, 4),
    batch: int = 256,
    lr: float = 0.1,
    ways: tuple[str, ...] = WAYS,
    reduce: tuple[str, ...] = ("sharded",),
    bucket_kib: int = 1024,
    memory_formats: tuple[str, ...] = MEMORY_FORMATS,
    scheduler: str = "one_stream",
    steps: int = 10,
    inside: bool = True,
    epochs: int = 0,
    data: str = "",
    checkpoints: str = "",
    every: int = 0,
) -> Iterator[gs.Case]:
    """Train ResNet-18 on one device and on several, each with a batch of its own.

    A case is one training step: images and labels from the host to the devices, forward, backward, the sum of
    gradients, the update of all replicas. On k devices a batch is k times `batch`, and the learning rate k times `lr`,
    as in the text. nn.DataParallel copies the parameters to all GPUs and gathers the scores on the first in every
    step; DistributedDataParallel has a process a device, with its part of the batch in pinned memory, and is also
    compiled (``compile``); a graph sums gradients as soon as they are there, on all devices (`reduce`), as many
    together as `bucket_kib` says (0: each alone), with weights in each of `memory_formats`. Each device normalises by
    its own part of the batch in all of them.

    The figure ``step_s`` is of `steps` in a row, waited for at the end only; of a graph also as predicted, and with
    a new batch put in place for each step while the one before is under way (``step_with_loading_s``). Perfect
    scaling: ``images_per_s`` on k devices is k times that on one.

    With `inside` one step of nn.DataParallel is also watched by torch's profiler, in a process of its own, once its
    case is timed: a picture shows what the thread does (parts of the batch and copies of the network for all GPUs,
    forward, scores to the first GPU, loss, backward, update, wait) and what each GPU does meanwhile; figures are
    ``watched_…``.

    With `epochs` nn.DataParallel and graphs are trained from the same parameters on the same images in the same order;
    accuracy and loss are figures, and drawn by epoch. The project comes with 3,072 images to learn from; `data` names a
    folder with the full set. In a folder `checkpoints` trainings are kept after each epoch, and after `every` steps of
    one, and the same command goes on from there. In mode ``distributed`` graphs are trained by all ranks; where
    torchrun starts these again (``--max-restarts``), they go on too.

    Where there is no GPU, nn.DataParallel is plain PyTorch on the CPU, and stands for one device only;
    torch.compile is left out, with a note, where what it needs is missing.

    Source: d2l.ai 12.6; on its machines an epoch took 18.1 s on one GPU (235 steps), 12.6 s on two (118 steps) and
    13.0 s on four (59 steps).
    """
    check_known("way", ways, WAYS)
    check_known("way to sum gradients", reduce, METHODS)
    check_known("memory format", memory_formats, MEMORY_FORMATS)
    check_sizes(devices=devices, batch=batch, lr=lr, steps=steps)
    check_keeping(checkpoints, every)
    here = platform.accelerators()
    courses = Courses("resnet18_data_parallel", epochs, Path(checkpoints) if checkpoints else None, every or None)
    _last[:] = [courses]
    _inside.clear()
    possible = _possible(ways, here)
    for used in (here[:count] for count in devices if count <= len(here)):
        count = len(used)
        setting = Setting(resnet18, platform, used, batch * count, lr * count, steps, data or None)
        check_split(setting, epochs)
        yield from _by_others(setting, possible, courses, inside, (batch, lr) == (TEXT_BATCH, 0.1))
        for memory_format, way in itertools.product(memory_formats, reduce if count > 1 else reduce[:1]):
            if "graph" in possible:
                name, make = MAKERS[memory_format]
                of_format = dataclasses.replace(setting, make=make)
                yield step_case(name, of_format, way, bucket_kib, scheduler, courses.by_graph, courses.by_ranks)


def channels_last_resnet18() -> nn.Module:
    """The same network, its weights in the order of memory for which cuDNN has the fastest kernels."""
    return resnet18().to(memory_format=torch.channels_last)


MAKERS = {
    "contiguous": ("one graph", resnet18),
    "channels_last": ("one graph, channels last", channels_last_resnet18),
}


def _possible(ways: Sequence[str], devices: Sequence[str]) -> list[str]:
    """Those of `ways` that can be taken here."""
    missing = missing_for_compile(devices[0]) if "compile" in ways else None
    if missing is None:
        return list(ways)
    warnings.warn(f"torch.compile is left out: it needs {missing}, which is not here", GraphschedWarning, stacklevel=2)
    return [way for way in ways if way != "compile"]


def _by_others(
    setting: Setting, ways: Sequence[str], courses: Courses, inside: bool, as_in_the_text: bool
) -> Iterator[gs.Case]:
    on_gpus = setting.devices[0].startswith("cuda")
    if "parallel" in ways and (on_gpus or len(setting.devices) == 1):
        name = "nn.DataParallel" if on_gpus else "plain PyTorch"
        start, label = functools.partial(whole_network, setting), f"{name}, {setting.where}"

        def more() -> dict[str, float]:
            return courses.by_others(label, setting, start) | (_watched(label, setting) if inside else {})

        reported_s = _reported_s(setting) if as_in_the_text else None
        yield baseline_case(name, setting, lambda: Here(start(), setting), reported_s, more)
    if "ddp" in ways:
        yield baseline_case("DistributedDataParallel", setting, functools.partial(Ranks, setting))
    if "compile" in ways:
        start_compiled = functools.partial(Ranks, setting, compiled=True)
        yield baseline_case("DistributedDataParallel, torch.compile", setting, start_compiled)


def _watched(label: str, setting: Setting) -> dict[str, float]:
    """Figures of a watched step, which is drawn at the end of the run."""
    _inside[label] = stages = watched(setting)
    return seconds_of(stages)


def _reported_s(setting: Setting) -> float | None:
    """Seconds a step that the text's epochs come to."""
    epoch_s = TEXT_EPOCH_S.get(len(setting.devices))
    return epoch_s / math.ceil(TEXT_IMAGES / setting.images) if epoch_s is not None else None
