"""What the dispatching thread spends, and where it is held up. `ROUND` has powers of two throughout."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.costs import Costs, TaskCost
from graphsched.platform import Link
from graphsched.simulator import Model, predict
from graphsched.simulator.host_calls import call_kinds
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, NO_CALLS, ROUND, chain, nothing, operations, planned, platform, spans_of, workload

RUN, COPY, RECORD, WAIT, SWITCH, TIMED, GAP = 1, 2, 4, 8, 16, 32, 64
SYNC, HANDOFF, WAKE, SAME, OTHER, LAUNCH = 128, 256, 512, 1024, 2048, 4096
UNTIMED = Model(timing=False)


def test_issue_of_a_chain_across_streams():
    """a -> b: cuda:0/s0, cuda:0/s1."""
    work = workload({"a": 1.0, "b": 1.0}, [("a", "b", 0)])
    timeline = predict(planned(work, platform(dispatch=ROUND), {"a": "cuda:0/s0", "b": "cuda:0/s1"}), model=UNTIMED)
    a_called = RUN + SWITCH
    a_issued = a_called + RECORD
    b_issued = a_issued + RUN + SWITCH + WAIT
    a_end = a_called + LAUNCH + 1
    assert spans_of(timeline) == {
        "a": (0, a_issued, a_called + LAUNCH, a_end),
        "b": (a_issued, b_issued, a_end + SAME, a_end + SAME + 1),
    }
    assert timeline.makespan_s == a_end + SAME + 1 + SYNC


def test_host_time_of_calls_and_no_switch_on_the_same_stream():
    """Two independent operations of 50 s host time on one stream, 1 s each on the device: the host is the limit."""
    work, costs = operations({"a": 0, "b": 0}, [TaskCost(1.0, dispatch_s=50.0)])
    plan = planned(work, platform(dispatch=ROUND), {"a": "cuda:0/s0", "b": "cuda:0/s0"}, costs=costs)
    timeline = predict(plan, model=UNTIMED)
    first, second = SWITCH + RUN + 50, SWITCH + 2 * (RUN + 50)
    assert spans_of(timeline) == {
        "a": (0, first, first + LAUNCH, first + LAUNCH + 1),
        "b": (first, second, second + LAUNCH, second + LAUNCH + 1),
    }
    assert predict(plan, model=replace(UNTIMED, dispatch=False)).makespan_s == 2


def test_timing_events_cost_host_and_lane():
    """a alone: the span is from the event before its call to the event after its work."""
    work, costs = operations({"a": 0}, [TaskCost(1.0, dispatch_s=50.0)])
    plan = planned(work, platform(dispatch=ROUND), {"a": "cuda:0/s0"}, costs=costs)
    timeline = predict(plan)
    event = SWITCH + RUN + TIMED
    end = event + 50 + LAUNCH + 1 + GAP
    assert spans_of(timeline) == {"a": (0, event + 50 + TIMED, event + LAUNCH, end)}
    assert timeline.timed_makespan_s == end + SYNC
    assert timeline.makespan_s == SWITCH + RUN + 50 + LAUNCH + 1 + SYNC
    without = predict(plan, model=UNTIMED)
    assert without.makespan_s == without.timed_makespan_s == timeline.makespan_s


def test_copy_between_gpus_and_streams_of_another_gpu_have_costs_of_their_own():
    """a -> copy -> b: cuda:0, cuda:1. The copy makes a stream of each GPU current, b one of the other GPU."""
    work = workload({"a": 0.0, "b": 0.0}, [("a", "b", 100)])
    costs = replace(ROUND, peer_copy_s=0.25, device_switch_s=0.5)
    timeline = predict(planned(work, platform(dispatch=costs), {"a": "cuda:0/s0", "b": "cuda:1/s0"}), model=UNTIMED)
    issued = {name: span[1] for name, span in spans_of(timeline).items()}
    assert issued["a"] == RUN + SWITCH + RECORD
    assert issued["a>cuda:1"] - issued["a"] == SWITCH + 0.5 + WAIT + 0.25 + RECORD
    assert issued["b"] - issued["a>cuda:1"] == RUN + 0.5 + WAIT


def test_copy_costs_its_own_issue():
    """a -> copy -> b: cuda:0, cuda:1."""
    work = workload({"a": 1.0, "b": 1.0}, [("a", "b", 100)])
    timeline = predict(planned(work, platform(dispatch=ROUND), {"a": "cuda:0/s0", "b": "cuda:1/s0"}), model=UNTIMED)
    a, copy, b = spans_of(timeline).values()
    assert a[1] == RUN + SWITCH + RECORD
    assert copy[1] - copy[0] == 2 * SWITCH + WAIT + COPY + RECORD  # a stream on each GPU
    assert b[1] - b[0] == RUN + SWITCH + WAIT
    assert copy[2] == a[3] + SAME
    assert copy[3] == copy[2] + 1


def test_task_of_several_launches_starts_with_the_first_and_ends_after_the_last():
    """a: 4 launches of 25 s host time each, 40 s on the device; b: the same with 400 s on the device."""
    work, costs = operations({"a": 0, "b": 1}, [TaskCost(40.0, 100.0, launches=4), TaskCost(400.0, 100.0, launches=4)])
    plan = planned(work, platform(), {"a": "cuda:0/s0", "b": "cuda:1/s0"}, costs=costs)
    timeline = predict(plan)
    assert spans_of(timeline)["a"] == (0, 100, 0, 110)  # the event before it passes at 0, the last launch runs from 100
    plain = predict(plan, model=UNTIMED)
    assert spans_of(plain)["a"] == (0, 100, 25, 110)
    assert spans_of(plain)["b"] == (100, 200, 125, 525)


def test_one_record_serves_all_that_wait():
    """a -> b, a -> c on three streams: a pays one record, b and c a wait each."""
    work = workload(dict.fromkeys("abc", 1.0), [("a", "b", 0), ("a", "c", 0)])
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s2"}
    issued = predict(planned(work, platform(dispatch=ROUND), lanes), model=UNTIMED).issue_end_s
    assert issued.tolist() == [
        SWITCH + RUN + RECORD,
        2 * SWITCH + 2 * RUN + RECORD + WAIT,
        3 * (SWITCH + RUN) + RECORD + 2 * WAIT,
    ]


def _to_cpu(pinned: bool) -> Workload:
    work = Workload()
    x = work.input("x", TensorSpec((100,), "uint8"), device="cuda:0")
    work.copy(x, to="cpu", pinned=pinned, name="back")
    work.task(nothing, name="next", outputs=[], duration_s=1.0)
    return work


def test_pageable_copy_blocks_the_thread():
    """x -> copy to pageable memory (1 s); next, on another lane, is issued after it. Pinned, it is not."""
    here = platform(blocking=True)
    plan = planned(_to_cpu(pinned=False), here, {"next": "cuda:0/s0"}, costs=NO_CALLS)
    assert spans_of(predict(plan)) == {"back": (0, 1, 0, 1), "next": (1, 1, 1, 2)}
    assert predict(plan, model=Model(blocking=False)).makespan_s == 1
    assert predict(planned(_to_cpu(pinned=True), here, {"next": "cuda:0/s0"}, costs=NO_CALLS)).makespan_s == 1


def test_pageable_copy_behind_work_on_its_lane():
    """a (3 s) -> copy into pageable memory on the same lane: the thread is blocked until 4 s; then `next`."""
    work = Workload()
    a = work.task(nothing, name="a", outputs=[TensorSpec((100,), "uint8")], duration_s=3.0)
    work.copy(a, to="cpu", name="back")
    work.task(nothing, name="next", outputs=[], duration_s=1.0)
    lanes = {"a": "cuda:0/s0", "next": "cuda:0/s0"}
    plan = planned(work, platform(blocking=True, shared={"bus": 100}), lanes, copies="compute", costs=NO_CALLS)
    assert spans_of(predict(plan)) == {"a": (0, 0, 0, 3), "back": (0, 4, 3, 4), "next": (4, 4, 4, 5)}


def test_cpu_lane_is_handed_its_task_and_woken():
    """a -> b on cpu/w0, a -> c on cpu/w1: b follows at once, c is woken by the end of a."""
    work = workload({"a": 1000.0, "b": 1000.0, "c": 1.0}, [("a", "b", 0), ("a", "c", 0)])
    plan = planned(work, platform(dispatch=ROUND), {"a": "cpu/w0", "b": "cpu/w0", "c": "cpu/w1"})
    end = HANDOFF + WAKE + 1000
    assert spans_of(predict(plan)) == {
        "a": (0, HANDOFF, HANDOFF + WAKE, end),
        "b": (HANDOFF, 2 * HANDOFF, end, end + 1000),
        "c": (2 * HANDOFF, 3 * HANDOFF, end + WAKE, end + WAKE + 1),
    }
    assert predict(plan).makespan_s == end + 1000 + SYNC
    assert predict(plan, model=Model(waits=False, dispatch=False)).makespan_s == 2000


def test_gpu_task_that_needs_a_cpu_result_holds_up_the_thread():
    """a (cpu, 8 s) -> b (cuda:0); c (cuda:1), which needs nothing, is behind b in plan order."""
    work = workload({"a": 8.0, "b": 1.0, "c": 1.0}, [("a", "b", 0)])
    plan = planned(work, platform(), {"a": "cpu/w0", "b": "cuda:0/s0", "c": "cuda:1/s0"}, order=["a", "b", "c"])
    assert spans_of(predict(plan)) == {"a": (0, 0, 0, 8), "b": (0, 8, 8, 9), "c": (8, 8, 8, 9)}
    loose = predict(plan, model=Model(blocking=False))
    assert spans_of(loose) == {"a": (0, 0, 0, 8), "b": (0, 0, 8, 9), "c": (0, 0, 0, 1)}


def test_cpu_task_that_needs_a_gpu_result_waits_in_its_own_thread():
    """a (cuda:0, 8 s) -> b (cpu); c (cuda:1) is issued meanwhile."""
    work = workload({"a": 8.0, "b": 1.0, "c": 1.0}, [("a", "b", 0)])
    plan = planned(work, platform(), {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:1/s0"}, order=["a", "b", "c"])
    assert spans_of(predict(plan)) == {"a": (0, 0, 0, 8), "b": (0, 0, 8, 9), "c": (0, 0, 0, 1)}


def test_wait_holds_up_the_thread():
    """a; wait; b: b is issued after a, though on another device; each wait returns after sync_s."""
    work = workload({"a": 8.0, "b": 1.0})
    here = platform(dispatch=replace(FREE, sync_s=0.5))
    plan = planned(work, here, {"a": "cuda:0/s0", "b": "cuda:1/s0"}, wait_after=["a"])
    timeline = predict(plan)
    assert spans_of(timeline) == {"a": (0, 0, 0, 8), "wait0": (0, 8.5, 0, 8.5), "b": (8.5, 8.5, 8.5, 9.5)}
    assert timeline.makespan_s == 10


def test_wait_for_what_is_over_costs_sync():
    """a; wait; wait: the second finds a over."""
    work = Workload()
    work.task(nothing, name="a", outputs=[], duration_s=8.0)
    work.barrier("first")
    work.barrier("second")
    plan = planned(work, platform(dispatch=replace(FREE, sync_s=0.5)), {"a": "cuda:0/s0"}, costs=NO_CALLS)
    assert [s.end_s for s in predict(plan)] == [8, 8.5, 9]


def test_the_first_calls_of_a_timed_run_take_longer():
    """Runs that follow one like them, whose times make the makespan, find the caches warm. The event before the call
    is recorded without waiting for it: on an idle stream the span holds what the call takes longer."""
    plan = planned(chain(1), platform(dispatch=replace(FREE, start_s=3.0)), {"t0": "cuda:0/s0"})
    timeline = predict(plan)
    assert (timeline.makespan_s, timeline.timed_makespan_s) == (1, 4)
    assert (timeline.start_s[0], timeline.end_s[0]) == (0, 4)


def test_a_run_that_follows_one_like_it_takes_something_longer_too():
    """Once a run, not once a call; nothing of it where the host's time is left out."""
    plan = planned(chain(2), platform(dispatch=replace(FREE, first_s=0.5)), dict.fromkeys(("t0", "t1"), "cuda:0/s0"))
    timeline = predict(plan)
    assert (timeline.makespan_s, timeline.timed_makespan_s) == (2.5, 2)
    assert predict(plan, model=Model(dispatch=False)).makespan_s == 2
    both = replace(plan, platform=platform(dispatch=replace(FREE, start_s=3.0, first_s=0.5)))
    assert (predict(both).makespan_s, predict(both).timed_makespan_s) == (2.5, 5)


@pytest.mark.parametrize(
    ("first", "known", "more_s"),
    [
        ("in", {"first_in_s": 0.25}, 0.25),
        ("out", {"first_in_s": 0.25}, 0.5),
        ("out", {"first_out_s": 0.125, "first_peer_s": 2.0}, 0.125),
        ("peer", {"first_peer_s": 2.0}, 2.0),
        ("peer", {"first_out_s": 2.0}, 0.5),
    ],
)
def test_what_a_run_takes_longer_depends_on_what_it_begins_with(first: str, known: dict[str, float], more_s: float):
    """x -> first, a copy of no bytes; where it is unknown, as a run that begins with a task."""
    source, target = {"in": ("cpu", "cuda:0"), "out": ("cuda:0", "cpu"), "peer": ("cuda:0", "cuda:1")}[first]
    work = Workload()
    work.copy(work.input("x", TensorSpec((0,)), device=source), to=target, pinned=True, name="first")
    costs = replace(FREE, copy_s=4.0, peer_copy_s=4.0, first_s=0.5, **known)
    plan = planned(work, platform(dispatch=costs), {})
    line = predict(plan)
    assert (line.makespan_s, line.timed_makespan_s) == (4 + more_s, 4)
    assert predict(plan, model=Model(dispatch=False)).makespan_s == 0


@pytest.mark.parametrize(("out_s", "taken_s"), [(0.0, 4), (5.0, 5)])
def test_issuing_a_copy_to_the_host_has_a_time_of_its_own(out_s: float, taken_s: float):
    """i to the GPU, o to the host, of no bytes; where that is unknown both take the same."""
    work = Workload()
    there, here = (work.input(f"x{d}", TensorSpec((0,)), device=d) for d in ("cpu", "cuda:0"))
    work.copy(there, to="cuda:0", pinned=True, name="i")
    work.copy(here, to="cpu", pinned=True, name="o")
    plan = planned(work, platform(dispatch=replace(FREE, copy_s=4.0, copy_out_s=out_s)), {})
    assert [s.issue_end_s - s.issue_start_s for s in predict(plan, model=UNTIMED)] == [4, taken_s]
    assert predict(plan, model=Model(dispatch=False)).makespan_s == 0


@pytest.mark.parametrize(
    ("direction", "known", "taken_s"),
    [
        ("in", {}, 4 + 1 + 9),  # the call, a launch, 1 s and 8 s on the link
        ("in", {"blocking_in_s": 8.0}, 8 + 7),  # the launch, 1 s and 1 s on the link are in those 8
        ("in", {"blocking_out_s": 8.0}, 4 + 1 + 9),
        ("out", {"blocking_out_s": 8.0, "fresh_out_s": 5.0}, 8 + 7),
        ("new", {"blocking_out_s": 8.0, "fresh_out_s": 5.0}, 5 + 7),
        ("out", {"blocking_out_s": 1.5}, 1 + 9),  # no call takes less than nothing
    ],
)
def test_a_small_copy_that_blocks_takes_what_it_took_from_call_to_return(
    direction: str, known: dict[str, float], taken_s: float
):
    """x -> y over a link of 1 s and 4096 B/s that blocks, 32 KiB: of the link, what is beyond 4 KiB comes on top."""
    work = Workload()
    x = work.input("x", TensorSpec((8 * 4096,), "uint8"), device="cuda:0")
    y = work.copy(x, to="cpu", fresh=direction == "new", name="y")
    if direction == "in":
        work.copy(y, to="cuda:0", name="z")
    costs = replace(FREE, copy_s=4.0, launch_s=1.0, **known)
    here = platform(dispatch=costs, latency_s=1.0, bandwidth=4096.0, blocking=True)
    here = replace(here, links=(*here.links, Link("cuda:0", "cpu", "fresh", 1.0, 4096.0, (), True)))
    line = predict(planned(work, here, {}), model=UNTIMED)
    last = line[len(line) - 1]
    assert last.issue_end_s - last.issue_start_s == taken_s
    free = predict(planned(work, here, {}), model=Model(dispatch=False))
    assert free.makespan_s == 9 * len(line)


def test_estimates_are_named():
    """A task with neither a measured nor a given cost: bytes at the device's memory rate, and a launch."""
    work = Workload()
    work.task(nothing, name="a", outputs=[TensorSpec((10_000_000_000,), "uint8")])
    timeline = predict(planned(work, platform(), {"a": "cuda:0/s0"}), model=Model(dispatch=False))
    assert timeline.estimated == ("a",)
    assert timeline.makespan_s == pytest.approx(1.0 + 3e-6)


A_END = SWITCH + RUN + LAUNCH + 1
B_CALLED = 2 * SWITCH + 2 * RUN + RECORD + WAIT


@pytest.mark.parametrize(
    ("model", "makespan"),
    [
        (Model(), A_END + OTHER + 1 + SYNC),
        (Model(dispatch=False), 1 + OTHER + 1),
        (Model(waits=False), B_CALLED + LAUNCH + 1 + SYNC),
        (Model(dispatch=False, waits=False), 2),
    ],
)
def test_each_switch_removes_its_term_alone(model: Model, makespan: float):
    """a -> b on two devices, 1 s each; without latency the host is the limit."""
    work = workload({"a": 1.0, "b": 1.0}, [("a", "b", 0)])
    plan = planned(work, platform(dispatch=ROUND), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    assert predict(plan, model=model).makespan_s == makespan


def test_a_call_after_one_of_another_kind_takes_longer():
    """a, b: torch.neg; c: torch.abs; d: torch.neg, all on one stream: c and d are changes, b is none, nor is a,
    for the run before ended with d."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in (("a", torch.neg), ("b", torch.neg), ("c", torch.abs), ("d", torch.neg)):
        work.task(function, x, name=name, device="cuda:0")
    plan = planned(
        work, platform(dispatch=replace(FREE, change_s=10.0, start_s=100.0)), dict.fromkeys("abcd", "cuda:0/s0")
    )
    plan = replace(plan, costs=Costs({(work[t].signature, "GPU"): TaskCost(0.0, 1.0) for t in "abcd"}))
    issued = [s.issue_end_s for s in predict(plan, model=UNTIMED)]
    assert issued == [1, 2, 13, 24]
    timed = predict(replace(plan, platform=platform(dispatch=replace(FREE, change_s=10.0, start_s=100.0))))
    assert [s.issue_end_s for s in timed] == [101, 102, 113, 124]
    assert [s.issue_end_s for s in predict(plan, model=replace(UNTIMED, dispatch=False))] == [0] * 4


def test_the_more_other_kinds_were_called_the_longer_a_call_takes():
    """a: neg, b: abs, c: exp, d: exp on one stream, run again and again: a, b, c come after two other kinds."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in (("a", torch.neg), ("b", torch.abs), ("c", torch.exp), ("d", torch.exp)):
        work.task(function, x, name=name, device="cuda:0")
    where = platform(dispatch=replace(FREE, changes=((1, 2.0), (3, 6.0))))
    plan = planned(work, where, dict.fromkeys("abcd", "cuda:0/s0"))
    plan = replace(plan, costs=Costs({(work[t].signature, "GPU"): TaskCost(0.0, 1.0) for t in "abcd"}))
    taken = [s.issue_end_s - s.issue_start_s for s in predict(plan, model=UNTIMED)]
    assert taken == [1 + 4, 1 + 4, 1 + 4, 1]
    assert predict(plan, model=replace(UNTIMED, dispatch=False)).makespan_s == 0


@pytest.mark.parametrize("most", [3, 10**12])
def test_more_kinds_than_a_plan_has_take_no_room(most: int):
    """a: neg, b: abs in turn, one other kind between, of however many there are figures for."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in (("a", torch.neg), ("b", torch.abs)):
        work.task(function, x, name=name, device="cuda:0")
    plan = planned(
        work, platform(dispatch=replace(FREE, changes=((1, 2.0), (most, 2.0)))), dict.fromkeys("ab", "cuda:0/s0")
    )
    plan = replace(plan, costs=Costs({(work[t].signature, "GPU"): TaskCost(0.0, 1.0) for t in "ab"}))
    assert predict(plan, model=UNTIMED).makespan_s == 2 * (1 + 2)


def test_an_operation_may_have_a_cost_in_company_of_its_own():
    """neg, abs, neg, abs on one stream, each step: the first neg of a run has all of what 12 others cost, those after
    one other kind a twelfth of it; what is not known of abs are the changes; and the pace is half as fast."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in (("a", torch.neg), ("b", torch.abs), ("c", torch.neg), ("d", torch.abs)):
        work.task(function, x, name=name, device="cuda:0")
    where = platform(dispatch=replace(FREE, call_s=2.0, changes=((1, 3.0), (12, 6.0))))
    plan = planned(work, where, dict.fromkeys("abcd", "cuda:0/s0"))
    costs = {"a": TaskCost(0.0, 1.0, call_s=1.0, company_s=10.0), "b": TaskCost(0.0, 1.0, call_s=1.0)}
    plan = replace(plan, costs=Costs({(work[t].signature, "GPU"): cost for t, cost in costs.items()}))
    first_s, later_s, other_s = 2 + 20, 2 + 20 / 12, 2 + 3
    assert predict(plan, model=UNTIMED).makespan_s == pytest.approx(first_s + later_s + 2 * other_s)
    assert predict(plan, model=UNTIMED, steps=2).makespan_s == pytest.approx(first_s + 3 * later_s + 4 * other_s)
    assert predict(plan, model=replace(UNTIMED, dispatch=False)).makespan_s == 0


def test_company_goes_with_how_cold_calls_are_now():
    """neg, abs, a run behind a wait: a tiny operation takes 2, after waits 1 more when costs were taken, and 4 now."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in (("a", torch.neg), ("b", torch.abs)):
        work.task(function, x, name=name, device="cuda:0")
    cost = TaskCost(0.0, 1.0, call_s=2.0, company_s=9.0, cold_s=1.0)
    costs = Costs({(work["a"].signature, "GPU"): cost, (work["b"].signature, "GPU"): TaskCost(0.0, 1.0, call_s=2.0)})
    taken = []
    for colds in ((), ((200, 1.0),), ((20, 0.0), (200, 4.0))):
        where = platform(dispatch=replace(FREE, call_s=2.0, changes=((12, 1.2),), colds=colds))
        plan = replace(planned(work, where, dict.fromkeys("ab", "cuda:0/s0")), costs=costs)
        taken.append(predict(plan, model=UNTIMED).makespan_s)
    abs_s = 0.1  # one other kind before it
    assert taken == pytest.approx([2 + abs_s + 9 * pace for pace in (1, 1, (2 + 4) / (2 + 1))])


@pytest.mark.parametrize(("dispatch_s", "company_s"), [(1.0, 3.0), (23.0, 3.0), (1599.0, 9.0)])
def test_company_goes_with_how_long_a_run_is(dispatch_s: float, company_s: float):
    """neg, abs: of 2 s together the last neg lies just before the others, of 1600 it lies long before."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in (("a", torch.neg), ("b", torch.abs)):
        work.task(function, x, name=name, device="cuda:0")
    a = TaskCost(0.0, dispatch_s, call_s=2.0, company_s=9.0, recent_s=3.0)
    costs = Costs({(work["a"].signature, "GPU"): a, (work["b"].signature, "GPU"): TaskCost(0.0, 1.0, call_s=2.0)})
    where = platform(dispatch=replace(FREE, call_s=2.0, changes=((12, 1.2),)))
    plan = replace(planned(work, where, dict.fromkeys("ab", "cuda:0/s0")), costs=costs)
    abs_s = 0.1  # one other kind before it
    assert predict(plan, model=UNTIMED).makespan_s == pytest.approx(dispatch_s + 1 + abs_s + company_s)


def test_one_kind_alone_is_in_no_company():
    """neg and neg: nothing else is called, so that even the first finds what the last run left."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name in "ab":
        work.task(torch.neg, x, name=name, device="cuda:0")
    where = platform(dispatch=replace(FREE, changes=((1, 3.0), (12, 6.0))))
    plan = planned(work, where, dict.fromkeys("ab", "cuda:0/s0"))
    plan = replace(plan, costs=Costs({(work["a"].signature, "GPU"): TaskCost(0.0, 1.0, company_s=10.0)}))
    assert predict(plan, model=UNTIMED).makespan_s == 2


@pytest.mark.parametrize(
    ("target", "field", "more"),
    [
        ("cuda:0", "copy_company_s", 10 / 12),
        ("cpu", "copy_out_company_s", 10 / 12),
        ("cuda:1", "peer_company_s", 10 / 12),
        ("cuda:0", "copy_out_company_s", 3),  # unknown: as changes say
    ],
)
def test_a_copy_may_have_a_cost_in_company_of_its_own(target: str, field: str, more: float):
    """a: neg on cuda:0, then c, a copy: one other kind before it, a twelfth of what 12 others cost."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    work.task(torch.neg, x, name="a", device="cuda:0")
    source = work.input("h", TensorSpec((2, 2)), device="cpu" if target == "cuda:0" else "cuda:0")
    work.copy(source, to=target, pinned=True, name="c")
    taken = []
    for company_s in (0.0, 10.0):
        here = platform(dispatch=replace(FREE, changes=((1, 3.0), (12, 6.0)), **{field: company_s}))
        line = predict(planned(work, here, {"a": "cuda:0/s0"}), model=UNTIMED)
        taken.append(line.issue_end_s[1] - line.issue_start_s[1])
    assert taken[1] - taken[0] == pytest.approx(more - 3)
    assert predict(planned(work, here, {"a": "cuda:0/s0"}), model=replace(UNTIMED, dispatch=False)).issue_end_s[1] == 0


def test_an_operation_may_cost_more_where_the_stream_changes():
    """a, b: neg on two streams in turn; c: neg on b's: b, and a after the run before, come after another stream."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name in "abc":
        work.task(torch.neg, x, name=name, device="cuda:0")
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s1"}
    plan = planned(work, platform(dispatch=replace(FREE, changes=((12, 6.0),))), lanes)
    cost = TaskCost(0.0, 1.0, company_s=10.0, switching_s=4.0)
    plan = replace(plan, costs=Costs({(work["a"].signature, "GPU"): cost}))
    taken = [s.issue_end_s - s.issue_start_s for s in predict(plan, model=UNTIMED)]
    assert taken == [5, 5, 1]


def test_a_kind_is_an_operation_on_whatever_gpu():
    """a: neg on cuda:0, b: neg on cuda:1: the call on one warms that on the other."""
    work = Workload()
    for i, name in enumerate("ab"):
        x = work.input(f"x{i}", TensorSpec((2, 2)), device=f"cuda:{i}")
        work.task(torch.neg, x, name=name, device=f"cuda:{i}")
    plan = planned(work, platform(dispatch=replace(FREE, change_s=10.0)), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    plan = replace(plan, costs=Costs({(work[t].signature, "GPU"): TaskCost(0.0, 1.0) for t in "ab"}))
    assert [s.issue_end_s for s in predict(plan, model=UNTIMED)] == [1, 2]


def test_copies_between_other_devices_are_other_kinds():
    """a, b: host to cuda:0; c: host to cuda:1; d: cuda:0 to cuda:1"""
    work = Workload()
    ends = ("cpu", "cuda:0"), ("cpu", "cuda:0"), ("cpu", "cuda:1"), ("cuda:0", "cuda:1")
    for name, (at, to) in zip("abcd", ends, strict=True):
        work.copy(work.input(f"x{name}", TensorSpec((2, 2)), device=at), to=to, name=name)
    assert call_kinds(planned(work, platform(), {})) == [0, 0, 1, 2]


def test_memory_that_is_given_back_takes_the_thread():
    """x -> a -> b -> c on one stream: a is given back after b, b after c; c is returned."""
    work = Workload()
    value = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name in "abc":
        value = work.task(torch.neg, value, name=name)
    plan = planned(work, platform(dispatch=replace(FREE, free_s=10.0)), dict.fromkeys("abc", "cuda:0/s0"))
    plan = replace(plan, costs=Costs({(work[t].signature, "GPU"): TaskCost(0.0, 1.0) for t in "abc"}))
    taken = [s.issue_end_s - s.issue_start_s for s in predict(plan, model=UNTIMED)]
    assert taken == [1, 11, 11]


def test_timing_events_lengthen_waits_between_lanes():
    """a (s0) -> b (s1) -> c (s1), 1 s each: one edge goes to another lane; the makespan knows nothing of it."""
    work = workload({"a": 1.0, "b": 1.0, "c": 1.0}, [("a", "b", 0), ("b", "c", 0)])
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s1"}
    dispatch = replace(FREE, same_device_s=0.25, timed_edge_s=4.0)
    line = predict(planned(work, platform(dispatch=dispatch), lanes))
    assert (line.makespan_s, line.timed_makespan_s) == (3.25, 7.25)
    assert line.start_s.tolist() == [0.0, 5.25, 6.25]
    assert predict(line.plan, model=UNTIMED).timed_makespan_s == 3.25


@pytest.mark.parametrize(("seconds", "issued_s"), [(4.0, 4.5), (0.25, 1.0)])
def test_the_thread_goes_on_some_time_after_a_result_of_a_cpu_lane(seconds: float, issued_s: float):
    """c (CPU) -> g (GPU): the thread gives c away, waits for it unless b's and g's calls took longer."""
    work = workload({"c": seconds, "b": 0.0, "g": 1.0}, [("c", "g", 0)])
    lanes = {"c": "cpu/w0", "b": "cuda:0/s0", "g": "cuda:0/s0"}
    plan = planned(work, platform(dispatch=replace(FREE, run_s=0.5, result_s=0.5)), lanes)
    line = predict(plan, model=UNTIMED)
    assert line[line.plan.names.index("g")].start_s == issued_s
    assert predict(plan, model=replace(UNTIMED, dispatch=False)).makespan_s == seconds + 1


@pytest.mark.parametrize("result_s", [0.0, 0.5])
def test_so_it_does_where_it_launches_a_graph_of_what_reads_that(result_s: float):
    """c (4 s, CPU) ─▶ g (GPU, in a graph of its own), whose launch begins when the thread goes on."""
    dispatch = replace(FREE, result_s=result_s)
    plan = planned(
        workload({"c": 4.0, "g": 1.0}, [("c", "g", 0)]), platform(dispatch=dispatch), {"c": "cpu/w0", "g": "cuda:0/s0"}
    )
    line = predict(replace(plan, mode="graph"), model=UNTIMED)
    c, g = map(line.plan.names.index, "cg")
    assert line.issue_start_s[g] == line.end_s[c] + result_s
    assert line.start_s[g] == pytest.approx(line.end_s[c] + result_s, abs=1e-3)


@pytest.mark.parametrize(("lane", "makespan_s"), [("cpu/w0", 2.0), ("cuda:0/s1", 1.5)])
def test_the_thread_lets_cpu_lanes_run_while_it_waits_for_a_gpu(lane: str, makespan_s: float):
    """a (1 s, GPU) and b (no time): with a CPU lane in the plan the end of a is seen half a yield later."""
    plan = planned(
        workload({"a": 1.0, "b": 0.0}),
        platform(dispatch=replace(FREE, sync_s=0.5, yield_s=1.0)),
        {"a": "cuda:0/s0", "b": lane},
    )
    assert predict(plan).makespan_s == makespan_s


def test_waiting_for_another_gpu_costs_the_thread_more():
    """a -> b within cuda:0, c on cuda:1 -> d on cuda:0: b waits for a stream of its own GPU, d for another's."""
    work = workload(dict.fromkeys("abcd", 0.0), [("a", "b", 0), ("c", "d", 0)])
    dispatch = replace(FREE, wait_s=1.0, device_wait_s=50.0)
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:1/s0", "d": "cuda:0/s2"}
    taken = {
        s.action: s.issue_end_s - s.issue_start_s for s in predict(planned(work, platform(dispatch=dispatch), lanes))
    }
    assert taken == {"a": 0, "b": 1, "c": 0, "d": 50}


def test_after_a_long_wait_the_thread_is_cold_for_one_call():
    """a, a wait, b, c, a wait (short, for b and c are over), d: only b comes after a long wait."""
    work = workload({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0})
    lanes = dict.fromkeys("abcd", "cuda:0/s0")
    plan = planned(work, platform(dispatch=replace(FREE, cold_s=10.0)), lanes, wait_after=["a", "c"])
    taken = {s.action: s.issue_end_s - s.issue_start_s for s in predict(plan, model=UNTIMED) if s.action in "abcd"}
    assert taken == {"a": 0, "b": 10, "c": 0, "d": 0}
    off = predict(plan, model=replace(UNTIMED, dispatch=False))
    assert off.makespan_s == 1


@pytest.mark.parametrize(
    ("work_us", "cold_us"),
    [(5, 1.0), (20, 4.0), (65, 5.5), (110, 7.0), (200, 10.0), (500, 20.0), (9000, 10 + 8e5 / 3e4)],
)
def test_the_longer_the_thread_has_waited_the_colder_is_its_next_call(work_us: float, cold_us: float):
    """a, a wait, b, c, a wait (short, for b and c are over), d: only b is colder, by how long a took."""
    work = workload({"a": work_us * 1e-6, "b": 0.0, "c": 0.0, "d": 0.0})
    lanes = dict.fromkeys("abcd", "cuda:0/s0")
    where = platform(dispatch=replace(FREE, cold_s=1.0, colds=((20, 4e-6), (200, 1e-5))))
    plan = planned(work, where, lanes, wait_after=["a", "c"])
    taken = {s.action: s.issue_end_s - s.issue_start_s for s in predict(plan, model=UNTIMED) if s.action in "abcd"}
    assert {name: seconds * 1e6 for name, seconds in taken.items()} == pytest.approx(
        {"a": 0, "b": cold_us, "c": 0, "d": 0}, abs=1e-6
    )
    off = predict(plan, model=replace(UNTIMED, dispatch=False))
    assert off.makespan_s == pytest.approx(work_us * 1e-6)


@pytest.mark.parametrize("launches", [1, 2])
@pytest.mark.parametrize("waits", [("a",), ("a", "b")])
def test_a_long_call_is_colder_behind_a_wait_than_a_tiny_one(waits: tuple[str, ...], launches: int):
    """neg a, a wait, neg b (also a wait), neg c: a tiny call takes 1.3 and loses 3; one of 5.2, 4 times that, loses 6.

    What follows another call without a wait loses nothing; so it is with calls of one launch and of several.
    """
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name in "abc":
        work.task(torch.neg, x, name=name, device="cuda:0")
        if name in waits:
            work.barrier(f"wait-{name}")
    where = platform(dispatch=replace(FREE, call_s=1.0, colds=((20, 3.0), (200, 3.0))))
    plan = planned(work, where, dict.fromkeys("abc", "cuda:0/s0"))
    taken = {}
    for call_s in (1.3, 5.2):
        costs = Costs({(work["a"].signature, "GPU"): TaskCost(1.0, call_s, launches, call_s=1.0)})
        spans = predict(replace(plan, costs=costs), model=UNTIMED)
        taken[call_s] = [s.issue_end_s - s.issue_start_s for s in spans if s.action in "abc"]
    cold = [0, 1, 1 if "b" in waits else 0]
    assert taken[1.3] == pytest.approx([1.3 + 3 * k for k in cold])
    assert taken[5.2] == pytest.approx([5.2 + 2 * 3 * k for k in cold])


def test_lanes_that_end_first_are_asked_for_after_the_last():
    """a, b, c on three lanes, c waits for a: lanes of b and c are asked; if b ends last, c's is asked once more."""
    dispatch = replace(FREE, query_s=0.5)
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s1"}
    late = workload({"a": 1.0, "b": 5.0, "c": 1.0}, [("a", "c", 0)])
    assert predict(planned(late, platform(dispatch=dispatch), lanes), model=UNTIMED).makespan_s == 5.5
    early = workload({"a": 1.0, "b": 1.0, "c": 1.0}, [("a", "c", 0)])
    assert predict(planned(early, platform(dispatch=dispatch), lanes), model=UNTIMED).makespan_s == 2


def test_changes_count_in_every_step():
    """a: torch.neg, b: torch.abs, in turn: all are changes, in every step."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in (("a", torch.neg), ("b", torch.abs)):
        work.task(function, x, name=name, device="cuda:0")
    where = platform(dispatch=replace(FREE, change_s=10.0, start_s=100.0))
    plan = planned(work, where, dict.fromkeys("ab", "cuda:0/s0"))
    plan = replace(plan, costs=Costs({(work[t].signature, "GPU"): TaskCost(0.0, 1.0) for t in "ab"}))
    assert [predict(plan, model=UNTIMED, steps=n).makespan_s for n in (1, 2)] == [22, 44]
