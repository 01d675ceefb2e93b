"""Which operations meet in a plan, what they launch, how long they take in pairs; contention from that."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import contention, cuda_pairs, pairing, profile, profiling
from graphsched.calibration.contention import PairRun, in_flight, in_flight_of_copies, slowdown_beside
from graphsched.calibration.cuda_pairs import Operation, chain_lengths, copies_in_graph, measure_pair
from graphsched.calibration.kernels import BLOCKS, kernel_of, multiprocessors
from graphsched.calibration.meeting import Meeting, meetings, unmeasured
from graphsched.costs import Beside, Costs, Kernel, Multiprocessors, TaskCost
from graphsched.errors import PlatformError
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.simulator.side_by_side import ends_s
from graphsched.workload import TensorSpec, Workload
from tests.builders import kernel, planned, platform

FOUR = Multiprocessors(count=4, registers=1000, threads=8, shared_bytes=100, blocks=16)


# -- who meets whom -------------------------------------------------------------------------------


def plan_of(kinds: Mapping[str, int], lanes: Mapping[str, str], **more: Any) -> Plan:
    work = Workload()
    for name, kind in kinds.items():
        work.task(kernel, kind, name=name, outputs=[])
    costs = {(task.signature, "GPU"): TaskCost(float(kinds[task.name] + 1)) for task in work.tasks}
    return planned(work, platform(), lanes, costs=Costs(costs), **more)


def test_independent_tasks_on_two_lanes_meet() -> None:
    """a (kind 0) beside b (1); c (2) is on the same lane as a, and meets b only."""
    plan = plan_of({"a": 0, "b": 1, "c": 2}, {"a": "cuda:0/s0", "c": "cuda:0/s0", "b": "cuda:0/s1"})
    found = meetings(plan)
    signature = {name: plan.work[name].signature for name in "abc"}
    assert {pair.signatures for pair in found} == {tuple(sorted((signature[x], signature["b"]))) for x in "ac"}
    assert [pair.work_s for pair in found] == [5.0, 3.0]  # b and c, then a and b
    assert {(pair.device, pair.model) for pair in found} == {("cuda:0", "GPU")}


def test_copies_of_an_operation_meet_themselves() -> None:
    (found,) = meetings(plan_of({"a": 0, "b": 0}, {"a": "cuda:0/s0", "b": "cuda:0/s1"}))
    assert found.signatures[0] == found.signatures[1]


@pytest.mark.parametrize("lane", ["cuda:0/s0", "cuda:1/s0"])
def test_tasks_on_one_lane_or_on_two_devices_do_not_meet(lane: str) -> None:
    assert meetings(plan_of({"a": 0, "b": 1}, {"a": "cuda:0/s0", "b": lane})) == []


def test_a_wait_of_the_thread_keeps_tasks_apart() -> None:
    """a | wait | b"""
    plan = plan_of({"a": 0, "b": 1}, {"a": "cuda:0/s0", "b": "cuda:0/s1"}, wait_after=["a"])
    assert meetings(plan) == []


def test_ancestors_do_not_meet() -> None:
    """x ─▶ y (s1) ─▶ z (s0); w (s1, after y on its lane) meets z only."""
    work = Workload()
    spec = TensorSpec((2, 2))
    x = work.task(torch.relu, work.input("i", spec, device="cuda:0"), name="x", outputs=[spec])
    y = work.task(torch.neg, x, name="y", outputs=[spec])
    work.task(torch.abs, y, name="z", outputs=[spec])
    work.task(torch.sin, y, name="w", outputs=[spec])
    lanes = {"x": "cuda:0/s0", "y": "cuda:0/s1", "z": "cuda:0/s0", "w": "cuda:0/s1"}
    (found,) = meetings(planned(work, platform(), lanes))
    assert {s.partition("(")[0] for s in found.signatures} == {"torch.abs", "torch.sin"}


def test_given_durations_do_not_count() -> None:
    work = Workload()
    for name in "ab":
        work.task(kernel, name, name=name, outputs=[], duration_s=1.0)
    assert meetings(planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:0/s1"})) == []


def test_what_is_known_is_not_measured_again() -> None:
    plan = plan_of({"a": 0, "b": 1, "c": 2}, {"a": "cuda:0/s0", "c": "cuda:0/s0", "b": "cuda:0/s1"})
    both = meetings(plan)
    known = plan.costs.merged(Costs(pairs={(*both[0].signatures, "GPU"): Beside(1.0)}))
    assert unmeasured(plan, plan.costs) == both
    assert unmeasured(plan, known) == both[1:]
    assert unmeasured(plan, Costs()) == []


@pytest.mark.parametrize(("graph_s", "wanted"), [(5e-6, True), (None, False), (5e-4, False)])
def test_copies_of_short_operations_are_measured_in_graphs_too(graph_s: float | None, wanted: bool) -> None:
    """a0, a1 on two lanes: known of streams, and in a graph only where it is short there."""
    work = Workload()
    for name in ("a0", "a1"):
        work.task(kernel, 1, name=name, outputs=[], device="cuda:0")
    key = (work["a0"].signature, "GPU")
    costs = Costs({key: TaskCost(6e-6, graph_s=graph_s)}, {(key[0], *key): Beside(1.5)})
    plan = planned(work, platform(), {"a0": "cuda:0/s0", "a1": "cuda:0/s1"}, costs=costs)
    assert unmeasured(plan, costs) == []
    pairs = unmeasured(replace(plan, mode="graph"), costs)
    assert [pair.in_graph for pair in pairs] == [True] * wanted
    done = costs.merged(Costs(pairs={(key[0], *key): Beside(1.5, graph_copies=((2, 1.1),))}))
    assert unmeasured(replace(plan, mode="graph"), done) == []


# -- what operations launch -----------------------------------------------------------------------


def test_allocation_is_by_warps_and_steps() -> None:
    """33 threads are two warps; 10 registers a thread are 16; each block has 1 KB of shared memory on top."""
    assert kernel_of([2, 3, 1], [33, 1, 1], 10, 5) == Kernel(6, 16 * 64, 64, 1029)


@pytest.mark.parametrize(("capability", "places"), [((9, 0), 32), ((8, 9), 24), ((7, 5), 16)])
def test_multiprocessors_of_a_device(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], places: int) -> None:
    found = SimpleNamespace(
        multi_processor_count=132, regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
        shared_memory_per_multiprocessor=233472, major=capability[0], minor=capability[1],
    )  # fmt: skip
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
    assert multiprocessors(0) == Multiprocessors(132, 65536, 2048, 233472, places)
    assert all(places < 32 for places in BLOCKS.values())


# -- contention -----------------------------------------------------------------------------------


def wide(blocks: int, threads: int, seconds: float = 1.0) -> TaskCost:
    return TaskCost(seconds, kernels=(Kernel(blocks, 0, threads, 0),), processors=FOUR)


def run_of(
    costs: tuple[TaskCost, TaskCost], factors: tuple[float, float], way: int, calls: int, others: int
) -> PairRun:
    """What a device that is as the simulator says would show."""
    pairs = {(0, 1): Beside(1.0, factors[0]), (1, 0): Beside(1.0, factors[1])}
    ends = ends_s(costs, [[way] * calls, [1 - way] * others], pairs)
    return PairRun(calls, others, slowdown_beside(calls * costs[way].device_s, ends[0], ends[1]))


@pytest.mark.parametrize("factors", [(1.0, 1.0), (1.5, 1.2), (4.0, 1.1)])
@pytest.mark.parametrize("costs", [(wide(4, 1), wide(4, 2, 3.0)), (wide(96, 1, 3.0), wide(4, 1))])
def test_contention_is_found_again(costs: tuple[TaskCost, TaskCost], factors: tuple[float, float]) -> None:
    """Of kernels that fit together, and of one in waves beside one that has to wait for its last."""
    runs = run_of(costs, factors, 0, 12, 60), run_of(costs, factors, 1, 12, 60)
    found = in_flight(costs, runs)
    again = [run_of(costs, found, way, 12, 60).slowdown for way in (0, 1)]
    assert again == pytest.approx([run.slowdown for run in runs], rel=0.01)


def test_waiting_is_not_contention() -> None:
    """Two kernels that need the whole device take turns: a slowdown of nearly 2, and no contention."""
    cost = wide(4, 8)
    run = run_of((cost, cost), (1.0, 1.0), 0, 8, 20)
    assert run.slowdown == pytest.approx(15 / 8)
    assert in_flight((cost, cost), (run, run))[0] == 1.0


@pytest.mark.parametrize(
    ("threads", "curve"),
    [(1, (1.0, 1.0, 1.0)), (1, (1.7, 2.0, 5.0)), (1, (1.2, 2.5, 6.0)), (5, (2.0, 4.0, 8.0)), (2, (1.5, 3.0, 6.0))],
)
def test_copies_are_as_slow_as_the_curve_says(threads: int, curve: tuple[float, ...]) -> None:
    """Of kernels that fit together, of some that do not and take turns, and of some of which four fit."""
    cost = replace(wide(4, threads), concurrency=((1, 1.0), *zip((2, 4, 8), curve, strict=True)))
    copies = in_flight_of_copies(cost)
    assert [k for k, _ in copies] == [2, 4, 8]
    for k, slowdown in zip((2, 4, 8), curve, strict=True):
        ends = ends_s([cost], [[0] * 40] * k, {(0, 0): Beside(1.0, copies=copies)})
        assert max(ends) / (40 * cost.device_s) == pytest.approx(slowdown, rel=0.03)


def test_more_copies_than_ever_fly_together_have_what_fewer_have() -> None:
    """Of kernels that need half of the device each, two are in flight however many wait."""
    cost = replace(wide(4, 4), concurrency=((1, 1.0), (2, 1.4), (4, 2.8), (8, 5.6)))
    assert len({factor for _, factor in in_flight_of_copies(cost)}) == 1


def test_what_was_done_beside_the_other_counts_where_that_ended_first() -> None:
    """12 calls; the other's 8 end early: only by that is a contention of 2 told from one of 20."""
    costs = wide(4, 1), wide(4, 2)
    runs = run_of(costs, (20.0, 1.0), 0, 12, 8), run_of(costs, (20.0, 1.0), 1, 12, 60)
    assert in_flight(costs, runs)[0] == pytest.approx(20.0, rel=0.05)


def test_next_to_nothing_done_is_bounded() -> None:
    assert slowdown_beside(1.0, 3.0, 2.0) == slowdown_beside(1.0, 3.1, 2.0) == 100.0


def test_what_comes_no_nearer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as long beside the other as alone is what no contention gives: two simulations in each of 13 rounds."""
    asked: list[int] = []

    def simulated(costs: Any, factors: Any, way: int, run: PairRun) -> float:
        asked.append(way)
        return 1.0

    monkeypatch.setattr(contention, "_simulated", simulated)
    assert in_flight((wide(4, 1), wide(4, 1)), (PairRun(5, 20, 0.5), PairRun(5, 20, 0.5))) == (1.0, 1.0)
    assert asked == [0, 1] * (1 + contention.PATIENCE)


def test_contention_is_never_negative() -> None:
    """a (5 of 8 threads everywhere) beside b, of which half the blocks fit: 0.4 times as long needs less than 0."""
    costs = wide(4, 5), wide(8, 3, 40.0)
    back = run_of(costs, (0.0, 1.0), 1, 1, 1)
    assert in_flight(costs, (PairRun(1, 1, 0.4), back))[0] == 0.0


def test_a_chain_that_comes_late_counts_as_such() -> None:
    """4 calls of 1 s, of which 2.5 are done before the other chain comes that makes the rest twice as long."""
    costs = wide(4, 1), wide(4, 2)
    late = ends_s(costs, [[0] * 4, [1] * 20], {(0, 1): Beside(1.0, 2.0), (1, 0): Beside(1.0, 1.0)}, late_s=2.5)
    run = PairRun(4, 20, slowdown_beside(4.0, *late, late_s=2.5), late_s=2.5)
    back = run_of(costs, (2.0, 1.0), 1, 12, 60)
    assert (late[0], run.slowdown) == (5.5, 2.0)
    assert in_flight(costs, (run, back))[0] == pytest.approx(2.0, rel=0.01)
    assert slowdown_beside(4.0, *late) == 5.5 / 4


def test_the_best_of_all_guesses_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second guess is nearest to the 2 that was measured."""
    shown = iter([9.0, 9.0, 1.9, 1.9] + [7.0, 5.0] * 100)
    guesses = []

    def simulated(costs: Any, factors: Any, way: int, run: PairRun) -> float:
        guesses.append(tuple(factors))
        return next(shown)

    monkeypatch.setattr(contention, "_simulated", simulated)
    found = in_flight((wide(4, 1), wide(4, 1)), (PairRun(5, 20, 2.0), PairRun(5, 20, 2.0)))
    assert found == guesses[2] != guesses[0]


# -- measuring ------------------------------------------------------------------------------------


Chains = tuple[tuple[Operation, int], ...]


def operation(cost: TaskCost) -> Operation:
    return Operation((lambda: None, lambda: None), cost)


def device(factors: Mapping[tuple[int, int], float], known: list[Operation]) -> Callable[..., list[float]]:
    """A device on which operations cost each other these factors, and nothing else."""

    def ends(chains: Chains, spinner: Any) -> list[float]:
        pairs = {pair: Beside(factor) for pair, factor in factors.items()}
        kinds = [operation.cost for operation in known]
        places = [[known.index(operation)] * count for operation, count in chains]
        return ends_s(kinds, places, pairs, late_s=cuda_pairs.LATE_S)

    return ends


def test_both_ways_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [operation(TaskCost(1e-5)), operation(TaskCost(1e-4))]
    monkeypatch.setattr(cuda_pairs, "_ends_s", device({(0, 1): 1.5, (1, 0): 1.25}, known))
    there, back = measure_pair(known[0], known[1], None)  # type: ignore[arg-type,misc]
    assert (there.slowdown, back.slowdown) == pytest.approx((1.5, 1.25))
    assert there.in_flight is None


def test_the_other_chain_is_made_to_outlast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slowdown of 9: with the length for 2 and for 4 and for 8 the other ends first."""
    known = [operation(TaskCost(1e-5)), operation(TaskCost(1e-5))]
    lengths, play = [], device({(0, 1): 9.0, (1, 0): 1.0}, known)

    def ends(chains: Chains, spinner: Any) -> list[float]:
        lengths.append([count for _, count in chains])
        return play(chains, spinner)

    monkeypatch.setattr(cuda_pairs, "_ends_s", ends)
    there, _ = measure_pair(known[0], known[1], None)  # type: ignore[arg-type,misc]
    assert there.slowdown == pytest.approx(9.0)
    assert lengths[:4] == [[30, 79], [30, 157], [30, 313], [30]]


def test_where_the_other_cannot_outlast_the_rest_is_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 calls of 1 µs beside 4 of 1 ms, each slowed 3 times."""
    known = [operation(TaskCost(1e-3)), operation(TaskCost(1e-6))]
    monkeypatch.setattr(cuda_pairs, "_ends_s", device({(0, 1): 3.0, (1, 0): 1.0}, known))
    there, _ = measure_pair(known[0], known[1], None)  # type: ignore[arg-type,misc]
    assert there.slowdown == pytest.approx(3.0)


def test_contention_is_told_apart_where_kernels_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [operation(wide(4, 1, 1e-5)), operation(wide(4, 2, 1e-5))]
    monkeypatch.setattr(cuda_pairs, "_ends_s", device({(0, 1): 1.5, (1, 0): 1.25}, known))
    there, back = measure_pair(known[0], known[1], None)  # type: ignore[arg-type,misc]
    assert (there.in_flight, back.in_flight) == pytest.approx((1.5, 1.25), rel=0.01)


def test_a_copy_of_itself_is_not_measured_where_there_is_a_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_pairs, "_ends_s", lambda chains, spinner: pytest.fail("measured"))
    known = operation(replace(wide(4, 1, 1e-5), concurrency=((2, 1.5),)))
    same, again = measure_pair(known, known, None)  # type: ignore[arg-type,misc]
    assert same is again
    assert same.slowdown == 1.5
    assert same.in_flight == pytest.approx(1.5, rel=0.01)
    bare = operation(TaskCost(1e-5, concurrency=((2, 1.5),)))
    assert measure_pair(bare, bare, None)[0].in_flight is None  # type: ignore[arg-type,index]


def test_copies_in_a_graph_have_a_curve_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.2 times as long beside one in streams, 1.5 times in a graph; as in streams where that cannot be measured."""
    known = operation(replace(wide(4, 1, 1e-5), concurrency=((2, 1.2),), graph_s=8e-6))
    asked = []

    def curve(calls: Any, device: int, alone_s: float) -> Any:
        asked.append((device, alone_s))
        return ((1, 1.0), (2, 1.5))

    monkeypatch.setattr(cuda_pairs, "curve_in_graph", curve)
    both = measure_pair(known, known, None)  # type: ignore[arg-type,misc]
    assert both is not None
    found = copies_in_graph(known, both[0], 3)
    assert asked == [(3, 8e-6)]
    assert found.copies == both[0].copies
    assert found.in_graph().contention == pytest.approx(1.5, rel=0.01)
    monkeypatch.setattr(cuda_pairs, "curve_in_graph", lambda *_: ())
    assert copies_in_graph(known, both[0], 3).graph_copies == both[0].copies
    bare = operation(TaskCost(1e-5))
    assert copies_in_graph(bare, Beside(1.7), 3).graph_copies == ((2, 1.7),)


def test_what_cannot_be_queued_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_pairs, "_ends_s", lambda chains, spinner: None)
    assert measure_pair(operation(TaskCost(1.0)), operation(TaskCost(1.0)), None) is None  # type: ignore[arg-type]


def test_chains_fit_into_the_launch_queue() -> None:
    assert chain_lengths(TaskCost(1e-6, launches=100), TaskCost(1e-6, launches=500), 2.0) == (4, 1)


class Played:
    """CUDA's streams and events, which write down what is asked of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.streams = 0
        self.events = 0
        monkeypatch.setattr(cuda_pairs, "new_stream", self.stream)
        monkeypatch.setattr(cuda_pairs, "new_event", self.event)
        monkeypatch.setattr(cuda_pairs, "on_streams", lambda stack, streams: None)
        monkeypatch.setattr(cuda_pairs, "elapsed_s", lambda start, end: float(end.name[1:]))
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: pytest.MonkeyPatch.context())
        monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: self.log.append(f"on {stream.name}"))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: self.log.append("synchronize"))

    def stream(self, device: int) -> Any:
        self.streams += 1
        name = f"s{self.streams - 1}"
        return SimpleNamespace(name=name, wait_event=lambda e: self.log.append(f"{name} waits for {e.name}"))

    def event(self, timing: bool = False) -> Any:
        name = f"e{self.events}"
        self.events += 1
        return SimpleNamespace(name=name, record=lambda stream: self.log.append(f"{name} on {stream.name}"))

    def spin(self, seconds: float) -> None:
        self.log.append("spin" if seconds > cuda_pairs.LATE_S else f"spin {seconds:g}")


def test_chains_start_behind_a_spin_and_the_other_behind_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    calls = [lambda name=name: played.log.append(name) for name in "abcd"]
    first, second = Operation((calls[0], calls[1]), TaskCost(1.0)), Operation((calls[2], calls[3]), TaskCost(1.0))
    spinner = SimpleNamespace(device=0, spin=played.spin)
    ends = cuda_pairs._ends_s(((first, 2), (second, 1)), spinner)  # type: ignore[arg-type]
    assert played.log[:13] == [
        "spin", "e1 on s0", "e0 on s0", "s1 waits for e0", "spin 5e-06", "on s0", "a", "a", "on s1", "d", "e2 on s0",
        "e3 on s1", "synchronize",
    ]  # fmt: skip
    assert ends == [10.0, 11.0]  # medians of events 6 and 7, 10 and 11, 14 and 15
    spinner.spin = lambda seconds: time.sleep(seconds + 1e-3)  # the calls come too late
    assert cuda_pairs._ends_s(((first, 1),), spinner) is None  # type: ignore[arg-type]


def test_a_spin_is_as_long_as_the_thread_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cost of the call is known, which takes 2 ms: the spin of 0.3 ms and 5 µs is over, the next is not."""
    played, spins = Played(monkeypatch), list[float]()
    late = Operation((lambda: time.sleep(2e-3),) * 2, TaskCost(1e-5, host_left_out=True))
    spinner = SimpleNamespace(device=0, spin=spins.append)
    assert cuda_pairs._ends_s(((late, 1),), spinner) is not None  # type: ignore[arg-type]
    assert played.log.count("synchronize") == len(spins) >= 2 + cuda_pairs.SAMPLES
    assert spins[0] < 4e-4
    assert min(spins[1:]) > 2e-3


# -- profile of a plan ----------------------------------------------------------------------------


def two_kinds() -> Plan:
    """a, b side by side on a GPU."""
    work = Workload()
    x = work.input("x", torch.ones(2, 2))
    work.task(torch.relu, x, name="a", device="cuda")
    work.task(torch.neg, x, name="b", device="cuda")
    return planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:0/s1"})


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[list[Meeting]]:
    """No GPU: costs of one second each, pairs of 2; the pairs asked for."""
    asked: list[list[Meeting]] = []

    def pairs(plan: Plan, wanted: list[Meeting], costs: Costs) -> Costs:
        asked.append(wanted)
        return Costs(pairs={(*p.signatures[::way], p.model): Beside(2.0) for p in wanted for way in (1, -1)})

    def operations(
        work: Workload, platform: Platform, device: str, tasks: Any, *more: Any
    ) -> Generator[Any, None, None]:
        yield from ((task.signature, TaskCost(1.0)) for task in tasks)

    monkeypatch.setenv("GRAPHSCHED_CACHE", str(tmp_path))
    monkeypatch.setattr(profiling, "check_is_here", lambda platform, name: None)
    monkeypatch.setattr(profiling, "_measured_on", operations)
    monkeypatch.setattr(profiling, "measure_meetings", pairs)
    return asked


def test_profile_of_a_plan_measures_its_pairs_once(measured: list[list[Meeting]]) -> None:
    plan = two_kinds()
    costs = profile(plan)
    a, b = (plan.work[name].signature for name in "ab")
    assert dict(costs.pairs) == {(a, b, "GPU"): Beside(2.0), (b, a, "GPU"): Beside(2.0)}
    assert costs[a, "GPU"].device_s == 1.0
    assert profile(plan, plan.platform) == costs
    assert len(measured) == 1


@pytest.mark.parametrize(("mode", "seen"), [(None, "eager"), ("graph", "graph")])
def test_pairs_are_those_of_the_mode_that_is_asked_for(
    measured: list[list[Meeting]], monkeypatch: pytest.MonkeyPatch, mode: str | None, seen: str
) -> None:
    """A plan of eager mode, whose costs in graphs may be wanted."""
    modes = []
    monkeypatch.setattr(profiling, "unmeasured", lambda plan, known: modes.append(plan.mode) or [])
    profile(two_kinds(), mode=mode)
    assert modes == [seen]
    assert measured == []


def test_profile_of_a_workload_measures_no_pairs(measured: list[list[Meeting]]) -> None:
    plan = two_kinds()
    assert not profile(plan.work, plan.platform).pairs
    assert not profile(plan, concurrency=False).pairs
    assert measured == []


def test_profile_of_a_workload_needs_a_platform() -> None:
    with pytest.raises(PlatformError, match="needs a platform"):
        profile(Workload())


def test_pairs_are_measured_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pairs; with no time at all, none. Operations get arguments of their own for each of two streams."""
    plan = two_kinds()
    costs = Costs({(plan.work[name].signature, "GPU"): TaskCost(1.0) for name in "ab"})
    wanted = meetings(plan)
    seen: list[tuple[Operation, Operation]] = []

    def measure(first: Operation, second: Operation, spinner: Any) -> Any:
        seen.append((first, second))
        return None if len(seen) > 1 else (Beside(1.5), Beside(2.5))

    def in_graph(operation: Operation, beside: Beside, device: int) -> Beside:
        return replace(beside, graph_copies=((2, 9.0),))

    from graphsched.calibration import cuda_clock, serial_run

    monkeypatch.setattr(cuda_pairs, "measure_pair", measure)
    monkeypatch.setattr(cuda_pairs, "copies_in_graph", in_graph)
    monkeypatch.setattr(cuda_clock, "Spinner", lambda index: None)
    monkeypatch.setattr(serial_run, "torch_device", lambda name: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "device", lambda index: pytest.MonkeyPatch.context())
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: pytest.MonkeyPatch.context())
    assert pairing.measure_meetings(plan, wanted, costs, takes_s=-1.0) == Costs()
    found = pairing.measure_meetings(plan, [*wanted, *wanted], costs)
    first, second = wanted[0].signatures
    assert dict(found.pairs) == {(first, second, "GPU"): Beside(1.5), (second, first, "GPU"): Beside(2.5)}
    seen.clear()
    alone = [replace(wanted[0], signatures=(first, first), in_graph=True)]
    same = pairing.measure_meetings(plan, alone, costs)
    assert dict(same.pairs) == {(first, first, "GPU"): Beside(1.5, graph_copies=((2, 9.0),))}
    assert len(seen) == 1
    in_streams = costs.merged(Costs(pairs={(first, first, "GPU"): Beside(1.7)}))
    again = pairing.measure_meetings(plan, alone, in_streams)  # what is known of streams is not measured anew
    assert dict(again.pairs) == {(first, first, "GPU"): Beside(1.7, graph_copies=((2, 9.0),))}
    assert len(seen) == 1
    assert torch.equal(seen[0][0].calls[0](), seen[0][0].calls[1]())
    assert seen[0][0].calls[0].args[0] is not seen[0][0].calls[1].args[0]  # type: ignore[attr-defined]


@pytest.mark.gpu
def test_a_plans_pairs_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A small product beside a large one: a kernel each, and the small one suffers more."""
    from graphsched.platform import Device

    monkeypatch.setenv("GRAPHSCHED_CACHE", str(tmp_path))
    work = Workload()
    for name, size in (("small", 256), ("large", 2048)):
        x = work.input(f"x-{name}", torch.rand(size, size))
        work.task(torch.mm, x, x, name=name, device="cuda")
    model = torch.cuda.get_device_name(0)
    base = platform(gpus=1)
    here = Platform("here", (Device("cpu", "cpu"), Device("cuda:0", "cuda", model)), base.links, {}, base.dispatch)
    costs = profile(planned(work, here, {"small": "cuda:0/s0", "large": "cuda:0/s1"}))
    small, large = work["small"].signature, work["large"].signature
    there, back = costs.get_pair(small, large, model), costs.get_pair(large, small, model)
    assert there is not None
    assert back is not None
    assert there.slowdown > back.slowdown > 0.9
    assert there.in_flight is not None
    assert costs[large, model].kernels[0].blocks > 1
    assert sum(kernel.share for kernel in costs[large, model].kernels) == pytest.approx(1.0)
