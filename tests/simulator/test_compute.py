"""Tasks side by side on a GPU, on the cores of the host; copies made by cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Beside, Costs, TaskCost
from graphsched.platform import Platform
from graphsched.simulator import Model, predict
from graphsched.simulator.compute import CoreSharing, CurveSharing, PairSharing, Pool
from tests.builders import operations, planned, platform, workload

CURVE = ((1, 1.0), (2, 1.25), (4, 2.0))


def test_without_a_curve_a_device_is_shared_in_equal_parts():
    """a (1 s), b (3 s) on two streams: halves until 2 s, then b alone; one after the other on one stream."""
    work = workload({"a": 1.0, "b": 3.0})
    plan = planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:0/s1"})
    assert predict(plan).end_s.tolist() == [2, 4]
    assert predict(plan, model=Model(sharing=False)).end_s.tolist() == [1, 3]
    assert predict(planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:0/s0"})).end_s.tolist() == [1, 4]
    assert predict(planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:1/s0"})).end_s.tolist() == [1, 3]


@pytest.mark.parametrize(("k", "slowdown"), [(1, 1.0), (2, 1.25), (3, 1.625), (4, 2.0), (8, 4.0)])
def test_k_copies_of_a_task_take_what_its_curve_says(k: int, slowdown: float):
    """k tasks of 4 s on k streams."""
    work, costs = operations({f"t{i}": 0 for i in range(k)}, [TaskCost(4.0, concurrency=CURVE)])
    plan = planned(work, platform(), {f"t{i}": f"cuda:0/s{i}" for i in range(k)}, costs=costs)
    assert predict(plan).end_s.tolist() == [4 * slowdown] * k


def test_tasks_with_different_curves():
    """a (1.25 at 2) beside b (none): a at 0.8, b at 0.5; a over at 5 s with 2.5 of b's 4 s done."""
    work, costs = operations({"a": 0, "b": 1}, [TaskCost(4.0, concurrency=CURVE), TaskCost(4.0)])
    plan = planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:0/s1"}, costs=costs)
    assert predict(plan).end_s.tolist() == [5, 6.5]


def test_newcomer_slows_what_runs():
    """x (cuda:1, 1 s) -> b (1 s) joins a (2 s) at 1 s: halves until 3 s."""
    work = workload({"a": 2.0, "x": 1.0, "b": 1.0}, [("x", "b", 0)])
    plan = planned(work, platform(), {"a": "cuda:0/s0", "x": "cuda:1/s0", "b": "cuda:0/s1"})
    assert predict(plan).end_s.tolist() == [3, 1, 3]


def test_copies_on_compute_lanes_share_no_multiprocessors():
    """a -> copy on its own stream beside b: 1 s, 2 s copy, and b 3 s of which 1 s shared."""
    work = workload({"a": 1.0, "b": 3.0, "c": 0.0}, [("a", "c", 200)])
    plan = planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:1/s0"})
    assert predict(plan).end_s.tolist() == [2, 4, 4, 4]


def cpu(threads: int, cores: int, **options: object) -> Platform:
    here = platform(gpus=0, workers=2, cores=cores, **options)  # type: ignore[arg-type]
    devices = tuple(replace(d, threads=threads) for d in here.devices)
    return Platform("hand", devices, here.links, here.capacities, here.dispatch, here.cores)


@pytest.mark.parametrize(
    ("threads", "cores", "seconds"), [(1, 2, 3.0), (2, 4, 3.0), (2, 3, 4.0), (4, 4, 6.0), (8, 4, 6.0), (1, 1, 6.0)]
)
def test_cpu_lanes_share_the_cores(threads: int, cores: int, seconds: float):
    """a, b of 3 s on two workers: as fast as alone until threads outnumber cores."""
    plan = planned(workload({"a": 3.0, "b": 3.0}), cpu(threads, cores), {"a": "worker:0/s0", "b": "worker:1/s0"})
    assert predict(plan).makespan_s == pytest.approx(seconds)
    assert predict(plan, model=Model(sharing=False)).makespan_s == 3


def test_a_lane_with_more_threads_than_cores_is_as_measured_when_alone():
    """a, b of 3 s one after the other."""
    plan = planned(workload({"a": 3.0, "b": 3.0}, [("a", "b", 0)]), cpu(8, 4), {"a": "worker:0/s0", "b": "cpu/w0"})
    assert predict(plan).makespan_s == 6


@pytest.mark.parametrize("shared", [{}, {"bus": 100.0}])
def test_a_copy_between_cpu_lanes_uses_a_core(shared: dict[str, float]):
    """x -> copy (2 s alone) -> y beside t (8 s) on one core: halves while both run, whatever the link shares.

    A second copy, long after, makes the link one that two lanes use.
    """
    work = workload({"x": 0.0, "t": 8.0, "y": 0.0, "z": 0.0}, [("x", "y", 200), ("t", "z", 100)])
    lanes = {"x": "worker:0/s0", "t": "cpu/w0", "y": "worker:1/s0", "z": "worker:1/s0"}
    plan = planned(work, cpu(1, 1, shared=shared), lanes)
    spans = {s.action: (s.start_s, s.end_s) for s in predict(plan)}
    assert spans["x>worker:1"] == (0, 4)
    assert spans["t"] == (0, 10)
    assert spans["t>worker:1"] == (10, 11)


def test_copies_between_cpu_lanes_share_cores_and_link():
    """Two copies of 100 bytes over a bus of 100 bytes/s, beside 2 threads on 1 core.

    Each copy could have a quarter of a core, 25 bytes/s: 4 s; then t and u go on at halves.
    """
    work = workload({"x": 0.0, "v": 0.0, "t": 2.0, "u": 2.0, "y": 0.0, "z": 0.0}, [("x", "y", 100), ("v", "z", 100)])
    lanes = {
        "x": "worker:0/s0", "v": "worker:1/s0", "t": "cpu/w0", "u": "cpu/w1", "y": "worker:1/s1", "z": "worker:0/s1",
    }  # fmt: skip
    plan = planned(work, cpu(1, 1, shared={"bus": 100.0}), lanes, order=["x", "v", "t", "u", "y", "z"])
    spans = {s.action: s.end_s for s in predict(plan)}
    assert (spans["x>worker:1"], spans["v>worker:0"]) == (4, 4)
    assert (spans["t"], spans["u"]) == (6, 6)


def test_cores_ignore_gpus():
    """A GPU task and a pinned copy beside a CPU task on one core."""
    work = workload({"a": 2.0, "b": 3.0, "c": 0.0}, [("a", "c", 100)])
    here = Platform("hand", (here := platform(cores=1)).devices, here.links, {}, here.dispatch, 1)
    plan = planned(work, here, {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:1/s0"})
    assert predict(plan).end_s.tolist() == [2, 3, 3, 3]


def test_a_rule_may_hold_a_task_back():
    """A sharing rule of one's own: only the first runs, the second stands still until it is over."""

    class InTurn:
        def __init__(self) -> None:
            self.queue: list[int] = []

        def start(self, action: int) -> None:
            self.queue.append(action)

        def end(self, action: int) -> None:
            self.queue.remove(action)

        def rates(self) -> list[tuple[int, float]]:
            return [(action, float(k == 0)) for k, action in enumerate(self.queue)]

    timers: list[tuple[float, int]] = []
    pool = Pool(InTurn(), {0: 2.0, 1: 3.0}, lambda time, _, token: timers.append((time, token)))
    pool.enter(0, 0.0)
    pool.enter(1, 1.0)
    pool.refresh(1.0)
    assert timers == [(3.0, 1)]
    assert pool.due(1, 3.0) == [0]
    pool.refresh(3.0)
    assert timers[1:] == [(6.0, 2)]


def test_rules_by_themselves():
    curves = CurveSharing([TaskCost(1.0, concurrency=CURVE), TaskCost(1.0)], {5: 0, 6: 1})
    curves.start(5)
    assert curves.rates() == [(5, 1.0)]
    curves.start(6)
    assert curves.rates() == [(5, 0.8), (6, 0.5)]
    curves.end(5)
    assert curves.rates() == [(6, 1.0)]
    cores = CoreSharing({1: 3, 2: 1}, 2)
    assert cores.share == 1
    cores.start(1)
    cores.start(2)
    assert cores.share == 0.75


def test_pairs_are_added():
    """Three kinds: 0 beside 1 takes 1.5, beside 2 takes 1.25; 2 beside 0 is faster than alone, which does not count."""
    known = {(0, 1): 1.5, (0, 2): 1.25, (1, 0): 2.0, (1, 2): 1.0, (2, 0): 0.5, (2, 1): 1.0}
    pairs = PairSharing([TaskCost(1.0)] * 3, {5: 0, 6: 1, 7: 2}, known)
    for action in (5, 6, 7):
        pairs.start(action)
    assert pairs.rates() == [(5, 1 / 1.75), (6, 0.5), (7, 1.0)]
    pairs.end(6)
    assert pairs.rates() == [(5, 0.8), (7, 1.0)]


def test_a_pair_that_was_not_measured_counts_as_a_copy():
    """1.25 by the curve for the one that is not known, and 0.5 for the one that is."""
    pairs = PairSharing([TaskCost(1.0, concurrency=CURVE), TaskCost(1.0)], {5: 0, 6: 0, 7: 1}, {(0, 1): 1.5})
    for action in (5, 6, 7):
        pairs.start(action)
    assert pairs.rates() == [(5, 1 / 1.75), (6, 1 / 1.75), (7, 1 / 3)]


def test_a_plan_with_measured_pairs_adds_them():
    """a (4 s, 1.25 beside b) and b (4 s, 2 beside a): a over at 5 s with half of 5 s done of b's 4."""
    work, costs = operations({"a": 0, "b": 1}, [TaskCost(4.0), TaskCost(4.0)])
    lanes, (a, b) = {"a": "cuda:0/s0", "b": "cuda:0/s1"}, (work["a"].signature, work["b"].signature)
    costs = costs.merged(Costs(pairs={(a, b, "GPU"): Beside(1.25), (b, a, "GPU"): Beside(2.0)}))
    plan = planned(work, platform(), lanes, costs=costs)
    assert predict(plan).end_s.tolist() == [5, 6.5]
    assert predict(plan, model=Model(pairs=False)).end_s.tolist() == [8, 8]
