"""Training runs: figures, stops, checkpoints, errors; on plans and in plain PyTorch."""

from __future__ import annotations

import copy
import io
import itertools
import math
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graphsched as gs
from experiments.training.checkpoints import FIGURES
from experiments.training.evaluating import Evaluation
from experiments.training.loop import Course, train
from experiments.training.results import PlainStep, reading
from graphsched.errors import ExperimentError, FileFormatError
from graphsched.partition.batches import split
from graphsched.partition.data_parallel import data_parallel
from models.data import Dataset, batches
from tests.executors.programs import machine

HERE = machine("worker:0", "worker:1")
BATCH, SEED = 8, 3


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """A shell that starts tests in the background has them ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def dataset(count: int = 44, tests: int = 11) -> Dataset:
    """Images of four numbers; their largest is the label, so that it can be learned."""
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(count + tests, 4, generator=generator)
    labels = images.argmax(1)
    return Dataset(images[:count], labels[:count], images[count:], labels[count:])


def network(dropout: float = 0.0, hidden: int = 6) -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 4))


def sgd_of(net: nn.Module, rate: float = 0.5) -> torch.optim.SGD:
    return torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)


def plain(net: nn.Module | None = None, rate: float = 0.5) -> PlainStep:
    net = net or network()
    return PlainStep(net, F.cross_entropy, sgd_of(net, rate))


def program(dropout: float = 0.0, hidden: int = 6, shards: int = 0) -> gs.Program:
    """A training step as a plan; it begins with the same states each time."""
    net, data = network(dropout, hidden), dataset()
    x, y = data.train_images[:BATCH], data.train_labels[:BATCH]
    device = None if shards else "worker:0"
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=sgd_of(net), device=device)
    if shards:
        work = data_parallel(work, [f"worker:{i}" for i in range(shards)])
    return gs.Program(gs.schedule(work, HERE, scheduler="one_stream"))


class Interrupted:
    """A step in which Ctrl-C is pressed when it is submitted for the `last` time."""

    def __init__(self, step: Any, last: int, times: int = 1) -> None:
        self.step, self.left, self.times = step, last, times

    def submit(self, **inputs: Any) -> Any:
        handle = self.step.submit(**inputs)
        self.left -= 1
        for _ in range(self.times if self.left == 0 else 0):
            signal.raise_signal(signal.SIGINT)
        return handle

    def state(self) -> Any:
        return self.step.state()

    def reset(self, states: Any) -> None:
        self.step.reset(states)


def run(step: Any, **options: Any) -> Course:
    given: dict[str, Any] = {"epochs": 3, "batch": BATCH, "seed": SEED, "quiet": True}
    return train(step, dataset(), **(given | options))


def figures(course: Course) -> list[dict[str, float]]:
    """The history without times."""
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in course.history]


def same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> bool:
    """To the bit."""
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


# -- figures ------------------------------------------------------------------------------------------


def test_a_run_is_the_loop_that_users_write() -> None:
    net, data = network(), dataset()
    sgd, history = sgd_of(net), []
    for epoch in range(3):
        losses, right = [], 0
        for x, y in batches(data.train_images, data.train_labels, BATCH, seed=SEED, epoch=epoch, drop_last=True):
            sgd.zero_grad()
            output = net(x)
            loss = F.cross_entropy(output, y)
            loss.backward()
            sgd.step()
            losses.append(float(loss.detach()))
            right += int((output.argmax(1) == y).sum())
        history.append({"loss": sum(losses) / len(losses), "accuracy": right / 40, "images": 40})
    step = plain()
    course = run(step)
    assert [set(epoch) for epoch in course.history] == [{"loss", "accuracy", "images", "seconds"}] * 3
    for found, wanted in zip(course.history, history, strict=True):
        assert found == pytest.approx(wanted | {"seconds": found["seconds"]}, rel=1e-12)
    states = step.state()
    assert same(
        {name: p.detach() for name, p in net.named_parameters()}, {name: states[name] for name in net.state_dict()}
    )
    assert course.images_per_s == pytest.approx(120 / sum(epoch["seconds"] for epoch in course.history))


@pytest.mark.parametrize("shards", [0, 1, 2])
def test_plans_learn_what_plain_pytorch_learns(shards: int) -> None:
    wanted = plain()
    expected = run(wanted)

    def inputs(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return split({"input": x, "target": y}, shards) if shards else {"input": x, "target": y}

    with program(shards=shards) as step:
        course = run(step, inputs=inputs)
        states = step.state()
    for found, epoch in zip(figures(course), figures(expected), strict=True):
        assert found == pytest.approx(epoch, rel=1e-5)
    for name, tensor in wanted.state().items():
        torch.testing.assert_close(states[f"0/{name}" if shards else name], tensor, rtol=1e-4, atol=1e-6)


def test_the_test_accuracy_is_that_of_the_network_in_eval_mode() -> None:
    """Dropout is off, and the 11 images take batches of 4, 4 and 3."""
    net, data = network(dropout=0.9), dataset()
    x, y = data.test_images, data.test_labels
    with Evaluation(net, x, y, HERE, "worker:1", batch=4) as evaluate:
        assert net.training
        for seed in range(6):
            torch.manual_seed(seed)
            states = {name: torch.randn(tensor.shape) for name, tensor in net.state_dict().items()}
            other = copy.deepcopy(net).eval()
            other.load_state_dict(states)
            expected = float((other(x).argmax(1) == y).float().mean())
            assert evaluate(states) == pytest.approx(expected)
            assert evaluate({f"0/{name}": tensor for name, tensor in states.items()}) == pytest.approx(expected)
        with pytest.raises(ExperimentError, match=r"no state '.*' to test the network with: there are weight"):
            evaluate({"weight": torch.ones(1)})
    with pytest.raises(ExperimentError, match="3 labels for 11 images to test on"):
        Evaluation(net, x, y[:3], HERE, "worker:0")


def test_the_test_comes_after_each_epoch() -> None:
    step, seen = plain(), []

    def evaluate(states: Any) -> float:
        seen.append(states)
        return 0.25 * len(seen)

    course = run(step, evaluate=evaluate)
    assert course.curves()["test_accuracy"] == [0.25, 0.5, 0.75]
    assert same(seen[-1], step.state())
    assert not same(seen[0], seen[1])


# -- stopped and continued ----------------------------------------------------------------------------


@pytest.mark.parametrize(("shards", "dropout"), [(0, 0.5), (2, 0.0)])
@pytest.mark.parametrize("last", [1, 3, 5, 8])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    tmp_path: Path, last: int, shards: int, dropout: float
) -> None:
    """Stopped in the first and in the second epoch of five steps, and after the last step of one."""
    file = tmp_path / "run.pt"

    def inputs(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return split({"input": x, "target": y}, shards) if shards else {"input": x, "target": y}

    def evaluate(states: Any) -> float:
        return float(sum(tensor.double().sum() for tensor in states.values()))

    torch.manual_seed(11)
    with program(dropout, shards=shards) as step:
        whole = run(step, inputs=inputs, evaluate=evaluate)
        expected = step.state()
    torch.manual_seed(11)
    with program(dropout, shards=shards) as step, pytest.raises(KeyboardInterrupt):
        run(Interrupted(step, last), inputs=inputs, evaluate=evaluate, checkpoint=file)
    torch.manual_seed(99)
    with program(dropout, shards=shards) as step:
        course = run(step, inputs=inputs, evaluate=evaluate, checkpoint=file)
        assert same(step.state(), expected)
    assert figures(course) == figures(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_a_stopped_run_knows_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(plain(), 8), checkpoint=file)
    kept = torch.load(file, weights_only=True)
    assert (kept["epoch"], kept["step"], len(kept["history"]), kept["running"]["images"]) == (1, 3, 1, 24)


def test_an_interrupt_tells_where_the_run_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At once before anything is kept, after a step, and that where it is quiet, as on ranks but the first."""
    file = tmp_path / "run.pt"
    told = f"mine: kept in {file}: the same command goes on from there\n"
    for times, quiet, expected in ((2, False, ""), (1, False, told), (1, True, "")):
        with pytest.raises(KeyboardInterrupt):
            run(Interrupted(plain(), 2, times), checkpoint=file, quiet=quiet, title="mine")
        assert capsys.readouterr().err == expected
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(plain(), 2), quiet=False)
    assert capsys.readouterr().err == ""


def test_plain_pytorch_goes_on_with_its_momenta(tmp_path: Path) -> None:
    whole, stopped, course = plain(), plain(), plain()
    run(whole)
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(stopped, 7), checkpoint=tmp_path / "run.pt")
    run(course, checkpoint=tmp_path / "run.pt")
    assert same(course.state(), whole.state())
    assert any(name.endswith("/momentum_buffer") for name in course.state())
    with pytest.raises(ExperimentError, match=r"the optimizer is Adam: torch.optim.SGD is needed"):
        PlainStep(network(), F.cross_entropy, torch.optim.Adam(network().parameters()))


def test_momenta_that_would_begin_dampened_are_refused() -> None:
    """Torch's first step takes gradients as they are; behind one it is as it goes on."""
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9, dampening=0.5)
    with pytest.raises(ExperimentError, match=r"dampening 0.5 and no momenta yet"):
        PlainStep(net, F.cross_entropy, optimizer)
    F.cross_entropy(net(torch.ones(2, 4)), torch.tensor([0, 1])).backward()
    optimizer.step()
    assert "0.bias/momentum_buffer" in PlainStep(net, F.cross_entropy, optimizer).state()


def test_a_run_that_is_over_can_be_made_longer(tmp_path: Path) -> None:
    file, whole, step = tmp_path / "run.pt", plain(), plain()
    expected = run(whole, epochs=4)
    run(step, epochs=2, checkpoint=file)
    course = run(plain(), epochs=2, checkpoint=file)
    assert course.epoch == 2
    assert figures(course) == figures(expected)[:2]
    longer = plain()
    assert figures(run(longer, epochs=4, checkpoint=file)) == figures(expected)
    assert same(longer.state(), whole.state())


def test_a_second_interrupt_ends_the_run_at_once(tmp_path: Path) -> None:
    """Nothing is kept of an epoch that was under way."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(plain(), 2, times=2), checkpoint=tmp_path / "run.pt")
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_checkpoint_an_interrupt_ends_the_run_at_once() -> None:
    step = Interrupted(plain(), 2)
    with pytest.raises(KeyboardInterrupt):
        run(step)
    assert step.left == 0


# -- wrong requests -----------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The checkpoint of a run of one epoch."""
    run(plain(), epochs=1, checkpoint=tmp_path / "run.pt")
    return tmp_path / "run.pt"


def test_a_checkpoint_of_another_run_is_refused(kept: Path) -> None:
    content = kept.read_bytes()
    with pytest.raises(ExperimentError, match=r"run.pt is of a run with batch 8, not 4: give that, or another file"):
        run(plain(), batch=4, checkpoint=kept)
    with pytest.raises(ExperimentError, match=r"of a run with seed 3, not 4"):
        run(plain(), seed=4, checkpoint=kept)
    with pytest.raises(ExperimentError, match=r"of a run with images 44, not 40"):
        train(plain(), dataset(40), epochs=2, batch=BATCH, seed=SEED, checkpoint=kept)
    other = dataset()
    other.train_labels[3] = (other.train_labels[3] + 1) % 4
    with pytest.raises(ExperimentError, match=r"run.pt is of a run on other images or labels: give those, or another"):
        train(plain(), other, epochs=2, batch=BATCH, seed=SEED, checkpoint=kept)
    step = plain(network(hidden=7))
    before = step.state()
    words = r"another network: '0.bias' is float32\[6\] there and float32\[7\] here"
    with pytest.raises(ExperimentError, match=words):
        run(step, checkpoint=kept)
    assert same(step.state(), before)
    with pytest.raises(ExperimentError, match=r"'0.bias' is float32\[6\] there and missing here"):
        run(plain(nn.Sequential(nn.Flatten(), nn.Linear(4, 4))), checkpoint=kept)
    assert kept.read_bytes() == content


def test_a_run_goes_on_by_the_test_images_that_it_was_tested_by(tmp_path: Path) -> None:
    """Or without; a figure that only some epochs have has gaps."""
    file, other = tmp_path / "run.pt", dataset()
    other.test_labels[0] = (other.test_labels[0] + 1) % 4
    options: dict[str, Any] = {"batch": BATCH, "seed": SEED, "checkpoint": file, "quiet": True}
    run(plain(), epochs=1, checkpoint=file, evaluate=lambda states: 0.5)
    with pytest.raises(ExperimentError, match=r"run.pt is of a run tested by other images or labels: give those, or"):
        train(plain(), other, epochs=2, evaluate=lambda states: 0.25, **options)
    assert torch.tensor(train(plain(), other, epochs=2, **options).curves()["test_accuracy"]).isnan().tolist() == [
        False,
        True,
    ]
    with pytest.raises(ExperimentError, match=r"run.pt is of a run tested by other images or labels: give those, or"):
        train(plain(), other, epochs=3, evaluate=lambda states: 0.25, **options)


def test_times_are_of_epochs_that_this_run_has_made(tmp_path: Path) -> None:
    """Two epochs and a part of the third, then the rest of five by another."""
    file = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(plain(), 12), epochs=5, checkpoint=file)
    course = run(plain(), epochs=5, checkpoint=file)
    assert len(course.history) == 5
    assert course.timed == course.history[3:]
    assert course.images_per_s == pytest.approx(80 / sum(epoch["seconds"] for epoch in course.history[3:]))
    again = run(plain(), epochs=5, checkpoint=file)
    assert (again.timed, again.images_per_s) == ([], None)


def test_a_file_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"cannot read .*xxx: File name too long"):
        run(plain(), checkpoint=tmp_path / ("x" * 300))


def test_a_step_without_output_is_told() -> None:
    with pytest.raises(ExperimentError, match="the step returns loss, more: output and loss are needed"):
        reading({"loss": torch.tensor(1.0), "more": torch.ones(2)})


def test_a_data_set_without_images_is_refused() -> None:
    with pytest.raises(ExperimentError, match="there are no images: give some"):
        train(plain(), dataset(0), epochs=1, batch=1, seed=SEED)


def test_a_damaged_checkpoint_is_refused(kept: Path) -> None:
    content = kept.read_bytes()
    kept.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match=r"run.pt is no whole checkpoint"):
        run(plain(), checkpoint=kept)
    torch.save({"weights": torch.ones(2)}, kept)
    with pytest.raises(FileFormatError, match=r"run.pt is no checkpoint of a training, or of another version"):
        run(plain(), checkpoint=kept)
    kept.unlink()
    kept.mkdir()
    with pytest.raises(FileFormatError, match=r"cannot read .*run.pt"):
        run(plain(), checkpoint=kept)


def test_a_checkpoint_with_a_bit_that_fell_over_is_refused(kept: Path) -> None:
    """Torch would take it: it does not look at the checksums that it writes."""
    content = bytearray(kept.read_bytes())
    weight = torch.load(kept, weights_only=True)["states"]["0.weight"].numpy().tobytes()
    content[content.index(weight)] ^= 1
    kept.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"run.pt is no whole checkpoint"):
        run(plain(), checkpoint=kept)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("epoch", "x", "its epoch is 'x'"),
        ("epoch", -3, "its epoch is -3"),
        ("batch", True, "its batch is True"),
        ("rate", "fast", "its rate is 'fast'"),
        ("history", [1], "its tables are of other types"),
        ("history", None, "its lists are of other types"),
        ("random", 5, "its lists are of other types"),
        ("random", [5], "its lists are of other types"),
        ("states", {"0.bias": 1}, "its states are no tensors"),
        ("states", {}, "its states are not those of its network"),
        ("random", [[]], "its random numbers are of no generator"),
        ("random", [[torch.zeros(3)]], "its random numbers are of no generator"),
        ("history", [{"loss": 1.0}], "its history is without figures of an epoch"),
        ("history", [dict.fromkeys(FIGURES["history"], "x")], "its history is without figures of an epoch"),
        ("running", {"loss": 1.0}, "its running is without figures of an epoch"),
        ("history", [], "its figures are not those of 1 epochs and 0 steps"),
        ("step", 2, "its figures are not those of 1 epochs and 2 steps"),
        ("step", 5, "its step is 5, of 44 images in batches of 8"),
        ("batch", 0, "its step is 0, of 44 images in batches of 0"),
    ],
)
def test_a_checkpoint_with_other_content_is_refused(kept: Path, name: str, value: Any, told: str) -> None:
    content = torch.load(kept, weights_only=True)
    torch.save(content | {name: value}, kept)
    with pytest.raises(FileFormatError, match=rf"run.pt is no checkpoint of a training: {told}: begin anew"):
        run(plain(), checkpoint=kept)


@pytest.mark.parametrize("size", [3, 5056])
def test_random_numbers_of_another_torch_are_refused(kept: Path, size: int) -> None:
    """The step is as it was."""
    torch.save(torch.load(kept, weights_only=True) | {"random": [[torch.zeros(size, dtype=torch.uint8)]]}, kept)
    step = plain()
    before = step.state()
    with pytest.raises(FileFormatError, match=r"run.pt is no checkpoint to go on from: .* are none of torch \d.*: beg"):
        run(step, checkpoint=kept)
    assert same(step.state(), before)


def test_what_is_over_is_no_result_of_another_run(tmp_path: Path) -> None:
    """It may go on at another rate, for more epochs."""
    file = tmp_path / "run.pt"
    run(plain(), epochs=1, rate=1, checkpoint=file)  # a whole number is a rate
    run(plain(), epochs=2, rate=0.5, checkpoint=file)
    with pytest.raises(ExperimentError, match=r"come to its end with a learning rate of 0.5, not 0.1: give that, ask"):
        run(plain(rate=0.1), epochs=2, rate=0.1, checkpoint=file)
    with pytest.raises(ExperimentError, match=r"further than the 1 epochs asked for \(epoch 2, step 0\): ask for more"):
        run(plain(), epochs=1, rate=0.5, checkpoint=file)
    assert run(plain(), epochs=2, rate=0.5, checkpoint=file).epoch == 2
    assert run(plain(rate=0.1), epochs=3, rate=0.1, checkpoint=file).epoch == 3


class Hostile:
    """Would run code when it is unpickled."""

    def __reduce__(self) -> Any:
        return print, ("code was run",)


def test_no_code_in_a_checkpoint_is_run(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"graphsched training": 1, "states": Hostile()}, kept)
    with pytest.raises(FileFormatError, match="no whole checkpoint"):
        run(plain(), checkpoint=kept)
    assert "code was run" not in capsys.readouterr().out


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path, value: float) -> None:
    """In the second epoch; the checkpoint is that of the first."""
    file, first, count = tmp_path / "run.pt", plain(), itertools.count(1)
    run(first, epochs=1, checkpoint=file)

    def inputs(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"input": x * value if next(count) == 3 else x, "target": y}

    with pytest.raises(ExperimentError) as caught:
        run(plain(), inputs=inputs, checkpoint=file, title="mine")
    words = "mine: the loss is nan in epoch 2, step 3 of 5: lower the learning rate, or look for inputs that are not"
    told = f"finite; {file} has what was before step 1 of epoch 2: remove it to begin anew"
    assert str(caught.value) == f"{words} {told}"
    kept = torch.load(file, weights_only=True)
    assert (kept["epoch"], kept["step"]) == (1, 0)
    assert same(kept["states"], first.state())


class Ruined(Interrupted):
    """A step whose update leaves a state that is infinite when it is submitted for the `last` time."""

    def submit(self, **inputs: Any) -> Any:
        self.left -= 1
        return self.step.submit(**inputs)

    def state(self) -> Any:
        found = self.step.state()
        found["0.bias"][1] = math.inf if self.left <= 0 else 1.0
        return found


def test_a_state_that_is_not_finite_is_not_kept(tmp_path: Path) -> None:
    """The loss of the step was finite: the update has ruined it, which the next loss would show."""
    file = tmp_path / "run.pt"
    words = "mine: '0.bias' is not finite after the update in epoch 1, step {} of 5: lower the learning rate.*; {}"
    with pytest.raises(ExperimentError, match=words.format(2, "nothing of the run is kept")):
        run(Ruined(plain(), 2), every=2, checkpoint=file, title="mine")
    assert not file.exists()
    with pytest.raises(ExperimentError, match=words.format(4, ".*run.pt has what was before step 3 of epoch 1")):
        run(Ruined(plain(), 4), every=2, checkpoint=file, title="mine", epochs=1)
    assert torch.load(file, weights_only=True)["step"] == 2


def test_a_mask_of_minus_infinity_is_no_divergence(tmp_path: Path) -> None:
    """It is a state, and was so when the run began."""
    net = network()
    net.register_buffer("mask", torch.tensor([0.0, -math.inf]))
    assert run(plain(net), epochs=1, checkpoint=tmp_path / "run.pt").epoch == 1
    assert run(plain(net), epochs=2, checkpoint=tmp_path / "run.pt").epoch == 2


def test_numbers_without_work_are_refused() -> None:
    for words, options in (
        ("epochs is 0: a number above 0", {"epochs": 0}),
        ("batch is 0: a number above 0", {"batch": 0}),
        ("batch is 45, and there are 44 images", {"batch": 45}),
        ("seed is -1: a whole number from 0", {"seed": -1}),
    ):
        with pytest.raises(ExperimentError, match=words):
            run(plain(), **options)


# -- the bar ------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_shows_loss_accuracy_and_images_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "200")
    course = run(plain(), quiet=False, title="[two] GPUs")
    shown = terminal.getvalue()
    last = course.history[-1]
    assert "[two] GPUs, epoch 3/3" in shown
    assert "15/15" in shown
    assert f"loss {last['loss']:.3f}, accuracy {100 * last['accuracy']:.1f} %" in shown
    assert "images/s" in shown


def test_there_is_no_bar_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(plain(), quiet=False)  # stderr is no terminal here
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    run(plain(), quiet=True)
    assert terminal.getvalue() == ""
