"""Work stealing by hand."""

from __future__ import annotations

import pytest

from graphsched.errors import PlatformError
from graphsched.platform import Device, Platform
from graphsched.schedulers import schedule, work_stealing
from graphsched.schedulers.placing.candidates import Devices, spread_over
from graphsched.workload import Task, Workload
from tests.schedulers.graphs import MATRIX, add, graph, lanes_of, machine
from tests.schedulers.papers import timed

TWO = machine(2, cpu=False)


def test_the_owner_takes_the_newest_and_a_thief_the_oldest() -> None:
    """root makes three tasks ready on cuda:0: c stays there, a is stolen; at 2 cuda:0 stands first and takes b.

    ::

        root (1) ─▶ a (1)
          ├──────▶ b (1)
          └──────▶ c (1)
    """
    work = graph([("root", "a"), ("root", "b"), ("root", "c")], root=1.0, a=1.0, b=1.0, c=1.0)
    plan = schedule(work, TWO, scheduler="work_stealing")
    assert lanes_of(plan) == {"root": "cuda:0/s0", "c": "cuda:0/s0", "a": "cuda:1/s0", "b": "cuda:0/s0"}
    assert timed(plan).start_s == {"root": 0, "a": 1, "c": 1, "b": 2}


def test_first_tasks_are_dealt_out_in_turn() -> None:
    """Four tasks on two devices, two each: the newest first."""
    plan = schedule(graph(a=2.0, b=2.0, c=2.0, d=2.0), TWO, scheduler="work_stealing")
    assert [lanes_of(plan)[name][:6] for name in "abcd"] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert plan.names == ["c", "d", "a", "b"]


def test_a_lane_that_no_task_may_go_to_does_not_look_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 tasks for two GPUs, the CPU idle: where each of them may go is found once, not at every end."""
    asked: list[str] = []

    def counted(task: Task, devices: Devices, platform: Platform) -> Devices:
        asked.append(task.name)
        return spread_over(task, devices, platform)

    monkeypatch.setattr(work_stealing, "spread_over", counted)
    plan = schedule(graph(**{f"t{i}": 1.0 for i in range(300)}), machine(2), scheduler="work_stealing")
    assert {lane.device for lane in plan.lanes if lane.kind == "compute"} == {"cuda:0", "cuda:1"}
    assert len(asked) == 300


def test_an_idle_lane_steals_whatever_it_costs() -> None:
    """The thief does not know that b's 100 bytes take 100 s: at 1 it takes b, which could have been over at 3.

    ::

        root (1) ─100 bytes─▶ b (1)
          └──────────────────▶ c (1)
    """
    import networkx as nx

    dag = nx.DiGraph([("root", "b", {"nbytes": 100}), ("root", "c")])
    nx.set_node_attributes(dag, 1.0, "duration_s")
    plan = schedule(Workload.from_graph(dag), TWO, scheduler="work_stealing")
    assert lanes_of(plan)["b"] == "cuda:1/s0"
    assert timed(plan).makespan_s == 102


def test_the_seed_chooses_the_victim() -> None:
    """Of eight devices with work for three rounds each, thieves choose differently; the same seed does the same."""
    work = graph(**{f"t{i}": 1.0 + (i % 8) for i in range(40)})
    found = [lanes_of(schedule(work, machine(8), scheduler="work_stealing", seed=seed)) for seed in (0, 1, 2, 2)]
    assert found[0] != found[1]
    assert found[2] == found[3]


def test_only_tasks_that_may_run_there_are_stolen() -> None:
    """All are dealt to both devices; those for cuda:1 end there, and the cpu gets what names it."""
    work = Workload()
    for k in range(4):
        add(work, f"gpu{k}", device="cuda:1")
    add(work, "host", device="cpu")
    add(work, "any")
    lanes = lanes_of(schedule(work, machine(2), scheduler="work_stealing"))
    assert [lanes[f"gpu{k}"] for k in range(4)] == ["cuda:1/s0"] * 4
    assert lanes["host"] == "cpu/w0"
    assert lanes["any"] == "cuda:0/s0"


def test_tasks_for_any_device_go_to_accelerators() -> None:
    """An idle CPU does not steal them; where there is nothing else it has them all."""
    work = graph(a=1.0, b=1.0, c=1.0)
    assert set(lanes_of(schedule(work, machine(1), scheduler="work_stealing")).values()) == {"cuda:0/s0"}
    assert set(lanes_of(schedule(work, machine(0), scheduler="work_stealing")).values()) == {"cpu/w0"}


def test_copies_and_barriers_begin_by_themselves() -> None:
    """The copy runs while no lane works; what follows the barrier starts after all before it.

    ::

        a (1) ─▶ copy (256 s) ║ wall ║ b (1)
    """
    work = Workload()
    work.copy(add(work, "a", device="cuda:0"), to="cpu", pinned=True, name="copy")
    work.barrier("wall")
    add(work, "b")
    plan = schedule(work, machine(1), scheduler="work_stealing")
    assert plan.names == ["a", "copy", "wall", "b"]
    assert timed(plan).start_s["b"] == 257


def test_a_lane_that_cannot_have_the_values_does_not_steal() -> None:
    """No link leads to cuda:1; where none leads anywhere the error names both ends."""
    apart = Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    for k in range(3):
        add(work, f"t{k}", x)
    assert set(lanes_of(schedule(work, apart, scheduler="work_stealing")).values()) == {"cuda:0/s0"}
    add(work, "lost", x, device="cuda:1")
    with pytest.raises(PlatformError, match="no link from 'cuda:0' to 'cuda:1'"):
        schedule(work, apart, scheduler="work_stealing")
