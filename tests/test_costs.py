"""Costs of operations: seconds that make sense, curves, tables in and out of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Beside, CacheStates, Costs, Kernel, Multiprocessors, TaskCost, check_seconds
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
        ({"device_s": 1.0, "company_s": -1.0}, "company_s"),
        ({"device_s": 1.0, "company_s": ""}, "company_s"),
        ({"device_s": 1.0, "cold_s": -1.0}, "cold_s"),
        ({"device_s": 1.0, "recent_s": -1.0}, "recent_s"),
        ({"device_s": 1.0, "switching_s": math.nan}, "switching_s"),
        ({"device_s": 1.0, "graph_tried": 1}, "graph_tried is 1: true or false"),
        ({"device_s": 1.0, "curve_left_out": "no"}, "curve_left_out is 'no': true or false"),
        ({"device_s": 1.0, "host_left_out": 0}, "host_left_out is 0: true or false"),
        ({"device_s": 1.0, "graph_memory": ((1, -1.0),)}, "graph_memory"),
        ({"device_s": 1.0, "product_s": -1.0}, "product_s"),
        ({"device_s": 1.0, "sweep_s": -1.0}, "sweep_s"),
        ({"device_s": 1.0, "shares": (0.5, -0.5)}, "one of shares is -0.5"),
        ({"device_s": 1.0, "shares": (0.5, 0.75)}, r"shares is \(0.5, 0.75\): two that are no more than 1"),
        ({"device_s": 1.0, "shares": (0.5,)}, "shares is .* two"),
        ({"device_s": 1.0, "graph_memory": ((2, 1.0), (2, 1.0))}, "graph_memory is .* ascending"),
        ({"device_s": 1.0, "quartiles_s": (0.9, math.inf)}, "quartile"),
        ({"device_s": 1.0, "concurrency": ((2, math.nan),)}, "slowdown"),
        ({"device_s": 1.0, "concurrency": ((4, 2.0), (2, 1.0))}, "ascend"),
        ({"device_s": 1.0, "concurrency": ((1, 1.0), (2, 0.0))}, "concurrency of 2 copies is 0.0: at least 0.1"),
        ({"device_s": 1.0, "near_s": -1.0}, "near_s is -1.0: 0 or more"),
        ({"device_s": 1.0, "concurrency": ((2, 2.0), (2, 1.0))}, "ascend"),
        ({"device_s": 10**400}, "device_s is 1000.*: a finite number"),
        ({"device_s": "1.0"}, "device_s is '1.0': a finite number"),
        ({"device_s": True}, "device_s is True: a finite number"),
        ({"device_s": 1.0, "launches": 1.5}, "launches is 1.5: a whole number from 0"),
        ({"device_s": 1.0, "launches": math.nan}, "launches is nan: a whole number"),
        ({"device_s": 1.0, "graph_nodes": -1}, "graph_nodes is -1: a whole number"),
        ({"device_s": 1.0, "workspace_bytes": 10**19}, r"workspace_bytes is 1000.*: a whole number from 0 to 2\*\*53"),
        ({"device_s": 1.0, "concurrency": ((2.5, 1.0),)}, "copies of concurrency is 2.5: a whole number"),
        ({"device_s": 1.0, "concurrency": ((0, 1.0),)}, "copies of concurrency is 0: a whole number from 1"),
        ({"device_s": 1.0, "concurrency": ([2, 1.0],)}, "concurrency holds .*: pairs of numbers of copies and"),
        ({"device_s": 1.0, "graph_memory": ((-1, 1.0),)}, "bytes of graph_memory is -1"),
        ({"device_s": 1.0, "rests": ((0.0, 1.0),)}, "rests is .* ascending"),
        ({"device_s": 1.0, "rests": ((math.inf, 1.0),)}, "seconds of rest of rests is inf"),
        ({"device_s": 1.0, "rests": ((2e-3, 1.0), (1e-3, 1.0))}, "rests is .* ascending"),
        ({"device_s": 1.0, "graph_memory": ((10**19, 1.0),)}, "bytes of graph_memory is 1000"),
        ({"device_s": 1.0, "quartiles_s": (1.0,)}, "quartiles_s is .*: the first and the third"),
        ({"device_s": 1.0, "quartiles_s": (1.1, 1.0)}, "quartiles_s is .*: the first and the third"),
    ],
)
def test_a_cost_that_makes_no_sense(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(CostError, match=message):
        TaskCost(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"company_s": -1.0}, "company_s of cache states"),
        ({"code_lost_s": -1.0}, "code_lost_s of cache states"),
        ({"code_lost_s": math.nan}, "code_lost_s of cache states"),
        ({"beside_s": -1.0}, "beside_s of cache states"),
        ({"beside_lost_s": math.inf}, "beside_lost_s of cache states"),
        ({"footprint": -0.5}, "footprint of cache states"),
        ({"footprint": math.nan}, "footprint of cache states"),
        ({"footprint": 1.5}, "footprint is 1.5: a part of the cache, no more than 1"),
        ({"written_s": math.nan}, "written_s is nan"),
        ({"written_s": -(10**400)}, "written_s is -1000.*: a finite number"),
        ({"written_s": "0"}, "written_s is '0'"),
        ({"lost_s": math.inf}, "lost_s is inf"),
        ({"shares": (1.5, -0.5)}, "a share of cache states"),
        ({"shares": (0.5, 0.25)}, "shares are .0.5, 0.25.: parts of the inputs, 1 in all"),
        ({"written_s": 2.0, "lost_s": 1.0}, "lost_s is 1.0: no less than written_s, 2.0"),
    ],
)
def test_cache_states_that_make_no_sense(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(CostError, match=message):
        CacheStates(**wrong)


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


@pytest.mark.parametrize(("nbytes", "seconds"), [(0, 4), (100, 4), (150, 4.5), (300, 6), (10**12, 6)])
def test_what_it_takes_in_a_graph_follows_from_the_memory(nbytes: int, seconds: float) -> None:
    cost = TaskCost(8.0, graph_s=4.0, graph_memory=((100, 4.0), (300, 6.0)))
    assert cost.in_graph(nbytes).device_s == seconds
    assert TaskCost(8.0, graph_s=4.0).in_graph(nbytes).device_s == 4.0
    assert TaskCost(8.0).in_graph(nbytes).device_s == 8.0


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


def test_the_relief_of_kernels_is_kept_and_half_where_a_file_has_none() -> None:
    device = Multiprocessors(4, 65536, 2048, 233472, 32)
    costs = Costs({("mm", "GPU"): TaskCost(1.0, kernels=(Kernel(4, 65536, 256, 0, relief=0.875),), processors=device)})
    rows = json.loads(json.dumps(costs.to_dict()))
    assert Costs.from_dict(rows) == costs
    del rows[0]["kernels"][0]["relief"]
    assert Costs.from_dict(rows)["mm", "GPU"].kernels[0].relief == 0.5


def test_json_round_trip_in_any_order() -> None:
    full = TaskCost(1e-3, 2e-6, 3, 400, (0.9e-3, 1.1e-3), 20, CURVE, "measured", graph_memory=((5, 1.0), (6, 2.0)))
    full = replace(full, rests=((3e-4, 0.5e-3), (2e-3, 1e-3)))
    full = replace(
        full,
        product_s=3e-4,
        sweep_s=1e-3,
        shares=(0.25, 0.5),
        cache=CacheStates(-1e-6, 2e-6, 3e-7, shares=(0.25, 0.75)),
    )
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
        [{"signature": "mm", "model": "GPU", "device_s": 1.0, "concurrency": [[2.5, 1.0]]}],
        [{"signature": "mm", "model": "GPU", "device_s": 1.0, "concurrency": [[2, "1.0"]]}],
        [{"signature": "mm", "model": "GPU", "device_s": 1.0, "graph_memory": [[0.5, 1.0]]}],
        [{"signature": "mm", "model": "GPU", "beside": "add", "slowdown": 1.0, "samples": 1.5}],
    ],
)
def test_a_table_that_is_none(rows: Any) -> None:
    with pytest.raises(FileFormatError, match="not a table of costs"):
        Costs.from_dict(rows)


PROCESSORS = Multiprocessors(132, 65536, 2048, 233472, 32)
WITH_KERNELS = TaskCost(1e-3, kernels=(Kernel(128, 53248, 256, 50176),), processors=PROCESSORS)
PAIRS = {("mm", "add", "GPU"): Beside(1.24, 1.1, 3), ("add", "mm", "GPU"): Beside(1.7)}


def test_kernels_and_pairs_survive_json() -> None:
    costs = Costs({("mm", "GPU"): WITH_KERNELS, ("add", "GPU"): TaskCost(1.0)}, PAIRS)
    again = Costs.from_dict(json.loads(json.dumps(costs.to_dict())))
    assert again == costs
    assert again["mm", "GPU"].kernels[0].threads == 256
    assert again.get_pair("mm", "add", "GPU") == Beside(1.24, 1.1, 3)
    assert again != Costs({("mm", "GPU"): WITH_KERNELS, ("add", "GPU"): TaskCost(1.0)})


def test_code_and_footprint_survive_json_and_kernels_of_unknown_code_are_as_they_always_were() -> None:
    known = TaskCost(
        1.0, kernels=(Kernel(1, 1, 1, 1, code="9f0c"), Kernel(2, 1, 1, 1)), cache=CacheStates(footprint=0.5)
    )
    costs = Costs({("mm", "GPU"): replace(known, processors=PROCESSORS)})
    (row,) = costs.to_dict()
    assert Costs.from_dict(json.loads(json.dumps([row]))) == costs
    assert [kernel.get("code") for kernel in row["kernels"]] == ["9f0c", None]
    assert "shares" not in row["cache"]


def test_rows_without_kernels_are_as_they_always_were() -> None:
    (row,) = Costs({("mm", "GPU"): TaskCost(1.0)}).to_dict()
    assert not {
        "kernels",
        "processors",
        "graph_memory",
        "product_s",
        "sweep_s",
        "shares",
        "cache",
        "rests",
        "near_s",
        "beside",
    } & set(row)


def test_what_a_device_places_blocks_on_is_kept_without_kernels() -> None:
    costs = Costs({("mm", "GPU"): TaskCost(1.0, processors=PROCESSORS, near_s=0.5)})
    assert Costs.from_dict(json.loads(json.dumps(costs.to_dict()))) == costs


def test_pairs_come_after_operations_in_order() -> None:
    rows = Costs({("mm", "GPU"): TaskCost(1.0)}, PAIRS).to_dict()
    assert [(row["signature"], row.get("beside")) for row in rows] == [("mm", None), ("add", "mm"), ("mm", "add")]


def test_merged_keeps_what_calls_cost_where_it_was_left_out() -> None:
    host = {
        "dispatch_s": 7e-6,
        "call_s": 5e-6,
        "company_s": 1e-6,
        "recent_s": 3e-7,
        "cold_s": 2e-6,
        "switching_s": 2e-7,
    }
    whole, left_out = TaskCost(1.0, graph_s=0.9, **host), TaskCost(2.0, host_left_out=True)
    old, new = Costs({("mm", "GPU"): whole}), Costs({("mm", "GPU"): left_out, ("add", "GPU"): left_out})
    assert old.merged(new)["mm", "GPU"] == TaskCost(2.0, **host)
    assert old.merged(new)["add", "GPU"].host_left_out
    assert new.merged(old)["mm", "GPU"] == whole
    assert Costs.from_dict(json.loads(json.dumps(new.to_dict()))) == new


def test_pairs_are_merged_and_chosen_with_their_operations() -> None:
    old = Costs({("mm", "GPU"): TaskCost(1.0), ("add", "GPU"): TaskCost(1.0)}, PAIRS)
    merged = old.merged(Costs(pairs={("mm", "add", "GPU"): Beside(9.0)}))
    assert merged.get_pair("mm", "add", "GPU") == Beside(9.0)
    assert merged.get_pair("add", "mm", "GPU") == Beside(1.7)
    assert old.merged(None).pairs == PAIRS
    assert merged.chosen([("mm", "GPU")]).pairs == {}
    assert dict(merged.chosen([("add", "GPU"), ("mm", "GPU")]).pairs) == dict(merged.pairs)
    assert list(merged.chosen([("add", "GPU"), ("mm", "GPU")])) == [("add", "GPU"), ("mm", "GPU")]
    assert repr(merged) == "Costs(2 operations, 2 pairs)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Multiprocessors(0, 1, 1, 1, 1), "count of Multiprocessors is 0"),
        (lambda: Kernel(0, 1, 1, 1), "a kernel of 0 blocks"),
        (lambda: Kernel(1, -1, 1, 1), "registers of Kernel is -1"),
        (lambda: Kernel(1, 1, True, 1), "threads of Kernel is True"),
        (lambda: Kernel(1, 1, 1, 1, math.nan), "share of a kernel"),
        (lambda: Kernel(1, 1, 1, 1, 1.0, 7), "code of a kernel is 7: text is needed"),  # type: ignore[arg-type]
        (lambda: Kernel(1, 1, 1, 1, relief=0.0), "relief of a kernel is 0.0: above 0 and at most 1"),
        (lambda: Kernel(1, 1, 1, 1, relief=1.5), "relief of a kernel is 1.5: above 0 and at most 1"),
        (lambda: Kernel(1, 1, 1, 1, relief=math.nan), "relief of a kernel is nan: a finite number"),
        (lambda: Beside(-1.0), "slowdown beside another"),
        (lambda: Multiprocessors(10**19, 1, 1, 1, 1), "count of Multiprocessors is 1000"),
        (lambda: Beside(1.0, math.inf), "in_flight is inf"),
        (lambda: Beside(1.0, -1.0), "in_flight is -1.0: 0 or more"),
        (lambda: Beside(1.0, samples=-1), "samples is -1: a whole number"),
        (lambda: Beside(1.0, samples=0.5), "samples is 0.5: a whole number"),
        (lambda: Beside(1.0, copies=((2.5, 1.0),)), "copies of copies is 2.5: a whole number from 2"),
        (lambda: Beside(1.0, copies=((2, -1.0),)), "factors of copies is -1.0"),
    ],
)
def test_kernels_and_pairs_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(CostError, match=message):
        make()


@pytest.mark.parametrize(
    "row",
    [
        {"signature": "mm", "model": "GPU", "beside": "add"},
        {"signature": "mm", "model": "GPU", "beside": "add", "slowdown": math.nan},
        {"signature": "mm", "model": "GPU", "device_s": 1.0, "kernels": [{"blocks": 1}]},
        {"signature": "mm", "model": "GPU", "device_s": 1.0, "processors": {"count": 1}},
    ],
)
def test_rows_of_kernels_and_pairs_that_are_wrong(row: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match="not a table of costs"):
        Costs.from_dict([row])
