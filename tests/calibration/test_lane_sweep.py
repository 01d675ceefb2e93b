"""Going through memory: as much as is said, and none that was just touched."""

from __future__ import annotations

import pytest
import torch

from graphsched.calibration import lane_sweep as module
from graphsched.calibration.cpu_operations import CACHED_BYTES
from graphsched.calibration.lane_sweep import SETS, SWEPT_BYTES, TURNS, Sweep, sweeps_by_bytes


def test_results_come_to_other_memory_until_all_was_used() -> None:
    sweep = Sweep()
    made = [sweep().data_ptr() for _ in range(SETS + 1)]
    assert len(set(made)) == SETS
    assert made[0] == made[-1]


def test_it_goes_round_what_is_more_than_caches_hold() -> None:
    """Whatever type of numbers the user has as default."""
    torch.set_default_dtype(torch.float64)
    try:
        operands = next(Sweep()._sets)
    finally:
        torch.set_default_dtype(torch.float32)
    assert SETS * SWEPT_BYTES > 0.9 * CACHED_BYTES
    assert sum(t.nbytes for t in operands) == SWEPT_BYTES
    assert len({t.data_ptr() for t in operands}) == len(operands) == 3


def test_a_sweep_reads_two_tensors_and_writes_one() -> None:
    sweep = Sweep()
    first, second, _ = next(sweep._sets)
    first.fill_(2.0)
    second.fill_(4.0)
    for _ in range(SETS - 1):
        assert sweep().unique().tolist() == [1.0]
    assert sweep().unique().tolist() == [3.0]


def test_sweeps_that_go_round_more_take_turns_and_none_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first turn does not count; three sets would take less than two, which is chance."""
    seconds = {1: 1.0, 2: 3.0, 3: 2.0, 4: 4.0, 5: 5.0}
    order: list[int] = []

    def round_s(sweep: Sweep, sets: int) -> float:
        order.append(sets)
        return 100.0 if len(order) <= SETS else seconds[sets]

    monkeypatch.setattr(module, "_round_s", round_s)
    found = sweeps_by_bytes(2)
    assert order == [1, 2, 3, 4, 5] * (TURNS + 1)
    assert found == tuple((sets * SWEPT_BYTES, each_s) for sets, each_s in enumerate((1.0, 3.0, 3.0, 4.0, 5.0), 1))


def test_lanes_of_one_thread_have_none() -> None:
    assert sweeps_by_bytes(1) == ()


def test_a_round_goes_through_all_sets_before_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((10.0, 70.0))
    made: list[int] = []
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(torch, "lerp", lambda first, second, weight, *, out: made.append(out.data_ptr()))
    sweep = Sweep()
    assert module._round_s(sweep, 3) == 60.0 / (3 * module.ROUNDS)
    assert len(made) == 3 + 3 * module.ROUNDS
    assert len(set(made)) == 3
