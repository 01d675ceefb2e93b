"""Going through memory: as much as is said, and none that was just touched."""

from __future__ import annotations

import torch

from graphsched.calibration.cpu_operations import CACHED_BYTES
from graphsched.calibration.lane_sweep import SETS, SWEPT_BYTES, Sweep


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
