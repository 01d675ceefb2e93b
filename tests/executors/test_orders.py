"""The streams' side of DESIGN's memory rules, checked without a GPU: no access without an order, whatever is reused."""

from __future__ import annotations

import gc
from collections.abc import Callable

import networkx as nx
import pytest
import torch

from graphsched.errors import ScheduleError, TaskFailedError
from graphsched.executors import Program, eager
from graphsched.workload import Workload
from tests.executors.fake_cuda import FakeCuda, RaceError, Stream
from tests.executors.programs import Plain, assert_same, by_hand, digits, machine, random_plan, random_workload, step_


@pytest.mark.parametrize("between", ["peer", "staged"])
@pytest.mark.parametrize("seed", range(12))
def test_no_stream_uses_memory_out_of_order(cuda: Callable[[int], FakeCuda], seed: int, between: str) -> None:
    """Random graphs on random lanes of two or three GPUs, copies on lanes of their own or on those that compute."""
    names = tuple(f"cuda:{k}" for k in range(2 + seed % 2))
    fake = cuda(len(names))
    work = random_workload(seed, names, tasks=25)
    plan = random_plan(work, machine(*names, between=between), seed, 1 + seed % 3, on=names, waits=seed % 4 == 0)
    plain = Plain(work)
    with Program(plan) as program:
        for step in range(2):
            assert_same(program.run(x=digits(step)), plain.run(x=digits(step)))
        program.time_spans()
    assert bool(fake.raw_copies) == (between == "peer")
    assert fake.device == 0
    assert fake.current == fake.defaults
    assert not fake.homes & set(fake.defaults)
    del program
    gc.collect()
    assert {block.home for block in fake.live.values()} <= {"given", "host"}


def test_memory_is_given_out_again(cuda: Callable[[int], FakeCuda]) -> None:
    """x ──▶ a ──▶ b ──▶ c ──▶ d on one stream: c gets the memory of a."""
    fake = cuda(1)
    work = Workload()
    value = work.input("x", torch.ones(2), device="cuda:0")
    for name in "abcd":
        value = work.task(torch.neg, value, name=name)
    with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0")) as program:
        program.run()
    assert fake.reused == 2


def test_a_missing_wait_is_a_race(cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> None:
    """x ──▶ a (s0) ──▶ b (s1): what finds races finds this one, when the stream does not wait."""
    cuda(1)
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="a")
    work.task(torch.neg, a, name="b")
    plan = by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "b": "cuda:0/s1"})
    with Program(plan) as program:
        program.run()
    monkeypatch.setattr(Stream, "wait_event", lambda stream, event: None)
    with Program(plan) as program, pytest.raises(TaskFailedError, match="reads what is not yet written by") as caught:
        program.run()
    assert isinstance(caught.value.__cause__, RaceError)


def test_too_early_a_free_is_a_race(cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> None:
    """x ──▶ a (s0) ──▶ b (s1);  x ──▶ c (s0): c must not get the memory of a, which s0 does not know to be read."""
    cuda(1)
    work = Workload()
    x = work.input("x", torch.ones(2), device="cuda:0")
    a = work.task(torch.neg, x, name="a")
    work.task(torch.neg, a, name="b")
    work.task(torch.neg, x, name="c")
    plan = by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0"})
    assert plan.frees == {}
    with Program(plan) as program:
        program.run()
    object.__setattr__(plan, "frees", {1: ("a",)})
    with Program(plan) as program, pytest.raises(TaskFailedError, match="overwrites what is still read by"):
        program.run()


def test_a_copy_between_gpus_on_a_compute_lane_has_a_stream_of_its_own_there(cuda: Callable[[int], FakeCuda]) -> None:
    """a (cuda:0/s0) ──▶ there (cuda:1, issued on s0) ──▶ b (cuda:1/s1): s0 of cuda:1 must not get its memory."""
    fake = cuda(2)
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="a")
    there = work.copy(a, to="cuda:1", name="there")
    b = work.task(torch.neg, there, name="b")
    work.task(torch.neg, work.input("y", torch.ones(2), device="cuda:1"), name="c")
    work.task(torch.add, b, 1, name="d")
    place = {"a": "cuda:0/s0", "b": "cuda:1/s1", "c": "cuda:1/s0", "d": "cuda:1/s1"}
    plan = by_hand(work, machine("cuda:0", "cuda:1"), place, copies="compute")
    with Program(plan) as program:
        program.run()
        streams = [lane.stream for lane in program._cuda.values()]
        targets = [s for lane in program._cuda.values() for s in lane.targets.values()]
    assert [t.device.index for t in targets] == [1]
    assert not set(targets) & set(streams)
    assert targets[0] in fake.homes
    assert not fake.homes & set(fake.defaults)
    assert fake.current == fake.defaults


def test_calls_of_an_action_across_streams(cuda: Callable[[int], FakeCuda]) -> None:
    """a (s0) ──▶ b (s1), c (s1), w updated on s0: only what the plan needs is called."""
    cuda(1)
    work = Workload()
    x = work.input("x", torch.ones(2), device="cuda:0")
    w = work.state("w", torch.ones(2), device="cuda:0")
    a = work.task(torch.neg, x, name="a")
    work.task(torch.neg, a, name="b")
    work.task(torch.neg, x, name="c")
    work.task(step_, w, x, updates=w, name="step")
    place = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s1", "step": "cuda:0/s0"}
    with Program(by_hand(work, machine("cuda:0"), place)) as program:
        calls = program._calls
        assert isinstance(calls, eager.Calls)
        names = [program.plan.names[i] for i in calls.owner]
    # a: switch, call, record; b: switch, wait, call; c: call; step: switch, call
    assert names == ["a"] * 3 + ["b"] * 3 + ["c"] + ["step"] * 2


def test_more_lanes_than_the_pool_has_streams_are_refused(cuda: Callable[[int], FakeCuda]) -> None:
    """x ──▶ t0, t1, … t31, each on a stream of its own, and a copy to the host on one more."""
    cuda(1)
    work = Workload()
    x = work.input("x", torch.ones(2), device="cuda:0")
    for k in range(32):
        work.task(torch.neg, x, name=f"t{k}")
    place = {f"t{k}": f"cuda:0/s{k}" for k in range(32)}
    with Program(by_hand(work, machine("cuda:0"), place)) as program:
        assert len(program.run()) == 32
    work.copy(x, to="cpu", name="copy")
    with pytest.raises(ScheduleError, match="more than 32 streams on cuda:0"):
        Program(by_hand(work, machine("cuda:0"), place))


@pytest.mark.parametrize("seed", range(8))
def test_the_lanes_that_are_waited_for_at_the_end_imply_all_others(cuda: Callable[[int], FakeCuda], seed: int) -> None:
    """Every action comes before the last one of a final lane, or before a wait of the thread's own."""
    names = ("cuda:0", "cuda:1", "cuda:2")
    cuda(3)
    plan = random_plan(random_workload(seed, names, tasks=25), machine(*names), seed, 2, on=names)
    with Program(plan) as program:
        final = {lane.name for lane in program._compiler.final_lanes()}
        lanes = {lane.name for lane in program._cuda.values()}
    order = nx.DiGraph()
    last: dict[str, int] = {}
    for i, number in enumerate(plan.lane_of):
        lane = plan.lanes[number].name
        order.add_node(i)
        order.add_edges_from((j, i) for j in (*plan.waits[i], *([last[lane]] if lane in last else [])))
        last[lane] = i
    ends = [i for lane, i in last.items() if lane in final or lane == "host/py"]
    assert set().union(ends, *(nx.ancestors(order, i) for i in ends)) == set(range(len(plan)))
    assert final < lanes
