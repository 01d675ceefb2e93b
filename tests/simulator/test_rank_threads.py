"""In distributed mode each rank's thread issues its own part; on one rank it is eager mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.collectives.blocks import join
from graphsched.collectives.members import Members
from graphsched.errors import ScheduleError
from graphsched.plan import Placement, Plan, build_plan
from graphsched.schedulers import schedule
from graphsched.simulator import predict
from graphsched.simulator.rank_threads import orders_of
from graphsched.workload import TensorSpec, Workload
from tests import builders
from tests.executors.programs import machine, random_plan, random_workload

HANDED = replace(builders.FREE, handoff_s=8, wake_s=0)


def random_distributed(seed: int, count: int, kind: str) -> Plan:
    names = [f"{kind}:{k}" for k in range(count)]
    work = random_workload(seed, names, tasks=18)
    return random_plan(work, machine(*names), seed, 1 + seed % 3, on=[*names, "cpu"])


def test_two_ranks_hand_over_at_the_same_time() -> None:
    """a0, b0, a1, b1, a2, b2 of no time, a on worker:0 and b on worker:1: six times 8 s, or three."""
    names = [f"{letter}{i}" for i in range(3) for letter in "ab"]
    work = builders.workload(dict.fromkeys(names, 0.0))
    place = {name: f"worker:{'ab'.index(name[0])}/s0" for name in names}
    plan = builders.planned(work, builders.platform(gpus=0, workers=2, dispatch=HANDED), place)
    assert predict(plan).makespan_s == 48
    distributed = predict(plan, mode="distributed")
    assert distributed.makespan_s == 24
    assert distributed.issue_start_s.tolist() == [0, 0, 8, 8, 16, 16]


def test_a_thread_waits_for_what_another_has_issued_later() -> None:
    """b (worker:1) reads from a (worker:0), which stands behind 3 tasks of its rank; c (worker:1) needs nothing.

    a ends at 4 · 8 + 1, its copy of 100 bytes takes 1 s more, handed over at 40 s.
    """
    work = builders.workload({"x": 0, "y": 0, "z": 0, "a": 1, "b": 2, "c": 4}, [("a", "b", 100)])
    place = {name: f"worker:{int(name in 'bc')}/s{int(name == 'c')}" for name in "xyzabc"}
    plan = builders.planned(work, builders.platform(gpus=0, workers=2, dispatch=HANDED), place)
    assert orders_of(plan) == [[0, 1, 2, 3, 5], [4, 6]]
    found = predict(plan, mode="distributed")
    at = {span.action: (span.start_s, span.end_s) for span in found}
    assert at["a"] == (32, 33)
    assert at["a>worker:1"] == (40, 41)
    assert at["b"] == (41, 43)
    assert at["c"] == (8, 12)


def test_a_wait_holds_up_every_rank() -> None:
    """a of 100 s (worker:0), a barrier, then b (worker:1): it is handed over when a is over."""
    work = builders.workload({"a": 100.0, "b": 1.0})
    plan = builders.planned(
        work,
        builders.platform(gpus=0, workers=2, dispatch=HANDED),
        {"a": "worker:0/s0", "b": "worker:1/s0"},
        wait_after=["a"],
    )
    found = predict(plan, mode="distributed")
    assert found[2].start_s == 108 + 8
    assert found.makespan_s == 117


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["worker", "cuda"]))
def test_one_rank_is_eager_mode(seed: int, kind: str) -> None:
    plan = random_distributed(seed, 1, kind)
    eager, distributed = predict(plan), predict(plan, mode="distributed")
    assert distributed.makespan_s == eager.makespan_s
    assert np.array_equal(distributed.end_s, eager.end_s)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from(["worker", "cuda"]))
def test_random_plans_end_and_keep_their_waits(seed: int, count: int, kind: str) -> None:
    """Also the spread of the prediction can be found."""
    plan = random_distributed(seed, count, kind)
    found = predict(plan, mode="distributed")
    for i, waits in enumerate(plan.waits):
        started = found.end_s[i] if plan.kinds[i] == "wait" else found.start_s[i]
        assert all(started >= found.end_s[j] for j in waits)
    assert found.interval_s is not None
    assert found.timed_makespan_s >= found.end_s.max()


def test_several_steps_are_refused() -> None:
    plan = random_distributed(0, 2, "worker")
    with pytest.raises(ScheduleError, match="steps is 2 in mode 'distributed'"):
        predict(plan, mode="distributed", steps=2)


def test_parts_that_come_from_other_ranks_are_put_together_by_a_task() -> None:
    """x0 on worker:0, x1 on worker:1, joined on worker:0: in place in one process, by a task between ranks."""
    work = Workload()
    parts = [work.input(f"x{k}", TensorSpec((1_000_000,)), device=f"worker:{k}") for k in range(2)]
    sent = [work.copy(part, to="worker:0", name=f"part{k}") for k, part in enumerate(parts)]
    join(Members(work, "all", ("worker:0",)), "whole", "worker:0", sent, TensorSpec((2_000_000,)))
    platform = builders.platform(gpus=0, workers=2)
    took = {}
    for mode in ("eager", "distributed"):
        plan = schedule(work, platform, scheduler="one_stream", mode=mode)
        took[mode] = {span.action: span.end_s - span.start_s for span in predict(plan)}["all/whole"]
    assert took["eager"] == 0.0
    assert took["distributed"] == pytest.approx(2 * 8_000_000 / platform.device("worker:0").bytes_per_s)


def test_messages_between_gpus_take_both_threads_and_the_first_takes_longer() -> None:
    """x ──▶ a (cuda:0) ──▶ b (cuda:1) ──▶ c (cuda:0): two messages; calls take 3 s a message, the first 10 more.

    Each rank's first part of a message takes it from 0 to 13, its second until 16; a message may start when both
    ranks have issued it, and takes a second.
    """
    work = builders.workload(dict.fromkeys("abc", 0), [("a", "b", 100), ("b", "c", 100)])
    costs = replace(builders.FREE, message_s=3, first_message_s=10)
    plan = builders.planned(
        work, builders.platform(gpus=2, dispatch=costs), {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0"}
    )
    assert orders_of(plan) == [[0, 1, 3, 4], [1, 2, 3]]
    found = predict(plan, mode="distributed")
    assert found.issue_start_s.tolist() == [0, 0, 13, 13, 16]
    assert found.issue_end_s.tolist() == [0, 13, 13, 16, 16]
    assert found.end_s[[1, 3]].tolist() == [14, 17]
    assert found.halves_s == {(1, 1): (0, 13), (3, 0): (13, 16)}
    both = replace(costs, message_s=13, first_message_s=0), replace(costs, message_s=3e-9, first_message_s=13)
    alike = [replace(plan, platform=builders.platform(gpus=2, dispatch=each)) for each in both]
    longest = [predict(each, mode="distributed").interval_s[1] for each in alike]
    assert longest[0] > longest[1] > 1.1 * predict(alike[1], mode="distributed").makespan_s
    unknown = replace(plan, platform=builders.platform(gpus=2, dispatch=replace(costs, message_s=0, peer_copy_s=2)))
    assert predict(unknown, mode="distributed").issue_end_s.tolist() == [0, 12, 12, 14, 14]


def test_a_message_from_a_host_holds_up_the_thread_of_its_gpu() -> None:
    """a (cpu) ──▶ b (cuda:1), by a copy of 10 s that blocks rank 1; a is handed over until 3 s, the copy until 6."""
    work = builders.workload({"a": 0, "b": 0}, [("a", "b", 1000)])
    here = builders.platform(gpus=2, dispatch=replace(builders.FREE, handoff_s=3, wake_s=0))
    links = tuple(replace(link, blocking=(link.source, link.target) == ("cpu", "cuda:1")) for link in here.links)
    plan = builders.planned(work, replace(here, links=links), {"a": "cpu/w0", "b": "cuda:1/s0"})
    assert orders_of(plan) == [[0, 1], [1, 2]]
    found = predict(plan, mode="distributed")
    assert found.issue_start_s.tolist() == [0, 3, 16]
    assert found.issue_end_s.tolist() == [3, 6, 16]
    assert found.halves_s == {(1, 1): (0, 16)}
    assert found.end_s.tolist() == [3, 16, 16]


def test_the_interval_does_not_go_by_what_other_ranks_wait_for() -> None:
    """A task of 12 s on cuda:0, before or behind it a copy of 10 s from cuda:1 to the host, for which rank 1 waits.

    The copy has nothing to do with what ends last.
    """
    here = builders.platform(gpus=2, dispatch=replace(builders.FREE, peer_copy_s=0))
    links = tuple(replace(link, blocking=(link.source, link.target) == ("cuda:1", "cpu")) for link in here.links)
    platform, found = replace(here, links=links), []
    for order in ("ct", "tc"):
        work = Workload()
        inputs = {k: work.input(f"x{k}", TensorSpec((250,)), device=f"cuda:{k}") for k in range(2)}
        for name in order:
            if name == "t":
                work.task(abs, inputs[0], name="t", outputs=[TensorSpec((1,))], duration_s=12.0)
            else:
                work.keep(work.copy(inputs[1], to="cpu", name="c"))
        placement = Placement(list(order), {"t": "cuda:0/s0"})
        plan = build_plan(work, platform, None, placement, scheduler="by hand")
        found.append(predict(plan, mode="distributed").interval_s)
    assert found[0] == pytest.approx(found[1])


def test_ranks_meet_at_the_end_and_at_waits_of_all() -> None:
    """a (worker:0) ──▶ wait of all ──▶ b (worker:1): 8 s to hand each over, 4 s to return, 2 s to meet."""
    work = builders.workload({"a": 1, "b": 1})
    costs = replace(HANDED, sync_s=4, result_s=4, meeting_s=2)
    place = {"a": "worker:0/s0", "b": "worker:1/s0"}
    plan = builders.planned(work, builders.platform(gpus=0, workers=2, dispatch=costs), place, wait_after={"a"})
    found = predict(plan, mode="distributed")
    assert found.makespan_s == (8 + 1 + 4 + 2) + (8 + 1 + 4 + 2)
    assert predict(plan).makespan_s == (8 + 1 + 4) + (8 + 1 + 4)
