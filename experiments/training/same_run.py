"""Whether what a checkpoint holds may be gone on with: by this network, on these images, for so many epochs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from experiments.training.checkpoints import Checkpoint, fingerprint
from graphsched.errors import ExperimentError

IMAGES = {"content": "on", "tests": "tested by"}
"""Fields of `Checkpoint` that are checksums of images and labels, and what a run has of these."""


def check_same(
    checkpoint: Checkpoint, path: str | Path, states: Mapping[str, Tensor], *, ranks: int, **run: int
) -> None:
    """Make sure that `checkpoint`, which was read from `path`, is of this network and run.

    Another plan may go on, in another mode: what is kept does not depend on it. Whether one with another learning rate
    may, `check_left` says.

    Args:
        states: Of the program that is to go on.
        ranks: Processes that are to go on; each has random numbers of its own.
        run: ``batch``, ``seed``, ``images``, ``content`` and ``tests`` of the run that is to go on.

    Raises:
        ExperimentError: It is of another; what differs is named.
    """
    if len(checkpoint.random) != ranks:
        raise ExperimentError(
            f"{path} is of a run by {_processes(len(checkpoint.random))}, not {ranks}: start as many, for each has "
            "random numbers of its own; or give another file"
        )
    for name, value in run.items():
        there = getattr(checkpoint, name)
        if there == value or (name == "tests" and not (there and value)):
            continue
        if name in IMAGES:
            how = IMAGES[name]
            raise ExperimentError(f"{path} is of a run {how} other images or labels: give those, or another file")
        raise ExperimentError(f"{path} is of a run with {name} {there}, not {value}: give that, or another file")
    here, kept = fingerprint(states), checkpoint.network
    for name in sorted(here.keys() | kept.keys()):
        if here.get(name) != kept.get(name):
            raise ExperimentError(
                f"{path} is of another network: {name!r} is {kept.get(name, 'missing')} there and "
                f"{here.get(name, 'missing')} here: train that network, or give another file"
            )


def check_left(checkpoint: Checkpoint, path: str | Path, epochs: int, rate: float | None) -> None:
    """Make sure that `checkpoint` is no end of another run than one of so many epochs at this learning rate.

    Raises:
        ExperimentError: It has come further, or to the end at another rate.
    """
    if checkpoint.epoch > epochs or (checkpoint.epoch == epochs and checkpoint.step):
        raise ExperimentError(
            f"{path} has come further than the {epochs} epochs asked for (epoch {checkpoint.epoch}, step "
            f"{checkpoint.step}): ask for more, or give another file"
        )
    if checkpoint.epoch == epochs and checkpoint.rate != rate:
        raise ExperimentError(
            f"{path} has come to its end with a learning rate of {checkpoint.rate}, not {rate}: give that, ask for "
            "more epochs to go on with the new one, or give another file"
        )


def _processes(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"
