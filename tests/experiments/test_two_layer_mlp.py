"""Row 4: cases, trainings and pictures of the two-layer perceptron; its graph: see `test_central_parameters`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import experiments.two_layer_mlp as module
import graphsched as gs
from experiments.training.perceptron import Perceptron
from graphsched.errors import ExperimentError, FileFormatError, OutputError
from tests.executors.programs import machine

HERE = machine("worker:0", "worker:1")
PLAIN, ONE, TWO = "plain PyTorch, 1 worker", "one_stream, CPU and 1 worker", "heft, CPU and 2 workers"


def made(here: gs.Platform = HERE, **params: object) -> dict[str, gs.Case]:
    found = module.two_layer_mlp.cases(here, **({"hidden": 16, "batch": 512, "epochs": 2} | params))
    return {case.label: case for case in found}


def figures(case: gs.Case) -> dict[str, float]:
    assert case.metrics is not None
    return {name: value for name, value in case.metrics().items() if name != "images_per_s"}


def test_cases_are_one_device_and_both() -> None:
    labels = [PLAIN, ONE, "heft, CPU and 1 worker", "one_stream, CPU and 2 workers", TWO]
    assert list(made()) == labels
    assert list(made(machine("worker:0"))) == labels[:3]
    assert all(case.reported_s is None for case in made().values())


def test_no_case_where_no_number_of_devices_is_there() -> None:
    """Plain PyTorch alone would look as if what was asked for had been done."""
    with pytest.raises(ExperimentError, match=r"yields no case with .*'devices': \(9,\)"):
        made(devices=(9,))
    assert list(made(devices=(1, 9)))[1:] == [ONE, "heft, CPU and 1 worker"]


def test_every_case_trains_the_same_network_for_real(tmp_path: Path) -> None:
    """Better than chance (10 %) after two epochs of six steps, and as good as plain PyTorch."""
    run = made()
    expected = figures(run[PLAIN])
    assert expected["test_accuracy"] > 0.2
    for label in (ONE, TWO):
        found = figures(run[label])
        assert found.pop("max_abs_difference") < 1e-6
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)
        assert found["test_accuracy"] == pytest.approx(expected["test_accuracy"], abs=0.01)
    written = module.draw(HERE, tmp_path)
    stem = "machine-two_layer_mlp"
    assert [path.name for path in written] == [f"{stem}-training.png", f"{stem}-graph.png", f"{stem}-graph.dot"]
    assert all(path.stat().st_size for path in written)
    assert '"0/3.backward/mm.2" -> "0/3.backward/mm.2>cpu"' in written[2].read_text()


def test_nothing_is_drawn_where_nothing_was_trained(tmp_path: Path) -> None:
    made()
    assert module.draw(HERE, tmp_path) == ()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("grain", ["operator", "module"])
def test_the_picture_says_layer_and_phase(grain: str) -> None:
    work = made(grain=grain)[TWO].work
    assert work is not None
    graph = module.with_words(gs.schedule(work, HERE, scheduler="one_stream"))
    words = [label.partition("\n") for _, label in graph.nodes(data="label")]
    assert {first for first, _, _ in words} == {
        "forward", "backward", "update", "sum of gradients", "gradient", "parameter", "input", "target",
    }  # fmt: skip
    brought = sorted(rest for first, _, rest in words if first == "gradient")
    assert brought == sorted(2 * [f"layer {k} {which}" for k in (1, 2) for which in ("weight", "bias")])
    assert sorted(rest for first, _, rest in words if first == "sum of gradients") == sorted({*brought})


def test_checkpoints_are_kept_for_each_case_and_used(tmp_path: Path) -> None:
    folder = str(tmp_path / "kept")
    figures(made(checkpoints=folder)[TWO])
    (file,) = (tmp_path / "kept").iterdir()
    assert file.name == "two_layer_mlp-heft-cpu-and-2-workers.pt"
    assert torch.load(file, weights_only=True)["epoch"] == 2
    longer = figures(made(checkpoints=folder, epochs=3)[TWO])
    whole = figures(made(epochs=3)[TWO])
    assert longer == whole
    with pytest.raises(ExperimentError, match=r"is of another network: '1.bias' is float32\[16\] there"):
        figures(made(checkpoints=folder, hidden=8)[TWO])


def test_what_is_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="no grain 'fine': there are operator, module"):
        made(grain="fine")
    with pytest.raises(FileFormatError, match=f"no file train-images-idx3-ubyte or .* in {tmp_path}"):
        made(data=str(tmp_path))
    with pytest.raises(ExperimentError, match="batch is 4000, and there are 3072 images"):
        made(batch=4000)


def test_trainings_that_cannot_be_kept_as_asked_for_are_refused_with_the_cases(tmp_path: Path) -> None:
    """A file is in the place of the folder's parent."""
    (tmp_path / "file").touch()
    with pytest.raises(ExperimentError, match="parameter 'every' is -1: a number of steps is needed"):
        made(every=-1)
    with pytest.raises(OutputError, match=r"parameter 'checkpoints' is '.*file/kept': cannot write into folder"):
        made(checkpoints=str(tmp_path / "file" / "kept"))


@pytest.mark.multigpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_two_gpus_train_as_one_does(mode: str, tmp_path: Path) -> None:
    """Sums and updates on the CPU between; stopped after an epoch and continued to the bit."""
    here, devices = machine("cuda:0", "cuda:1"), ("cuda:0", "cuda:1")

    def trained(epochs: int, checkpoints: str | None = None) -> tuple[dict[str, float], dict[str, float]]:
        run = Perceptron(here, 16, 512, 0.1, epochs, checkpoints=checkpoints)
        plan = gs.schedule(run.workload(devices, "operator"), here, scheduler="one_stream", mode=mode)
        found, plain = run.figures("graph", plan, devices), run.plain_figures("plain", "cuda:0")
        del found["images_per_s"], plain["images_per_s"]
        return found, plain

    found, plain = trained(2)
    assert found["max_abs_difference"] < 1e-6
    assert found["loss"] == pytest.approx(plain["loss"], rel=1e-4)
    assert found["test_accuracy"] == pytest.approx(plain["test_accuracy"], abs=0.01)
    trained(1, str(tmp_path))
    assert trained(2, str(tmp_path)) == (found, plain)
