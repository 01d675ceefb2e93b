"""Numbers of calls, samples, sets and chains."""

from __future__ import annotations

import pytest

from graphsched.calibration.sampling import (
    MOST_LAUNCHES,
    calls_in_sample,
    chain_length,
    cost_of,
    in_a_row_s,
    places_wanted,
    samples_wanted,
    sets_wanted,
    slowdowns,
)


@pytest.mark.parametrize("launches", [1, 7, 100, 5000])
@pytest.mark.parametrize("call_s", [1e-6, 1e-4, 1e-2, 1.0])
def test_no_sample_fills_the_launch_queue(call_s: float, launches: int) -> None:
    calls = calls_in_sample(call_s, launches)
    assert calls >= 1
    assert calls == 1 or calls * launches <= MOST_LAUNCHES
    assert chain_length(call_s, launches, 8) >= 2


def test_a_short_call_is_repeated_until_a_sample_lasts() -> None:
    assert calls_in_sample(25e-6) * 25e-6 >= 2e-4


def test_there_are_never_fewer_samples_than_asked_for() -> None:
    assert [samples_wanted(20, s) for s in (1e-6, 1e-3, 10.0)] == [100, 100, 20]
    assert samples_wanted(200, 1e-6) == 200


def test_sets_exceed_the_cache_within_their_limits() -> None:
    assert sets_wanted(10**7, 6 * 10**7, 10**11) * 10**7 > 6 * 10**7
    assert sets_wanted(8 * 10**6, 6 * 10**7, 10**11) == 8
    assert sets_wanted(10, 6 * 10**7, 10**11) == 1
    assert sets_wanted(3 * 10**9, 6 * 10**7, 10**11) == 1


@pytest.mark.parametrize("held_up", [0, 1, 4, 11])
def test_samples_that_are_held_up_count_as_often_as_rows_meet_them(held_up: int) -> None:
    """Of 60 samples of 1 s some take 6: twelve rows of five, of which the middle ones have one such or none."""
    samples = [6.0 if k % 5 == 2 and k // 5 < held_up else 1.0 for k in range(60)]
    assert in_a_row_s(samples) == (2.0 if held_up > 6 else 1.0)


def test_each_of_few_samples_is_a_row_and_of_none_there_is_none() -> None:
    assert in_a_row_s([3.0]) == 3.0
    assert in_a_row_s([1.0, 2.0]) == 1.5
    assert in_a_row_s([1.0, 50.0, 2.0]) == 2.0
    assert in_a_row_s([1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0]) == 1.0
    assert in_a_row_s([1.0] * 12 + [99.0] * 3) == 1.0


def test_small_inputs_lie_in_several_places_of_the_cache() -> None:
    found = {nbytes: places_wanted(nbytes, 6 * 10**7) for nbytes in (0, 10, 10**6, 3 * 10**6, 7 * 10**6, 10**9)}
    assert found == {0: 8, 10: 8, 10**6: 7, 3 * 10**6: 2, 7 * 10**6: 1, 10**9: 1}


def test_slowdowns_are_relative_and_never_below_one() -> None:
    assert slowdowns([(1, 4.0), (2, 3.0), (4, 8.0)]) == ((1, 1.0), (2, 1.0), (4, 2.0))


def test_a_cost_has_median_quartiles_and_count() -> None:
    cost = cost_of([4.0, 1.0, 2.0, 3.0, 100.0], workspace_bytes=5, launches=3)
    assert (cost.device_s, cost.quartiles_s, cost.samples) == (3.0, (2.0, 4.0), 5)
    assert (cost.workspace_bytes, cost.launches, cost.source) == (5, 3, "measured")
