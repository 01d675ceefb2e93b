"""Row 6: its ways, its exercises, and the figures of the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphsched.cases import Case
from graphsched.errors import ExperimentError, FileFormatError, OutputError
from tests.experiments.small import hand_written, load, plan_of
from tests.experiments.small_images import write_images

GPUS, WORKERS = hand_written("cuda", 4), hand_written("worker", 2)
NAME = "lenet_data_parallel"


def cases(platform: Any = WORKERS, **params: Any) -> dict[str, Case]:
    return {case.label: case for case in load(NAME).cases(platform, **params)}


def test_every_way_stands_beside_the_text() -> None:
    made = cases(GPUS, devices=(1, 2), reduce=("gather", "sharded"))
    assert list(made) == [
        "the text's train_batch, batch 256, 1 GPU",
        "DistributedDataParallel, batch 256, 1 GPU",
        "one graph, batch 256, 1 GPU",
        "accuracy, plain PyTorch, batch 256, 1 GPU",
        "accuracy, one graph, batch 256, 1 GPU",
        "the text's train_batch, batch 256, 2 GPUs",
        "DistributedDataParallel, batch 256, 2 GPUs",
        "one graph, gather, batch 256, 2 GPUs",
        "one graph, sharded, batch 256, 2 GPUs",
        "accuracy, one graph, batch 256, 2 GPUs",
    ]
    reported = {label: case.reported_s for label, case in made.items() if case.reported_s is not None}
    assert reported == {
        "the text's train_batch, batch 256, 1 GPU": 2.7 / 235,
        "the text's train_batch, batch 256, 2 GPUs": 3.6 / 235,
    }
    for case in made.values():
        if case.work is not None:
            plan_of(case, GPUS).check()


@pytest.mark.parametrize("changed", [{"batch": 128}, {"lr": 0.1}, {"devices": (4,)}])
def test_no_figure_is_made_up_where_the_text_prints_none(changed: dict[str, Any]) -> None:
    made = cases(GPUS, **({"devices": (1,), "ways": ("text",), "tests": False} | changed))
    assert [case.reported_s for case in made.values()] == [None]


def test_the_batch_grows_with_the_devices_where_it_is_to() -> None:
    """3 + 3 images over two workers; each replica's share of the batch is its inputs' rows."""
    made = cases(batch=3, scaling="batch", ways=("graph",), tests=False)
    assert list(made) == ["one graph, batch 3, 1 worker", "one graph, gather, batch 6, 2 workers"]
    work = made["one graph, gather, batch 6, 2 workers"].work
    assert work is not None
    assert [len(work.tensors[f"{i}/x"]) for i in (0, 1)] == [3, 3]


def test_graphs_stand_for_each_learning_rate() -> None:
    made = cases(batch=4, devices=(1,), ways=("graph",), rates=(0.4, 0.2), tests=False)
    assert list(made) == ["one graph, lr 0.2, batch 4, 1 worker", "one graph, lr 0.4, batch 4, 1 worker"]


def test_images_come_from_a_folder(tmp_path: Path) -> None:
    made = cases(batch=4, devices=(1,), ways=("graph",), tests=False, data=write_images(tmp_path, 4, 1))
    work = made["one graph, batch 4, 1 worker"].work
    assert work is not None
    assert len(work.tensors["0/x"]) == 4
    with pytest.raises(FileFormatError, match="no file train-images"):
        cases(data=str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"ways": ("horovod",)}, "no way 'horovod': there are text, ddp, graph"),
        ({"scaling": "weak"}, "no scaling 'weak': there are fixed, batch"),
        ({"reduce": ("star",)}, "no way to sum gradients 'star': there are gather, sharded"),
        ({"batch": 1}, "a batch of 1 cannot be split over 2 devices"),
        ({"steps": 1}, "parameter 'steps' is 1: 2 or more"),
        ({"batch": 0}, "parameter 'batch' is 0: a number above 0"),
        ({"rates": (0.0,)}, "parameter 'rates' is 0.0: a number above 0"),
        ({"epochs": 1, "batch": 4000}, "a batch of 4000 is more than the 3072 images"),
        ({"every": -1}, "parameter 'every' is -1: a number of steps is needed"),
    ],
)
def test_what_cannot_be_done_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        cases(**({"ways": ("text",), "tests": False} | wrong))


def test_a_folder_for_checkpoints_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A file is in its place."""
    (tmp_path / "kept").touch()
    with pytest.raises(OutputError, match=r"parameter 'checkpoints' is '.*/kept': cannot write into folder"):
        cases(ways=("text",), tests=False, checkpoints=str(tmp_path / "kept"))


def test_accuracy_is_drawn_where_something_was_trained(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    experiment = load(NAME)
    assert experiment.pictures is not None
    params = {"batch": 8, "devices": (1,), "ways": ("text",), "tests": False, "data": write_images(folder, 16, 8)}
    for epochs, names in ((0, []), (1, ["worker x2-lenet-data-parallel-accuracy.png"])):
        (case,) = experiment.cases(WORKERS, **params, epochs=epochs, steps=2)
        assert case.metrics is not None
        assert ("test_accuracy" in case.metrics()) == (epochs == 1)
        assert [path.name for path in experiment.pictures(WORKERS, tmp_path)] == names
