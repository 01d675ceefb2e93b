"""What several experiments share: their data, the text's `run`, and the words of their labels."""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import torch

import graphsched as gs
from graphsched.errors import ExperimentError

SEED = 12
_WORDS = {"cuda": "GPU", "worker": "worker", "cpu": "CPU"}


@functools.cache
def random_matrix(rows: int, columns: int) -> torch.Tensor:
    """A random matrix with columns that sum to about one, so that products of products stay in range.

    One tensor per shape, on the CPU: as many inputs as are needed can share it.

    Example:
        >>> random_matrix(4, 2).shape
        torch.Size([4, 2])
        >>> random_matrix(4, 2) is random_matrix(4, 2)
        True
    """
    generator = torch.Generator().manual_seed(SEED)
    return torch.rand(rows, columns, generator=generator) * (2 / rows)


def add_run(work: gs.Workload, x: gs.Value, products: int, device: str, *, first: int = 0) -> list[gs.Value]:
    """Add the text's `run`: `products` independent products of `x` with itself on `device`.

    Their tasks are named ``gpu0/mm0``, ``gpu0/mm1``, … from number `first` on.
    """
    numbers = range(first, first + products)
    return [work.task(torch.mm, x, x, name=f"{short(device)}/mm{i}", device=device) for i in numbers]


def plain_run(platform: gs.Platform, device: str, size: int, products: int) -> Callable[[], list[torch.Tensor]]:
    """The text's `run` in plain PyTorch; `x` is put on `device` by the first call."""
    x: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        if not x:
            x.append(random_matrix(size, size).to(torch_device(device)))
        with threads_of(platform, device):
            return [x[0].mm(x[0]) for _ in range(products)]

    return run


@contextlib.contextmanager
def threads_of(platform: gs.Platform, device: str) -> Iterator[None]:
    """Let torch use as many CPU threads as one lane of `device` has, where it computes on the CPU."""
    before = torch.get_num_threads()
    if torch_device(device) == "cpu":
        torch.set_num_threads(platform.device(device).threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def torch_device(device: str) -> str:
    """What torch calls `device`: workers are threads of the CPU.

    Example:
        >>> torch_device("cuda:1"), torch_device("worker:1")
        ('cuda:1', 'cpu')
    """
    return device if device.startswith("cuda") else "cpu"


def short(device: str) -> str:
    """Name of `device` for the names of its tasks.

    Example:
        >>> short("cuda:1"), short("worker:0"), short("cpu")
        ('gpu1', 'worker0', 'cpu')
    """
    return device.replace("cuda", "gpu").replace(":", "")


def called(device: str) -> str:
    """Name of `device` for labels.

    Example:
        >>> called("cuda:1"), called("worker:0"), called("cpu")
        ('GPU 1', 'worker 0', 'CPU')
    """
    kind, _, number = device.partition(":")
    return f"{_WORDS[kind]} {number}".strip()


def counted(devices: Sequence[str]) -> str:
    """How many devices, for labels.

    Example:
        >>> counted(("cuda:0",)), counted(("worker:0", "worker:1"))
        ('1 GPU', '2 workers')
    """
    word = _WORDS[devices[0].partition(":")[0]]
    return f"{len(devices)} {word}{'s' if len(devices) > 1 else ''}"


def lanes_that_fit(platform: gs.Platform, device: str, lanes: Iterable[int]) -> list[int]:
    """The numbers of `lanes` that `device` can have."""
    return [k for k in lanes if k <= platform.device(device).lanes]


def check_sizes(**given: float | Sequence[float]) -> None:
    """Make sure that parameters (all items of a sequence) are above 0: without tasks or bytes there is no case.

    Raises:
        ExperimentError: One is not; it is named with its value.

    Example:
        >>> check_sizes(size=2048, devices=(1, -2))
        Traceback (most recent call last):
        ...
        graphsched.errors.ExperimentError: parameter 'devices' is -2: a number above 0 is needed
    """
    for name, value in given.items():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if not 0 < item < math.inf:
                raise ExperimentError(f"parameter {name!r} is {item!r}: a number above 0 is needed")


def check_known(kind: str, given: Iterable[str], there: Collection[str]) -> None:
    """Make sure that all names of `given` are there.

    Raises:
        ExperimentError: One is not; the nearest is offered, and those that are there are listed.

    Example:
        >>> check_known("graph", ["star"], ["ring", "tree"])
        Traceback (most recent call last):
        ...
        graphsched.errors.ExperimentError: no graph 'star': there are ring, tree
        >>> check_known("graph", ["rings"], ["ring", "tree"])
        Traceback (most recent call last):
        ...
        graphsched.errors.ExperimentError: no graph 'rings': did you mean 'ring'? There are ring, tree
    """
    for name in given:
        if name not in there:
            nearest = difflib.get_close_matches(str(name), there, n=1)
            meant = f"did you mean {nearest[0]!r}? There are " if nearest else "there are "
            raise ExperimentError(f"no {kind} {name!r}: {meant}{', '.join(there)}")
