"""Copies of what a CPU lane has just written, in bytes a second and seconds that tests can work out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from graphsched.executors.distributed.message_links import measured_link
from graphsched.plan import Plan, just_written
from graphsched.platform import Platform
from graphsched.simulator import Model, predict
from graphsched.simulator.columns import ALONE
from graphsched.simulator.predict import tabulated
from graphsched.simulator.substitution import Substitution
from graphsched.simulator.written_copies import Written, WrittenCopies
from graphsched.workload import TensorSpec, Workload
from tests.builders import kernel, planned
from tests.simulator.beside import gpus
from tests.simulator.measured import as_measured

NBYTES = 100  # which take 2 s alone


def host(written_s: float = 1.0, fades_s: float = 0.0, **options: object) -> Platform:
    """Copies of 100 bytes from the host take 2 s, `written_s` more where they have just been written."""
    here = gpus({}, **options)
    links = tuple(
        replace(k, sizes_bytes=(NBYTES,), seconds=(2.0,), written_s=(written_s,), fades_s=fades_s)
        if (k.source, k.memory) == ("cpu", "pinned") and k.target.startswith("cuda")
        else k
        for k in here.links
    )
    return replace(here, links=links)


def chain(where: Platform, *, gpus: Sequence[str] = ("cuda:0",), more: Mapping[str, str] | None = None) -> Plan:
    """a (1 s on the CPU) ─▶ b0 (and b1: 1 s each, on `gpus`); `more`: tasks of 0.5 s on lanes of the CPU that wait."""
    work, lanes = Workload(), {"a": "cpu/w0"}
    made = work.task(kernel, name="a", outputs=[TensorSpec((NBYTES,), "uint8")], device="cpu", duration_s=1.0)
    for name, lane in (more or {}).items():
        work.task(kernel, name=name, outputs=[], device="cpu", duration_s=0.5, after=["a"])
        lanes[name] = lane
    for k, gpu in enumerate(gpus):
        work.task(kernel, made, name=f"b{k}", outputs=[], device=gpu, duration_s=1.0)
        lanes[f"b{k}"] = f"{gpu}/s0"
    return planned(work, where, lanes)


def copy_s(plan: Plan, model: Model | None = None, name: str = "a>cuda:0") -> float:
    """Seconds that the copy takes."""
    return {span.action: span.duration_s for span in predict(plan, model=model or Model())}[name]


@pytest.mark.parametrize("written_s", [0.0, 0.5, 3.0])
def test_what_was_just_written_takes_longer_while_cores_rest(written_s: float) -> None:
    plan = chain(host(written_s))
    assert copy_s(plan) == pytest.approx(2.0 + written_s)
    assert copy_s(plan, Model(written=False)) == 2.0


@pytest.mark.parametrize(("fetch_s", "longer_s"), [(0.25, 0.25), (1.5, 1.5), (0.0, 0.5)])
def test_how_slow_it_is_to_fetch_goes_with_its_yardstick(fetch_s: float, longer_s: float) -> None:
    """It was half a second longer when the platform was measured; without `pace` that counts."""
    here = host(0.5)
    plan = chain(replace(here, dispatch=replace(here.dispatch, fetch_s=fetch_s)))
    assert copy_s(plan) == pytest.approx(2.0 + longer_s)
    assert copy_s(plan, Model(pace=False)) == pytest.approx(2.5)


def test_platforms_that_do_not_know_keep_tasks_of_the_cpu_off_the_clock() -> None:
    plan = chain(gpus({}))
    columns = tabulated(plan, 1, Model())[0]
    assert not columns.written
    assert columns.resource[plan.index_of["a"]] == ALONE
    assert copy_s(plan) == 2.0


def test_it_is_fetched_at_once_while_a_lane_computes_and_after_one_has() -> None:
    """a ─▶ n (0.5 s on the same lane, beside the copy): what is left when n is over has left the caches."""
    assert copy_s(chain(host(), more={"n": "cpu/w0"})) == pytest.approx(2.0)


def test_a_lane_that_begins_meanwhile_ends_it() -> None:
    """a ─▶ copy, n ─▶ m: n waits 1 s for a copy of the GPU's; till then 100 bytes go at 2/3 of their rate."""
    work = Workload()
    given = work.input("g", TensorSpec((100,), "uint8"), device="cuda:1")
    made = work.task(kernel, name="a", outputs=[TensorSpec((NBYTES,), "uint8")], device="cpu", duration_s=1.0)
    work.task(kernel, given, name="n", outputs=[], device="cpu", duration_s=9.0)
    work.task(kernel, made, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    plan = planned(work, host(), {"a": "cpu/w0", "n": "cpu/w1", "b": "cuda:0/s0"})
    spans = {span.action: span for span in predict(plan)}
    assert (spans["n"].start_s, spans["a>cuda:0"].start_s) == (2.0, 1.0)
    assert spans["a>cuda:0"].duration_s == pytest.approx(1.0 + (2.0 - 1.0 / 1.5))


@pytest.mark.parametrize("late_s", [0.5, 2.0])
def test_it_fades_while_the_copy_is_late(late_s: float) -> None:
    """a ─▶ copy on a lane that is busy with another copy for so long after a."""
    work = Workload()
    other = work.input("o", TensorSpec((NBYTES,), "uint8"), device="cpu")
    work.copy(other, to="cuda:0", name="before", pinned=True)
    made = work.task(kernel, name="a", outputs=[TensorSpec((NBYTES,), "uint8")], device="cpu", duration_s=2.0 - late_s)
    work.task(kernel, made, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    plan = planned(work, host(1.0, fades_s=0.7), {"a": "cpu/w0", "b": "cuda:0/s0"})
    assert copy_s(plan) == pytest.approx(2.0 + math.exp(-late_s / 0.7))


def test_another_gpu_fetches_it_quickly_once_it_has_been_fetched() -> None:
    """a ─▶ b0, b1: at once both are slow; one that begins when the other is over is not, unless it is another value."""
    found = [copy_s(chain(host(), gpus=["cuda:0", "cuda:1"]), name=f"a>cuda:{k}") for k in (0, 1)]
    assert found == pytest.approx([3.0, 3.0])
    copies = WrittenCopies({1: Written(1.0, 0.0, 1, "a"), 2: Written(1.0, 0.0, 2, "a")}, end_s := [1.0, -1.0, -1.0])
    assert copies.longer([1], False, 1.0) == {1: 2.0}
    end_s[1] = 3.0
    assert copies.longer([2], False, 3.0) == {}
    others = WrittenCopies({1: Written(1.0, 0.0, 1, "a"), 2: Written(1.0, 0.0, 2, "a2")}, end_s)
    assert others.longer([2], False, 3.0) == {2: 2.0}


def test_only_what_a_task_of_the_cpu_wrote_counts() -> None:
    """An input, a result of a copy to the host, and an update of an input in place."""
    work, spec = Workload(), TensorSpec((NBYTES,), "uint8")
    given, state = work.input("i", spec, device="cpu"), work.state("s", spec, device="cpu")
    away = work.copy(work.input("g", spec, device="cuda:1"), to="cpu", name="away", pinned=True)
    work.task(kernel, state, name="u", updates=[state], outputs=[], device="cpu", duration_s=1.0)
    for name, value in {"bi": given, "bs": state, "bg": away}.items():
        work.task(kernel, value, name=name, outputs=[], device="cuda:0", duration_s=1.0)
    lanes = {"u": "cpu/w0", "bi": "cuda:0/s0", "bs": "cuda:0/s0", "bg": "cuda:0/s0"}
    plan = planned(work, host(), lanes)
    found = {str(copy.read): just_written(plan, copy) for copy in plan.copies.values() if copy.target == "cuda:0"}
    assert found == {"i": False, "s@1": True, "away": False}


def test_steps_in_a_row_each_write_anew() -> None:
    """a, a, a (1 s each) ─▶ b0, b0, b0 (1 s): the lane computes beside the first copy, from its second second on beside
    the second, never beside the third.

    a0 0-1, copy 1-3, b0 3-4; a1 1-2, copy 3-5.33; a2 waits for the first b0: 4-5, copy 5.33-8.33.
    """
    plan = chain(host())
    columns = tabulated(plan, 3, Model())[0]
    assert sorted(columns.written) == [plan.index_of["a>cuda:0"] + k * len(plan) for k in range(3)]
    longer_s = predict(plan, steps=3).makespan_s - predict(plan, steps=3, model=Model(written=False)).makespan_s
    assert longer_s == pytest.approx(1.0 + 1.0 / 3.0, rel=1e-5)


@pytest.mark.parametrize("mode", ["eager", "distributed"])
def test_a_message_to_another_rank_is_taken_from_where_it_lies(mode: str) -> None:
    plan = replace(chain(host(), gpus=["cuda:1"]), mode=mode)
    (copy,) = plan.copies.values()
    assert just_written(plan, copy) == (mode == "eager")


def test_a_copy_that_is_all_latency_takes_longer_too() -> None:
    """By its latency alone it would take 2 s, as it was measured to: no bytes flow."""
    here = host()
    links = tuple(replace(k, latency_s=2.0) if k.written_s else k for k in here.links)
    plan = chain(replace(here, links=links))
    assert (copy_s(plan), copy_s(plan, Model(written=False))) == pytest.approx((3.0, 2.0))


def test_lanes_that_are_watched_share_nothing() -> None:
    """Two tasks of 0.5 s at once, on two lanes of a CPU of 4 cores with 4 threads each, were there a limit; none is."""
    where = host()
    where = replace(where, cores=64, devices=tuple(replace(d, threads=32) for d in where.devices))
    plan = chain(where, more={"n": "cpu/w0", "m": "cpu/w1"})
    found = {span.action: span.duration_s for span in predict(plan)}
    assert (found["n"], found["m"]) == pytest.approx((0.5, 0.5))
    columns = tabulated(plan, 1, Model())[0]
    assert {columns.threads_of[plan.index_of[name]] for name in "anm"} == {0}


def test_measured_tasks_of_a_lane_count_as_computing() -> None:
    """n computes beside the copy; with figures in its place that are as predicted, nothing changes."""
    plan = chain(host(), more={"n": "cpu/w0"})
    swap = Substitution(as_measured(predict(plan), plan))
    assert [swap.makespan_s(terms) for terms in ((), ("compute",), ("transfers",))] == pytest.approx([4.0] * 3)


def test_nothing_beside_it_has_slowed_it() -> None:
    plan = chain(host())
    predicted = predict(plan)
    assert not Substitution(as_measured(predicted, plan)).loaded(predicted)


def test_messages_of_ranks_take_no_longer() -> None:
    """What a link within a process says of caches is not of them."""
    (link,) = [k for k in host().links if k.written_s and k.target == "cuda:1"]
    found = measured_link(link, 0, 1, [(1.0, 2.0, 4.0)], (100, 200, 400))
    assert (found.written_s, found.fades_s) == ((), 0.0)
