"""Small operations in the patterns of Task Bench: grids, limits, and the smallest operation at half efficiency."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import experiments.metg as module
import graphsched as gs
from experiments._cells import as_workload
from experiments._efficiency import crossing, is_operation, limits, share, smallest
from experiments._patterns import PATTERNS
from experiments._ways import plain_results
from graphsched.costs import Costs, Kernel, Multiprocessors, TaskCost
from graphsched.errors import ExperimentError
from graphsched.executors import Program
from graphsched.schedulers import schedule
from tests.experiments.small import hand_written

HOST = hand_written("worker", 1, lanes=2)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_plan_returns_what_plain_pytorch_returns_in_its_order(pattern: str) -> None:
    net = module.small_grid(pattern, 4, 5, 16, 3)
    work = as_workload(net, "worker:0")
    with Program(schedule(work, HOST, scheduler="wavefront", lanes=2)) as program:
        found = list(program.run().values())
    expected = plain_results(net, HOST, "worker:0")
    assert len(found) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert all(0 <= float(t.min()) <= float(t.max()) <= 1 for t in expected)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_grid_has_an_operation_for_each_point_and_a_join_for_those_that_read_more(pattern: str) -> None:
    work = as_workload(module.small_grid(pattern, 4, 5, 16, 3), "worker:0")
    operations = [task for task in work.tasks if is_operation(task.signature)]
    points = [(step, i) for step in range(5) for i in range(PATTERNS[pattern].points(step, 4))]
    assert len(operations) == len(points)
    assert len(work) - len(operations) == sum(len(PATTERNS[pattern].before(*at, 4)) > 1 for at in points)


def costs_of(work: Any, operation: TaskCost, join: TaskCost) -> Costs:
    return Costs({(t.signature, "a cuda"): operation if is_operation(t.signature) else join for t in work.tasks})


def test_limits_are_the_longest_path_or_the_work() -> None:
    """Stencil of width 2 and 3 steps: 6 operations of 1 s, 4 joins of 0.5 s; the path 1 + 2 × 1.5."""
    host = hand_written("cuda", 1)
    work = as_workload(module.small_grid("stencil", 2, 3, 16, 3), "cuda:0")
    small = costs_of(work, TaskCost(1.0, concurrency=((8, 1.0),)), TaskCost(0.5, concurrency=((8, 1.0),)))
    assert limits(work, host, small, "cuda:0") == (4.0, 8.0)
    large = costs_of(work, TaskCost(1.0), TaskCost(0.5, concurrency=((8, 1.0),)))
    assert limits(work, host, large, "cuda:0") == (6 + 4 * 0.5 / 8, 8.0)
    assert limits(work, host, small, "cuda:0", 0.9) == (0.9 * 6 + 4 * 0.5 / 8, 8.0)


def test_lanes_of_a_cpu_are_processors() -> None:
    work = as_workload(module.small_grid("stencil", 8, 2, 16, 3), "worker:0")
    costs = Costs({(t.signature, "a worker"): TaskCost(1.0) for t in work.tasks})
    assert limits(work, HOST, costs, "worker:0") == ((8 + 8 + 8) / 2, 24.0)


def test_a_share_is_known_from_copies_or_from_room_for_blocks() -> None:
    there = Multiprocessors(count=100, registers=1000, threads=2000, shared_bytes=100, blocks=32)
    half = Kernel(blocks=10, registers=100, threads=1000, shared_bytes=0)
    assert share(TaskCost(1.0)) == 1.0
    assert share(TaskCost(1.0, kernels=(half,), processors=there)) == pytest.approx(10 * 0.5 / 100)
    assert share(TaskCost(1.0, kernels=(half,), processors=there, concurrency=((8, 0.2),))) == 0.025
    many = Kernel(blocks=1000, registers=100, threads=1000, shared_bytes=0)
    assert share(TaskCost(1.0, kernels=(many,), processors=there)) == 1.0


@pytest.mark.parametrize(
    ("points", "found"),
    [
        ([(1.0, 0.5), (2.0, 0.9)], 1.0),
        ([(1.0, 0.0), (4.0, 1.0)], 2.0),
        ([(1.0, 0.6), (2.0, 0.25), (8.0, 0.75)], 4.0),
        ([(1.0, 0.6), (2.0, 0.4)], None),
        ([(1.0, 0.1), (2.0, 0.9), (4.0, 0.25), (16.0, 0.75)], 8.0),
        ([], None),
    ],
)
def test_the_smallest_operation_from_which_on_half_is_reached(points: list[Any], found: float | None) -> None:
    assert crossing(points) == (pytest.approx(found) if found else None)


def test_rows_of_one_way_become_one() -> None:
    def row(way: str, operation_s: float, efficiency: float | None, note: str = "") -> dict[str, Any]:
        figures = {"operation_s": operation_s, "efficiency": efficiency, "note": note}
        return {"pattern": "tree", "width": 4, "way": way, "serial_efficiency": efficiency and efficiency / 2} | figures

    rows = [row("a", 4.0, 1.0), row("b", 1.0, 0.1), row("a", 1.0, 0.0), row("c", 1.0, None, "no compiler")]
    rows.append(row("d", 1.0, 0.7))
    found = {made["way"]: made for made in smallest(rows)}
    assert (found["a"]["metg_s"], found["a"]["best_efficiency"], found["a"]["note"]) == (2.0, 1.0, "")
    assert found["a"]["serial_metg_s"] == 4.0
    assert (found["b"]["metg_s"], found["b"]["note"]) == (None, "not reached with the operations tried")
    assert (found["c"]["metg_s"], found["c"]["best_efficiency"], found["c"]["note"]) == (None, None, "no compiler")
    assert (found["d"]["metg_s"], found["d"]["note"]) == (1.0, "at most: the smallest operation tried")


def test_side_by_side_on_workers(capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"widths": (2,), "steps": 3, "size": 16, "windows": (3, 5, 9)}
    *before, data = module.bench(HOST, quick=True, **options)
    assert capsys.readouterr().err.splitlines() == ["metg: stencil, width 2 …", "metg: sweep, width 2 …"]
    assert [row["window"] for row in data["metg_operations"]] == [3, 9]
    assert all(row["operation_s"] > 0 and row["share_of_device"] == 1 for row in data["metg_operations"])
    ways = ["plain PyTorch", "graphsched, eager, wavefront"]
    assert [(row["pattern"], row["way"]) for row in data["metg"]] == [
        (p, w) for p in ("stencil", "sweep") for w in ways
    ]
    assert len(data["metg_samples"]) == 2 * 2 * 2
    for row in data["metg_samples"]:
        assert row["efficiency"] == pytest.approx(row["limit_s"] / row["median_s"])
        assert row["serial_efficiency"] == pytest.approx(row["serial_s"] / row["median_s"])
        assert row["note"] == ""
    assert [len(made["metg"]) for made in before] == [2, 2, 4]
    assert [len(made["metg_samples"]) for made in before] == [2, 4, 6]
    begun = [[row["note"].startswith("only 1 of 2 sizes") for row in made["metg"]] for made in (*before, data)]
    assert begun == [[True] * 2, [False] * 2, [False] * 2 + [True] * 2, [False] * 4]
    assert before[1]["metg"] == data["metg"][:2]


def test_patterns_are_checked_before_the_first_is_measured() -> None:
    for wrong in ({"patterns": ("tree", "tre")}, {"compiled": ("tre",)}):
        with pytest.raises(ExperimentError, match=r"no pattern 'tre': did you mean 'tree'\? There are stencil, sweep"):
            module.bench(HOST, **wrong)


def test_a_share_is_measured_by_chains_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lanes of 12 operations in a row; each takes half of the device if both take as long as one."""
    seen: list[Any] = []

    def in_eager_mode(work: Any, *given: Any, **options: Any) -> Any:
        plan = schedule(work, *given, **(options | {"mode": "eager"}))
        seen.append((len(work), options["mode"], plan.lane_of[:4]))
        return plan

    monkeypatch.setattr(gs, "schedule", in_eager_mode, raising=False)
    monkeypatch.setattr(module, "task_cost", lambda *given: TaskCost(1.0))
    monkeypatch.setattr(Program, "time_once", lambda program: 12.0)
    assert module.share_together(HOST, "worker:0", 16, 3) == 0.5
    ((tasks, mode, lanes),) = seen
    assert (tasks, mode) == (2 * module.IN_A_ROW, "graph")
    assert list(lanes[:2]) == list(lanes[2:]) != [lanes[0]] * 2


def test_plans_take_a_lane_a_column_as_far_as_there_are_lanes() -> None:
    host = hand_written("cuda", 1, lanes=8)
    for width, lanes in ((2, 2), (32, 8), (6, 6)):
        work = as_workload(module.small_grid("stencil", width, 2, 16, 3), "cuda:0")
        plans, refused = module._plans(work, host, "cuda:0", Costs(), width)
        assert not refused
        assert plans["graphsched, eager, wavefront"].scheduler == f"wavefront lanes={lanes}"
        assert {"graphsched, graph, wavefront", "graphsched, graph, heft"} <= plans.keys()


@pytest.mark.gpu
def test_side_by_side_on_a_gpu() -> None:
    """The operation takes up a part of the device, and graph mode gets further down than eager mode."""
    from graphsched.calibration import local_platform

    *_, data = module.bench(local_platform(), quick=True, widths=(4,), patterns=("stencil",), windows=(7, 49))
    assert all(0 < row["share_of_device"] < 0.5 for row in data["metg_operations"])
    assert not any(row["note"] and row["efficiency"] is None for row in data["metg_samples"])
