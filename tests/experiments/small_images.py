"""Folders with a few images, as files that the data set's have the form of."""

from __future__ import annotations

import struct
from pathlib import Path

from models.data import load


def write_images(folder: Path, train: int, test: int) -> str:
    """The first images of the project's part of Fashion-MNIST, so many of each kind; returns the folder."""
    full = load()
    for prefix, images, labels, count in (
        ("train", full.train_images, full.train_labels, train),
        ("t10k", full.test_images, full.test_labels, test),
    ):
        pixels = (images[:count] * 255).round().byte().numpy().tobytes()
        header = struct.pack(">4I", 0x0803, count, 28, 28)
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + pixels)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x0801, count) + labels[:count].byte().numpy().tobytes()
        )
    return str(folder)
