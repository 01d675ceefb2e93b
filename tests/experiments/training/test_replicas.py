"""Training steps over several devices: their inputs, their figures by mode, and the course of trainings.

::

    0/x ─ h2d ─ 0/… forward, backward ─┬─ sums ─┬─ 0/update
    1/x ─ h2d ─ 1/… forward, backward ─╯        ╰─ 1/update
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import graphsched as gs
from experiments.training.baselines import Setting, dataset
from experiments.training.in_process import FromScratch
from experiments.training.learning import Courses, counted_accuracy, plain_accuracy
from experiments.training.replicas import StepCase, StepFigures, check_split, counting, given, graph_case, training_step
from graphsched.errors import ExperimentError
from models.lenet import LeNet
from tests.experiments.small import hand_written
from tests.experiments.small_images import write_images

HOST = hand_written("worker", 3)


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are estimated, which takes no time."""
    monkeypatch.setattr(gs, "profile", lambda *_, **__: gs.Costs(), raising=False)


def setting(devices: int = 2, images: int = 5, folder: str | None = None) -> Setting:
    return Setting(LeNet, HOST, HOST.accelerators(devices), images, 0.2, steps=2, folder=folder)


def normalising() -> torch.nn.Module:
    """A network whose answers rest on running statistics."""
    return torch.nn.Sequential(torch.nn.BatchNorm2d(1), torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))


def test_a_batch_becomes_the_inputs_of_each_device() -> None:
    work = training_step(setting(2), "gather", 1024)
    x, y = setting().batch()
    parts = given(work, x, y, 2)
    assert {name: len(part) for name, part in parts.items()} == {"0/x": 3, "0/target": 3, "1/x": 2, "1/target": 2}
    assert torch.equal(torch.cat([parts["0/x"], parts["1/x"]]), x)
    assert torch.equal(torch.cat([parts["0/target"], parts["1/target"]]), y)
    assert {v.device for v in work.values.values() if v.kind == "input"} == {"cpu"}


def test_buckets_are_as_large_as_is_said() -> None:
    """0 KiB: each of LeNet's eight gradients is summed by itself."""
    counts = {}
    for kib in (0, 1024):
        tasks = training_step(setting(2), "gather", kib).graph
        counts[kib] = sum(name.startswith("0/bucket") and name.endswith("/sum") for name in tasks)
    assert counts == {0: 8, 1024: 1}


def test_figures_are_those_of_the_mode() -> None:
    case = StepCase("a step", counting(setting(1)), figures=lambda mode: {f"{mode}_s": 1.0})
    for mode in ("eager", "graph"):
        made = case.in_mode(mode)
        assert made.mode == mode
        assert made.metrics is not None
        assert made.metrics() == {f"{mode}_s": 1.0}


@pytest.mark.usefixtures("estimates")
def test_steps_in_a_row_are_measured_and_predicted() -> None:
    more: list[object] = []
    work = counting(setting(2))
    case = graph_case("right answers", setting(2), work, "one_stream", lambda *given: more.append(given) or {})
    assert case.label == "right answers, batch 5, 2 workers"
    metrics = case.in_mode("eager").metrics
    assert metrics is not None
    found = metrics()
    assert found["step_error"] == pytest.approx(found["step_predicted_s"] / found["step_s"] - 1)
    assert found["images_per_s"] == pytest.approx(5 / found["step_with_loading_s"])
    assert found["step_predicted_s"] > 0
    ((label, steps, mode),) = more
    assert (label, mode) == (case.label, "eager")
    assert steps.work is work


def test_a_step_among_many_is_their_slope() -> None:
    steps = StepFigures(replace(setting(), steps=5), gs.Workload(), "one_stream")
    assert steps._per_step(lambda n: 10.0 + 3.0 * n) == 3.0


def test_figures_of_steps_measure_no_curves_that_their_plan_does_not_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The costs that a run has measured for one lane a device serve its steps too."""
    asked: list[tuple[bool, bool]] = []

    def profile(work: gs.Workload | gs.Plan, *_: object, concurrency: bool = True, **__: object) -> gs.Costs:
        asked.append((isinstance(work, gs.Plan), concurrency))
        return gs.Costs()

    monkeypatch.setattr(gs, "profile", profile)
    for scheduler in ("one_stream", "round_robin"):
        StepFigures(setting(2, 6), training_step(setting(2, 6), "gather", 1024), scheduler).plan("eager")
    assert asked == [(False, False), (True, False), (False, True), (True, True)]


def test_what_cannot_be_split_or_trained_is_refused(tmp_path: Path) -> None:
    few = write_images(tmp_path, 8, 4)
    check_split(setting(2, 8, few), 1)
    for wrong, epochs, words in (
        (setting(3, 2), 0, "a batch of 2 cannot be split over 3 devices"),
        (replace(setting(), steps=1), 0, "parameter 'steps' is 1: 2 or more"),
        (setting(), -1, "parameter 'epochs' is -1"),
        (setting(2, 9, few), 1, "a batch of 9 is more than the 8 images"),
    ):
        with pytest.raises(ExperimentError, match=words):
            check_split(wrong, epochs)


@pytest.mark.parametrize("make", [LeNet, normalising])
def test_accuracy_is_counted_on_all_devices(make: type[torch.nn.Module], tmp_path: Path) -> None:
    """50 images, 16 at a time: the last batch is filled up with images that count for nothing."""
    here = replace(setting(3, 16, write_images(tmp_path, 16, 50)), make=make)
    states = {k: v.clone() for k, v in here.network().state_dict().items()}
    for tensor in states.values():
        if tensor.is_floating_point():
            tensor += 0.3 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(2))
    work = counting(here)
    with gs.Program(gs.schedule(work, HOST, scheduler="one_stream")) as program:
        every = {f"{i}/{name}": tensor for i in range(3) for name, tensor in states.items()}
        counted = counted_accuracy(program, here, every | {"0/constant": torch.zeros(3)})
    net, images = here.network().eval(), dataset(here.folder)
    net.load_state_dict(states)
    right = int((net(images.test_images).argmax(1) == images.test_labels).sum())
    assert counted == plain_accuracy(here, {f"module.{name}": t for name, t in states.items()}) == right / 50 > 0


@pytest.mark.usefixtures("estimates")
def test_a_graph_learns_what_the_loop_learns(tmp_path: Path) -> None:
    here = replace(setting(3, 16, write_images(tmp_path, 64, 20)), lr=0.5)
    courses = Courses("lenet", epochs=2)
    steps = StepFigures(here, training_step(here, "sharded", 1024), "one_stream")
    graph = courses.by_graph("a graph", steps, "eager")
    loop = courses.by_others("the loop", here, lambda: FromScratch(here))
    assert list(graph) == ["loss", "accuracy", "test_accuracy", "epoch_s"]
    assert list(courses.found) == ["a graph, eager", "the loop"]
    ours, theirs = (course.history for course in courses.found.values())
    assert len(ours) == len(theirs) == 2
    for one, other in zip(ours, theirs, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert (one["accuracy"], one["test_accuracy"]) == (other["accuracy"], other["test_accuracy"])
        assert one["images"] == 64
    assert (graph["loss"], loop["loss"]) == (ours[-1]["loss"], theirs[-1]["loss"])
    picture = tmp_path / "courses.png"
    assert courses.draw(picture, "two ways") == (picture,)
    assert picture.stat().st_size > 0


def test_without_epochs_nothing_is_trained(tmp_path: Path) -> None:
    courses = Courses("lenet")
    steps = StepFigures(setting(), gs.Workload(), "one_stream")
    assert courses.by_graph("a graph", steps, "eager") == courses.by_others("the loop", setting(), FromScratch) == {}
    assert courses.draw(tmp_path / "nothing.png", "nothing") == ()


@pytest.mark.multigpu
@pytest.mark.usefixtures("estimates")
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_graphs_on_gpus_learn_what_the_loop_learns(mode: str, tmp_path: Path) -> None:
    host = hand_written("cuda", 2)
    folder = write_images(tmp_path, 64, 20)
    here = Setting(LeNet, host, host.accelerators(2), 16, 0.5, steps=2, folder=folder)
    courses = Courses("lenet", epochs=2)
    courses.by_graph("a graph", StepFigures(here, training_step(here, "gather", 1024), "one_stream"), mode)
    courses.by_others("the loop", here, lambda: FromScratch(here))
    ours, theirs = (course.history for course in courses.found.values())
    for one, other in zip(ours, theirs, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
