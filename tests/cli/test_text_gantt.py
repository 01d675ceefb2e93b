"""Timelines as text."""

from __future__ import annotations

import networkx as nx
from rich.cells import cell_len

from graphsched.cli.text_gantt import MOST_ROWS, WIDTH, text_gantt
from graphsched.platform import Device, Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.timeline import Timeline
from graphsched.workload import Workload

FREE = Model(dispatch=False, launch_queue=False, waits=False, timing=False, blocking=False)


def line(durations: list[float], *, workers: int = 1, chain: bool = True) -> Timeline:
    """Tasks ``t0``, ``t1``, … one after another, or side by side, on so many workers."""
    graph = nx.DiGraph()
    graph.add_nodes_from((f"t{k}", {"duration_s": seconds}) for k, seconds in enumerate(durations))
    if chain:
        nx.add_path(graph, list(graph))
    platform = Platform("some", tuple(Device(f"worker:{k}", "worker", lanes=1) for k in range(workers)), cores=workers)
    return predict(schedule(Workload.from_graph(graph), platform, scheduler="heft"), model=FREE)


def test_blocks_are_as_long_as_their_tasks() -> None:
    (row,) = text_gantt(line([25.0, 73.0, 2.0]))
    assert row == f"worker:0/s0 [t0{'-' * 21}][t1{'-' * 69}][]"


def test_tasks_that_meet_within_a_character_do_not_share_it() -> None:
    """Two thirds and one: the second began on the first's bracket, as if they were several there."""
    (row,) = text_gantt(line([2.0, 1.0]))
    assert row == f"worker:0/s0 [t0{'-' * 62}][t1{'-' * 30}]"


def test_tasks_that_share_a_character_are_told_from_one() -> None:
    """Two hundred tasks in a hundred characters; and one alone in its character."""
    assert text_gantt(line([1.0] * 200)) == [f"worker:0/s0 {'#' * WIDTH}"]
    assert text_gantt(line([1.0] * 100)) == [f"worker:0/s0 {'|' * WIDTH}"]


def test_tasks_of_no_time_are_left_out_and_idle_time_is_dots() -> None:
    rows = text_gantt(line([0.0, 1.0, 4.0], workers=2, chain=False))
    assert rows == [f"worker:0/s0 [t2{'-' * 96}]", f"worker:1/s0 [t1{'-' * 21}]{'.' * 75}"]


def test_of_many_lanes_the_first_are_drawn() -> None:
    rows = text_gantt(line([1.0] * (MOST_ROWS + 2), workers=MOST_ROWS + 2, chain=False))
    assert len(rows) == MOST_ROWS + 1
    assert rows[-1] == "… and 2 more lanes"


def test_letters_of_two_places_and_accents_keep_the_row_as_wide() -> None:
    """Names in Chinese, cut in the middle of a letter, and with an accent of its own."""
    graph = nx.DiGraph()
    for name, seconds in (("矩阵乘法" * 9, 50.0), ("e\u0301tape", 45.0), ("加", 5.0)):
        graph.add_node(name, duration_s=seconds)
    nx.add_path(graph, list(graph))
    one = Platform("one", (Device("worker:0", "worker", lanes=1),))
    (row,) = text_gantt(predict(schedule(Workload.from_graph(graph), one, scheduler="heft"), model=FREE))
    assert cell_len(row) == len("worker:0/s0 ") + WIDTH
    assert row.endswith(f"[e\u0301tape{'-' * 38}][加-]")
