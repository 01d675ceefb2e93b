"""Links of GPUs: what is timed again, and what counts of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graphsched.calibration.cuda_links import AGAIN, Measured, timed_again
from graphsched.platform import Link


def measured(source: str, target: str, rate: float, memory: str = "pinned") -> Measured:
    return Measured(Link(source, target, memory, 1e-5, rate), 0.01)  # type: ignore[arg-type]


def rates(found: list[Measured]) -> dict[str, float]:
    return {str(m.link): m.link.bandwidth_bytes_per_s for m in found}


class Host:
    """Answers with these rates, one reading of a link after the other."""

    def __init__(self, readings: dict[str, list[float]]) -> None:
        self.readings: dict[str, Iterator[float]] = {name: iter(seen) for name, seen in readings.items()}
        self.asked: list[str] = []

    def again(self, link: Link) -> Measured:
        self.asked.append(str(link))
        return measured(link.source, link.target, next(self.readings[str(link)]), link.memory)


def test_a_link_that_others_slowed_is_timed_again_until_it_is_as_fast_as_those_like_it() -> None:
    host = Host({"cpu>cuda:0 (pinned)": [52.0, 55.2]})
    found = [
        measured("cpu", "cuda:0", 51.2),
        measured("cuda:0", "cpu", 55.0),
        measured("cpu", "cuda:1", 55.4),
        measured("cuda:1", "cpu", 54.9),
    ]
    kept = timed_again(found, host.again)
    assert rates(kept) == rates(found) | {"cpu>cuda:0 (pinned)": 55.2}
    assert [str(m.link) for m in kept] == [str(m.link) for m in found]
    assert host.asked == ["cpu>cuda:0 (pinned)"] * 2


def test_one_that_is_slower_stays_so_and_the_fastest_reading_counts() -> None:
    """cuda:1 hangs on another socket; to it 41 was the best of all."""
    host = Host({"cpu>cuda:1 (pinned)": [39.0, 41.0, 40.0]})
    kept = timed_again([measured("cpu", "cuda:0", 55.0), measured("cpu", "cuda:1", 40.0)], host.again)
    assert rates(kept) == {"cpu>cuda:0 (pinned)": 55.0, "cpu>cuda:1 (pinned)": 41.0}
    assert len(host.asked) == AGAIN


def test_a_faster_reading_shows_that_the_others_were_slowed_too() -> None:
    host = Host({"cpu>cuda:0 (pinned)": [55.0], "cpu>cuda:1 (pinned)": [55.3]})
    kept = timed_again([measured("cpu", "cuda:0", 50.0), measured("cpu", "cuda:1", 52.0)], host.again)
    assert rates(kept) == {"cpu>cuda:0 (pinned)": 55.0, "cpu>cuda:1 (pinned)": 55.3}


@pytest.mark.parametrize(
    "found",
    [
        [measured("cpu", "cuda:0", 55.0)],
        [measured("cpu", "cuda:0", 55.0), measured("cuda:0", "cpu", 40.0)],  # two directions are not alike
        [measured("cpu", "cuda:0", 55.0), measured("cpu", "cuda:1", 54.5)],  # noise
        [measured("cpu", "cuda:0", 55.0), measured("cpu", "cuda:1", 9.0, "pageable")],
        [],
    ],
)
def test_nothing_is_timed_again_where_links_are_alike(found: list[Measured]) -> None:
    host = Host({})
    assert timed_again(found, host.again) == found
    assert not host.asked
