"""What is to be seen on each lane of a run in graph mode."""

from __future__ import annotations

from dataclasses import replace

from graphsched.formats.perfetto import to_perfetto
from graphsched.formats.tracks import Slice, Track, joins_of, tracks
from graphsched.plan import Plan
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, handover, plan_of, timeline


def track(line: Timeline, lane: str) -> Track:
    return next(track for track in tracks(line) if track.lane.name == lane)


def beside_a_cpu() -> Plan:
    """Two tasks of a GPU, in the plan one before and one behind a task of the CPU.

    ::

        a   cuda:0        m   cpu        b   cuda:0
    """
    work = Workload("beside")
    x, y = work.input("x", MATRIX, device="cuda:0"), work.input("y", MATRIX, device="cpu")
    add(work, "a", x)
    add(work, "m", y)
    add(work, "b", x)
    return replace(plan_of(work, {"a": "cuda:0/s0", "m": "cpu/w0", "b": "cuda:0/s0"}), mode="graph")


def test_one_launch_is_one_slice_also_where_others_stand_between_its_actions() -> None:
    spans = [(1e-3, 2e-3), (2e-5, 5e-3), (2e-3, 3e-3)]
    line = timeline(beside_a_cpu(), spans, issues=[(0, 1e-5), (1e-5, 2e-5), (0, 1e-5)])
    assert track(line, "host/py").slices == (
        Slice(0, 1e-5, "launch of 2 actions", "dispatch", 0, 2),
        Slice(1e-5, 2e-5, "m", "dispatch", 1),
    )


def test_waits_inside_a_graph_do_not_block_the_thread() -> None:
    """The barrier is a join of lanes; it is drawn from the end of the launch on."""
    plan = replace(handover(), mode="graph")
    spans = [(1e-5, 2e-3), (2e-3, 3e-3), (3e-3, 5e-3), (3e-3, 6e-3), (0, 6e-3)]
    line = timeline(plan, spans, issues=[(0, 1e-5)] * 5)
    assert joins_of(plan) == {4}
    assert track(line, "host/py").slices == (
        Slice(0, 1e-5, "launch of 4 actions", "dispatch", 0, 4),
        Slice(1e-5, 6e-3, "end", "join", 4),
    )
    seen = [(event["name"], event["cat"]) for event in to_perfetto(line)["traceEvents"] if event["ph"] == "X"]
    assert ("end", "join") in seen
    arrows = [event for event in to_perfetto(line)["traceEvents"] if event["ph"] == "f"]
    assert len(arrows) == len([e for e in to_perfetto(replace_mode(line))["traceEvents"] if e["ph"] == "f"])


def replace_mode(line: Timeline) -> Timeline:
    """The same in eager mode."""
    return replace(line, plan=replace(line.plan, mode="eager"))


def test_a_wait_that_is_over_before_the_launch_is_has_no_length() -> None:
    plan = replace(handover(), mode="graph")
    line = timeline(plan, [(0, 1e-6)] * 5, issues=[(0, 1e-5)] * 5)
    assert track(line, "host/py").slices[-1] == Slice(1e-6, 1e-6, "end", "join", 4)


def test_waits_of_eager_mode_and_between_graphs_are_the_threads() -> None:
    assert joins_of(handover()) == frozenset()
    work = Workload("cut")
    add(work, "m", work.input("y", MATRIX, device="cpu"))
    work.barrier("over")
    add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    plan = replace(plan_of(work, {"m": "cpu/w0", "a": "cuda:0/s0"}), mode="graph")
    assert joins_of(plan) == frozenset()
