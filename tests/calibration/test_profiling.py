"""Operations of workloads measured alone: what is chosen, with what arguments, and what stays as it was."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.calibration import profile
from graphsched.calibration import profiling as module
from graphsched.calibration.choosing import missing, needed_for
from graphsched.calibration.cpu_operations import MOST_SETS, SETS, Sampled
from graphsched.calibration.fetched_operands import Fetched
from graphsched.calibration.host import host_facts
from graphsched.calibration.lane_pace import Yardsticks
from graphsched.calibration.serial_run import SerialRun, clone
from graphsched.costs import Costs, TaskCost
from graphsched.errors import PlatformError, TaskFailedError
from graphsched.platform import Device, Platform
from graphsched.workload import Operation, TensorSpec, Workload

HERE = Platform("here", (Device("cpu", "cpu", "EPYC"), Device("worker:0", "worker", "EPYC")))
TWO = Platform(
    "two",
    (Device("cpu", "cpu", "EPYC"), Device("cuda:0", "cuda", "H200"), Device("cuda:1", "cuda", "H200")),
)


def add_into(state: torch.Tensor, x: torch.Tensor) -> None:
    """Adds in place."""
    state.add_(x)


def training() -> Workload:
    """
    x ──▶ y ──▶ update(w) ──▶ z ──▶ back
    """
    work = Workload()
    x = work.input("x", torch.full((4, 4), 2.0))
    w = work.state("w", torch.ones(4, 4))
    y = work.task(torch.mm, x, x, name="y")
    work.task(add_into, w, y, updates=w, name="update")
    z = work.task(torch.relu, w, name="z")
    work.copy(z, to="cpu", name="back")
    return work


def names(chosen: dict) -> dict[str, list[str]]:
    return {device: [t.name for t in tasks] for device, tasks in chosen.items()}


# -- choosing ----------------------------------------------------------------------------------------


def test_what_has_no_data_is_measured_on_random_numbers() -> None:
    """x, on meta, ──▶ y"""
    work = Workload()
    work.task(torch.relu, work.input("x", torch.ones(4, device="meta")), name="y")
    assert len(profile(work, HERE)) == 1


def test_each_signature_is_chosen_once_a_model() -> None:
    """a and b are the same operation, c is another:  a   b ──▶ c"""
    work = Workload()
    x = work.input("x", torch.ones(2, 2))
    work.task(torch.mm, x, x, name="a")
    b = work.task(torch.mm, x, x, name="b")
    work.task(torch.relu, b, name="c")
    assert names(missing(work, TWO, Costs())) == {"cuda:0": ["a", "c"], "cpu": ["a", "c"]}
    assert names(missing(work, HERE, Costs())) == {"cpu": ["a", "c"]}


def test_constraints_given_durations_and_known_costs_leave_tasks_out() -> None:
    """five tasks, no edges"""
    work = Workload()
    x = work.input("x", torch.ones(2, 2))
    work.task(torch.mm, x, x, name="gpu", device="cuda:1")
    work.task(torch.relu, x, name="host", device="cpu")
    work.task(torch.exp, x, name="given", duration_s=1.0)
    work.task(torch.sin, x, name="half", duration_s={"cuda": 1.0})
    known = work.task(torch.cos, x, name="known")
    costs = Costs({(work["known"].signature, model): TaskCost(1.0) for model in ("EPYC", "H200")})
    assert known.producer == "known"
    assert names(missing(work, TWO, costs)) == {"cuda:0": ["gpu"], "cpu": ["host", "half"]}


def test_only_what_a_task_reads_is_run_before_it() -> None:
    work = training()
    assert [t.name for t in needed_for(work, [work["y"]])] == ["y"]
    assert [t.name for t in needed_for(work, [work["z"]])] == ["y", "update", "z"]


# -- the serial run -----------------------------------------------------------------------------------


def test_arguments_are_the_real_ones_in_their_version() -> None:
    """w is 1 before the update and 1 + 16 after it."""
    work = training()
    wanted = [work["update"], work["z"]]
    seen = {s.task.name: [float(t[0, 0]) for t in s.tensors] for s in SerialRun(work, HERE, "cpu", wanted).steps()}
    assert seen == {"update": [1.0, 16.0], "z": [17.0]}
    assert float(work.tensors["w"][0, 0]) == 1.0


def test_calls_of_a_step_act_on_clones() -> None:
    work = training()
    steps = SerialRun(work, HERE, "cpu", [work["update"]]).steps()
    step = next(steps)
    call = step.bound()
    call()
    call()
    assert float(step.tensors[0][0, 0]) == 1.0


def test_operations_among_the_arguments_are_carried_out_in_every_call() -> None:
    """x ──▶ y = relu(double(x)): what is measured is all that a run does"""
    done: list[str] = []

    def double(x: torch.Tensor) -> torch.Tensor:
        done.append("double")
        return 2 * x

    work = Workload()
    x = work.input("x", torch.ones(2))
    work.task(torch.relu, Operation("double", double, (x,)), name="y")
    (step,) = SerialRun(work, HERE, "cpu", [work["y"]]).steps()
    call = step.bound()
    before = len(done)
    assert torch.equal(call(), torch.tensor([2.0, 2.0]))
    call()
    assert len(done) - before == 2


def test_inputs_without_a_tensor_get_random_data() -> None:
    """x ──▶ y"""
    work = Workload()
    work.task(torch.relu, work.input("x", TensorSpec((64,))), name="y")
    (step,) = SerialRun(work, HERE, "cpu", [work["y"]]).steps()
    assert step.tensors[0].std() > 0.1


@pytest.mark.parametrize("stride", [(1, 4), (8, 2), (4, 1)])
def test_clones_keep_strides(stride: tuple[int, int]) -> None:
    tensor = torch.rand(64).as_strided((4, 4), stride)
    copied = clone(tensor)
    assert copied.stride() == stride
    assert torch.equal(copied, tensor)
    assert copied.data_ptr() != tensor.data_ptr()


# -- measuring ------------------------------------------------------------------------------------------


def test_costs_are_measured_kept_and_leave_everything_as_it_was() -> None:
    work = training()
    threads = torch.get_num_threads()
    costs = profile(work, HERE)
    assert {key[1] for key in costs} == {"EPYC"}
    assert [key[0] for key in costs] == [work[n].signature for n in ("y", "update", "z")]
    for key in costs:
        cost = costs[key]
        assert cost.samples >= 20
        assert cost.quartiles_s is not None
        assert 0 < cost.quartiles_s[0] <= cost.device_s <= cost.quartiles_s[1]
    assert torch.equal(work.tensors["w"], torch.ones(4, 4))
    assert torch.get_num_threads() == threads


def test_measuring_draws_no_random_numbers_of_the_users() -> None:
    """x ──▶ noise"""
    work = Workload()
    work.task(torch.rand_like, work.input("x", torch.ones(4)), name="noise")
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    assert len(profile(work, HERE)) == 1
    assert torch.equal(torch.random.get_rng_state(), state)


def test_kept_costs_are_used_again_until_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    read: list[int] = []

    def measure_on_cpu(ready: object, yardsticks: Yardsticks, repeats: int, nbytes: int) -> TaskCost:
        calls.append(repeats)
        read.append(nbytes)
        return TaskCost(float(len(calls)))

    monkeypatch.setattr(module, "measure_on_cpu", measure_on_cpu)
    work = training()
    first = profile(work, HERE)
    assert profile(work, HERE) == first
    assert calls == [20, 20, 20]
    assert profile(work, HERE, refresh=True, repeats=30) != first
    assert calls == [20, 20, 20, 30, 30, 30]
    assert set(read) == {task.nbytes for task in work.tasks} == {128}


def test_no_garbage_is_collected_while_calls_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the runs that the costs are for; nor are gradients recorded."""
    seen = []

    def measure_on_cpu(ready: object, yardsticks: Yardsticks, repeats: int, nbytes: int) -> TaskCost:
        seen.append((gc.isenabled(), torch.is_grad_enabled()))
        return TaskCost(1.0)

    monkeypatch.setattr(module, "measure_on_cpu", measure_on_cpu)
    profile(training(), HERE, refresh=True)
    assert set(seen) == {(False, False)}
    assert gc.isenabled()


def test_beside_a_gpu_operands_of_the_cpu_are_brought_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """x ──▶ y ──▶ update(w) ──▶ z: each call is on the tensors that are fetched for it."""
    brought: list[list[int]] = []

    def one_of(clones: list[torch.Tensor]) -> Fetched:
        return Fetched(clones, lambda: brought.append([t.data_ptr() for t in clones]), 1e-4)

    def fetched(tensors: tuple[torch.Tensor, ...], sets: int) -> list[Fetched]:
        return [one_of([clone(tensor) for tensor in tensors]) for _ in range(sets)]

    def measure_on_cpu(ready: list[Sampled], yardsticks: Yardsticks, repeats: int, nbytes: int) -> TaskCost:
        assert yardsticks.threads == 2
        brought.clear()
        for sampled in ready:
            sampled.fetch()
            assert sampled.fetch_s == 1e-4
            assert {t.data_ptr() for t in sampled.call.args} == set(brought[-1])  # type: ignore[attr-defined]
        assert len({*map(tuple, brought)}) == len(ready) == MOST_SETS
        return TaskCost(1.0)

    monkeypatch.setattr(module, "host_facts", lambda: replace(host_facts(), gpus=("H200",)))
    monkeypatch.setattr(module, "fetched", fetched)
    monkeypatch.setattr(module, "measure_on_cpu", measure_on_cpu)
    several = replace(HERE, devices=(replace(HERE.device("cpu"), threads=2),))
    assert len(profile(training(), several, refresh=True)) == 3


def test_lanes_of_one_thread_have_operands_of_their_own_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on hosts without one."""
    ready: list[int] = []

    def measure_on_cpu(calls: list[Sampled], yardsticks: Yardsticks, repeats: int, nbytes: int) -> TaskCost:
        assert yardsticks.threads == 1
        ready.append(len(calls))
        return TaskCost(1.0)

    monkeypatch.setattr(module, "host_facts", lambda: replace(host_facts(), gpus=("H200",)))
    monkeypatch.setattr(module, "measure_on_cpu", measure_on_cpu)
    profile(training(), HERE, refresh=True)
    assert ready == [SETS] * 3


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, RuntimeError])
def test_what_was_measured_before_it_stopped_is_kept(
    monkeypatch: pytest.MonkeyPatch, stopped: type[BaseException]
) -> None:
    """x ──▶ y ──▶ update(w) ──▶ z: it stops at `update`, and goes on there when it is asked again."""
    work, real, left = training(), module.measure_on_cpu, iter([None, stopped])

    def measured(calls: list[Callable[[], Any]], yardsticks: Yardsticks, repeats: int, nbytes: int) -> TaskCost:
        error = next(left, None)
        if error is not None:
            raise error
        return real(calls, yardsticks, repeats, nbytes)

    monkeypatch.setattr(module, "measure_on_cpu", measured)
    begun: list[tuple[str, int, int]] = []
    with pytest.raises((stopped, TaskFailedError)):
        profile(work, HERE, repeats=3, report=lambda *part: begun.append(part))
    assert begun == [("y", 1, 3), ("update", 2, 3)]
    assert torch.is_grad_enabled()
    assert gc.isenabled()
    profile(work, HERE, repeats=3, report=lambda *part: begun.append(part))
    assert begun[2:] == [("update", 1, 2), ("z", 2, 2)]


def test_profile_returns_only_what_the_workload_needs() -> None:
    profile(training(), HERE)
    work = Workload()
    work.task(torch.relu, work.input("w", torch.ones(4, 4)), name="r")
    assert [key[0] for key in profile(work, HERE)] == [work["r"].signature]


def test_a_graph_of_durations_has_nothing_to_measure() -> None:
    assert len(profile(Workload.from_dict(training().to_dict()), HERE)) == 0


def test_a_failing_task_is_named_with_device_and_shapes() -> None:
    """x ──▶ bad"""

    def bad(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no good")

    work = Workload()
    work.task(bad, work.input("x", torch.ones(2, 3)), name="bad", outputs=[TensorSpec((2, 3))])
    with pytest.raises(TaskFailedError, match=r"'bad' failed on cpu with inputs x: float32\[2,3\]: ValueError"):
        profile(work, HERE)


def test_a_task_that_returns_something_else_is_named() -> None:
    """x ──▶ bad"""

    def bad(x: torch.Tensor) -> torch.Tensor:
        return x[:1].clone()

    work = Workload()
    work.task(bad, work.input("x", torch.ones(2, 3)), name="bad", outputs=[TensorSpec((2, 3))])
    with pytest.raises(TaskFailedError, match=r"'bad'.*returned float32\[1,3\]"):
        profile(work, HERE)


@pytest.mark.parametrize("name", ["cuda:99", "cuda:-1", "cuda:x"])
def test_a_gpu_that_is_not_here_is_refused(name: str) -> None:
    """x ──▶ y"""
    work = Workload()
    work.task(torch.relu, work.input("x", torch.ones(2)), name="y", device=name)
    elsewhere = Platform("far", (Device("cpu", "cpu", "EPYC"), Device(name, "cuda", "H200")))
    with pytest.raises(PlatformError, match=f"platform 'far' says that {name} is 'H200', this host has no such GPU"):
        profile(work, elsewhere)


def test_a_platform_of_another_processor_is_refused() -> None:
    """x ──▶ y"""
    work = Workload()
    work.task(torch.relu, work.input("x", torch.ones(2)), name="y", device="cpu")
    theirs = replace(HERE, provenance={"fingerprint": host_facts().fingerprint() | {"processor": "VAX-11/780"}})
    with pytest.raises(PlatformError, match="platform 'here' says that cpu is 'VAX-11/780', this host has "):
        profile(work, theirs, repeats=3)
    assert len(profile(work, replace(HERE, provenance={"fingerprint": host_facts().fingerprint()}), repeats=3)) == 1
