"""Schedulers reckon with the way of the CPU's results into pinned memory, and with how slowly cores hand them out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.platform import Device, Link, Platform
from graphsched.platform.links import WRITTEN_BYTES
from graphsched.schedulers import schedule
from graphsched.schedulers.placing.durations import Transfers
from graphsched.simulator import Model, predict
from graphsched.simulator.durations import Durations as SimulatedDurations
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE
from tests.schedulers.graphs import LIST, lanes_of
from tests.schedulers.papers import timed

QUICK, SLOW = 1e9, 0.5  # bytes a second, into pinned memory
ELSEWISE = "cpop", "etf", "work_stealing"
"""They take the device of a whole path, the first to start, or the first that is idle."""

TEN = TensorSpec((10,), "uint8")


@pytest.mark.parametrize("scheduler", [*(name for name in LIST if name not in ELSEWISE), "search"])
@pytest.mark.parametrize("contention", [True, False])
@pytest.mark.parametrize(
    ("pinning", "written_s", "made", "device"),
    [
        (QUICK, 0.0, True, "cuda:0"),
        (SLOW, 0.0, True, "cpu"),
        (SLOW, 0.0, False, "cuda:0"),
        (QUICK, 20.0, True, "cpu"),
        (QUICK, 20.0, False, "cuda:0"),
    ],
)
def test_a_reader_goes_to_the_gpu_if_it_is_worth_the_way(
    scheduler: str, contention: bool, pinning: float, written_s: float, made: bool, device: str
) -> None:
    """What was there before (not `made`) lies in pinned memory already.

    ::

        a (1, cpu) ─10 bytes, 10 s─▶ b (cpu: 25, cuda: 1)
    """
    work = Workload()
    a = work.input("a", TEN, device="cpu")
    if made:
        a = work.task("make", a, name="make", outputs=[TEN], device="cpu", duration_s=1.0)
    work.task("b", a, name="b", outputs=[], duration_s={"cpu": 25.0, "cuda": 1.0})
    way = Link("cpu", "cuda:0", "pinned", 0.0, 1.0, (), False, (10,), (10.0,), (written_s,))
    links = way, Link("cpu", "cpu", "pinned", 0.0, pinning)
    here = pair(*links)
    options = {} if scheduler == "search" else {"contention": contention}
    plan = schedule(work, here, scheduler=scheduler, **options)
    assert lanes_of(plan)["b"].startswith(device)


def pair(*links: Link) -> Platform:
    return Platform("pair", (Device("cpu", "cpu", lanes=1), Device("cuda:0", "cuda", lanes=1)), links, dispatch=FREE)


@pytest.mark.parametrize("scheduler", ["heft", "lookahead", "dls", "search"])
def test_a_lane_that_computes_on_is_quick_to_hand_out(scheduler: str) -> None:
    """b goes to the GPU, where what `make` returned is by then, for the lane computes meanwhile.

    ::

        make (1, cpu) ─┬─▶ long (20, cpu)
                       └─ 10 bytes, 10 s (30 while the lane rests) ─▶ b (cpu: 12, cuda: 1)
    """
    work = Workload()
    made = work.task("make", name="make", outputs=[TEN], device="cpu", duration_s=1.0)
    work.task("long", made, name="long", outputs=[], device="cpu", duration_s=20.0)
    work.task("b", made, name="b", outputs=[], duration_s={"cpu": 12.0, "cuda": 1.0})
    way = Link("cpu", "cuda:0", "pinned", 0.0, 1.0, (), False, (10,), (10.0,), (20.0,))
    plan = schedule(work, pair(way, Link("cpu", "cpu", "pinned", 0.0, QUICK)), scheduler=scheduler)
    assert lanes_of(plan)["b"].startswith("cuda:0")
    assert predict(plan).makespan_s == pytest.approx(21.0)


@pytest.mark.parametrize("contention", [True, False])
def test_the_way_into_pinned_memory_leaves_the_way_to_the_gpu_to_others(contention: bool) -> None:
    """While what `make` returned is pinned (10 s), x goes to the GPU (10 s): both are there after 20 s, not 30.

    ::

        x ─100 bytes─▶ u (cuda: 0.1)         make (0.1, cpu) ─10 bytes─▶ b (cuda: 0.1)
    """
    work = Workload()
    x = work.input("x", TensorSpec((100,), "uint8"), device="cpu")
    made = work.task("make", name="make", outputs=[TEN], device="cpu", duration_s=0.1)
    work.task("u", x, name="u", outputs=[], device="cuda:0", duration_s=0.1)
    work.task("b", made, name="b", outputs=[], device="cuda:0", duration_s=0.1)
    here = pair(Link("cpu", "cuda:0", "pinned", 0.0, 10.0), Link("cpu", "cpu", "pinned", 0.0, 1.0))
    plan = schedule(work, here, contention=contention)
    assert predict(plan).makespan_s == pytest.approx(11.2, abs=0.2)
    assert timed(plan, contention=contention).end_s["b"] == pytest.approx(11.2, abs=0.2)


@pytest.mark.parametrize(("written_s", "busy", "expected_s"), [(20.0, True, 21.0), (0.0, False, 11.2)])
def test_what_is_proven_is_no_more_than_what_is_predicted(written_s: float, busy: bool, expected_s: float) -> None:
    """Neither slow hand-outs, while the lane computes on, nor pinning beside another copy make a bound.

    ::

        make ─┬─▶ long (20, cpu; if `busy`)          x ─100 bytes─▶ u (cuda; if not)
              └─ 10 bytes─▶ b (cuda)
    """
    work = Workload()
    made = work.task("make", name="make", outputs=[TEN], device="cpu", duration_s=1.0 if busy else 0.1)
    if busy:
        work.task("long", made, name="long", outputs=[], device="cpu", duration_s=20.0)
    else:
        x = work.input("x", TensorSpec((100,), "uint8"), device="cpu")
        work.task("u", x, name="u", outputs=[], device="cuda:0", duration_s=0.1)
    work.task("b", made, name="b", outputs=[], device="cuda:0", duration_s=0.1)
    way = Link("cpu", "cuda:0", "pinned", 0.0, 10.0, (), False, (10, 100), (1.0, 10.0), (written_s, written_s))
    here = pair(way, Link("cpu", "cpu", "pinned", 0.0, QUICK if busy else 1.0))
    plan = schedule(work, here, scheduler="optimal", effort=0.05)
    assert predict(plan).makespan_s == pytest.approx(expected_s, abs=0.1)
    assert plan.bound_s is not None
    assert plan.bound_s <= predict(plan).makespan_s


def test_other_links_than_those_of_pinned_memory_need_no_pinning() -> None:
    """b goes to the GPU, by a link that is no host's.

    ::

        make (1, cpu) ─10 bytes, 10 s─▶ b (cpu: 25, cuda: 1)
    """
    work = Workload()
    made = work.task("make", name="make", outputs=[TEN], device="cpu", duration_s=1.0)
    work.task("b", made, name="b", outputs=[], duration_s={"cpu": 25.0, "cuda": 1.0})
    plan = schedule(work, pair(Link("cpu", "cuda:0", "peer", 0.0, 1.0), Link("cpu", "cpu", "pinned", 0.0, SLOW)))
    assert lanes_of(plan)["b"].startswith("cuda:0")
    assert predict(plan).makespan_s == pytest.approx(12.0)


def test_slow_hand_outs_count_where_pinning_is_not_known() -> None:
    """b stays on the CPU: 10 s and 20 more.

    ::

        make (1, cpu) ─10 bytes─▶ b (cpu: 25, cuda: 1)
    """
    work = Workload()
    made = work.task("make", name="make", outputs=[TEN], device="cpu", duration_s=1.0)
    work.task("b", made, name="b", outputs=[], duration_s={"cpu": 25.0, "cuda": 1.0})
    way = Link("cpu", "cuda:0", "pinned", 0.0, 1.0, (), False, (10,), (10.0,), (20.0,))
    assert lanes_of(schedule(work, pair(way)))["b"].startswith("cpu")


@pytest.mark.parametrize(("known", "longer"), [(True, 3.0), (True, 0.5), (False, 1.0)])
def test_the_way_into_pinned_memory_goes_with_its_yardstick(known: bool, longer: float) -> None:
    """`make` (1 s, and 20 s into pinned memory) ─10 bytes, 10 s─▶ b (cuda: 1)."""
    work = Workload()
    made = work.task("make", name="make", outputs=[TEN], device="cpu", duration_s=1.0)
    work.task("b", made, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    pinning = Link("cpu", "cpu", "pinned", 0.0, SLOW)
    here = pair(Link("cpu", "cuda:0", "pinned", 0.0, 1.0), pinning)
    now_s = longer * pinning.duration_s(WRITTEN_BYTES) if known else 0.0
    here = replace(here, dispatch=replace(FREE, product_s=1.0, sweep_s=2.0, pinned_s=now_s))
    plan = schedule(work, here, scheduler="heft")
    durations = SimulatedDurations(plan)
    taken = [durations.pinning_s(work["make"], costs) for costs in (FREE, here.dispatch, FREE)]
    assert taken == pytest.approx([20.0, 20.0 * longer, 20.0])
    assert Transfers(here, {}).before_s("made", 10) == pytest.approx(20.0 * longer)
    assert predict(plan).makespan_s == pytest.approx(1.0 + 20.0 * longer + 10.0 + 1.0)
    assert predict(plan, model=Model(pace=False)).makespan_s == pytest.approx(1.0 + 20.0 + 10.0 + 1.0)


@pytest.mark.parametrize(("fetch_s", "longer_s"), [(0.0, 20.0), (30.0, 30.0)])
def test_how_slowly_cores_hand_it_out_goes_with_its_yardstick(fetch_s: float, longer_s: float) -> None:
    way = Link("cpu", "cuda:0", "pinned", 0.0, 1.0, (), False, (10,), (10.0,), (20.0,))
    here = pair(way)
    here = replace(here, dispatch=replace(FREE, fetch_s=fetch_s))
    assert Transfers(here, {}).row("cpu", 10, "written")["cuda:0"] == 10.0 + longer_s
