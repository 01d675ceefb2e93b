"""Peaks of memory, counted by hand: what a program keeps, what goes when, and what is alive at the peak."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Placement, Plan, build_plan, peak_memory
from graphsched.platform import Device, Link, Platform
from graphsched.workload import TensorSpec, Workload
from tests.plan.hand import op, plan_of, plans

KB = TensorSpec((256,))  # two blocks of 512 bytes


def make(work: Workload, name: str, *values: Any, kb: int = 1) -> Any:
    return work.task(op, *values, name=name, outputs=[TensorSpec((256 * kb,))])


def alive(plan: Plan, device: str) -> list[str]:
    return [held.name for held in plan.peak_memory[device].alive]


def kb(plan: Plan, device: str) -> float:
    return plan.peak_memory[device].nbytes / 1024


def chain(*sizes: int, lane: str = "cuda:0/s0") -> Plan:
    """x ──▶ t0 ──▶ t1 ──▶ …, results of these kilobytes."""
    work = Workload()
    value = work.input("x", KB, device="cuda:0")
    for i, size in enumerate(sizes):
        value = make(work, f"t{i}", value, kb=size)
    return plan_of(work, {f"t{i}": lane for i in range(len(sizes))})


def test_a_chain_holds_two_results_at_a_time() -> None:
    """x ──▶ t0 (1) ──▶ t1 (5) ──▶ t2 (2) ──▶ t3 (1): at t2 x, t1 and t2."""
    peak = chain(1, 5, 2, 1).peak_memory["cuda:0"]
    assert (peak.nbytes, peak.resident_bytes, peak.workspace_bytes, peak.action) == (8 * 1024, 1024, 0, "t2")
    assert [(held.name, held.nbytes, held.task) for held in peak.alive] == [
        ("t1", 5 * 1024, "t1"),
        ("t2", 2 * 1024, "t2"),
        ("x", 1024, ""),
    ]


def test_a_fork_keeps_what_the_other_branch_still_reads() -> None:
    """x ──▶ a ──▶ b ──▶ c ──▶ d, a ──▶ d: a stays beside b and c."""
    work = Workload()
    a = make(work, "a", work.input("x", KB, device="cuda:0"))
    c = make(work, "c", make(work, "b", a))
    make(work, "d", a, c)
    assert alive(plan_of(work, dict.fromkeys("abcd", "cuda:0/s0")), "cuda:0") == ["x", "a", "b", "c"]


def test_what_a_lane_never_learns_of_counts_to_the_end() -> None:
    """x ──▶ a (s0) ──▶ b (s1) ──▶ c (s1) ──▶ d (s1): s0 is never past b."""
    work = Workload()
    value = work.input("x", KB, device="cuda:0")
    for name in "abcd":
        value = make(work, name, value)
    lanes = {"a": "cuda:0/s0"} | dict.fromkeys("bcd", "cuda:0/s1")
    assert alive(plan_of(work, lanes), "cuda:0") == ["x", "a", "b", "c"]


def test_views_take_no_memory_and_keep_what_they_look_into() -> None:
    """x ──▶ a ──▶ view ──▶ b ──▶ c."""
    work = Workload()
    a = work.task(op, work.input("x", KB, device="cuda:0"), name="a", outputs=[TensorSpec((16, 16))])
    view = work.task(lambda t: t.t(), a, name="view")
    make(work, "c", make(work, "b", view))
    plan = plan_of(work, dict.fromkeys(["a", "view", "b", "c"], "cuda:0/s0"))
    assert alive(plan, "cuda:0") == ["x", "a", "b"]


def test_states_are_held_twice_and_cloned_where_they_are_returned() -> None:
    """w, kept; x ──▶ a."""
    work = Workload()
    work.keep(work.state("w", KB, device="cuda:0"))
    make(work, "a", work.input("x", KB, device="cuda:0"))
    plan = plan_of(work, {"a": "cuda:0/s0"})
    assert alive(plan, "cuda:0") == ["w", "x", "w (initial)", "a", "w (returned)"]
    assert plan.peak_memory["cuda:0"].resident_bytes == 3 * 1024


def test_a_workspace_counts_while_its_task_runs() -> None:
    """x ──▶ a (workspace of 4) ──▶ b ──▶ c."""
    plan = chain(1, 1, 1)
    first = plan.work["t0"].signature
    costs = Costs({(first, "GPU"): TaskCost(1.0, workspace_bytes=4 * 1024)})
    assert all(plan.work[name].signature == first for name in ("t1", "t2"))
    peak = replace(plan, costs=costs).peak_memory["cuda:0"]
    assert (peak.nbytes, peak.workspace_bytes, peak.action) == (7 * 1024, 4 * 1024, "t1")
    assert [held.name for held in peak.alive] == ["x", "t0", "t1"]


def test_copies_take_memory_where_they_go() -> None:
    """x (cpu) ──▶ a (cuda:0) ──▶ b (cuda:1) ──▶ copy to the cpu: x and a are copied, two host buffers for b."""
    work = Workload()
    b = make(work, "b", make(work, "a", work.input("x", KB)))
    work.copy(b, to="cpu", name="home")
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    assert {name: alive(plan, name) for name in plan.peak_memory} == {
        "cpu": ["x", "home", "home"],
        "cuda:0": ["x>cuda:0", "a"],
        "cuda:1": ["a>cuda:1", "b"],
    }
    assert [held.task for held in plan.peak_memory["cuda:1"].alive] == ["a", "b"]


def test_a_staged_copy_goes_through_two_buffers_of_the_host() -> None:
    """x (cuda:0) ──▶ a (cuda:0) ──▶ b (cuda:1), no peer access."""
    work = Workload()
    make(work, "b", make(work, "a", work.input("x", KB, device="cuda:0")))
    devices = tuple(Device(name, name.partition(":")[0]) for name in ("cpu", "cuda:0", "cuda:1"))  # type: ignore[arg-type]
    here = Platform("here", devices, (Link("cuda:0", "cuda:1", "staged", 1.0, 1.0),))
    placed = Placement(["a", "b"], {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    plan = build_plan(work, here, None, placed, scheduler="by hand")
    assert alive(plan, "cpu") == ["a>cuda:1", "a>cuda:1"]


def test_a_fresh_copy_to_the_host_takes_memory_when_it_is_made() -> None:
    """x (cuda:0) ──▶ a ──▶ fresh copy."""
    work = Workload()
    a = make(work, "a", work.input("x", KB, device="cuda:0"))
    work.copy(a, to="cpu", fresh=True, name="home")
    devices = (Device("cpu", "cpu"), Device("cuda:0", "cuda"))
    here = Platform("here", devices, (Link("cuda:0", "cpu", "fresh", 1.0, 1.0),))
    plan = build_plan(work, here, None, Placement(["a", "home"], {"a": "cuda:0/s0"}), scheduler="by hand")
    assert alive(plan, "cpu") == ["home"]


def test_graph_mode_gives_nothing_back_and_returns_clones() -> None:
    """x ──▶ t0 (1) ──▶ t1 (5) ──▶ t2 (2): all three at once, and a clone of t2."""
    peak = replace(chain(1, 5, 2), mode="graph").peak_memory["cuda:0"]
    assert [held.name for held in peak.alive] == ["t1", "t2", "t2", "x", "t0"]
    returned = replace(chain(1, 5, 2), mode="graph")
    returned.work.keep(returned.work["t0"].outputs[0], returned.work["t1"].outputs[0])
    assert alive(returned, "cuda:0") == ["t1", "t1 (returned)", "t2", "t2 (returned)", "x", "t0", "t0 (returned)"]


def test_graph_mode_holds_states_three_times_before_the_capture() -> None:
    """w (9); x ──▶ t0 ──▶ t1: while the plan is rehearsed."""
    work = Workload()
    work.state("w", TensorSpec((9 * 256,)), device="cuda:0")
    make(work, "t1", make(work, "t0", work.input("x", KB, device="cuda:0")))
    plan = replace(plan_of(work, {"t0": "cuda:0/s0", "t1": "cuda:0/s0"}), mode="graph")
    peak = plan.peak_memory["cuda:0"]
    assert [held.name for held in peak.alive] == ["w", "w (initial)", "w (rehearsal)", "x", "t1", "t0", "t1"]
    assert peak.resident_bytes == 19 * 1024


def test_graph_mode_drops_what_the_rehearsal_kept() -> None:
    """w (1); x ──▶ t0 (4), x ──▶ t1 (4): at the end two of w, x, and both results with their clones."""
    work = Workload()
    work.state("w", KB, device="cuda:0")
    x = work.input("x", KB, device="cuda:0")
    make(work, "t0", x, kb=4)
    make(work, "t1", x, kb=4)
    plan = replace(plan_of(work, {"t0": "cuda:0/s0", "t1": "cuda:0/s0"}), mode="graph")
    assert kb(plan, "cuda:0") == 2 + 1 + 2 * 8


def test_in_graph_mode_what_cpu_lanes_make_still_goes() -> None:
    """x ──▶ a (cuda:0) ──▶ h0 (cpu) ──▶ h1 ──▶ h2 ──▶ b (cuda:0)."""
    work = Workload()
    value = make(work, "a", work.input("x", KB, device="cuda:0"))
    for i in range(3):
        value = make(work, f"h{i}", value, kb=4)
    make(work, "b", value)
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0"} | {f"h{i}": "cpu/w0" for i in range(3)}
    plan = replace(plan_of(work, lanes), mode="graph")
    assert kb(plan, "cpu") == 2 * 2 + 4 + 3 * 4  # buffers for a and its rehearsal; h2 in pinned memory; h0, h1, h2
    assert kb(plan, "cuda:0") == 1 + 1 + 4 + 4 + 1  # x, a, h2 twice (the run before's goes behind the new one), b


def test_a_plan_without_memory_has_no_peaks() -> None:
    """A task that reads and makes nothing."""
    work = Workload()
    work.task(op, name="a", outputs=[])
    assert plan_of(work, {"a": "cuda:0/s0"}).peak_memory == {}


@pytest.mark.parametrize("mode", ["eager", "graph"])
@settings(max_examples=25, deadline=None)
@given(plan=plans())
def test_peaks_lie_between_what_stays_and_all_there_ever_is(plan: Plan, mode: str) -> None:
    """Random plans: at least the resident memory and the largest task's own, at most everything at once."""
    plan = replace(plan, mode=mode)
    found = peak_memory(plan)
    assert found == peak_memory(plan)
    for device, peak in found.items():
        grain = 512 if device != "cpu" else 1
        blocks = [grain * -(-held.nbytes // grain) for held in peak.alive]
        assert peak.nbytes == sum(blocks) + grain * -(-peak.workspace_bytes // grain)
        assert peak.resident_bytes <= peak.nbytes
        assert [held.nbytes for held in peak.alive] == sorted((h.nbytes for h in peak.alive), reverse=True)
        for task in (t for t in plan.work.tasks if t.kind == "run"):
            if plan.lanes[plan.lane_of[plan.index_of[task.name]]].device == device:
                own = sum(v.nbytes for v in task.outputs if v.root == v.name)
                assert peak.nbytes >= peak.resident_bytes + own


@settings(max_examples=25, deadline=None)
@given(plan=plans())
def test_graph_mode_needs_no_less_than_eager_mode(plan: Plan) -> None:
    eager, graph = peak_memory(plan), peak_memory(replace(plan, mode="graph"))
    assert all(graph[device].nbytes >= peak.nbytes for device, peak in eager.items())
