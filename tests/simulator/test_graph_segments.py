"""Graphs of a plan that is cut: who waits for whom, on plans of a few actions."""

from __future__ import annotations

from graphsched.plan import OUTSIDE, Segments
from graphsched.simulator.graph_segments import replays_of, waits_between
from graphsched.simulator.lane_costs import CPU, CUDA, WAIT

CUT = Segments(of=[0, 0, OUTSIDE, OUTSIDE, 1, 1, 1], before=[(), (2, 3)], after={3: 0})
"""0 and 1 in a graph; 2 on a CPU; 3 a copy on a stream that no graph holds; 4 a wait, 5 and 6 in a second graph."""

KIND = [CUDA, CUDA, CPU, CUDA, WAIT, CUDA, CUDA]
LANE = [0, 1, 2, 3, 4, 0, 0]


def test_the_thread_waits_for_lanes_of_the_cpu_and_launches_at_the_first_action() -> None:
    graphs = replays_of(CUT, KIND, [1, 3, 1, 1, 1, 2, 1])
    assert (graphs.first, graphs.needs) == ([0, 4], [(), (2,)])
    assert (graphs.nodes, graphs.later_s) == ([4, 3], [0.0, 0.0])


def test_each_lanes_first_waits_for_the_graph_before_and_what_that_graph_needs() -> None:
    found = waits_between([(), (), (), (), (), (), ()], CUT, LANE, KIND)
    assert found == [(), (), (), (0, 1), (), (2, 3, 0, 1), ()]


def test_waits_of_the_plan_stay_and_are_not_doubled() -> None:
    found = waits_between([(), (0,), (1,), (1,), (), (3,), ()], CUT, LANE, KIND)
    assert found == [(), (0,), (1,), (1, 0), (), (3, 2, 0, 1), ()]


def test_runs_that_follow_each_other() -> None:
    graphs = replays_of(CUT, KIND, [1] * 7).repeated(2)
    assert list(graphs.of) == [0, 0, -1, -1, 1, 1, 1, 2, 2, -1, -1, 3, 3, 3]
    assert (graphs.first, graphs.needs) == ([0, 4, 7, 11], [(), (2,), (), (9,)])
    assert (graphs.nodes, len(graphs.later_s)) == ([2, 2, 2, 2], 4)
