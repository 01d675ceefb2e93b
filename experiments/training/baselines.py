"""Training steps of code of others, timed beside plans; and what all ways have in common.

A `Stepping` does training steps on one batch that lies on the host. A `Baseline` makes one ready with its first call,
and each call is one step and the wait for its end.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

import graphsched as gs
from experiments._shared import SEED, counted
from models.data import Dataset, load

ROUNDS = 5
AT_MOST_S = 5.0

Figures = Callable[[], Mapping[str, float]]


class Stepping(Protocol):
    """Training steps on one batch."""

    def step(self) -> None:
        """One step, waited for."""

    def many_s(self, steps: int) -> float:
        """Seconds of so many steps in a row, waited for at the end only; the median of several times."""

    def close(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True)
class Setting:
    """What is trained, and where: the same for all ways.

    Attributes:
        make: Makes the network; other processes can import it.
        platform, devices: Where.
        images: In a batch.
        lr: Learning rate of the mean of the losses.
        steps: In a row, for figures.
        folder: Of the images; None: those of the project.
    """

    make: Callable[[], nn.Module]
    platform: gs.Platform
    devices: tuple[str, ...]
    images: int
    lr: float
    steps: int
    folder: str | None

    @property
    def where(self) -> str:
        """For labels."""
        return f"batch {self.images}, {counted(self.devices)}"

    def network(self) -> nn.Module:
        """The network with its first parameters, on the CPU."""
        return same_network(self.make)

    def batch(self) -> tuple[Tensor, Tensor]:
        """The first training images and their labels, from the beginning again where there are fewer."""
        data = dataset(self.folder)
        rows = torch.arange(self.images) % len(data.train_labels)
        return data.train_images[rows], data.train_labels[rows]


def same_network(make: Callable[[], nn.Module]) -> nn.Module:
    """A network with the same first parameters every time, in any process."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(SEED)
        return make()


@functools.cache
def dataset(folder: str | None) -> Dataset:
    """The images of `folder`, read once."""
    return load(folder)


class Baseline:
    """Steps of code of others as a function of no arguments.

    Args:
        start: Makes them ready, with the first call.
        setting: What is trained.
        more: Further figures, once all is given back.
    """

    def __init__(self, start: Callable[[], Stepping], setting: Setting, more: Figures) -> None:
        self._start, self._setting, self._more = start, setting, more
        self._stepping: Stepping | None = None

    def __call__(self) -> None:
        if self._stepping is None:
            self._stepping = self._start()
        self._stepping.step()

    def figures(self) -> dict[str, float]:
        """A step's seconds among many in a row, and images a second; what it holds is given back."""
        stepping, self._stepping = self._stepping or self._start(), None
        steps = self._setting.steps
        with contextlib.closing(stepping):
            found = pace(stepping.many_s(steps) / steps, self._setting.images)
        return {**found, **self._more()}


def pace(step_s: float, images: int) -> dict[str, float]:
    """Figures of a step of so many images.

    Example:
        >>> pace(0.002, 256)
        {'step_s': 0.002, 'images_per_s': 128000.0}
    """
    return {"step_s": step_s, "images_per_s": images / step_s}


def baseline_case(
    name: str,
    setting: Setting,
    start: Callable[[], Stepping],
    reported_s: float | None = None,
    more: Figures = dict,
) -> gs.Case:
    """The case of a `Baseline`, with its figures and `more`."""
    baseline = Baseline(start, setting, more)
    return gs.Case(f"{name}, {setting.where}", baseline=baseline, reported_s=reported_s, metrics=baseline.figures)


def median_s(run: Callable[[], float]) -> float:
    """Median of what several runs return; fewer than `ROUNDS` where these take long.

    Example:
        >>> median_s(iter([1.0, 5.0, 2.0, 3.0, 4.0]).__next__)
        3.0
    """
    samples: list[float] = []
    began = time.perf_counter()
    while len(samples) < ROUNDS and (not samples or time.perf_counter() - began < AT_MOST_S):
        samples.append(run())
    return statistics.median(samples)


def synchronize(devices: Sequence[str]) -> None:
    """Wait until all `devices` are idle; on the CPU PyTorch returns when it is done."""
    for device in devices:
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
