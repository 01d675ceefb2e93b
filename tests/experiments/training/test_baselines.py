"""Code of others: the text's loop trains as plain SGD on the whole batch, and baselines are made ready once."""

from __future__ import annotations

import os
import signal
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from experiments.training import ddp_rank
from experiments.training.baselines import Baseline, Setting
from experiments.training.ddp_rank import NO_MULTICAST, Job, work_as_rank
from experiments.training.from_scratch import get_params, train_batch
from experiments.training.in_process import Counting, FromScratch, Here, whole_network
from experiments.training.results import reading
from models.lenet import LeNet, initial_params, lenet
from tests.experiments.small import hand_written

HOST = hand_written("worker", 3)


def setting(devices: int = 2, images: int = 5, lr: float = 0.2) -> Setting:
    return Setting(LeNet, HOST, HOST.accelerators(devices), images, lr, steps=2, folder=None)


def batch(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(rows, 1, 28, 28, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 10, (rows,), generator=generator)


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_a_step_from_scratch_is_one_of_sgd_on_the_whole_batch(devices: int) -> None:
    """::

    x ─┬─ rows 0…3 ─ device 0 ─┬─ sum ─┬─ parameters on device 0
       ├─ rows 4…6 ─ device 1 ─┤       ├─ parameters on device 1
       ╰─ rows 7…9 ─ device 2 ─╯       ╰─ parameters on device 2
    """
    params = [p.double() * 20 for p in initial_params()]
    x, y = batch(10)
    whole = [p.clone().requires_grad_() for p in params]
    functional.cross_entropy(lenet(x, whole), y).backward()
    expected = [(p - 0.5 * p.grad).detach() for p in whole]
    on_devices = [get_params(params, "cpu") for _ in range(devices)]
    results = train_batch(x, y, on_devices, ["cpu"] * devices, 0.5)
    assert [len(scores) for _, scores in results] == {1: [10], 2: [5, 5], 3: [4, 3, 3]}[devices]
    for own in on_devices:
        torch.testing.assert_close(own, [p.requires_grad_() for p in expected], rtol=1e-12, atol=1e-14)
        assert all(torch.equal(a, b) for a, b in zip(own, on_devices[0], strict=True))


def test_the_loop_and_pytorch_make_the_same_steps() -> None:
    scratch, plain = FromScratch(setting(3)), whole_network(setting(1))
    for _ in range(3):
        x, y = setting().batch()
        loss, output = reading(scratch.submit(input=x, target=y).result())
        expected = plain.submit(input=x, target=y).result()
        assert loss == pytest.approx(float(expected["loss"]), rel=1e-6)
        torch.testing.assert_close(output, expected["output"])
    assert list(scratch.state()) == list(plain.state())
    torch.testing.assert_close(scratch.state(), plain.state())


def test_states_can_be_set_on_all_devices() -> None:
    one, other = FromScratch(setting(2)), FromScratch(setting(2))
    x, y = setting().batch()
    one.submit(input=x, target=y)
    other.reset(one.state())
    results = [reading(step.submit(input=x, target=y).result()) for step in (one, other)]
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])


def test_a_batch_begins_again_where_there_are_fewer_images() -> None:
    _, labels = setting(images=3072 + 7).batch()
    assert torch.equal(labels[3072:], labels[:7])


def test_a_baseline_is_made_ready_once_and_given_back() -> None:
    log: list[Any] = []

    class Steps:
        def step(self) -> None:
            log.append("step")

        def many_s(self, steps: int) -> float:
            log.append(steps)
            return 0.5

        def close(self) -> None:
            log.append("close")

    baseline = Baseline(lambda: log.append("start") or Steps(), setting(), lambda: log.append("more") or {"more": 1.0})
    baseline()
    baseline()
    assert baseline.figures() == {"step_s": 0.25, "images_per_s": 20.0, "more": 1.0}
    assert log == ["start", "step", "step", 2, "close", "more"]
    baseline()
    assert log[-2:] == ["start", "step"]


def test_steps_in_this_process_use_the_threads_of_a_lane() -> None:
    threads: list[int] = []

    class Step:
        def submit(self, **inputs: torch.Tensor) -> None:
            threads.append(torch.get_num_threads())
            assert {name: len(tensor) for name, tensor in inputs.items()} == {"input": 5, "target": 5}

    here = Here(Step(), setting())  # type: ignore[arg-type]
    here.step()
    assert here.many_s(3) > 0
    assert threads == [HOST.device("worker:0").threads] * (1 + 5 * 3)
    here.close()


def test_plain_pytorch_counts_right_answers() -> None:
    found = setting(1, images=64)
    x, y = found.batch()
    assert Counting(found)() == int((found.network()(x).argmax(1) == y).sum())


# -- one process of DistributedDataParallel, played in this one ------------------------------------------


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process changes for itself is put back."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for name in (*NO_MULTICAST, "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "lo" if name.startswith("GLOO") else "")
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)


@pytest.mark.usefixtures("alone")
def test_a_rank_answers_each_order_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    training = ddp_rank._Training
    monkeypatch.setattr(ddp_rank, "_Training", lambda *given: made.append(training(*given)) or made[-1])
    ours, theirs = Pipe()
    for order in (("step", 1), ("time", 2), None):
        ours.send(order)
    work_as_rank(0, Job(setting(1), False, str(tmp_path / "meeting")), theirs)
    answers = [ours.recv() for _ in range(3)]
    assert answers[0] == 0.0
    assert min(answers[1:]) > 0
    assert {name: os.environ[name] for name in NO_MULTICAST} == NO_MULTICAST
    plain = whole_network(setting(1))
    for _ in range(1 + 5 * 2):
        plain.submit(**dict(zip(("input", "target"), setting().batch(), strict=True)))
    found = {name.removeprefix("module."): p for name, p in made[0].net.named_parameters()}
    torch.testing.assert_close({name: p.detach() for name, p in found.items()}, plain.state())


@pytest.mark.usefixtures("alone")
def test_a_rank_that_fails_says_why(tmp_path: Path) -> None:
    def broken() -> torch.nn.Module:
        raise RuntimeError("out of luck")

    ours, theirs = Pipe()
    broken_setting = Setting(broken, HOST, HOST.accelerators(1), 5, 0.2, 2, None)
    with pytest.raises(SystemExit):
        work_as_rank(0, Job(broken_setting, False, str(tmp_path / "meeting")), theirs)
    assert ours.recv() == "RuntimeError: out of luck"
    torch.distributed.destroy_process_group()
