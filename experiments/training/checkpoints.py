"""Checkpoints of training runs: what is needed to go on to the bit, as one file of tensors and plain data.

Not modelled: optimisers and networks that keep anything outside a program's states; files in several parts.
"""

from __future__ import annotations

import io
import itertools
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphsched.errors import ExperimentError, FileFormatError, OutputError
from graphsched.files import check_folder, write_bytes
from graphsched.workload import element_bytes

SCHEMA = 4
FIGURES = {"history": ("loss", "accuracy", "images", "seconds"), "running": ("loss", "correct", "images", "seconds")}
"""What each epoch that is over has at least, and what one that is not."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training run between two steps.

    Attributes:
        states: Parameters, moments and all other states of the program.
        epoch, step: Epochs that are over, and steps of the next one that are, from 0.
        batch, seed, images: Images a step, of the order, and images to learn from.
        content, tests: Checksums of those images and their labels, and of those to test by; 0: it was not tested.
        rate: Learning rate of the last steps; None: not told.
        random: States of torch's generators by process: of each that of the CPU first, then those of the GPUs.
        history: Figures of each epoch that is over.
        running: Sums over the steps of the epoch that is not.
        network: Shape and type of each state, by name.
    """

    states: dict[str, Tensor]
    epoch: int
    step: int
    batch: int
    seed: int
    images: int
    content: int
    tests: int
    rate: float | None
    random: list[list[Tensor]]
    history: list[dict[str, float]]
    running: dict[str, float]
    network: dict[str, str]


def fingerprint(states: Mapping[str, Tensor]) -> dict[str, str]:
    """Shape and type of each of `states`, by name.

    Example:
        >>> fingerprint({"weight": torch.zeros(2, 3)})
        {'weight': 'float32[2,3]'}
    """
    return {
        name: f"{str(t.dtype).removeprefix('torch.')}[{','.join(map(str, t.shape))}]"
        for name, t in sorted(states.items())
    }


def save(checkpoint: Checkpoint, path: str | Path) -> None:
    """Write `checkpoint` to `path`, whole or not at all; tensors go to the CPU.

    Raises:
        OutputError: It cannot be written.
    """
    content = {field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}
    content["states"] = {name: t.cpu() for name, t in checkpoint.states.items()}
    buffer = io.BytesIO()
    torch.save({"graphsched training": SCHEMA, **content}, buffer)
    write_bytes(path, buffer.getvalue())


def load(path: str | Path) -> Checkpoint:
    """Read what `save` wrote; no code in the file is run.

    Raises:
        FileFormatError: It cannot be read, is damaged, or is no checkpoint of a training.
    """
    try:
        packed = Path(path).read_bytes()
    except OSError as error:
        raise FileFormatError(
            f"cannot read {path}: {error.strerror or error}: a file that a training has kept is needed"
        ) from error
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as parts:
            if (damaged := parts.testzip()) is not None:  # torch does not look at the checksums that it writes
                raise FileFormatError(f"{damaged} in it does not have its checksum")
        content: Any = torch.load(io.BytesIO(packed), weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises many types on damaged files
        raise FileFormatError(f"{path} is no whole checkpoint: take another, or begin anew without it") from error
    names = [field.name for field in fields(Checkpoint)]
    if not isinstance(content, dict) or content.get("graphsched training") != SCHEMA or not content.keys() >= {*names}:
        raise FileFormatError(f"{path} is no checkpoint of a training, or of another version: begin anew without it")
    found = Checkpoint(**{name: content[name] for name in names})
    if (wrong := _wrong_in(found)) is not None:
        raise FileFormatError(f"{path} is no checkpoint of a training: its {wrong}: begin anew without it")
    return found


def _wrong_in(found: Checkpoint) -> str | None:
    """What no checkpoint has, with its value; None: everything may be."""
    for name in ("epoch", "step", "batch", "seed", "images", "content", "tests"):
        value = getattr(found, name)
        if type(value) is not int or value < 0:
            return f"{name} is {value!r}"
    if not (found.rate is None or isinstance(found.rate, float)):
        return f"rate is {found.rate!r}"
    lists = [found.history, found.random]
    if not all(isinstance(each, list) for each in lists) or not all(isinstance(each, list) for each in found.random):
        return "lists are of other types"
    tables = [found.states, found.running, found.network, *found.history]
    if not all(isinstance(table, dict) for table in tables):
        return "tables are of other types"
    if not all(isinstance(t, Tensor) for t in (*found.states.values(), *itertools.chain(*found.random))):
        return "states are no tensors"
    if fingerprint(found.states) != found.network:
        return "states are not those of its network"
    if not found.random or not all(each and all(t.dtype == torch.uint8 for t in each) for each in found.random):
        return "random numbers are of no generator"
    if not 1 <= found.batch <= found.images or found.step >= found.images // found.batch:
        return f"step is {found.step}, of {found.images} images in batches of {found.batch}"
    for name, epochs in (("history", found.history), ("running", [found.running] if found.running else [])):
        if not all(_has_figures(epoch, FIGURES[name]) for epoch in epochs):
            return f"{name} is without figures of an epoch"
    if len(found.history) != found.epoch or bool(found.step) != bool(found.running):
        return f"figures are not those of {found.epoch} epochs and {found.step} steps"
    return None


def _has_figures(table: Mapping[Any, Any], needed: Sequence[str]) -> bool:
    """Whether `table` holds numbers by name, the `needed` ones among them."""
    return table.keys() >= {*needed} and all(
        isinstance(name, str) and type(value) in (int, float) for name, value in table.items()
    )


def checksum(*tensors: Tensor) -> int:
    """Of what is in tensors: of images and labels it tells whether a run goes on with the same.

    Example:
        >>> checksum(torch.zeros(2)) == checksum(torch.zeros(2)) != checksum(torch.ones(2))
        True
    """
    found = 0
    for tensor in tensors:
        found = zlib.crc32(element_bytes(tensor), found)
    return found


def random_states() -> list[Tensor]:
    """States of torch's generators as they are now."""
    cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if cuda else ())]


def set_random_states(states: list[Tensor]) -> None:
    """Set torch's generators to `random_states`, as far as there are such devices.

    Raises:
        FileFormatError: They are none of this torch's generators.
    """
    try:
        torch.set_rng_state(states[0])
        for number, state in enumerate(states[1 : 1 + torch.cuda.device_count()]):
            torch.cuda.set_rng_state(state, number)
    except RuntimeError as error:
        raise FileFormatError(
            f"its random numbers are none of torch {torch.__version__} ({error}): begin anew without it, or go on with "
            "the torch that it was kept by"
        ) from error


def file_for(folder: str | Path, experiment: str, label: str) -> Path:
    """The file in `folder` of the training with this label.

    Example:
        >>> file_for("kept", "lenet", "one graph, 2 GPUs").as_posix()
        'kept/lenet-one-graph-2-gpus.pt'
    """
    return Path(folder) / (re.sub(r"[^a-z0-9_]+", "-", f"{experiment} {label}".lower()) + ".pt")


def check_keeping(checkpoints: str, every: int) -> None:
    """Make sure, before anything is trained, that trainings can be kept as these parameters of an experiment ask for.

    Args:
        checkpoints: A folder, which is made; empty: nothing is kept.
        every: Steps between two times within an epoch; 0: none.

    Raises:
        ExperimentError: The number is below 0.
        OutputError: Nothing can be written into the folder.

    Example:
        >>> check_keeping("", -1)
        Traceback (most recent call last):
        ...
        graphsched.errors.ExperimentError: parameter 'every' is -1: a number of steps is needed, or 0 to keep a ...
    """
    if every < 0:
        raise ExperimentError(
            f"parameter 'every' is {every}: a number of steps is needed, or 0 to keep a training after each epoch only"
        )
    try:
        if checkpoints:
            check_folder(checkpoints)
    except OutputError as error:
        told = f"parameter 'checkpoints' is {checkpoints!r}: {error}: name a folder that can be written"
        raise OutputError(told) from error


class CheckpointFile:
    """The file in which the run of one process is kept."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.ranks = Path(path), 1

    def read(self) -> Checkpoint | None:
        """What the file has; None: there is none.

        Raises:
            FileFormatError: As `load`.
        """
        try:
            return load(self.path)
        except FileFormatError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def write(self, checkpoint: Checkpoint) -> None:
        """Put `checkpoint` in its place.

        Raises:
            OutputError: As `save`.
        """
        save(checkpoint, self.path)

    def random_states(self) -> list[list[Tensor]]:
        """Those of each process."""
        return [random_states()]

    def set_random_states(self, states: list[list[Tensor]]) -> None:
        """Set the generators of this process."""
        set_random_states(states[0])

    def agreed(self, stop: bool) -> bool:
        """Whether all processes are to stop."""
        return stop
