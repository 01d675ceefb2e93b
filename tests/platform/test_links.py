"""Links at another pace of memory, and with a rate that a person gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.platform.links import PACED_FROM, WRITTEN_BYTES, pinned_now, written_now

SIZES = 4096, 2**16, PACED_FROM, WRITTEN_BYTES
SECONDS = 7e-6, 8.5e-5, 1.3e-4, 5e-4
LINK = Link("cpu", "cpu", "pinned", 7e-6, 3e10, (), False, SIZES, SECONDS)


@pytest.mark.parametrize(("pinned_s", "pace"), [(7.5e-4, 1.5), (5e-4, 1.0), (0.0, 1.0)])
def test_small_copies_go_with_no_yardstick(pinned_s: float, pace: float) -> None:
    """What they take is waking threads; larger ones go with one of 16.8 MB, which took 0.5 ms."""
    now = pinned_now(LINK, pinned_s)
    assert [now.duration_s(n) for n in SIZES[:2]] == list(SECONDS[:2])
    assert [now.duration_s(n) for n in SIZES[2:]] == pytest.approx([s * pace for s in SECONDS[2:]])
    assert now.duration_s(2**26) - now.duration_s(2**25) == pytest.approx(2**25 / 3e10 * pace)


def test_a_large_copy_takes_no_less_than_a_small_one() -> None:
    assert pinned_now(LINK, 5e-5).seconds == (7e-6, 8.5e-5, 8.5e-5, 8.5e-5)


def test_a_link_without_points_goes_as_a_whole() -> None:
    bare = Link("cpu", "cpu", "pinned", 1e-3, 3e10)
    now = pinned_now(bare, 3 * bare.duration_s(WRITTEN_BYTES))
    assert [now.duration_s(n) for n in (100, WRITTEN_BYTES)] == pytest.approx(
        [3 * bare.duration_s(n) for n in (100, WRITTEN_BYTES)]
    )


def test_a_way_into_pinned_memory_that_is_given_goes_with_no_yardstick() -> None:
    """And engines that are slower leave it alone."""
    links = LINK, Link("cpu", "cuda:0", "pinned", 1e-5, 5e10)
    here = Platform("desk", (Device("cpu", "cpu"), Device("cuda:0", "cuda")), links, dispatch=Dispatch(pinned_s=9e-4))
    given = here.with_link("cpu", "cpu", memory="pinned", bandwidth_bytes_per_s=6e10)
    assert given.dispatch.pinned_s == 0.0
    one_way = here.with_link("cpu", "cuda:0", bandwidth_bytes_per_s=1e10, both_ways=False)
    assert one_way.dispatch.pinned_s == 9e-4
    slower = here.with_rates("pinned", 0.5)
    assert slower.dispatch.pinned_s == 9e-4
    assert slower.link("cpu", "cpu", "pinned") == LINK
    assert slower.link("cpu", "cuda:0").bandwidth_bytes_per_s == 2.5e10


@pytest.mark.parametrize("known_s", [0.0, 1e-6])
def test_what_was_next_to_nothing_says_nothing_of_other_sizes(known_s: float) -> None:
    """What they take longer now goes with their bytes then, and is never more than at the size that was measured."""
    sizes = 2**20, 2**22, WRITTEN_BYTES, 2**26
    link = Link("cpu", "cuda:0", "pinned", 0.0, 5e10, (), False, sizes, tuple(n / 5e10 for n in sizes))
    link = replace(link, written_s=(5e-5, 1.5e-4, known_s, 1e-4))
    assert written_now(link, 3e-4).written_s == pytest.approx((3e-4 / 16, 3e-4 / 4, 3e-4, 3e-4))
    assert written_now(link, 0.0) == link
    assert written_now(replace(link, written_s=()), 3e-4).written_s == ()
