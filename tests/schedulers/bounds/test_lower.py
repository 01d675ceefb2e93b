"""Bounds in closed form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import CacheStates, Costs, TaskCost
from graphsched.platform import Device, Platform
from graphsched.schedulers import critical_path_bound, lower_bound, schedule, work_bound
from graphsched.schedulers.bounds import bound_of
from graphsched.schedulers.placing.durations import Durations
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, graph, machine, stub
from tests.schedulers.ideal import makespan


def test_critical_path_takes_the_fastest_device() -> None:
    """a ─▶ b ─▶ c and d: 1 + 2 + 1; d is shorter.

    ::

        a ─▶ b ─▶ c        d
    """
    work = graph([("a", "b"), ("b", "c")], a={"cuda": 1.0, "cpu": 5.0}, b={"cuda": 3.0, "cpu": 2.0}, c=1.0, d=3.5)
    assert critical_path_bound(work, machine(1)) == 4.0


def test_critical_path_passes_copies_and_barriers() -> None:
    """2 + 0 + 3: neither the copy nor the barrier counts, but both order.

    ::

        a ─▶ copy ║ barrier ║ b
    """
    work = Workload()
    work.copy(add(work, "a", duration_s=2.0), to="cpu")
    work.barrier()
    add(work, "b", duration_s=3.0)
    assert critical_path_bound(work, machine(2)) == 5.0


@pytest.mark.parametrize(("kind", "lanes", "bound"), [("cuda", 32, 3.0), ("worker", 1, 3.0), ("worker", 3, 1.0)])
def test_work_is_shared_by_processors(kind: str, lanes: int, bound: float) -> None:
    """Six tasks of a second on two devices: a GPU is one processor, each lane of workers one."""
    work = graph(**{name: {kind: 1.0} for name in "abcdef"})
    assert work_bound(work, machine(2, kind=kind, lanes=lanes)) == bound


def test_work_that_only_some_devices_may_do() -> None:
    """Four of five tasks must go to cuda:1."""
    work = Workload()
    for k in range(4):
        add(work, f"t{k}", device="cuda:1")
    add(work, "free", device="cuda")
    assert work_bound(work, machine(2)) == 4.0
    assert lower_bound(work, machine(2)) == 4.0


def test_tasks_that_gain_from_concurrency_take_a_share_of_their_device() -> None:
    """Four side by side take 1.5 times as long as one: each takes 3/8 of a device."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    for k in range(8):
        add(work, f"t{k}", x, duration_s=None)
    cost = TaskCost(2.0, concurrency=((1, 1.0), (4, 1.5), (8, 8.0)))
    costs = Costs({(work["t0"].signature, "GPU"): cost})
    platform = Platform("one", (Device("cuda:0", "cuda", "GPU"),), costs=costs)
    assert work_bound(work, platform, costs) == pytest.approx(8 * 2.0 * 1.5 / 4)
    assert work_bound(work, platform) == work_bound(work, platform, costs)
    assert critical_path_bound(work, platform) == 2.0


def test_bounds_of_graph_mode_take_what_tasks_take_there() -> None:
    """a ─▶ b: 2 and 1 s in streams; in a graph 0.5 s, and as long for b, which could not be captured."""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"), duration_s=None)
    add(work, "b", a, a, duration_s=None)
    costs = {"a": TaskCost(2.0, graph_s=0.5, graph_nodes=1), "b": TaskCost(1.0)}
    found = Costs({(work[name].signature, "chip"): cost for name, cost in costs.items()})
    platform = replace(machine(1, cpu=False), costs=found)
    for bound in (critical_path_bound, work_bound, lower_bound):
        assert (bound(work, platform), bound(work, platform, mode="graph")) == (3.0, 1.5)


def test_bounds_of_graph_mode_know_caches() -> None:
    """a ─▶ b ─▶ c: in a row of its own each takes 8 s, behind what has just written its input 2 s less."""
    work = Workload()
    value = work.input("x", MATRIX, device="cuda:0")
    for name in "abc":
        value = add(work, name, value, duration_s=None)
    cost = TaskCost(8.0, graph_s=8.0, graph_memory=((1000, 8.0), (1200, 8.5)), cache=CacheStates(-2.0, 0.0))
    platform = replace(machine(1, cpu=False), costs=Costs({(work["a"].signature, "chip"): cost}))
    for name in ("one_stream", "search", "optimal"):
        plan = schedule(work, platform, scheduler=name, mode="graph")
        assert bound_of(plan) == 18.0 <= predict(plan).makespan_s < 24.0
    assert lower_bound(work, platform) == 24.0


def test_nothing_takes_no_time() -> None:
    """An empty workload."""
    assert lower_bound(Workload(), machine(1)) == 0.0


def test_bound_is_reached_by_chains_on_devices() -> None:
    """Two chains of 3 s on two devices: HEFT meets the bound.

    ::

        a0 ─▶ a1 ─▶ a2        b0 ─▶ b1 ─▶ b2
    """
    edges = [(f"{c}{k}", f"{c}{k + 1}") for c in "ab" for k in range(2)]
    work = graph(edges, **{f"{c}{k}": 1.0 for c in "ab" for k in range(3)})
    platform = machine(2, cpu=False)
    assert lower_bound(work, platform) == makespan(schedule(work, platform)) == 3.0


@pytest.mark.parametrize(("now_s", "bound"), [(1e-4, 1.0), (2e-4, 2.0), (0.0, 2.0)])
def test_cpu_lanes_at_their_present_pace(now_s: float, bound: float) -> None:
    """Measured at 2 s when the small product took 0.2 ms: as the prediction has it, and not above it."""
    work = Workload()
    work.task(stub, name="t", outputs=[MATRIX], device="cpu")
    here = machine(1)
    here = replace(here, dispatch=replace(here.dispatch, product_s=now_s))
    costs = Costs({(work["t"].signature, "processor"): TaskCost(2.0, product_s=2e-4)})
    assert lower_bound(work, here, costs) == bound
    assert Durations(here, costs).row(work["t"], ("cpu",)) == (bound,)
    assert predict(schedule(work, here, costs)).makespan_s == pytest.approx(bound)


def test_cpu_lanes_at_the_present_pace_of_memory() -> None:
    """All of 2 s went with sweeps of 1 ms, which take half of that now; after a rest it took 3 s."""
    work = Workload()
    work.task(stub, name="t", outputs=[MATRIX], device="cpu")
    here = machine(1)
    here = replace(here, dispatch=replace(here.dispatch, product_s=1.0, sweep_s=5e-4))
    cost = TaskCost(2.0, product_s=2e-4, sweep_s=1e-3, shares=(0.0, 1.0), rests=((1e-3, 2.0), (1.0, 3.0)))
    costs = Costs({(work["t"].signature, "processor"): cost})
    assert lower_bound(work, here, costs) == Durations(here, costs).row(work["t"], ("cpu",))[0] == 1.0
    assert predict(schedule(work, here, costs)).makespan_s == pytest.approx(1.0)
