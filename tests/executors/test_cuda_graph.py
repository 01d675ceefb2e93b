"""Graph mode: one graph over all GPUs, checked without one by playing CUDA, and on real ones."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsched.errors import TaskFailedError
from graphsched.executors import Program, execute
from graphsched.workload import Workload
from tests.executors.fake_cuda import FakeCuda, RaceError, Stream
from tests.executors.programs import (
    Plain,
    assert_same,
    by_hand,
    digits,
    fork_join,
    machine,
    random_plan,
    random_workload,
)


def count_(t: torch.Tensor) -> None:
    t.add_(1.0)


# -- played -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", ["peer", "staged"])
@pytest.mark.parametrize("seed", range(10))
def test_replays_do_what_plain_pytorch_does(cuda: Callable[[int], FakeCuda], seed: int, between: str) -> None:
    """Random graphs with states on random lanes of two or three GPUs; no stream uses memory out of order."""
    names = tuple(f"cuda:{k}" for k in range(2 + seed % 2))
    fake = cuda(len(names))
    work = random_workload(seed, names, tasks=25, pinned=True)
    plan = random_plan(work, machine(*names, between=between), seed, 1 + seed % 3, on=names, waits=seed % 4 == 0)
    plain = Plain(work)
    with Program(plan, mode="graph") as program:
        for step in range(3):
            assert_same(program.run(x=digits(step)), plain.run(x=digits(step)))
    assert fake.device == 0
    assert fake.current == fake.defaults
    del program
    gc.collect()


def test_a_program_has_a_plan_of_its_mode(cuda: Callable[[int], FakeCuda]) -> None:
    """So its timeline is drawn, explained and compared as what it is; the plan that was given stays as it was."""
    cuda(1)
    plan = fork_join()
    with Program(plan, mode="graph") as program:
        assert (program.plan.mode, plan.mode) == ("graph", "eager")
    with Program(plan) as program:
        assert program.plan is plan


@pytest.mark.parametrize("second", ["cuda:0/s1", "cuda:1/s0"])
def test_results_are_copies_that_later_runs_leave_alone(cuda: Callable[[int], FakeCuda], second: str) -> None:
    cuda(2)
    with Program(fork_join(second), mode="graph") as program:
        first = program.run(x=torch.zeros(4))["c"]
        other = program.run(x=torch.ones(4))["c"]
    assert first.tolist() == [1.0] * 4
    assert other.tolist() == pytest.approx([torch.e - 1.0] * 4)


def test_warming_up_and_capturing_leave_states_as_they_were(cuda: Callable[[int], FakeCuda]) -> None:
    """s ──▶ s + 1, in place: two runs count to two."""
    cuda(1)
    work = Workload()
    s = work.state("s", torch.zeros(1), device="cuda:0")
    work.task(count_, s, name="count", updates=s, outputs=[])
    with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode="graph") as program:
        assert program.state()["s"].item() == 0.0
        for _ in range(2):
            program.run()
        assert program.state()["s"].item() == 2.0


def test_a_graph_is_told_of_the_random_numbers_of_all_its_gpus(cuda: Callable[[int], FakeCuda]) -> None:
    fake = cuda(2)
    with Program(fork_join("cuda:1/s0"), mode="graph"):
        assert fake.told == [[0, 1]]


def test_without_the_join_the_end_of_a_lane_is_not_known(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What finds races finds this one, when lanes do not wait for each other in the graph."""
    cuda(1)
    monkeypatch.setattr(Stream, "wait_event", lambda stream, event: None)
    with pytest.raises(TaskFailedError, match="reads what is not yet written by") as caught:
        Program(fork_join(), mode="graph")
    assert isinstance(caught.value.__cause__, RaceError | TaskFailedError)


def test_a_wait_of_the_thread_is_a_wait_of_every_lane(cuda: Callable[[int], FakeCuda]) -> None:
    """a (s0); a wait; b (s1), which reads nothing of a."""
    fake = cuda(1)
    work = Workload()
    x = work.input("x", torch.ones(2), device="cuda:0")
    work.task(torch.neg, x, name="a")
    work.barrier("gate")
    work.task(torch.exp, x, name="b")
    with Program(by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "b": "cuda:0/s1"}), mode="graph") as program:
        program.run()
        first, second = fake.pools[0][:2]
        assert second.clock.get(first, 0) > 0


# -- on GPUs ------------------------------------------------------------------------------------------


def gpus() -> tuple[str, ...]:
    return tuple(f"cuda:{k}" for k in range(min(4, torch.cuda.device_count())))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(6))
def test_replays_equal_eager_mode_to_the_bit(seed: int) -> None:
    work = random_workload(seed, gpus(), tasks=25, pinned=True)
    plan = random_plan(work, machine(*gpus()), seed, 2, on=gpus(), waits=seed % 3 == 0)
    with Program(plan) as eager, Program(plan, mode="graph") as graph:
        for step in range(5):
            assert_same(graph.run(x=digits(step)), eager.run(x=digits(step)))


@pytest.mark.gpu
def test_a_thousand_replays_take_no_memory() -> None:
    with Program(fork_join(), mode="graph") as program:
        program.run()
        before = torch.cuda.memory_allocated()
        for _ in range(1000):
            program.time_once()
        assert torch.cuda.memory_allocated() == before
        assert program.run(x=torch.zeros(4))["c"].tolist() == [1.0] * 4


@pytest.mark.gpu
def test_waits_of_the_thread_are_waits_of_lanes_in_a_replay() -> None:
    """a (s0); a wait; b (s1): b starts after a, and the wait ends with a."""
    work = Workload()
    x = work.input("x", torch.rand(2048, 2048), device="cuda:0")
    work.task(torch.mm, x, x, name="a")
    work.barrier("gate")
    work.task(torch.mm, x, x, name="b")
    plan = by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "b": "cuda:0/s1"})
    timeline: Any = execute(plan, mode="graph", repeats=5)
    a, gate, b = (plan.names.index(name) for name in ("a", "gate", "b"))
    assert timeline.end_s[gate] == timeline.end_s[a]
    assert timeline.start_s[b] > timeline.end_s[a] - 2e-6


@pytest.mark.gpu
def test_every_replay_draws_new_random_numbers() -> None:
    work = Workload()
    x = work.input("x", torch.ones(1000), device="cuda:0")
    work.task(torch.nn.functional.dropout, x, name="y")
    with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode="graph") as program:
        first, second = program.run()["y"], program.run()["y"]
    assert not torch.equal(first, second)


@pytest.mark.gpu
def test_spans_of_replays_lie_in_the_makespan() -> None:
    work = Workload()
    x = work.input("x", torch.rand(1024, 1024), device="cuda:0")
    for i in range(6):
        work.task(torch.mm, x, x, name=f"mm{i}")
    plan = by_hand(work, machine("cuda:0"), {f"mm{i}": f"cuda:0/s{i % 2}" for i in range(6)})
    timeline: Any = execute(plan, mode="graph", repeats=5)
    assert (timeline.end_s > timeline.start_s).all()
    assert timeline.end_s.max() <= timeline.timed_makespan_s + 1e-5


@pytest.mark.multigpu
def test_a_graph_over_gpus_with_copies_between_them() -> None:
    with Program(fork_join("cuda:1/s0"), mode="graph") as program:
        for k in range(20):
            x = torch.full((4,), float(k % 3))
            assert torch.allclose(program.run(x=x)["c"].cpu(), torch.exp(x) - x)
