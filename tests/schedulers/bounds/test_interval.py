"""The bound of Fernandez and Bussell, by hand and against what is possible."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.schedulers import critical_path_bound, lower_bound, work_bound
from graphsched.schedulers.bounds import bound_of
from graphsched.schedulers.bounds import interval as module
from graphsched.schedulers.bounds.interval import interval_bound
from graphsched.schedulers.scheduling import schedule
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, graph, machine
from tests.schedulers.ideal import makespan


def diamond(width: int, seconds: float) -> Workload:
    """first ─▶ `width` tasks ─▶ last."""
    middle = [f"m{k}" for k in range(width)]
    edges = [("first", m) for m in middle] + [(m, "last") for m in middle]
    return graph(edges, first=seconds, last=seconds, **dict.fromkeys(middle, seconds))


@pytest.mark.parametrize(("width", "devices", "seconds"), [(3, 2, 4.0), (5, 2, 5.0), (4, 4, 3.0), (7, 3, 5.0)])
def test_between_the_first_and_the_last_task_the_others_must_find_room(
    width: int, devices: int, seconds: float
) -> None:
    """1 + width / devices, rounded up, + 1; the path takes 3, the work (width + 2) / devices."""
    work = diamond(width, 1.0)
    platform = machine(devices, cpu=False)
    assert interval_bound(work, platform) == lower_bound(work, platform) == seconds
    assert max(critical_path_bound(work, platform), work_bound(work, platform)) <= seconds


def test_seconds_that_are_no_whole_numbers_are_not_rounded() -> None:
    """Three tasks of half a second between two others, on two devices: 0.5 + 0.75 + 0.5."""
    assert interval_bound(diamond(3, 0.5), machine(2, cpu=False)) == 1.75


def test_only_a_part_of_a_task_must_lie_in_an_interval() -> None:
    """a(1) ─▶ b(4) ─▶ c(1) and d(4) beside: 2 of d's 4 seconds must lie in b's 4; one device has 6 + 4 to do.

    ::

        a ─▶ b ─▶ c        d
    """
    work = graph([("a", "b"), ("b", "c")], a=1.0, b=4.0, c=1.0, d=4.0)
    assert interval_bound(work, machine(1, cpu=False)) == 10.0
    assert interval_bound(work, machine(2, cpu=False)) == 6.0


def test_devices_that_tasks_are_bound_to_count_by_themselves() -> None:
    """first ─▶ 3 tasks on cuda:1 ─▶ last, with cuda:0 idle: 5 s and not 4.

    ::

        first ─▶ m0, m1, m2 (cuda:1) ─▶ last
    """
    work = Workload()
    first = add(work, "first")
    middle = [add(work, f"m{k}", first, device="cuda:1") for k in range(3)]
    add(work, "last", *middle)
    assert interval_bound(work, machine(2, cpu=False)) == 5.0


def test_a_share_of_a_device_counts_as_such() -> None:
    """Eight tasks of a second that gain from each other's company, four at once in 1.5 s: 3 s of the device."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    for k in range(8):
        add(work, f"t{k}", x, duration_s=None)
    costs = Costs({(work["t0"].signature, "chip"): TaskCost(1.0, concurrency=((4, 1.5),))})
    assert interval_bound(work, machine(1, cpu=False), costs) == pytest.approx(3.0)


def test_what_takes_a_part_of_all_intervals_is_a_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little effort: between the path and the bound of all intervals."""
    work, platform = diamond(9, 1.0), machine(2, cpu=False)
    full = interval_bound(work, platform)
    monkeypatch.setattr(module, "EFFORT", 60.0)
    assert 3.0 <= interval_bound(work, platform) <= full == 7.0


@settings(deadline=None, max_examples=80)
@given(
    layers=st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=4), max_size=4),
    devices=st.integers(1, 3),
)
def test_no_schedule_is_shorter(layers: list[list[float]], devices: int) -> None:
    """Layers of tasks, each after all of the layer before."""
    names = [[f"t{i}.{j}" for j in range(len(layer))] for i, layer in enumerate(layers)]
    edges = [(a, b) for k in range(1, len(names)) for a in names[k - 1] for b in names[k]]
    seconds = {name: s for row, layer in zip(names, layers, strict=True) for name, s in zip(row, layer, strict=True)}
    work = graph(edges, **seconds)
    platform = machine(devices, cpu=False)
    bound = interval_bound(work, platform)
    assert bound >= critical_path_bound(work, platform) * (1 - 1e-9)
    for name in ("heft", "critical_path"):
        assert bound <= makespan(schedule(work, platform, scheduler=name)) * (1 + 1e-9)


def test_what_a_scheduler_has_proven_counts_where_it_is_more() -> None:
    """Two tasks of 1 s and 2 s on two devices: 2 s, unless the plan knows better."""
    from dataclasses import replace

    plan = schedule(graph(a=1.0, b=2.0), machine(2, cpu=False))
    assert bound_of(plan) == bound_of(replace(plan, bound_s=1.5)) == 2.0
    assert bound_of(replace(plan, bound_s=2.5)) == 2.5
