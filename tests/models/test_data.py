"""IDX files that are read, files that are refused, and batches in an order that repeats."""

from __future__ import annotations

import gzip
import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphsched.errors import ExperimentError, FileFormatError
from models.data import SHIPPED, Dataset, batches, load, order

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(magic: int, sizes: tuple[int, ...], values: bytes) -> bytes:
    return struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + values


def images(count: int, height: int = 28, width: int = 28) -> bytes:
    return idx(0x803, (count, height, width), bytes(i % 251 for i in range(count * height * width)))


def labels(*values: int) -> bytes:
    return idx(0x801, (len(values),), bytes(values))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good set: two images to learn from (not packed), three to test on (packed)."""
    (tmp_path / IMAGES).write_bytes(images(2))
    (tmp_path / LABELS).write_bytes(labels(9, 0))
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(images(3)))
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels(1, 2, 3)))
    return tmp_path


# -- files that are read ---------------------------------------------------------------------


def test_the_shipped_part_is_there() -> None:
    data = load()
    assert data.train_images.shape == (3072, 1, 28, 28)
    assert data.test_images.shape == (512, 1, 28, 28)
    for pixels, classes in ((data.train_images, data.train_labels), (data.test_images, data.test_labels)):
        assert (pixels.dtype, classes.dtype) == (torch.float32, torch.int64)
        assert (float(pixels.min()), float(pixels.max())) == (0.0, 1.0)
        assert classes.shape == (len(pixels),)
        assert sorted(set(classes.tolist())) == list(range(10))


def test_the_licence_lies_beside_it() -> None:
    for name in ("README.md", "LICENSE"):
        assert "© 2017 Zalando SE" in (SHIPPED / name).read_text(encoding="utf-8")


def test_bytes_are_read_row_by_row(folder: Path) -> None:
    data = load(folder)
    assert isinstance(data, Dataset)
    for index in ((0, 0, 0, 0), (0, 0, 0, 5), (0, 0, 3, 0), (1, 0, 27, 27)):
        i, _, row, column = index
        assert float(data.train_images[index]) == pytest.approx(((i * 28 + row) * 28 + column) % 251 / 255)
    assert data.train_labels.tolist() == [9, 0]
    assert data.test_labels.tolist() == [1, 2, 3]


def test_a_file_that_is_not_packed_comes_first(folder: Path) -> None:
    (folder / f"{LABELS}.gz").write_bytes(b"damaged")
    assert load(str(folder)).train_labels.tolist() == [9, 0]


# -- files that are refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (IMAGES, images(2)[:-1], "1567 bytes after the header, which says 2×28×28: copy the file again"),
        (IMAGES, images(2) + b"x", "1569 bytes after the header, which says 2×28×28: copy the file again"),
        (IMAGES, images(2)[:9], "9 bytes, its header alone has 16: copy the file again"),
        (IMAGES, b"", "0 bytes, its header alone has 16: copy the file again"),
        (IMAGES, labels(*range(10)) + bytes(9), "starts with 0x00000801, a file of images with 0x00000803: put such"),
        (LABELS, images(2), "starts with 0x00000803, a file of labels with 0x00000801: put such"),
        (LABELS, gzip.compress(labels(1, 2)), "starts with 0x1f8b0800, a file of labels with 0x00000801: put such"),
        (LABELS, labels(1, 2, 3), f"3 labels for the 2 images of {IMAGES}: take both files from the same set"),
        (LABELS, labels(3, 10), "label 1 is 10, above 9: take the labels of a set of ten classes"),
        (IMAGES, images(2, 32, 30), "2 images of 32×30 pixels, some of 28×28 are needed: take a set of such images"),
        (IMAGES, images(0), "0 images of 28×28 pixels, some of 28×28 are needed: take a set of such images"),
    ],
    ids=(
        "short", "long", "half a header", "empty", "labels for images", "images for labels", "packed", "one label more",
        "label 10", "other size", "no image",
    ),
)  # fmt: skip
def test_damage_is_named(folder: Path, name: str, content: bytes, message: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(FileFormatError) as refused:
        load(folder)
    assert str(refused.value).startswith(f"{folder / name}: {message}")


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-9],
        lambda packed: packed[:10] + b"\xff" + packed[11:],
        lambda packed: packed[:-5] + b"\0" + packed[-4:],
        lambda packed: images(3),
    ],
    ids=("short", "no such block", "wrong checksum", "not packed"),
)
def test_a_damaged_archive_is_named(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileFormatError, match=r"t10k-images-idx3-ubyte.gz: no whole gzip file .*: copy the file again"):
        load(folder)


@pytest.mark.parametrize("name", [IMAGES, LABELS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(FileFormatError, match=rf"^no file {name} or {name}.gz in {folder}: name a folder with"):
        load(folder)


def test_a_folder_that_is_missing_or_a_file_is_named(folder: Path) -> None:
    with pytest.raises(FileFormatError, match=f"in {folder / 'nowhere'}: name a folder"):
        load(folder / "nowhere")
    with pytest.raises(FileFormatError, match=f"^cannot read {folder / LABELS}/{IMAGES}: Not a directory"):
        load(folder / LABELS)


# -- batches ---------------------------------------------------------------------------------

NUMBERS = torch.arange(10)


def seen(batch: int, **options: int) -> list[list[int]]:
    return [x.tolist() for x, _ in batches(NUMBERS, NUMBERS, batch, **({"seed": 12} | options))]


def test_an_epoch_has_every_image_once_with_its_label() -> None:
    pairs = list(batches(NUMBERS, NUMBERS + 100, 4, seed=12))
    assert [len(x) for x, _ in pairs] == [4, 4, 2]
    assert all(torch.equal(x + 100, y) for x, y in pairs)
    assert sorted(torch.cat([x for x, _ in pairs]).tolist()) == NUMBERS.tolist()


def test_the_last_batch_can_be_left_out() -> None:
    assert seen(4, drop_last=True) == seen(4)[:2]
    assert seen(5, drop_last=True) == seen(5)


def test_seed_and_epoch_decide_the_order() -> None:
    keys = list(itertools.product(range(3), range(3)))
    orders = [seen(10, seed=seed, epoch=epoch)[0] for seed, epoch in keys]
    assert orders == [seen(10, seed=seed, epoch=epoch)[0] for seed, epoch in keys]
    assert len({tuple(o) for o in orders}) == len(keys)


def test_the_order_leaves_the_generator_of_pytorch_alone() -> None:
    before = torch.get_rng_state()
    seen(4)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_order_of_runs_that_were_stopped_stays_valid() -> None:
    assert order(8, seed=3, epoch=2).tolist() == [1, 7, 4, 0, 2, 6, 3, 5]
    assert order(8, seed=3, epoch=2).dtype == torch.int64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch is 0: a number above 0 is needed"),
        ({"batch": 11, "drop_last": True}, "batch is 11, and there are 10 images: no whole batch; take 10 or fewer"),
        ({"batch": 4, "seed": -1}, "seed is -1: a whole number from 0 on is needed"),
        ({"batch": 4, "epoch": -2}, "epoch is -2: a whole number from 0 on is needed"),
    ],
)
def test_wrong_requests_are_refused_before_the_first_batch(options: dict[str, int], message: str) -> None:
    with pytest.raises(ExperimentError, match=f"^{message}$"):
        batches(NUMBERS, NUMBERS, **({"seed": 12} | options))


def test_other_numbers_of_labels_are_refused() -> None:
    with pytest.raises(ExperimentError, match=r"^9 labels for 10 images: give one each$"):
        batches(NUMBERS, NUMBERS[:9], 4, seed=12)
