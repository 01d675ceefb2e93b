"""Results of programs equal those of the same functions called by plain PyTorch."""

from __future__ import annotations

import pytest
import torch

from graphsched.executors import Program
from graphsched.schedulers import schedule, schedulers
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import (
    WORKERS,
    Plain,
    add7,
    assert_same,
    by_hand,
    digits,
    double_,
    mm7,
    random_plan,
    random_workload,
    step_,
    top,
)

DEVICES = ("worker:0", "worker:1", "cpu")


@pytest.mark.parametrize("scheduler", schedulers())
@pytest.mark.parametrize("seed", range(3))
def test_every_scheduler_gives_the_results_of_plain_pytorch(scheduler: str, seed: int) -> None:
    """Random graphs: inputs, states and their views, several outputs, nested arguments, copies, barriers."""
    if scheduler == "optimal":
        pytest.importorskip("ortools")
    work = random_workload(seed, DEVICES)
    plain = Plain(work)
    with Program(schedule(work, WORKERS, scheduler=scheduler)) as program:
        for step in range(2):
            x = digits(100 + step)
            assert_same(program.run(x=x), plain.run(x=x))
        assert_same(program.state(), plain.states)


@pytest.mark.parametrize("seed", range(16))
def test_random_placements_give_the_results_of_plain_pytorch(seed: int) -> None:
    """The same on random lanes in a random order, three runs of one program."""
    work = random_workload(seed, DEVICES)
    plain = Plain(work)
    with Program(random_plan(work, WORKERS, seed + 50)) as program:
        for step in range(3):
            x = digits(100 + step)
            assert_same(program.run(x=x), plain.run(x=x))
        assert_same(program.state(), plain.states)


def test_an_update_waits_for_readers_on_other_lanes() -> None:
    """x ──▶ old(w) on w0;  step_(w, x) on w1;  new(w) on w0: a loop over runs carries w on."""
    work = Workload()
    x, w = work.input("x", digits(1)), work.state("w", digits(2))
    work.task(mm7, w, x, name="old")
    work.task(step_, w, x, updates=w, name="step")
    work.task(add7, w, x, name="new")
    plan = by_hand(work, WORKERS, {"old": "cpu/w0", "step": "cpu/w1", "new": "cpu/w0"})
    expected, state = {}, digits(2)
    with Program(plan) as program:
        for _ in range(3):
            expected = {"old": mm7(state, digits(1))}
            step_(state, digits(1))
            expected["new"] = add7(state, digits(1))
            assert_same(program.run(), expected)
            assert_same(program.state(), {"w": state})


def test_an_update_through_a_view_is_seen_in_the_state() -> None:
    """w ──▶ top(w) ──▶ double_(top): w's upper half doubles in every run."""
    work = Workload()
    w = work.state("w", torch.ones(8, 8))
    part = work.task(top, w, name="part")
    work.task(double_, part, updates=part, name="double")
    with Program(by_hand(work, WORKERS, "worker:1/s0")) as program:
        for _ in range(2):
            program.run()
        assert program.state()["w"].tolist() == [[4.0] * 8] * 4 + [[1.0] * 8] * 4


def test_a_device_gets_its_own_copy_of_each_version_of_a_state() -> None:
    """w (worker:0) ──▶ a (worker:1);  step_(w) on worker:0;  w ──▶ b (worker:1)."""
    work = Workload()
    w = work.state("w", torch.ones(8, 8), device="worker:0")
    work.task(torch.neg, w, name="a", device="worker:1")
    work.task(step_, w, 1.0, updates=w, name="step")
    work.task(torch.neg, w, name="b", device="worker:1")
    plan = by_hand(work, WORKERS, {"a": "worker:1/s0", "step": "worker:0/s0", "b": "worker:1/s1"})
    with Program(plan) as program:
        results = program.run()
    assert {name: t[0, 0].item() for name, t in results.items()} == {"a": -1.0, "b": -2.0}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(torch.arange(12.0).reshape(3, 4).t(), id="transposed"),
        pytest.param(torch.arange(24.0).reshape(4, 6)[:, ::2], id="with gaps"),
        pytest.param(torch.arange(3.0).expand(4, 3), id="expanded"),
        pytest.param(torch.empty(4, 0), id="empty"),
        pytest.param(torch.tensor(3.0), id="scalar"),
        pytest.param(torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last), id="channels last"),
    ],
)
def test_inputs_of_any_layout(given: torch.Tensor) -> None:
    """x (cpu) ──▶ y = -x on worker:0 ──▶ back on the cpu."""
    work = Workload()
    y = work.task(torch.neg, work.input("x", given), name="y")
    work.copy(y, to="cpu", name="back")
    work.keep(y)
    with Program(by_hand(work, WORKERS, "worker:0/s0")) as program:
        results = program.run(x=given + 1)
    assert torch.equal(results["y"], -(given + 1))
    assert torch.equal(results["back"], -(given + 1))


def test_a_copy_keeps_strides_that_a_reader_may_rely_on() -> None:
    """x (cpu, channels last) ──▶ copy on worker:0 ──▶ rows: a view that a contiguous tensor would not allow."""
    work = Workload()
    x = work.input("x", torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last))
    there = work.copy(x, to="worker:0", name="there")
    work.task(lambda t: t.permute(0, 2, 3, 1).view(-1, 3), there, name="rows")
    with Program(by_hand(work, WORKERS, "worker:0/s0")) as program:
        assert program.run()["rows"].shape == (40, 3)


def test_values_without_tensors_and_outputs_of_no_task() -> None:
    """A task that returns nothing, one of several outputs in a list, one without arguments."""
    seen = []
    work = Workload()
    ones = work.task(torch.ones, 2, name="ones")
    work.task(lambda t: [t + 1, t + 2], ones, name="two")
    work.task(lambda t: seen.append(1), ones, name="none", outputs=[])
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        results = program.run()
    assert {name: t.tolist() for name, t in results.items()} == {"two.0": [2.0, 2.0], "two.1": [3.0, 3.0]}
    assert seen == [1]


def test_an_empty_plan_runs() -> None:
    """No tasks at all."""
    with Program(by_hand(Workload(), WORKERS, {})) as program:
        assert program.run() == {}


def test_gradients_are_not_recorded() -> None:
    """A parameter that wants gradients is read by a task on a lane's thread."""
    work = Workload()
    w = work.state("w", torch.nn.Parameter(torch.ones(2)))
    work.task(torch.neg, w, name="y", outputs=[TensorSpec((2,))])
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        assert not program.run()["y"].requires_grad
