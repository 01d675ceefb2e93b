"""Patterns of Task Bench: who reads whom, the grids built of them, and results equal to those of plain PyTorch."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from experiments._graphs import plain_values
from experiments._patterns import MOST_READS, PATTERNS
from experiments.task_bench import grid
from graphsched.errors import ExperimentError
from tests.experiments.small import cases, hand_written, load


def reads(pattern: str, step: int, width: int = 8) -> list[set[int]]:
    """Columns that each point of a step reads."""
    made = PATTERNS[pattern]
    return [set(made.before(step, k, width)) for k in range(made.points(step, width))]


def test_a_stencil_reads_its_neighbours() -> None:
    assert reads("stencil", 1, 4) == reads("stencil", 5, 4) == [{0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3}]


def test_a_sweep_begins_in_a_corner() -> None:
    assert reads("sweep", 1, 4) == [{0}, {0}]
    assert reads("sweep", 2, 4) == [{0}, {0, 1}, {1}]
    assert reads("sweep", 6, 4) == [{0}, {0, 1}, {1, 2}, {2, 3}]


def test_an_fft_reads_at_distances_that_double_and_start_again() -> None:
    assert [reads("fft", step)[0] for step in (1, 2, 3, 4)] == [{0, 1}, {0, 2}, {0, 4}, {0, 1}]
    assert reads("fft", 2)[5] == {3, 5, 7}


def test_a_tree_doubles_until_it_is_as_wide_as_the_grid() -> None:
    assert [len(reads("tree", step, 6)) for step in range(5)] == [1, 2, 4, 6, 6]
    assert reads("tree", 2) == [{0}, {0}, {1}, {1}]


def test_random_points_read_their_own_column_and_up_to_two_others() -> None:
    found = [columns for step in range(1, 20) for columns in reads("random", step)]
    assert {len(columns) for columns in found} == {1, 2, MOST_READS}
    assert all(k % 8 in columns for k, columns in enumerate(found))
    assert reads("random", 3) == reads("random", 3) != reads("random", 4)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_points_read_what_is_there(pattern: str, width: int) -> None:
    made = PATTERNS[pattern]
    assert all(not columns for columns in reads(pattern, 0, width))
    for step in range(1, 10):
        there = set(range(made.points(step - 1, width)))
        assert all(columns and columns <= there for columns in reads(pattern, step, width))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_grid_has_a_product_for_each_point(pattern: str) -> None:
    work = grid(pattern, ["worker:0"], 8, 4, 5)
    points = [task.name for task in work.tasks if not task.name.endswith("/mean")]
    assert len(points) == sum(PATTERNS[pattern].points(step, 4) for step in range(5))
    assert nx.dag_longest_path_length(work.graph, default_weight=1) >= 4


def test_edges_of_a_grid_are_those_of_its_pattern() -> None:
    """t1/p1 of a stencil reads p1, p0 and p2 of the step before: the mean of two, then the product."""
    work = grid("stencil", ["worker:0"], 8, 4, 2)
    assert set(work.graph.pred["t1/p1/mean"]) == {"t0/p0", "t0/p2"}
    assert set(work.graph.pred["t1/p1"]) == {"t0/p1", "t1/p1/mean"}
    assert set(work.graph.pred["t1/p0"]) == {"t0/p0", "t0/p1"}


def test_a_point_is_half_its_own_product_and_half_the_mean_of_the_others() -> None:
    work = grid("stencil", ["worker:0"], 8, 3, 2)
    x, w = work.tensors["x"], work.tensors["w"]
    first = x.mm(w)
    expected = 0.5 * first + 0.5 * first.mm(w)
    assert torch.allclose(plain_values(work, dict(work.tensors))["t1/p1"], expected)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_values_stay_in_range_however_deep(pattern: str) -> None:
    work = grid(pattern, ["worker:0"], 16, 4, 40)
    assert all(1e-9 < float(v.abs().max()) < 1e6 for v in plain_values(work, dict(work.tensors)).values())


def test_every_schedule_returns_what_plain_pytorch_returns() -> None:
    made = cases("task_bench", hand_written("worker", 2, lanes=4), steps=3, devices=(2,)).values()
    assert {case.scheduler for case in made} == {"round_robin", "wavefront", "heft", "streams"}
    for case in made:
        assert case.metrics is not None
        assert case.metrics() == {"max_abs_difference": 0.0}, case.label


def test_checks_can_be_left_out() -> None:
    assert all(case.metrics is None for case in cases("task_bench", hand_written("worker", 1), checks=False).values())


def test_an_unknown_pattern_is_named() -> None:
    with pytest.raises(ExperimentError, match="no pattern 'ring': there are stencil, sweep, fft, tree, random"):
        load("task_bench").cases(hand_written("worker", 1), patterns=("ring",))
