"""Rules that spread tasks over lanes, on graphs small enough to see the answer."""

from __future__ import annotations

import pytest

from graphsched.costs import Costs, Kernel, Multiprocessors, TaskCost
from graphsched.schedulers.registry import find_scheduler
from graphsched.schedulers.searching.lane_rules import Assigned, assigned, beside, paths, placements, share_of, turns
from graphsched.schedulers.searching.trials import Trial
from graphsched.workload import Workload, ancestors_first
from tests.schedulers.graphs import MATRIX, graph, machine, stub

TWO = Multiprocessors(count=2, registers=65536, threads=2048, shared_bytes=1024, blocks=8)


def on_first(work: Workload, costs: Costs | None = None, lanes: int = 32, scheduler: str = "one_stream") -> Assigned:
    """`work` on the devices that a scheduler chooses: by default all on the first."""
    where = machine(2, lanes=lanes)
    return assigned(work, where, costs or Costs(), find_scheduler(scheduler)(work, where, costs or Costs()))


def branches() -> Workload:
    """A long path, a short one, and a task alone; in brackets the seconds.

    ::

        a(1) ─▶ b(3) ─▶ d(1)
          └───▶ c(2) ─────┘     e(3.5)
    """
    return graph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], a=1.0, b=3.0, c=2.0, d=1.0, e=3.5)


def test_orders() -> None:
    """Longest way to the end first, and level by level; equals in the order of the workload."""
    tasks = on_first(branches())
    assert tasks.by_rank == ["a", "b", "e", "c", "d"]
    assert tasks.by_level == ["a", "e", "b", "c", "d"]


def test_paths() -> None:
    """a-b-d is 5 s on the first lane, so that e (3.5 s) and c (2 s) share the second; with a third c has its own."""
    tasks = on_first(branches())
    assert paths(tasks, 2) == {"a": 0, "b": 0, "d": 0, "e": 1, "c": 1}
    assert paths(tasks, 3) == {"a": 0, "b": 0, "d": 0, "e": 1, "c": 2}
    assert set(paths(tasks, 1).values()) == {0}


def test_paths_end_at_their_device() -> None:
    """`b` must be on the other GPU: the path goes on with c, and b begins one of its own."""
    tasks = on_first(graph([("a", "b"), ("a", "c")], a=1.0, b={"cuda:1": 9.0}, c={"cuda:0": 1.0}))
    assert tasks.device_of == {"a": "cuda:0", "b": "cuda:1", "c": "cuda:0"}
    assert paths(tasks, 2) == {"a": 0, "b": 0, "c": 0}


def test_turns() -> None:
    """In the order given, each device in turn for itself."""
    tasks = on_first(graph(a=1.0, b={"cuda:1": 1.0}, c=1.0, d=1.0, e={"cuda:1": 1.0}))
    assert turns(tasks, ["d", "c", "b", "a", "e"], 2) == {"d": 0, "c": 1, "b": 0, "a": 0, "e": 1}


def mixed() -> tuple[Workload, Costs]:
    """Two tasks that fill the device, `f` and `g`, and three that take half of it."""
    work = Workload()
    for name in "fgxyz":
        work.task(stub, name in "fg", name=name, outputs=[MATRIX], device="cuda")
    full, half = TaskCost(5.0, concurrency=((2, 2.0),)), TaskCost(1.0, concurrency=((2, 1.0),))
    return work, Costs({(work["f"].signature, "chip"): full, (work["x"].signature, "chip"): half})


def test_beside() -> None:
    """What fills the device has the first lane for itself, unless there is no other."""
    tasks = on_first(*mixed())
    assert beside(tasks, 3) == {"f": 0, "g": 0, "x": 1, "y": 2, "z": 1}
    assert beside(tasks, 2) == {"f": 0, "g": 0, "x": 1, "y": 1, "z": 1}
    assert set(beside(on_first(*mixed(), lanes=1), 4).values()) == {0}


def test_share_of_the_device() -> None:
    """Two multiprocessors hold 16 blocks at a time: 4 fill a quarter, 400 all; kernels count by their times."""
    few, many = (Kernel(blocks=n, registers=0, threads=32, shared_bytes=0, share=0.5) for n in (4, 400))
    assert share_of(TaskCost(1.0, kernels=(few,), processors=TWO)) == pytest.approx(0.25)
    assert share_of(TaskCost(1.0, kernels=(few, many), processors=TWO)) == pytest.approx(0.625)
    assert share_of(TaskCost(1.0, kernels=(few,), concurrency=((2, 1.2),))) == pytest.approx(0.6)
    assert share_of(TaskCost(1.0, concurrency=((2, 2.4),))) == 1.0


def test_lanes_are_numbered_by_first_use() -> None:
    """Whatever the labels; on each device from 0."""
    tasks = on_first(graph(a=1.0, b={"cuda:1": 1.0}, c=1.0))
    placed = tasks.placed(["c", "b", "a"], {"a": 0, "b": 7, "c": "last"})
    assert placed.lanes == {"c": "cuda:0/s0", "b": "cuda:1/s0", "a": "cuda:0/s1"}
    assert (placed.order, placed.wait_after, placed.copies) == (["c", "b", "a"], frozenset(), "own")


def test_all_placements_can_be_planned() -> None:
    """Every one in a topological order, on no more lanes than were asked for; the rule for full tasks only in a mix."""
    for made, rules in ((mixed(), 8), ((branches(), Costs()), 7)):
        tasks = on_first(*made, scheduler="heft")
        found = list(placements(tasks, [2, 3]))
        assert len(found) == 1 + (rules - 1) * 2
        assert all(ancestors_first(made[0].graph, placement.order) for placement in found)
        each = [Trial(placement, 0.0).lanes_each for placement in found]
        assert (each[0], max(each[1::2]), max(each)) == (1, 2, 3)
