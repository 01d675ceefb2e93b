"""Stamps in the place of timing events: who writes where and when, on played streams and on real ones."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from graphsched.costs import Costs, Kernel, Multiprocessors, TaskCost
from graphsched.errors import ExecutionError
from graphsched.executors import Program, clocks, cuda_driver, stamp_kernel, timed_runs
from graphsched.executors.measure import execute
from graphsched.executors.stamp_kernel import Stamp
from graphsched.executors.stamps import Stamps
from graphsched.plan import OUTSIDE, Plan, segments_of, stamped
from graphsched.platform import Dispatch
from graphsched.workload import Workload
from tests.executors import programs
from tests.executors.fake_cuda import STAMP_NS, Event, FakeCuda
from tests.executors.programs import Plain, assert_same, by_hand, digits, machine, random_plan, random_workload
from tests.executors.test_segments import there_and_back

PROCESSORS = Multiprocessors(132, 65536, 2048, 233472, 32)
SMALL = TaskCost(2e-6, kernels=(Kernel(1, 4096, 128, 0),), processors=PROCESSORS)


def with_stamps(plan: Plan) -> Plan:
    """On a platform that knows stamps, all kernels known to be small."""
    model = next(d.model for d in plan.platform.devices if d.kind == "cuda")
    costs = Costs({(task.signature, model): SMALL for task in plan.work.tasks if task.signature})
    here = replace(plan.platform, dispatch=Dispatch(graph_stamp_s=1e-6))
    made = replace(plan, platform=here, costs=costs, mode="graph")
    assert stamped(made)
    return made


def fork_join(second: str = "cuda:0/s1") -> Plan:
    """`programs.fork_join`, timed by stamps."""
    return with_stamps(programs.fork_join(second))


def times(stamps: Stamps) -> dict[int, tuple[int, int]]:
    """Of each action that has stamps, what they tell."""
    pairs = {i: both for i, both in stamps.events.items() if isinstance(both[0], Stamp)}
    return {i: (a.memory.read()[a.place], b.memory.read()[b.place]) for i, (a, b) in pairs.items()}


# -- played ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["cuda:0/s0", "cuda:0/s1", "cuda:1/s0"])
def test_every_replay_writes_the_places_of_all_tasks(cuda: Callable[[int], FakeCuda], second: str) -> None:
    """Stamps are made in the order of the capture, so they tell it; what one replay wrote the next writes anew."""
    cuda(2)
    plan = fork_join(second)
    with Program(plan) as program:
        first = times(program.time_spans()[0])
        stamps = program.time_spans()[0]
        again = times(stamps)
    order = [i for i, kind in enumerate(plan.kinds) if kind == "run"]
    assert list(first) == order
    assert [ns for i in order for ns in first[i]] == [STAMP_NS * (k + 1) for k in range(2 * len(order))]
    assert [again[i][0] - first[i][0] for i in order] == [2 * STAMP_NS * len(order)] * len(order)
    places = [(id(mark.memory), mark.place) for i in order for mark in stamps.events[i]]
    assert len(set(places)) == len(places)


def test_each_gpu_has_a_buffer_of_its_own(cuda: Callable[[int], FakeCuda]) -> None:
    """On cuda:0 a and c, on cuda:1 b; the copies of x and of b's result have lanes of their own, and events."""
    cuda(2)
    plan = fork_join("cuda:1/s0")
    with Program(plan) as program:
        stamps = program.time_spans()[0]
        memories = program._compiler.inner.stamps
    devices = [int(plan.lanes[lane].device[5:]) for lane in plan.lane_of]
    for i, both in stamps.events.items():
        if plan.kinds[i] == "copy":
            assert {type(mark) for mark in both} == {Event}
        else:
            assert {mark.memory for mark in both} == {memories[devices[i]]}
    assert {device: len(memory.read()) for device, memory in memories.items()} == {0: 4, 1: 2}


def test_stamps_stand_around_the_action(cuda: Callable[[int], FakeCuda]) -> None:
    """Of one replay, on one lane."""
    fake = cuda(1)
    with Program(fork_join("cuda:0/s0")) as program:
        program.time_spans()
        fake.log.clear()
        program.time_spans()
    seen = [what.partition(" ")[0] for what in fake.log if not what.startswith("record")]
    assert seen == [what for name in "abc" for what in ("stamp", name, "stamp")]


def test_actions_outside_graphs_keep_their_events(cuda: Callable[[int], FakeCuda]) -> None:
    """Segments with CPU tasks and a pageable copy between them."""
    cuda(1)
    plan = with_stamps(there_and_back())
    of = segments_of(plan).of
    with Program(plan) as program:
        for _ in range(2):
            stamps = program.time_spans()[0]
        assert program.run(x=torch.zeros(2))["d"].tolist() == [-1.0, -1.0]
    kinds = {i: {type(mark) for mark in both} for i, both in stamps.events.items()}
    tasks = {i for i in stamps.events if of[i] != OUTSIDE and plan.kinds[i] == "run"}
    assert kinds == {i: {Stamp} if i in tasks else {Event} for i in stamps.events}
    assert {Stamp, Event} == set.union(*kinds.values())
    inside = [ns for both in times(stamps).values() for ns in both]
    assert inside == sorted(inside)
    assert min(inside) > 0


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_where_no_stamp_was_measured_events_are_recorded(cuda: Callable[[int], FakeCuda], mode: str) -> None:
    cuda(1)
    plan = fork_join()
    unknown = replace(plan, platform=replace(plan.platform, dispatch=Dispatch())) if mode == "graph" else plan
    with Program(unknown, mode=mode) as program:
        stamps = program.time_spans()[0]
    assert {type(mark) for both in stamps.events.values() for mark in both} == {Event}


def test_spans_are_the_times_of_stamps(cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp a microsecond, in the order of the capture."""
    cuda(1)
    monkeypatch.setattr(clocks, "pause", lambda stream: None)
    plan = fork_join()
    with Program(plan) as program:
        lines = [timed_runs.timed_run(program) for _ in range(2)]
    for line in lines:
        spans = sorted(zip(line.start_s, line.end_s, strict=True))
        assert [end - start for start, end in spans] == pytest.approx([1e-6] * 3, abs=1e-9)
        assert [b[0] - a[1] for a, b in pairwise(spans)] == pytest.approx([1e-6] * 2, abs=1e-9)


@pytest.mark.parametrize(("mode", "warmup", "runs"), [("eager", 1, 1 + 3), ("graph", 1, 1 + 2 * 3), ("graph", 0, 3)])
def test_a_timed_launch_of_graphs_follows_one_like_it(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch, mode: str, warmup: int, runs: int
) -> None:
    """The clocks are read before a timed run, which leaves the processor's caches cold."""
    cuda(1)
    monkeypatch.setattr(clocks, "pause", lambda stream: None)
    monkeypatch.setattr(timed_runs, "TIMED_S", 0.0)
    real, seen = Program.time_spans, []
    monkeypatch.setattr(Program, "time_spans", lambda program: seen.append(program) or real(program))
    execute(fork_join(), mode=mode, repeats=1, warmup=warmup)
    assert len(seen) == runs


@pytest.mark.parametrize("seed", range(6))
def test_results_are_those_of_plain_pytorch(cuda: Callable[[int], FakeCuda], seed: int) -> None:
    """Random graphs with states, timed in between: no stream uses memory out of order."""
    names = tuple(f"cuda:{k}" for k in range(1 + seed % 3))
    cuda(len(names))
    work = random_workload(seed, names, tasks=20, pinned=True)
    plan = with_stamps(random_plan(work, machine(*names), seed, 1 + seed % 3, on=names, waits=seed % 4 == 0))
    plain = Plain(work)
    with Program(plan) as program:
        for step in range(2):
            assert_same(program.run(x=digits(step)), plain.run(x=digits(step)))
        told = times(program.time_spans()[0])
    for i, (start, end) in told.items():
        assert start < end
        assert all(told[j][1] < start for j in plan.waits[i] if j in told)


# -- failing ----------------------------------------------------------------------------------------------


def test_without_a_driver_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(ExecutionError, match=r"CUDA driver's library: libcuda.so.1: .*graph_stamp_s .* to 0"):
        stamp_kernel.stamp_launch.__wrapped__(0)


def test_a_driver_without_the_calls_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with pytest.raises(ExecutionError, match="cuLaunchKernel"):
        stamp_kernel.stamp_launch.__wrapped__(0)


def test_a_status_is_an_error() -> None:
    cuda_driver.check(0, "cuLaunchKernel")
    with pytest.raises(RuntimeError, match="CUDA error 209 of cuLaunchKernel"):
        cuda_driver.check(209, "cuLaunchKernel")


def test_what_cannot_be_timed_can_be_run(cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> None:
    cuda(1)

    def fails(device: int) -> None:
        raise ExecutionError("no stamps")

    monkeypatch.setattr(stamp_kernel, "stamp_launch", fails)
    with Program(fork_join()) as program:
        with pytest.raises(ExecutionError, match="no stamps"):
            program.time_spans()
        assert program.run(x=torch.zeros(4))["c"].tolist() == [1.0] * 4


# -- on GPUs ----------------------------------------------------------------------------------------------


def rows(lanes: int, length: int, size: int = 64) -> Plan:
    """Rows of products of `size` side by side."""
    work = Workload()
    x = work.input("x", torch.rand(size, size), device="cuda:0")
    for k in range(lanes * length):
        work.task(torch.mm, x, x, name=f"mm{k}")
    placed = {f"mm{k}": f"cuda:0/s{k % lanes}" for k in range(lanes * length)}
    return with_stamps(by_hand(work, machine("cuda:0"), placed))


def with_events(plan: Plan) -> Plan:
    return replace(plan, platform=replace(plan.platform, dispatch=Dispatch()))


@pytest.mark.gpu
@pytest.mark.parametrize("size", [64, 2048])
def test_spans_by_stamps_and_by_events_agree(size: int) -> None:
    """A row in one lane: of each task what its two marks hold between them, which is 2 to 5 µs less between stamps."""
    plan = rows(1, 8, size)
    by_stamps, by_events = execute(plan, repeats=5), execute(with_events(plan), repeats=5)
    taken = [line.end_s - line.start_s for line in (by_stamps, by_events)]
    assert abs(taken[0] - taken[1]).max() < 8e-6
    uncertain_s = by_stamps.clock_uncertainty_s + by_events.clock_uncertainty_s
    print(f"start {by_stamps.start_s[0] * 1e6:.1f} and {by_events.start_s[0] * 1e6:.1f} µs, ±{uncertain_s * 1e6:.1f}")
    assert by_stamps.clock_uncertainty_s < by_events.clock_uncertainty_s + 5e-6
    assert (by_stamps.end_s <= by_stamps.timed_makespan_s + by_stamps.clock_uncertainty_s).all()


@pytest.mark.gpu
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_a_stamp_costs_little(lanes: int) -> None:
    """In its lane, from rows of two lengths; that is 1.2 µs at most on an H200."""
    more_s = []
    for length in (20, 120):
        with Program(rows(lanes, length)) as program:
            plain = min(program.time_once() for _ in range(10))
            timed = min(program.time_spans()[2] for _ in range(10))
        more_s.append(timed - plain)
    each_s = (more_s[1] - more_s[0]) / (2 * 100)
    print(f"{lanes} lanes: {each_s * 1e6:.2f} µs a stamp and lane")
    assert each_s < 5e-6


@pytest.mark.gpu
def test_timed_replays_give_the_same_results() -> None:
    plan = rows(3, 4, 256)
    with Program(plan) as stamps, Program(plan, mode="eager") as eager:
        first = stamps.run()
        stamps.time_spans()
        assert_same(stamps.run(), first)
        assert_same(first, eager.run())


@pytest.mark.gpu
def test_a_thousand_timed_replays_take_no_memory() -> None:
    with Program(rows(2, 5)) as program:
        program.time_spans()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        ends = [max(end for _, end in times(program.time_spans()[0]).values()) for _ in range(1000)]
        assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before
    assert ends == sorted(set(ends))


@pytest.mark.multigpu
def test_stamps_of_several_gpus_are_on_one_clock() -> None:
    line: Any = execute(fork_join("cuda:1/s0"), repeats=5)
    assert (line.end_s >= line.start_s).all()
    assert line.end_s.max() <= line.timed_makespan_s + line.clock_uncertainty_s


@pytest.mark.gpu
def test_a_graph_with_stamps_starts_as_soon_as_one_with_events() -> None:
    """A row of 300, timed as users' plans are: the first node does not wait until the last is launched."""
    plan = rows(1, 300)
    by_stamps, by_events = (execute(made, repeats=5).start_s.min() for made in (plan, with_events(plan)))
    print(f"start {by_stamps * 1e6:.1f} and {by_events * 1e6:.1f} µs")
    assert by_stamps < by_events + 1e-4
