"""A capacity's table over the numbers of busy links."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import FileFormatError, PlatformError
from graphsched.platform import CapacityTable, Device, Link, Platform

TABLE = CapacityTable(("out", "in"), ((1, 2, 4), (0, 4)), (50.0, 20.0, 100.0, 40.0, 120.0, 80.0))


@pytest.mark.parametrize(
    ("busy", "rate"),
    [
        ((1, 0), 50.0),
        ((2, 0), 100.0),
        ((4, 4), 80.0),
        ((3, 0), 110.0),  # half-way between 2 and 4
        ((2, 1), 85.0),  # a quarter of the way from 0 to 4
        ((3, 2), (110.0 + 60.0) / 2),
        ((0, 0), 50.0),  # below the first
        ((9, 9), 80.0),  # beyond the last
    ],
)
def test_rates_are_interpolated_and_held_at_the_ends(busy: tuple[int, int], rate: float) -> None:
    assert TABLE.rate(busy) == pytest.approx(rate)


@given(st.integers(0, 9), st.integers(0, 9))
def test_no_rate_is_outside_the_measured_ones(a: int, b: int) -> None:
    assert 20.0 <= TABLE.rate((a, b)) <= TABLE.highest == 120.0


def test_scaling_scales_every_rate() -> None:
    assert TABLE.scaled(0.5).rate((3, 2)) == TABLE.rate((3, 2)) / 2


@pytest.mark.parametrize(
    ("by", "counts", "rates", "message"),
    [
        ((), (), (), "as many lists of counts"),
        (("a",), ((1, 2), (0,)), (1.0, 2.0), "as many lists of counts"),
        (("a",), ((2, 1),), (1.0, 2.0), "must ascend"),
        (("a",), ((-1, 1),), (1.0, 2.0), "must ascend"),
        (("a", "b"), ((1, 2), (0, 1)), (1.0, 2.0), "2 × 2 rates are needed, got 2"),
        (("a",), ((1, 2),), (1.0, 0.0), "must be above 0"),
        (("a",), ((1, 2),), (1.0, float("nan")), "a finite number"),
    ],
)
def test_contradictions_are_named(by, counts, rates, message) -> None:
    with pytest.raises(PlatformError, match=message):
        CapacityTable(by, counts, rates)


@pytest.mark.parametrize(
    "row",
    [
        None,
        [],
        {},
        {"by": ["a"], "counts": 3, "bytes_per_s": [1]},
        {"by": ["a"], "counts": [["x"]], "bytes_per_s": [1]},
        {"by": ["a"], "counts": [[1.5]], "bytes_per_s": [1]},
    ],
)
def test_other_entries_of_a_file_are_refused(row) -> None:
    with pytest.raises(FileFormatError):
        CapacityTable.from_dict(row)


def test_a_platform_keeps_its_tables_in_its_file() -> None:
    devices = (Device("cpu", "cpu"), Device("cuda:0", "cuda"))
    links = (Link("cpu", "cuda:0", "pinned", 0.0, 50.0, ("in",)), Link("cuda:0", "cpu", "pinned", 0.0, 50.0, ("out",)))
    here = Platform("p", devices, links, {"in": 99.0, "out": 120.0}, tables={"out": TABLE})
    assert Platform.from_dict(here.to_dict()) == here
    assert here.to_dict()["tables"] == {"out": asdict(TABLE)}
    with pytest.raises(PlatformError, match="table of capacity 'out' names 'in', which has no entry"):
        Platform("p", devices, links[1:], {"out": 120.0}, tables={"out": TABLE})
