"""Links at another pace of memory, and with a rate that a person gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.errors import PlatformError
from graphsched.platform import Device, Link, Platform
from graphsched.platform.links import SWEPT_FROM, WRITTEN_BYTES, swept, written_now

SIZES = 4096, 2**16, SWEPT_FROM, 2**24
SECONDS = 7e-6, 8.5e-5, 1.3e-4, 5e-4
LINK = Link("cpu", "cpu", "pinned", 7e-6, 3e10, (), False, SIZES, SECONDS, sweep_s=1e-3)


@pytest.mark.parametrize(("sweep_s", "pace"), [(1.5e-3, 1.5), (1e-3, 1.0), (0.0, 1.0)])
def test_small_copies_go_with_no_sweep(sweep_s: float, pace: float) -> None:
    """What they take is waking threads; from the size on from which points are measured in sweeps, all of it goes."""
    now = swept(LINK, sweep_s)
    assert [now.duration_s(n) for n in SIZES[:2]] == list(SECONDS[:2])
    assert [now.duration_s(n) for n in SIZES[2:]] == pytest.approx([s * pace for s in SECONDS[2:]])
    assert now.duration_s(2**26) - now.duration_s(2**25) == pytest.approx(2**25 / 3e10 * pace)


def test_a_large_copy_takes_no_less_than_a_small_one() -> None:
    assert swept(LINK, 1e-4).seconds == (7e-6, 8.5e-5, 8.5e-5, 8.5e-5)


def test_a_rate_that_is_given_goes_with_no_sweep() -> None:
    here = Platform("desk", (Device("cpu", "cpu"),), (LINK,))
    given = here.with_link("cpu", "cpu", memory="pinned", bandwidth_bytes_per_s=6e10).link("cpu", "cpu", "pinned")
    assert (given.bandwidth_bytes_per_s, given.sweep_s) == (6e10, 0.0)
    assert swept(given, 5e-3) == given


def test_files_hold_the_sweep() -> None:
    here = Platform("desk", (Device("cpu", "cpu"),), (LINK,))
    assert Platform.from_dict(here.to_dict()) == here
    with pytest.raises(PlatformError, match="sweep_s of link"):
        replace(LINK, sweep_s=-1.0)


@pytest.mark.parametrize("known_s", [0.0, 1e-6])
def test_what_was_next_to_nothing_says_nothing_of_other_sizes(known_s: float) -> None:
    """What they take longer now goes with their bytes then, and is never more than at the size that was measured."""
    sizes = 2**20, 2**22, WRITTEN_BYTES, 2**26
    link = Link("cpu", "cuda:0", "pinned", 0.0, 5e10, (), False, sizes, tuple(n / 5e10 for n in sizes))
    link = replace(link, written_s=(5e-5, 1.5e-4, known_s, 1e-4))
    assert written_now(link, 3e-4).written_s == pytest.approx((3e-4 / 16, 3e-4 / 4, 3e-4, 3e-4))
    assert written_now(link, 0.0) == link
    assert written_now(replace(link, written_s=()), 3e-4).written_s == ()
