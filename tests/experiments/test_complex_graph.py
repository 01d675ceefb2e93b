"""Graphs of `complex_graph`: their shapes, and results equal to those of plain PyTorch."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch

from experiments._graphs import diamonds, fan_in, fan_out, plain_values, random_layers
from graphsched.errors import ExperimentError
from graphsched.workload import Workload
from tests.experiments.small import cases, hand_written, load

WORKER = ["worker:0"]


def degrees(work: Workload) -> tuple[int, int]:
    """Most tasks that one task reads, and that read one task."""
    return max(d for _, d in work.graph.in_degree()), max(d for _, d in work.graph.out_degree())


def test_shapes() -> None:
    """::

    diamonds  top ─ 3 arms ─ join ─ end ─ top ─ …
    fan-out   root ─ 3 chains
    fan-in    4 chains ─ 2 sums ─ 1 sum ─ end
    """
    assert degrees(diamonds(WORKER, 8, layers=2, width=3)) == (3, 3)
    assert degrees(fan_out(WORKER, 8, layers=2, width=3)) == (1, 3)
    tree = fan_in(WORKER, 8, layers=1, width=4)
    assert degrees(tree) == (2, 1)
    assert [v.name for v in tree.returned()] == ["end"]


def test_random_graphs_depend_on_the_seed_alone() -> None:
    digests = [random_layers(WORKER, 8, 5, 4, seed=s).digest() for s in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
    kinds = {t.operation.name for t in random_layers(WORKER, 8, 12, 8, seed=1).tasks if t.operation}
    assert kinds == {"torch.mm", "torch.add", "torch.softmax", "torch.relu"}


def test_plain_values_of_a_sum_of_two_products() -> None:
    """x ─ mm ─╮
    mm ─┴─ add ─ end
    """
    work = fan_in(WORKER, 8, layers=1, width=2)
    x, w = work.tensors["x"], work.tensors["w8x8"]
    (end,) = plain_values(work, dict(work.tensors)).values()
    assert torch.equal(end, (x.mm(w) + x.mm(w)).mm(w))


@pytest.mark.parametrize("build", [diamonds, fan_out, fan_in, lambda *a: random_layers(*a, seed=1)])
def test_values_stay_in_range_however_deep(build: Any) -> None:
    values = plain_values(work := build(WORKER, 8, 20, 4), dict(work.tensors))
    assert all(1e-12 < float(v.abs().max()) < 1e7 for v in values.values())
    assert nx.dag_longest_path_length(work.graph, default_weight=1) >= 19


@pytest.mark.parametrize("count", [1, 2])
def test_every_schedule_returns_what_plain_pytorch_returns(count: int) -> None:
    pytest.importorskip("graphsched.executors", exc_type=ImportError)
    platform = hand_written("worker", count, lanes=2)
    checked = [c for c in cases("complex_graph", platform).values() if c.metrics is not None]
    assert len(checked) == 5 * (6 + 4 * (count - 1))
    for case in checked:
        assert case.metrics() == {"max_abs_difference": 0.0}, case.label  # type: ignore[misc]


def test_an_unknown_graph_is_named() -> None:
    with pytest.raises(
        ExperimentError, match="no graph 'ring': there are diamonds, fan-out, fan-in, random-1, random-2"
    ):
        load("complex_graph").cases(hand_written("worker", 1), graphs=("ring",))


def test_a_wrong_result_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    executors = pytest.importorskip("graphsched.executors", exc_type=ImportError)
    right = executors.Program.run

    def wrong(self: Any, **inputs: Any) -> dict[str, Any]:
        return {name: value + 1 for name, value in right(self, **inputs).items()}

    monkeypatch.setattr(executors.Program, "run", wrong)
    case = next(c for c in load("complex_graph").cases(hand_written("worker", 1), size=8, layers=1) if c.metrics)
    assert case.metrics is not None
    assert case.metrics()["max_abs_difference"] == pytest.approx(1.0)
