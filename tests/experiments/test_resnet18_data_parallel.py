"""Row 8: its ways and the figures of the text."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import graphsched as gs
from graphsched.cases import Case
from graphsched.errors import ExperimentError, GraphschedWarning, OutputError
from tests.experiments.small import hand_written, load

GPUS, WORKERS = hand_written("cuda", 4), hand_written("worker", 2)


def cases(platform: Any = GPUS, **params: Any) -> dict[str, Case]:
    """Ways that need no compiler, unless others are asked for."""
    values = {"ways": ("parallel", "ddp")} | params
    return {case.label: case for case in load("resnet18_data_parallel").cases(platform, **values)}


def test_baselines_stand_beside_the_text() -> None:
    made = cases()
    reported = {label: case.reported_s for label, case in made.items() if case.reported_s is not None}
    assert reported == {
        "nn.DataParallel, batch 256, 1 GPU": 18.1 / 235,
        "nn.DataParallel, batch 512, 2 GPUs": 12.6 / 118,
        "nn.DataParallel, batch 1024, 4 GPUs": 13.0 / 59,
    }
    assert [label for label in made if label not in reported] == [
        "DistributedDataParallel, batch 256, 1 GPU",
        "DistributedDataParallel, batch 512, 2 GPUs",
        "DistributedDataParallel, batch 1024, 4 GPUs",
    ]
    assert all(case.reported_s is None for case in cases(batch=128).values())


def test_on_the_cpu_plain_pytorch_stands_for_one_device() -> None:
    made = cases(WORKERS, batch=2)
    assert list(made) == [
        "plain PyTorch, batch 2, 1 worker",
        "DistributedDataParallel, batch 2, 1 worker",
        "DistributedDataParallel, batch 4, 2 workers",
    ]


def test_a_graph_has_all_devices_and_the_learning_rate_of_all() -> None:
    """Each of two workers: its images, forward, backward, sums, updates by k times the rate."""
    made = cases(WORKERS, batch=1, devices=(2,), ways=("graph",), lr=0.125, memory_formats=("contiguous",))
    (label,) = made
    assert label == "one graph, sharded, batch 2, 2 workers"
    work = made[label].work
    assert work is not None
    phases = work.graph.nodes(data="phase")
    for i in (0, 1):
        found = {phase for name, phase in phases if name.startswith(f"{i}/")}
        assert found == {"forward", "backward", "reduce", "update"}
    rates = {str(task.operation) for task in work.tasks if phases[task.name] == "update"}
    assert rates
    assert all("-0.25" in rate for rate in rates)


def test_memory_formats_train_the_same_network() -> None:
    """A step of each, on two workers: the weights lie otherwise, the losses agree."""
    made = cases(WORKERS, batch=2, devices=(2,), ways=("graph",))
    assert list(made) == [
        "one graph, sharded, batch 4, 2 workers",
        "one graph, channels last, sharded, batch 4, 2 workers",
    ]
    losses, strides = [], []
    for case in made.values():
        assert case.work is not None
        weight = next(value for name, value in case.work.values.items() if name.endswith("stage2.0.conv1.weight"))
        strides.append(case.work.tensors[weight.name].stride(1))
        with gs.Program(gs.schedule(case.work, WORKERS, scheduler="one_stream")) as program:
            losses.append(next(value.item() for name, value in program.run().items() if name.endswith("loss")))
    assert strides == [9, 1]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("missing", [None, "a C compiler"])
def test_torch_compile_is_left_out_where_it_cannot_work(missing: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    import experiments.resnet18_data_parallel as module

    load("resnet18_data_parallel")
    monkeypatch.setattr(module, "missing_for_compile", lambda device: missing)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", GraphschedWarning)
        made = [case.label for case in module.resnet18_data_parallel.cases(GPUS, devices=(1,), ways=("compile", "ddp"))]
    compiled = [] if missing else ["DistributedDataParallel, torch.compile, batch 256, 1 GPU"]
    assert made == ["DistributedDataParallel, batch 256, 1 GPU", *compiled]
    expected = ["torch.compile is left out: it needs a C compiler, which is not here"] if missing else []
    assert [str(note.message) for note in noted] == expected


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"ways": ("text",)}, "no way 'text': there are parallel, ddp, compile, graph"),
        ({"reduce": ("star",)}, "no way to sum gradients 'star'"),
        ({"devices": (0,)}, "parameter 'devices' is 0: a number above 0"),
        ({"epochs": 1, "batch": 1024}, "a batch of 4096 is more than the 3072 images"),
        ({"every": -1}, "parameter 'every' is -1: a number of steps is needed"),
    ],
)
def test_what_cannot_be_done_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        cases(**wrong)


def test_a_folder_for_checkpoints_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A file is in its place."""
    (tmp_path / "kept").touch()
    with pytest.raises(OutputError, match=r"parameter 'checkpoints' is '.*/kept': cannot write into folder"):
        cases(ways=("ddp",), checkpoints=str(tmp_path / "kept"))
