"""Devices, links and dispatch costs."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import PlatformError
from graphsched.platform import Device, Dispatch, Link, Pace, Platform, check_number
from graphsched.platform.dispatch import TABLES
from graphsched.platform.pace import GRAPH_CALLS, HOST_CALLS, LAUNCHES, LAUNCHES_ACROSS, POWERS

SIZES, SECONDS = (1000, 2000, 10_000), (2.0, 3.0, 19.0)


def _link(**more: Any) -> Link:
    """1 s and 1000 bytes a second, with measured points that are slower."""
    measured = {"sizes_bytes": SIZES, "seconds": SECONDS}
    return Link("cpu", "cuda:0", "pinned", 1.0, 1000.0, **(measured | more))


@pytest.mark.parametrize("number", [0, 1, 2.5])
def test_numbers_that_are_fine(number: float) -> None:
    assert check_number(number, "x") == number


@pytest.mark.parametrize("number", [-1, math.nan, math.inf, "1", None, True, [1]])
def test_numbers_that_are_not(number: Any) -> None:
    with pytest.raises(PlatformError, match=r"^rate is "):
        check_number(number, "rate")


def test_zero_is_not_positive() -> None:
    with pytest.raises(PlatformError, match=r"rate is 0: it must be above 0"):
        check_number(0, "rate", positive=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "tpu"},
        {"name": ""},
        {"name": "cuda 0"},
        {"name": "cuda/0"},
        {"name": "a>b"},
        {"name": "a,b"},
        {"name": "a@1"},
        {"name": "a\nb"},
        {"name": "a\u2028b"},
        {"memory_bytes": -1},
        {"traffic_in": -0.1},
        {"traffic_out": math.nan},
        {"slowed_in": -0.1},
        {"slowed_out": math.nan},
        {"slowed_peer_in": math.inf},
        {"slowed_peer_out": "0.2"},
        {"lanes_in": -0.1},
        {"lanes_out": math.inf},
        {"threads": 0},
        {"lanes": 0},
        {"lanes": -1},
        {"lanes": 1.5},
        {"threads": 1.5},
        {"flop_per_s": 0.0},
        {"flop_per_s": math.nan},
        {"bytes_per_s": -1.0},
        {"bytes_per_s": math.inf},
    ],
)
def test_a_device_that_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlatformError):
        Device(**({"name": "cuda:0", "kind": "cuda"} | wrong))


WRONG = pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf, "0.2", None, True, [0.1]])


@WRONG
@pytest.mark.parametrize("name", ["lanes_in", "lanes_out"])
def test_what_lanes_cost_copies_is_a_number_and_named_where_it_is_none(name: str, wrong: Any) -> None:
    assert getattr(Device("cuda:0", "cuda", **{name: 0.2}), name) == 0.2
    with pytest.raises(PlatformError, match=f"^{name} of cuda:0 is "):
        Device("cuda:0", "cuda", **{name: wrong})


@WRONG
@pytest.mark.parametrize("name", ["fades_s", "written_busy", "busy_fades_s", "written_back"])
def test_what_is_slow_to_fetch_is_a_number_and_named_where_it_is_none(name: str, wrong: Any) -> None:
    assert getattr(_link(**{name: 0.2}), name) == 0.2
    with pytest.raises(PlatformError, match=rf"^{name} of link cpu>cuda:0 \(pinned\) is "):
        _link(**{name: wrong})


@pytest.mark.parametrize("name", ["fades_s", "busy_fades_s"])
def test_what_was_written_fades_within_what_a_run_may_last(name: str) -> None:
    with pytest.raises(PlatformError, match=f"{name} of link .* is 1e.100: at most 1e.09 s are needed"):
        _link(**{name: 1e100})


def test_accelerators_are_all_but_cpus() -> None:
    kinds = ("cuda", "worker", "cpu")
    assert [Device("d", kind).is_accelerator for kind in kinds] == [True, True, False]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"latency_s": -1.0}, "latency_s of link"),
        ({"latency_s": math.nan}, "latency_s of link"),
        ({"bandwidth_bytes_per_s": 0.0}, "bandwidth_bytes_per_s of link"),
        ({"bandwidth_bytes_per_s": math.inf}, "bandwidth_bytes_per_s of link"),
        ({"seconds": (1.0,)}, "3 sizes and 1 times"),
        ({"sizes_bytes": (2000, 1000, 10_000)}, "must ascend"),
        ({"sizes_bytes": (1000, 1000, 10_000)}, "must ascend"),
        ({"sizes_bytes": (-1, 1000, 10_000)}, "sizes_bytes"),
        ({"seconds": (1.0, 0.0, 2.0)}, "seconds"),
        ({"seconds": (1.0, math.nan, 2.0)}, "seconds"),
    ],
)
def test_a_link_that_makes_no_sense(wrong: dict[str, Any], message: str) -> None:
    given = {"latency_s": 1.0, "bandwidth_bytes_per_s": 1.0, "sizes_bytes": SIZES, "seconds": SECONDS}
    with pytest.raises(PlatformError, match=message):
        Link("cpu", "cuda:0", "pinned", **(given | wrong))


def test_a_link_without_points_is_latency_and_rate() -> None:
    link = _link(sizes_bytes=(), seconds=())
    assert [link.duration_s(n) for n in (0, 1000, 5000)] == [1.0, 2.0, 6.0]


@pytest.mark.parametrize(
    ("nbytes", "seconds"),
    [(0, 1.0), (500, 1.5), (1000, 2), (1500, 2.5), (2000, 3), (6000, 11), (10_000, 19), (11_000, 20)],
)
def test_a_link_with_points_goes_through_them(nbytes: int, seconds: float) -> None:
    assert _link().duration_s(nbytes) == pytest.approx(seconds)


def test_a_link_with_one_point() -> None:
    link = _link(sizes_bytes=(1000,), seconds=(4.0,))
    assert [link.duration_s(n) for n in (0, 1000, 3000)] == [2.0, 4.0, 6.0]


def test_a_point_of_no_bytes_on_a_link_without_latency() -> None:
    link = Link("a", "b", "peer", 0.0, 1000.0, sizes_bytes=(0, 1000), seconds=(1.0, 2.0))
    assert [link.duration_s(n) for n in (0, 500, 2000)] == [1.0, 1.5, 3.0]


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.floats(1e-6, 1.0)), min_size=1, max_size=8, unique_by=lambda p: p[0]),
    st.integers(0, 2 * 10**9),
    st.integers(0, 10**6),
)
def test_more_bytes_never_take_less_time_where_the_points_say_so(
    points: list[tuple[int, float]], nbytes: int, more: int
) -> None:
    sizes = tuple(sorted(n for n, _ in points))
    seconds = tuple(sorted(s for _, s in points))
    link = Link("a", "b", "peer", 1e-6, 1e9, sizes_bytes=sizes, seconds=seconds)
    assert link.duration_s(nbytes) <= link.duration_s(nbytes + more) * (1 + 1e-12)
    for size, time in zip(sizes, seconds, strict=True):
        assert link.duration_s(size) == pytest.approx(time)
    below = seconds[0] / (1e-6 + sizes[0] / 1e9) * 1e-9  # seconds a byte, below and above the points
    slopes = [(b - a) / (y - x) for (x, a), (y, b) in pairwise(zip(sizes, seconds, strict=True))]
    for end in (sizes[0], sizes[-1]):  # no step where measured points begin and end
        steps = [abs(link.duration_s(end + d) - link.duration_s(end)) for d in (-1, 1)]
        assert max(steps) <= max(below, 1e-9, *slopes) * 1.001 + 1e-15


@pytest.mark.parametrize("name", [f.name for f in fields(Dispatch) if f.name not in TABLES])
def test_dispatch_costs_are_numbers(name: str) -> None:
    for wrong in (-1, math.nan, "1"):
        with pytest.raises(PlatformError, match=f"dispatch {name} is "):
            Dispatch(**{name: wrong})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (-1, "pairs of a number of kinds and seconds are needed"),
        (((1,),), "pairs of a number of kinds"),
        (((1, -1.0),), "dispatch changes is -1.0"),
        (((1, math.nan),), "a finite number is needed"),
        (((2, 1.0), (1, 1.0)), "ascending"),
        (((0, 1.0),), "numbers from 1 on are needed"),
        (((math.inf, 1.0),), "after .inf. kinds: whole numbers"),
        (((2.5, 1.0),), "whole numbers"),
        (((True, 1.0),), "whole numbers"),
        ((("3", 1.0),), "whole numbers"),
    ],
)
def test_changes_are_pairs(wrong: object, message: str) -> None:
    with pytest.raises(PlatformError, match=message):
        Dispatch(changes=wrong)  # type: ignore[arg-type]


def test_tables_of_graphs_are_pairs_and_go_through_a_file() -> None:
    with pytest.raises(PlatformError, match=r"graph_starts are after .* nodes: whole numbers from 1 on"):
        Dispatch(graph_starts=((0, 1.0),))
    with pytest.raises(PlatformError, match=r"graph_rates are .*: pairs of a number of lanes"):
        Dispatch(graph_rates=((2,),))  # type: ignore[arg-type]
    dispatch = Dispatch(graph_starts=((1, 1e-5), (100, 3e-5)), graph_rates=((2, 1e-6),), graph_copy_in_s=9e-6)
    here = Platform("here", (Device("cpu", "cpu"),), dispatch=dispatch)
    assert Platform.from_dict(json.loads(json.dumps(here.to_dict()))).dispatch == dispatch


def test_a_graph_starts_between_the_points_and_goes_on_beyond() -> None:
    costs = Dispatch(graph_starts=((2, 1.0), (4, 3.0), (14, 2.0)))
    assert [costs.graph_start_s(n) for n in (1, 2, 3, 4, 9, 14)] == [1.0, 1.0, 2.0, 3.0, 2.5, 2.0]
    assert costs.graph_start_s(100) == 2.0  # it does not fall
    assert Dispatch(graph_starts=((5, 7.0),)).graph_start_s(50) == 7.0
    assert Dispatch(graph_starts=((5, 7.0), (6, 8.0))).graph_start_s(10) == 12.0


def test_nodes_of_lanes_follow_each_other_as_measured() -> None:
    costs = Dispatch(graph_rates=((2, 4.0), (4, 2.0), (8, 1.0)))
    assert [costs.graph_rate_s(k) for k in (1, 2, 3, 4, 6, 8, 9)] == [0.0, 4.0, 3.0, 2.0, 1.5, 1.0, 1.0]
    assert Dispatch().graph_rate_s(8) == 0.0
    assert Dispatch(graph_rates=((4, 2.0),)).graph_rate_s(2) == 2.0


def test_changes_go_with_the_pace_and_through_a_file() -> None:
    dispatch = Dispatch(call_s=5e-6, changes=((1, 1e-6), (5, 3e-6)))
    assert dispatch.at(Pace(1e-5)).changes == ((1, 2e-6), (5, 6e-6))
    assert [dispatch.change_after_s(k) for k in (0, 1, 3, 5, 9)] == pytest.approx([0, 1e-6, 2e-6, 3e-6, 3e-6])
    here = Platform("here", (Device("cpu", "cpu"),), dispatch=dispatch)
    assert Platform.from_dict(json.loads(json.dumps(here.to_dict()))).dispatch == dispatch


def test_launches_after_waits_go_with_the_pace_unless_they_were_measured_and_through_a_file() -> None:
    dispatch = Dispatch(call_s=5e-6, colds=((20, 9e-6),), graph_colds=((20, 1e-6),), graph_across_colds=((20, 3e-6),))
    assert dispatch.at(Pace(1e-5)).graph_colds == ((20, 2e-6),)
    slept = Dispatch(call_s=5e-6, graph_slept_colds=((20, 1e-6),), graph_across_slept_colds=((20, 3e-6),)).at(
        Pace(1e-5)
    )
    assert (slept.graph_slept_colds, slept.graph_across_slept_colds) == (((20, 2e-6),), ((20, 6e-6),))
    now = dispatch.at(Pace(1e-5, launch_colds=(((50, 9e-6),),)))
    assert (now.graph_colds, now.graph_across_colds) == (((50, 9e-6),), ((20, 6e-6),))
    assert [dispatch.launch_cold_s(2e-5, gpus) for gpus in (1, 2, 4)] == [1e-6, 3e-6, 3e-6]
    assert Dispatch(colds=dispatch.colds).launch_cold_s(2e-5, 2) == 9e-6
    here = Platform("here", (Device("cpu", "cpu"),), dispatch=dispatch)
    assert Platform.from_dict(json.loads(json.dumps(here.to_dict()))).dispatch == dispatch


def test_calls_after_waits_go_with_the_pace_unless_they_were_measured_and_through_a_file() -> None:
    dispatch = Dispatch(call_s=5e-6, cold_s=1e-6, colds=((20, 1e-6), (200, 3e-6)))
    assert dispatch.at(Pace(1e-5)).colds == ((20, 2e-6), (200, 6e-6))
    assert dispatch.at(Pace(1e-5, colds=((50, 9e-6),))).colds == ((50, 9e-6),)
    assert dispatch.at(Pace(0.0, colds=((50, 9e-6),))) == dispatch
    here = Platform("here", (Device("cpu", "cpu"),), dispatch=dispatch)
    assert Platform.from_dict(json.loads(json.dumps(here.to_dict()))).dispatch == dispatch


def test_launches_of_graphs_change_with_the_pace_and_the_gpus_own_time_does_not() -> None:
    """Twice the yardstick: twice the thread's time for a launch; nodes and edges on the GPU take what they did.

    What further GPUs, and copies between them, add to a launch goes up by less, as calibrations show. A graph starts
    later by what its launch takes longer, 1 µs and 2 µs a node here, no more than its start takes.
    """
    across = [f"graph_across_{what}s" for what in ("", "start_", "root_", "edge_", "copy_", "more_")]
    known = {name: 1e-6 * k for k, name in enumerate(["graph_launch_s", "graph_launch_node_s", *across], 1)}
    starts = ((1, 8e-6), (100, 9e-6))
    now = Dispatch(call_s=5e-6, graph_starts=starts, graph_node_s=1e-6, graph_other_device_s=3e-6, **known).at(
        Pace(1e-5)
    )
    times = [1.97, 2.0, 1.64, 1.25, 1.81, 1.99, 1.78, 2.0]
    expected = {name: k * seconds for k, (name, seconds) in zip(times, known.items(), strict=True)}
    assert {name: getattr(now, name) for name in known} == pytest.approx(expected, rel=0.01)
    assert now.graph_starts == ((1, pytest.approx(1.1e-5)), (100, pytest.approx(1.8e-5)))
    assert (now.graph_node_s, now.graph_other_device_s) == (1e-6, 3e-6)


def test_calls_of_the_thread_change_with_the_pace_and_what_others_do_not() -> None:
    """Handing over to a lane, issuing and recording are the thread's; waking and latencies are not.

    Where a task's calls take twice as long, events take nearly three times as long, handing over half as long again.
    """
    calls = {"run_s": 1.0, "copy_s": 2.0, "record_s": 3.0, "wait_s": 4.0, "handoff_s": 5.0, "put_s": 6.0, "free_s": 7.0}
    times = {
        "run_s": 2.0, "copy_s": 2.3, "record_s": 2.85, "wait_s": 2.85, "handoff_s": 1.44, "put_s": 2.0, "free_s": 3.10
    }  # fmt: skip
    rest = {"wake_s": 1.0, "told_s": 2.0, "same_device_s": 3.0, "launch_s": 4.0, "job_s": 5.0}
    now = Dispatch(call_s=1.0, **calls, **rest).at(Pace(2.0))
    expected = {name: times[name] * seconds for name, seconds in calls.items()}
    assert {name: getattr(now, name) for name in calls} == pytest.approx(expected, rel=0.01)
    assert {name: getattr(now, name) for name in rest} == rest


def test_only_figures_that_go_with_a_yardstick_have_a_power_of_it() -> None:
    assert set(POWERS) < {*HOST_CALLS, *GRAPH_CALLS, *LAUNCHES, *LAUNCHES_ACROSS}


def test_a_call_is_colder_the_longer_the_wait_before_it() -> None:
    costs = Dispatch(cold_s=7.0, colds=((20, 2.0), (200, 5.0)))
    waits_s = (-1.0, 0.0, 1e-5, 2e-5, 1.1e-4, 2e-4, 5e-4, 1e-3, 1.0)
    assert [costs.cold_after_s(s) for s in waits_s] == pytest.approx([0, 0, 1, 2, 3.5, 5, 10, 10 + 25 / 3, 10 + 25 / 3])
    assert Dispatch(colds=((100, 1.0),)).cold_after_s(4e-4) == pytest.approx(4.0)
    assert [Dispatch(cold_s=7.0).cold_after_s(s) for s in (2e-5, 2.1e-5, 1.0)] == [0.0, 7.0, 7.0]
    assert Dispatch().cold_after_s(1.0) == 0.0


def test_a_longer_call_loses_more_behind_a_wait_but_not_in_proportion() -> None:
    """One of four times a tiny call's 13 µs loses twice as much, at any pace of the thread."""
    costs = Dispatch(call_s=1e-5, colds=((20, 2e-6), (200, 5e-6)))
    assert costs.cold_call_s(2e-4, 1.3e-5) == pytest.approx(costs.cold_after_s(2e-4))
    assert costs.cold_call_s(2e-4, 5.2e-5) == pytest.approx(2 * 5e-6)
    slow = costs.at(Pace(2e-5))
    assert slow.cold_call_s(2e-4, 2 * 5.2e-5) == pytest.approx(2 * costs.cold_call_s(2e-4, 5.2e-5))
    assert replace(costs, mixed_calls=5.2).cold_call_s(2e-4, 5.2e-5) == pytest.approx(5e-6)
    assert costs.cold_call_s(0.0, 5.2e-5) == costs.cold_call_s(2e-4, 0.0) == Dispatch().cold_call_s(1.0, 1.0) == 0.0
    assert Dispatch(call_s=1e-5, cold_s=7.0).cold_call_s(1.0, 5.2e-5) == 7.0


def test_a_queue_holds_something() -> None:
    with pytest.raises(PlatformError, match="queue_depth"):
        Dispatch(queue_depth=0)
