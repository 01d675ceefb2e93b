"""Costs of operations: seconds that make sense, curves, tables in and out of JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost, check_seconds
from graphsched.errors import CostError, FileFormatError

CURVE = ((1, 1.0), (2, 1.2), (4, 2.0), (8, 5.0))


@pytest.mark.parametrize("seconds", [0, 1.5, "2e-3", 3])
def test_seconds_that_are_fine(seconds: Any) -> None:
    assert check_seconds(seconds, "x") == float(seconds)


@pytest.mark.parametrize("seconds", [None, -1e-9, math.nan, math.inf, "fast", [1], -math.inf, 1j])
def test_seconds_that_are_not(seconds: Any) -> None:
    with pytest.raises(CostError, match=r"duration of 'a' is .*: a finite number of seconds, 0 or more"):
        check_seconds(seconds, "duration of 'a'")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"device_s": -1.0}, "device_s"),
        ({"device_s": 1.0, "dispatch_s": math.nan}, "dispatch_s"),
        ({"device_s": 1.0, "quartiles_s": (0.9, math.inf)}, "quartile"),
        ({"device_s": 1.0, "concurrency": ((2, math.nan),)}, "slowdown"),
        ({"device_s": 1.0, "concurrency": ((4, 2.0), (2, 1.0))}, "ascend"),
        ({"device_s": 1.0, "concurrency": ((2, 2.0), (2, 1.0))}, "ascend"),
    ],
)
def test_a_cost_that_makes_no_sense(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(CostError, match=message):
        TaskCost(**wrong)


@pytest.mark.parametrize(("k", "slowdown"), [(0, 1), (1, 1), (2, 1.2), (3, 1.6), (4, 2), (6, 3.5), (8, 5), (16, 10)])
def test_slowdown_is_linear_between_points_and_in_proportion_beyond(k: int, slowdown: float) -> None:
    assert TaskCost(1.0, concurrency=CURVE).slowdown(k) == pytest.approx(slowdown)


def test_slowdown_without_the_point_of_one() -> None:
    assert TaskCost(1.0, concurrency=((3, 2.0),)).slowdown(2) == 1.5


def test_slowdown_without_a_curve_is_one_device_of_work() -> None:
    assert [TaskCost(1.0).slowdown(k) for k in (1, 2, 7)] == [1.0, 2.0, 7.0]


@given(st.integers(1, 40))
def test_slowdown_never_falls(k: int) -> None:
    cost = TaskCost(1.0, concurrency=CURVE)
    assert cost.slowdown(k) <= cost.slowdown(k + 1)


def test_a_cost_that_is_missing_says_what_to_do() -> None:
    with pytest.raises(CostError, match=r"no cost of 'mm' on 'GPU': measure it with gs.profile"):
        Costs()["mm", "GPU"]
    assert Costs().get("mm", "GPU") is None


def test_merged_prefers_the_other() -> None:
    old = Costs({("mm", "GPU"): TaskCost(1.0), ("add", "GPU"): TaskCost(3.0)})
    new = Costs({("mm", "GPU"): TaskCost(2.0)})
    merged = old.merged(new)
    assert (merged["mm", "GPU"].device_s, merged["add", "GPU"].device_s) == (2.0, 3.0)
    assert old["mm", "GPU"].device_s == 1.0
    assert old.merged(None) == old
    assert len(merged) == 2
    assert ("mm", "GPU") in merged
    assert list(merged) == [("mm", "GPU"), ("add", "GPU")]


def test_json_round_trip_in_any_order() -> None:
    full = TaskCost(1e-3, 2e-6, 3, 400, (0.9e-3, 1.1e-3), 20, CURVE, "measured")
    costs = Costs({("mm", "GPU"): full, ("add", "CPU"): TaskCost(0.1, source="given")})
    turned = Costs(dict(reversed([(key, costs[key]) for key in costs])))
    assert Costs.from_dict(json.loads(json.dumps(costs.to_dict()))) == costs
    assert costs.to_dict() == turned.to_dict()


@pytest.mark.parametrize(
    "rows",
    [
        5,
        ["mm"],
        [{"signature": "mm", "model": "GPU"}],
        [{"signature": "mm", "device_s": 1.0}],
        [{"signature": "mm", "model": "GPU", "device_s": 1.0, "colour": "red"}],
        [{"signature": "mm", "model": "GPU", "device_s": -1.0}],
        [{"signature": "mm", "model": "GPU", "device_s": math.nan}],
        [{"signature": "mm", "model": "GPU", "device_s": 1.0, "concurrency": 3}],
        [{"signature": "mm", "model": "GPU", "device_s": 1.0, "concurrency": [["two", 1.0]]}],
    ],
)
def test_a_table_that_is_none(rows: Any) -> None:
    with pytest.raises(FileFormatError, match="not a table of costs"):
        Costs.from_dict(rows)
