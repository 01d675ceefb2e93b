"""Experiments that train, on two ranks: what one process learns, and so after one of them was killed, to the bit."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.executors.distributed.ranks import on_ranks
from tests.experiments.small_images import write_images
from tests.experiments.training import case_jobs

pytestmark = pytest.mark.slow

PERCEPTRON = ("two_layer_mlp", "heft, CPU and 2 workers", {"hidden": 8, "batch": 8, "schedulers": ("heft",)})
RESNET = (
    "resnet18_data_parallel",
    "one graph, sharded, batch 8, 2 workers",
    {"batch": 4, "ways": ("graph",), "memory_formats": ("contiguous",)},
)


@pytest.fixture
def images(tmp_path: Path) -> str:
    """A folder with 16 images to learn from, two batches, and 8 to test on."""
    folder = tmp_path / "images"
    folder.mkdir()
    return write_images(folder, 16, 8)


def on_two(name: str, label: str, params: dict[str, Any], dies: int = 0) -> list[Any]:
    return on_ranks(case_jobs.figures, 2, name, label, params, dies)


def same_on_both(ended: list[Any]) -> dict[str, float]:
    """The figures of both ranks."""
    assert [rank.error for rank in ended] == ["", ""], [rank.text for rank in ended]
    assert ended[0].result == ended[1].result
    return dict(ended[0].result)


@pytest.mark.parametrize(("name", "label", "params"), [PERCEPTRON, RESNET], ids=["perceptron", "resnet"])
def test_ranks_go_on_where_one_was_killed(
    name: str, label: str, params: dict[str, Any], images: str, tmp_path: Path
) -> None:
    """Two epochs of two steps; rank 1 is killed in the fourth, and the checkpoint is that of the third."""
    params = params | {"epochs": 2, "devices": (2,), "data": images}
    whole = same_on_both(on_two(name, label, params))
    kept = params | {"checkpoints": str(tmp_path / "kept"), "every": 1}
    ended = on_two(name, label, kept, dies=4)
    assert ended[1].exit_code == -signal.SIGKILL
    assert "rank 1" in ended[0].text
    assert [path.suffix for path in (tmp_path / "kept").iterdir()] == [".pt"]
    assert same_on_both(on_two(name, label, kept)) == whole
    assert same_on_both(on_two(name, label, kept, dies=1)) == whole  # all is there: no step is left


def test_ranks_train_the_perceptron_as_one_process_does(images: str) -> None:
    """The same case in mode ``eager``: to the bit, the first step's difference from plain PyTorch too."""
    name, label, params = PERCEPTRON
    params = params | {"epochs": 2, "devices": (2,), "data": images}
    case = case_jobs.case_of(name, label, **params)
    assert case.metrics is not None
    assert same_on_both(on_two(name, label, params)) == case_jobs.without_times(case.metrics())
