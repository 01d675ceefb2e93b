"""Sizes, medians and fits, with transfers that only pretend to take time."""

from __future__ import annotations

import itertools

import pytest

from graphsched.calibration.fitting import (
    Points,
    check_arrived,
    fit,
    link_of,
    measure_by_turns,
    measure_points,
    transfer_sizes,
)
from graphsched.errors import PlatformError


def affine(latency_s: float, rate: float):
    """Time of a transfer by latency and rate."""
    return lambda nbytes: latency_s + nbytes / rate


def test_sizes_run_from_4_kb_to_1_gb_in_factors_of_4() -> None:
    sizes = transfer_sizes(2**30)
    assert sizes[0] == 4096
    assert sizes[-1] == 2**30
    assert {b // a for a, b in itertools.pairwise(sizes)} == {4}


def test_fit_finds_latency_and_rate_of_affine_times() -> None:
    points = measure_points(affine(1e-5, 5e10), transfer_sizes(2**30))
    latency_s, rate = fit(points)
    assert latency_s == pytest.approx(1e-5, rel=1e-6)
    assert rate == pytest.approx(5e10, rel=1e-6)


def test_link_keeps_its_points_and_meets_them() -> None:
    points = measure_points(affine(2e-5, 1e9), transfer_sizes(2**20))
    link = link_of("cpu", "cuda:0", "pageable", points, blocking=True)
    assert link.blocking
    assert link.sizes_bytes == points.sizes_bytes
    assert [link.duration_s(n) for n in points.sizes_bytes] == pytest.approx(points.seconds)
    assert link.duration_s(2**22) == pytest.approx(2e-5 + 2**22 / 1e9)


def test_a_spike_does_not_move_the_median() -> None:
    calls = iter([9.0, 1.0, 1.0, 50.0, 1.0, 1.0])
    points = measure_points(lambda _: next(calls), [4096], repeats=lambda _: 5)
    assert points.seconds == (1.0,)
    assert points.spreads == (0.0,)


def test_sizes_are_timed_by_turns_and_those_of_fewer_samples_spread_over_them() -> None:
    """One of each before any counts."""
    order: list[int] = []

    def time_one(nbytes: int) -> float:
        order.append(nbytes)
        return nbytes * (100.0 if order.count(nbytes) == 1 else 1.0)

    points = measure_by_turns(time_one, (1, 2, 4), repeats=lambda nbytes: 8 // nbytes)
    assert order == [1, 2, 4] + [1, 1, 2, 1, 1, 2, 4] * 2
    assert points == Points((1, 2, 4), (1.0, 2.0, 4.0), (0.0, 0.0, 0.0))


def test_what_is_timed_by_turns_counts_in_rows() -> None:
    """Every fifth of 30 takes six times as long."""
    samples = itertools.cycle([1.0, 1.0, 1.0, 1.0, 6.0])
    assert measure_by_turns(lambda _: next(samples), (8,), repeats=lambda _: 30).seconds == (2.0,)


def test_overhead_is_taken_off_but_never_all_of_a_time() -> None:
    points = measure_points(lambda n: 10e-6 if n == 1 else 1e-3, [1, 2], repeats=lambda _: 1, overhead_s=20e-6)
    assert points.seconds == pytest.approx((2e-6, 980e-6))


def test_one_point_or_falling_times_give_a_rate_still() -> None:
    assert fit(Points((1000,), (1e-6,), (0.0,))) == pytest.approx((0.0, 1e9))
    latency_s, rate = fit(Points((1000, 2000), (3e-6, 2e-6), (0.0, 0.0)))
    assert rate == pytest.approx(1e9)
    assert latency_s == pytest.approx(2e-6)


def test_the_spread_is_the_range_between_quartiles_as_a_share_of_the_median() -> None:
    calls = iter([9.0, 3.0, 1.0, 9.0, 7.0])
    points = measure_points(lambda _: next(calls), [1, 2], repeats=lambda nbytes: 2 if nbytes == 1 else 1)
    assert points.spreads == (0.5, 0.0)


def test_changed_data_is_an_error_that_names_the_way() -> None:
    check_arrived(True, "a", "b")
    with pytest.raises(PlatformError, match="from cuda:0 to cpu arrived changed"):
        check_arrived(False, "cuda:0", "cpu")


def timed_in_turn(seconds_by_size: dict[int, list[float]]):
    """Time of each further transfer of a size, two at a time: the one that warms up, and a sample."""
    left = {
        nbytes: iter([second for seconds in found for second in (0.0, seconds)])
        for nbytes, found in seconds_by_size.items()
    }
    return lambda nbytes: next(left[nbytes])


def test_a_size_at_which_the_rate_falls_is_timed_again_until_it_does_not() -> None:
    """At 4,000 bytes something else is in the way twice; 8,000 bytes are as fast as 2,000."""
    time_one = timed_in_turn({1000: [2.0], 2000: [3.0], 4000: [9.0, 7.0, 6.0], 8000: [12.0]})
    points = measure_points(time_one, [1000, 2000, 4000, 8000], repeats=lambda _: 1, rising=True)
    assert points.seconds == (2.0, 3.0, 6.0, 12.0)


def test_what_stays_slow_keeps_its_shortest_time() -> None:
    time_one = timed_in_turn({1000: [1.0], 2000: [9.0, 8.0, 7.0, 5.0, 6.0, 7.0]})
    points = measure_points(time_one, [1000, 2000], repeats=lambda _: 1, rising=True)
    assert points.seconds == (1.0, 5.0)


def test_rates_that_fall_by_themselves_are_left() -> None:
    time_one = timed_in_turn({1000: [1.0], 2000: [9.0]})
    assert measure_points(time_one, [1000, 2000], repeats=lambda _: 1).seconds == (1.0, 9.0)
