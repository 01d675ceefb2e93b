"""Fashion-MNIST from IDX files, and batches of it in an order that repeats.

`models/fashion_mnist` holds 3,072 training and 512 test images, all from the 60,000 training images; a folder with
the full set has the same four file names, and is read the same way.

Not modelled: IDX files of other types than bytes, augmentation, and sets that do not fit in memory.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphsched.errors import ExperimentError, FileFormatError

__all__ = ["CLASSES", "Dataset", "batches", "load", "order"]

CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
"""What the labels 0 to 9 mean."""

SHIPPED = Path(__file__).parent / "fashion_mnist"
SIDE = 28
MAGIC = {"images": 0x0803, "labels": 0x0801}
"""First four bytes: 0, 0, the type (8: unsigned bytes), and the number of dimensions."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to learn from, and images to test on.

    Attributes:
        train_images: float32 (n, 1, 28, 28), from 0 (black) to 1 (white).
        train_labels: int64 (n,), from 0 to 9.
        test_images: As `train_images`.
        test_labels: As `train_labels`.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load(folder: str | Path | None = None) -> Dataset:
    """Read the four files of a set, by default those that come with the project.

    Args:
        folder: Where ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and
            ``t10k-labels-idx1-ubyte`` are, gzipped with ``.gz`` after the name, or not (this one is read if both are
            there).

    Raises:
        FileFormatError: A file is missing, damaged, of another kind or size, or empty, has labels above 9, or there are
            not as many labels as images.

    Source: LeCun, Cortes and Burges, The MNIST database of handwritten digits, file formats.

    Example:
        >>> data = load()
        >>> data.train_images.shape, data.test_images.shape
        (torch.Size([3072, 1, 28, 28]), torch.Size([512, 1, 28, 28]))
        >>> [CLASSES[label] for label in data.train_labels[:3]]
        ['ankle boot', 'T-shirt/top', 'T-shirt/top']
    """
    folder = SHIPPED if folder is None else Path(folder)
    return Dataset(*_part(folder, "train"), *_part(folder, "t10k"))


def order(count: int, *, seed: int, epoch: int) -> Tensor:
    """Numbers 0 to `count` - 1 as int64 (count,), shuffled: the same for the same `seed` and `epoch`, in any process.

    Raises:
        ExperimentError: `seed` or `epoch` is below 0.

    Example:
        >>> torch.equal(order(9, seed=1, epoch=4), order(9, seed=1, epoch=4))
        True
        >>> torch.equal(order(9, seed=1, epoch=4), order(9, seed=4, epoch=1))
        False
    """
    for name, value in (("seed", seed), ("epoch", epoch)):
        if value < 0:
            raise ExperimentError(f"{name} is {value}: a whole number from 0 on is needed")
    return torch.from_numpy(np.random.default_rng((seed, epoch)).permutation(count))


def batches(
    images: Tensor, labels: Tensor, batch: int, *, seed: int, epoch: int = 0, drop_last: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Every image once with its label, `batch` at a time, in the order of `seed` and `epoch`.

    A run that is continued asks for the epoch in which it was stopped, and skips the batches that it has had with
    `itertools.islice`.

    Args:
        images: (n, ...); batches are on its device.
        labels: (n,), on the same device.
        batch: Images a batch.
        seed: From 0 on.
        epoch: From 0 on; each has its own order.
        drop_last: Leave out a last batch of fewer images, where `batch` does not divide n.

    Raises:
        ExperimentError: There are no images, more or fewer labels than images, `batch` is below 1 or leaves no batch,
            or `seed` or `epoch` is below 0.

    Example:
        >>> data = load()
        >>> [len(y) for x, y in batches(data.test_images, data.test_labels, 200, seed=0)]
        [200, 200, 112]
        >>> next(batches(data.test_images, data.test_labels, 200, seed=0))[0].shape
        torch.Size([200, 1, 28, 28])
    """
    count = len(images)
    if len(labels) != count:
        raise ExperimentError(f"{len(labels)} labels for {count} images: give one each")
    if not count:
        raise ExperimentError("there are no images: give some")
    if batch < 1:
        raise ExperimentError(f"batch is {batch}: a number above 0 is needed")
    if drop_last and batch > count:
        raise ExperimentError(f"batch is {batch}, and there are {count} images: no whole batch; take {count} or fewer")
    shuffled = order(count, seed=seed, epoch=epoch).to(images.device)
    ends = count - count % batch if drop_last else count
    return ((images[part], labels[part]) for part in torch.split(shuffled[:ends], batch))


def _part(folder: Path, prefix: str) -> tuple[Tensor, Tensor]:
    """Images and labels of ``train`` or ``t10k``, checked against each other."""
    images_path, (count, *sides), pixels = _read(folder, f"{prefix}-images-idx3-ubyte", "images")
    if not count or sides != [SIDE, SIDE]:
        raise FileFormatError(
            f"{images_path}: {count} images of {sides[0]}×{sides[1]} pixels, some of {SIDE}×{SIDE} are needed: "
            "take a set of such images"
        )
    labels_path, (label_count,), classes = _read(folder, f"{prefix}-labels-idx1-ubyte", "labels")
    if label_count != count:
        raise FileFormatError(
            f"{labels_path}: {label_count} labels for the {count} images of {images_path.name}: "
            "take both files from the same set"
        )
    wrong = (classes >= len(CLASSES)).nonzero()
    if len(wrong):
        first = int(wrong[0])
        raise FileFormatError(
            f"{labels_path}: label {first} is {int(classes[first])}, above {len(CLASSES) - 1}: "
            "take the labels of a set of ten classes"
        )
    return pixels.view(count, 1, SIDE, SIDE).to(torch.float32) / 255, classes.to(torch.int64)


def _read(folder: Path, name: str, kind: str) -> tuple[Path, tuple[int, ...], Tensor]:
    """Path, sizes and bytes (flat uint8) of the IDX file `name`, or of ``name.gz``."""
    path, content = _content(folder, name)
    start = 4 + 4 * (MAGIC[kind] & 0xFF)
    if len(content) < start:
        raise FileFormatError(f"{path}: {len(content)} bytes, its header alone has {start}: copy the file again")
    magic, *sizes = struct.unpack(f">{start // 4}I", content[:start])
    if magic != MAGIC[kind]:
        raise FileFormatError(
            f"{path}: starts with {magic:#010x}, a file of {kind} with {MAGIC[kind]:#010x}: put such a file there"
        )
    if len(content) - start != math.prod(sizes):
        raise FileFormatError(
            f"{path}: {len(content) - start} bytes after the header, which says {'×'.join(map(str, sizes))}: "
            "copy the file again"
        )
    return path, tuple(sizes), torch.frombuffer(bytearray(content), dtype=torch.uint8)[start:]


def _content(folder: Path, name: str) -> tuple[Path, bytes]:
    """Path and bytes of the file `name`, or what ``name.gz`` unpacks to."""
    for path in (folder / name, folder / f"{name}.gz"):
        try:
            packed = path.read_bytes()
            return path, gzip.decompress(packed) if path.suffix == ".gz" else packed
        except FileNotFoundError:
            continue
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileFormatError(f"{path}: no whole gzip file ({error}): copy the file again") from error
        except OSError as error:
            raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    raise FileFormatError(f"no file {name} or {name}.gz in {folder}: name a folder with the files of Fashion-MNIST")
