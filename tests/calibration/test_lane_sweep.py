"""Going through memory: as much as is said, and none that was just touched."""

from __future__ import annotations

import pytest

from graphsched.calibration.cpu_operations import CACHED_BYTES
from graphsched.calibration.lane_sweep import LEAST_SETS, SETS, SWEPT_BYTES, Sweep


@pytest.mark.parametrize(("lanes", "sets"), [(1, SETS), (2, 3), (64, LEAST_SETS)])
def test_lanes_share_what_they_go_round(lanes: int, sets: int) -> None:
    """Each makes results in memory of its own, and comes back to it last."""
    sweep = Sweep(lanes)
    made = [sweep().data_ptr() for _ in range(sets + 1)]
    assert len(set(made)) == sets
    assert made[0] == made[-1]


def test_what_one_lane_goes_round_is_more_than_caches_hold() -> None:
    assert SETS * SWEPT_BYTES > 0.9 * CACHED_BYTES
    first, second, made = next(Sweep()._sets)
    assert sum(t.nbytes for t in (first, second, made)) == SWEPT_BYTES
    assert len({t.data_ptr() for t in (first, second, made)}) == 3


def test_a_sweep_reads_two_tensors_and_writes_one() -> None:
    sweep = Sweep()
    first, second, _ = next(sweep._sets)
    first.fill_(2.0)
    second.fill_(4.0)
    for _ in range(SETS - 1):
        assert sweep().unique().tolist() == [1.0]
    assert sweep().unique().tolist() == [3.0]
