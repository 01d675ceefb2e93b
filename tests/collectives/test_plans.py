"""Plans of collectives: saved and loaded, with the host among the members, and in the midst of other tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import graphsched as gs
from tests.collectives.values import FREE, all_equal, floats, on_workers, really, workers
from tests.executors.programs import machine


@pytest.mark.parametrize("algorithm", FREE)
def test_a_saved_plan_gives_the_same_sums(algorithm: str, tmp_path: Path) -> None:
    """x0, x1, x2 ──▶ sums, in a file and back: all operations are found again by their names."""
    work, values = on_workers(floats(3, 300))
    sums = gs.collectives.all_reduce(work, values, algorithm=algorithm)
    found = really(work, sums, 3)
    plan = gs.schedule(work, machine(*workers(3)), scheduler="one_stream")
    gs.save_plan(plan, tmp_path / "plan.pt")
    with gs.Program(gs.load_plan(tmp_path / "plan.pt")) as program:
        again = program.run()
    assert all(torch.equal(again[value.name], one) for value, one in zip(sums, found, strict=True))


@pytest.mark.parametrize("algorithm", FREE)
def test_the_host_may_be_a_member(algorithm: str) -> None:
    """a on the cpu, b and c on workers."""
    tensors = floats(3, 50, torch.float64)
    work = gs.Workload()
    homes = ("cpu", *workers(2))
    values = [work.input(f"x{k}", x, device=home) for k, (x, home) in enumerate(zip(tensors, homes, strict=True))]
    found = really(work, gs.collectives.all_reduce(work, values, algorithm=algorithm), 2)
    assert all_equal(found)
    torch.testing.assert_close(found[0], sum(tensors), rtol=1e-12, atol=1e-9)


def test_sums_of_what_tasks_make_are_read_by_tasks() -> None:
    """x0 ─ neg ─╮          ╭─ exp
    x1 ─ neg ─┴─ sums ─┴─ exp
    """
    tensors = floats(2, 20, torch.float64)
    work, inputs = on_workers(tensors)
    values = [work.task(torch.neg, x, device=d) for x, d in zip(inputs, workers(2), strict=True)]
    sums = gs.collectives.all_reduce(work, values, algorithm="rings")
    ends = [work.task(torch.exp, value, device=d) for value, d in zip(sums, workers(2), strict=True)]
    for one in really(work, ends, 2):
        assert torch.equal(one, torch.exp(-tensors[0] - tensors[1]))


def test_the_example_of_the_package() -> None:
    tensors = floats(2, 1000)
    work = gs.Workload("sum")
    values = [work.input(f"x{k}", tensor, device=f"worker:{k}") for k, tensor in enumerate(tensors)]
    sums = gs.collectives.all_reduce(work, values, algorithm="ring")
    more = gs.collectives.all_reduce(work, values, algorithm="ring", blocks=8)
    for one in really(work, [*sums, *more], 2):
        assert torch.equal(one, tensors[0] + tensors[1])
