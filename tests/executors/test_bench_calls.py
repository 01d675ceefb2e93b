"""The benchmark of calls: each way computes the same, and ratios are those of one round."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from graphsched.errors import ExecutionError
from graphsched.executors import bench_calls as module
from graphsched.platform import Device

WORKER = Device("worker:0", "worker")
GPU = Device("cuda:0", "cuda")


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_every_way_negates_as_often_as_the_chain_is_long(tasks: int) -> None:
    """x ─▶ t0 ─▶ t1 ─▶ … : an odd number of negations is one."""
    (one, two, *_) = module.given(WORKER)
    with ExitStack() as stack:
        found = module.ways(WORKER, tasks, stack)
        assert list(found) == [module.LOOP, "Program.run, eager"]
        for way in found.values():
            assert torch.equal(way(two), 2.0 * (-1) ** tasks * torch.ones(module.ELEMENTS))
            assert torch.equal(way(one), (-1) ** tasks * torch.ones(module.ELEMENTS))


def test_rows_have_the_loop_as_their_unit() -> None:
    rows = module.call_rows(WORKER, 3, 5)
    assert [(row["tasks"], row["way"]) for row in rows] == [(3, module.LOOP), (3, "Program.run, eager")]
    quartiles = [[float(row[name]) for name in ("call_q1_s", "call_s", "call_q3_s")] for row in rows]
    assert all(values[0] > 0 and values == sorted(values) for values in quartiles)
    assert rows[0]["ratio"] == 1.0
    assert float(rows[1]["ratio"]) > 0


def test_ways_take_turns_with_inputs_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways, three cold rounds and two that count, of inputs 1, 2, 3, 4, 1; a call takes its number in seconds."""
    seen: list[tuple[str, float]] = []
    ticks = itertools.accumulate(itertools.chain.from_iterable((0, k) for k in itertools.count(1)))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))

    def way(name: str) -> module.Way:
        def call(value: Any) -> Any:
            seen.append((name, float(value[0])))
            return value

        return call

    samples = module.timed_in_turn({"a": way("a"), "b": way("b")}, module.given(WORKER), 2)
    assert seen == [(name, value) for value in (1.0, 2.0, 3.0, 4.0, 1.0) for name in ("a", "b")]
    assert samples == {"a": [7, 9], "b": [8, 10]}


def test_other_results_are_no_benchmark() -> None:
    found = {"loop by hand": lambda value: value, "wrong": lambda value: value + 1}
    with pytest.raises(ExecutionError, match="'wrong' and 'loop by hand' have other results for the same input"):
        module.timed_in_turn(found, module.given(WORKER), 1)


def test_ratios_are_of_one_round() -> None:
    """The loop takes 1, 100 and 1, the other twice as long each time, whatever the medians are."""
    assert module.figures([2.0, 200.0, 2.0], [1.0, 100.0, 1.0])["ratio"] == 2.0


@pytest.mark.parametrize(("quick", "tasks", "rounds"), [(True, (1, 20), 15), (False, (1, 20, 200), 100)])
def test_chains_of_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, quick: bool, tasks: tuple[int, ...], rounds: int
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(module, "call_rows", lambda *given: [{"given": given}])
    found: list[object] = [row["given"] for row in module.bench_calls(quick=quick)]
    assert found == [(WORKER, n, rounds) for n in tasks]


@pytest.mark.gpu
def test_ways_on_a_gpu_agree() -> None:
    """A CUDA graph by hand and programs in both modes; `timed_in_turn` compares their results."""
    rows = module.call_rows(GPU, 20, 10)
    ways = [module.LOOP, "CUDA graph by hand", "Program.run, eager", "Program.run, graph"]
    assert [row["way"] for row in rows] == ways
    assert all(float(row["call_s"]) < 1e-2 for row in rows)
