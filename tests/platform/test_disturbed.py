"""Which links were in use while they were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.platform import Link, Platform
from graphsched.platform.disturbed import FALL, disturbed, falls
from graphsched.platform.parts import HOST_MEMORY

SIZES = (10**6, 10**7, 10**8)
LINK = Link("cuda:0", "cpu", "pinned", 1e-6, 5e10, (), False, SIZES, (2.1e-5, 2.02e-4, 2.01e-3))


@pytest.mark.parametrize("name", ["h200-x1", "h200-x2", "h200-x4"])
def test_shipped_platforms_were_measured_undisturbed(name: str) -> None:
    assert disturbed(Platform.load(name).links) == ()


def test_a_fall_within_noise_is_none() -> None:
    just = 1.0 / (1.0 - FALL)
    assert falls((1000, 1000), (1.0, 0.999 * just)) == ()
    assert falls((1000, 1000), (1.0, 1.001 * just)) == (1,)


def test_a_fall_is_held_against_the_fastest_of_all_smaller_sizes() -> None:
    assert falls((1000, 2000, 3000), (1.0, 2.05, 3.15)) == (2,)  # 1,000, then 976 and 952 bytes/s


def test_links_within_a_hosts_memory_are_faster_in_caches() -> None:
    falling = replace(LINK, source="cpu", target="worker:0", seconds=(2.1e-5, 2.02e-4, 4e-3))
    assert len(disturbed([falling])) == 1
    assert disturbed([replace(falling, crosses=(HOST_MEMORY,))]) == ()


def test_a_disturbed_link_is_named_with_its_worst_size() -> None:
    slow = replace(LINK, seconds=(2.1e-5, 2.02e-4, 4e-3))
    (line,) = disturbed([LINK, slow])
    assert line.startswith("cuda:0 to cpu (pinned): 25 GB/s at 100 MB, 49.5 GB/s at less")
    assert disturbed([replace(slow, memory="pageable", blocking=True), replace(slow, seconds=(), sizes_bytes=())]) == ()
