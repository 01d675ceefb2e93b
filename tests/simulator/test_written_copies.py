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


STAYS = 1e9  # seconds in which nothing fades that a test would see


def host(
    written_s: float = 1.0, fades_s: float = 0.0, busy: tuple[float, float] = (0.0, 0.0), back: float = 0.0
) -> Platform:
    """Copies of 100 bytes from the host take 2 s, `written_s` more where they have just been written.

    `busy`: what is left of that while a lane computes, and how it fades then; `back`: for copies to the host.
    """
    here = gpus({})
    more = {"written_busy": busy[0], "busy_fades_s": busy[1], "written_back": back}
    links = tuple(
        replace(k, sizes_bytes=(NBYTES,), seconds=(2.0,), written_s=(written_s,), fades_s=fades_s, **more)
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
    (link,) = [k for k in host(busy=(0.4, 1.0), back=0.5).links if k.written_s and k.target == "cuda:1"]
    found = measured_link(link, 0, 1, [(1.0, 2.0, 4.0)], (100, 200, 400))
    assert (found.written_s, found.fades_s) == ((), 0.0)
    assert (found.written_busy, found.busy_fades_s, found.written_back) == (0.0, 0.0, 0.0)


# -- while cores are busy -------------------------------------------------------------------------

BUSY = 0.4, STAYS  # at 50 / 1.2 bytes a second while a lane computes, at 50 / 1.5 while none does


def late(
    where: Platform, *, before: int = 200, more: Mapping[str, tuple[str, float]] | None = None, out: int = 0
) -> Plan:
    """a (1 s) ─▶ copy on a lane that copies so many bytes before; `more`: lanes and seconds of tasks of the CPU.

    `out`: bytes of a copy from cuda:1 to the host, which begins at once.
    """
    work, lanes = Workload(), {"a": "cpu/w0", "b": "cuda:0/s0"}
    if before:
        other = work.input("o", TensorSpec((before,), "uint8"), device="cpu")
        work.copy(other, to="cuda:0", name="before", pinned=True)
    if out:
        work.copy(work.input("g", TensorSpec((out,), "uint8"), device="cuda:1"), to="cpu", name="out", pinned=True)
    made = work.task(kernel, name="a", outputs=[TensorSpec((NBYTES,), "uint8")], device="cpu", duration_s=1.0)
    for name, (lane, seconds) in (more or {}).items():
        work.task(kernel, name=name, outputs=[], device="cpu", duration_s=seconds)
        lanes[name] = lane
    work.task(kernel, made, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    return planned(work, where, lanes)


@pytest.mark.parametrize("part", [0.0, 0.4, 1.0])
def test_a_part_of_it_is_left_while_a_lane_computes(part: float) -> None:
    """a ─▶ n (0.5 s on the same lane) beside the copy, which is as slow as ever when n is over."""
    plan = chain(host(busy=(part, STAYS)), more={"n": "cpu/w0"})
    assert copy_s(plan) == pytest.approx(0.5 + (100 - 25 / (1 + part / 2)) / 50 * 1.5)
    assert copy_s(plan, Model(written=False)) == pytest.approx(2.0)


def test_without_a_time_to_fade_in_it_is_gone_as_soon_as_a_lane_computes() -> None:
    """Be it n (0.5 s) beside the copy or before it."""
    assert copy_s(chain(host(busy=(0.4, 0.0)), more={"n": "cpu/w0"})) == pytest.approx(2.0)
    assert copy_s(late(host(busy=(0.4, 0.0)), more={"n": ("cpu/w0", 0.5)})) == pytest.approx(2.0)


@pytest.mark.parametrize(("busy", "after"), [(BUSY, 1.5), ((0.4, 0.0), 1.0)], ids=["some is left", "all is gone"])
def test_a_lane_that_begins_and_ends_meanwhile(busy: tuple[float, float], after: float) -> None:
    """Copy from 1 s on; n computes from 2 s on, when what it reads has come from the GPU, to 2.5 s."""
    work = Workload()
    given = work.input("g", TensorSpec((100,), "uint8"), device="cuda:1")
    made = work.task(kernel, name="a", outputs=[TensorSpec((NBYTES,), "uint8")], device="cpu", duration_s=1.0)
    work.task(kernel, given, name="n", outputs=[], device="cpu", duration_s=0.5)
    work.task(kernel, made, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    plan = planned(work, host(busy=busy), {"a": "cpu/w0", "n": "cpu/w1", "b": "cuda:0/s0"})
    spans = {span.action: span for span in predict(plan)}
    assert (spans["n"].start_s, spans["n"].end_s, spans["a>cuda:0"].start_s) == pytest.approx((2.0, 2.5, 1.0))
    beside_n = 25 / (1.2 if busy[1] else 1.0)
    left = 100 - 50 / 1.5 - beside_n
    assert spans["a>cuda:0"].duration_s == pytest.approx(1.0 + 0.5 + left / 50 * after)


@pytest.mark.parametrize("fades_s", [0.0, 2.0])
@pytest.mark.parametrize("busy_fades_s", [0.7, STAYS])
def test_it_fades_by_the_time_of_rest_and_by_that_of_computing(fades_s: float, busy_fades_s: float) -> None:
    """a until 1 s, n until 1.5 s; the copy begins at 4 s, after 0.5 s of computing and 2.5 s of rest."""
    plan = late(host(fades_s=fades_s, busy=(0.4, busy_fades_s)), more={"n": ("cpu/w0", 0.5)})
    left = math.exp(-0.5 / busy_fades_s - (2.5 / fades_s if fades_s else 0.0))
    assert copy_s(plan) == pytest.approx(2.0 + left)


def test_what_was_computed_before_it_was_written_does_not_count() -> None:
    """n (3 s) on another lane from the start; a writes at 1 s, the copy begins at 4 s: 2 s busy, 1 s of rest."""
    plan = late(host(fades_s=3.0, busy=(0.4, 5.0)), more={"n": ("cpu/w1", 3.0)})
    assert copy_s(plan) == pytest.approx(2.0 + math.exp(-2 / 5 - 1 / 3))


def test_two_lanes_at_once_are_as_one() -> None:
    """a until 1 s, n until 1.5 s on its lane, m until 2 s on another; the copy begins at 1 s, or late at 4 s."""
    more = {"n": ("cpu/w0", 0.5), "m": ("cpu/w1", 2.0)}
    assert copy_s(late(host(busy=BUSY), before=0, more=more)) == pytest.approx(1.0 + (100 - 50 / 1.2) / 50 * 1.5)
    left = math.exp(-1 / 5 - 2 / 3)
    assert copy_s(late(host(fades_s=3.0, busy=(0.4, 5.0)), more=more)) == pytest.approx(2.0 + left)


def test_what_is_left_when_a_copy_begins_is_a_part_of_what_has_faded() -> None:
    """n on another lane computes all the time, for 9 s: 3 s of it before the copy."""
    plan = late(host(busy=(0.4, 5.0)), more={"n": ("cpu/w1", 9.0)})
    assert copy_s(plan) == pytest.approx(2.0 + 0.4 * math.exp(-3 / 5))


def test_computing_is_summed_over_all_times_of_it() -> None:
    """What 0 wrote at 1 s; lanes compute from 0 to 2 s, from 3 to 4 s and from 6 s on; copies begin at 5 and at 8 s."""
    one = Written(1.0, 4.0, 1, "x", 0.5, 3.0)
    copies = WrittenCopies({1: one, 2: one._replace(behind=2, what="y")}, [1.0, -1.0, -1.0])
    for now, computing in ((0.0, True), (1.0, True), (2.0, False), (3.0, True), (4.0, False)):
        assert copies.longer([], computing, now) == {}
    first = math.exp(-2 / 3 - 2 / 4)
    assert copies.longer([1], False, 5.0) == pytest.approx({1: 1 + first})
    assert copies.longer([1], True, 6.0) == pytest.approx({1: 1 + first / 2})
    assert copies.longer([1, 2], True, 8.0) == pytest.approx({1: 1 + first / 2, 2: 1 + math.exp(-4 / 3 - 3 / 4) / 2})
    assert copies.longer([2], False, 9.0) == pytest.approx({2: 1 + math.exp(-4 / 3 - 3 / 4)})


@pytest.mark.parametrize("busy", [(0.0, 0.0), (0.0, STAYS), BUSY])
def test_measured_tasks_of_a_lane_count_as_computing_that_leaves_some(busy: tuple[float, float]) -> None:
    """n beside the copy; with figures in their place that are as predicted, nothing changes."""
    plan = late(host(busy=busy, back=2.0), before=0, more={"n": ("cpu/w0", 0.5)}, out=100)
    predicted = predict(plan)
    swap = Substitution(as_measured(predicted, plan))
    found = [swap.makespan_s(terms) for terms in ((), ("compute",), ("transfers",), ("compute", "transfers"))]
    assert found == pytest.approx([predicted.makespan_s] * 4, rel=1e-5)


# -- copies to the host beside it -----------------------------------------------------------------


def out_of(gpu: str, where: Platform, *, pinned: bool = True, to: str = "cpu", **more: str) -> Plan:
    """As `chain`, with out (200 bytes, 4 s alone) from `gpu` from the start on."""
    work, lanes = Workload(), {"a": "cpu/w0", "b": "cuda:0/s0"}
    work.copy(work.input("g", TensorSpec((200,), "uint8"), device=gpu), to=to, name="out", pinned=pinned)
    made = work.task(kernel, name="a", outputs=[TensorSpec((NBYTES,), "uint8")], device="cpu", duration_s=1.0)
    for name, lane in more.items():
        work.task(kernel, name=name, outputs=[], device="cpu", duration_s=0.5)
        lanes[name] = lane
    work.task(kernel, made, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    return planned(work, where, lanes)


@pytest.mark.parametrize("gpu", ["cuda:0", "cuda:1"])
@pytest.mark.parametrize("back", [0.5, 2.0])
def test_copies_to_the_host_are_slow_beside_it(gpu: str, back: float) -> None:
    """out from the start: 50 bytes, then at 50 / (1 + back / 2) beside the copy of what a wrote (3 s), then at 50."""
    plan = out_of(gpu, host(back=back))
    rate = 50 / (1 + back / 2)
    expected = 4.0 + (150 - 3 * rate) / 50 if 3 * rate < 150 else 1.0 + 150 / rate
    assert copy_s(plan, name="out") == pytest.approx(expected)
    assert copy_s(plan) == pytest.approx(3.0)
    assert copy_s(plan, Model(written=False), name="out") == pytest.approx(4.0)


def test_they_are_slow_by_what_has_not_faded() -> None:
    """Late by 3 s of rest: out, which has 400 of 600 bytes left at 4 s, at 50 / (1 + 2 * left / 2) for 2 + left s."""
    plan = late(host(fades_s=3.0, back=2.0), out=600)
    left = math.exp(-1.0)
    assert copy_s(plan, name="out") == pytest.approx(6.0 + left + (400 - 50 / (1 + left) * (2 + left)) / 50)


def test_they_are_slow_only_while_cores_rest() -> None:
    """n (0.5 s) beside the copy, which takes 3 s and more: out loses nothing until n is over."""
    plan = out_of("cuda:1", host(busy=BUSY, back=2.0), n="cpu/w0")
    copied_s = 0.5 + (100 - 25 / 1.2) / 50 * 1.5
    assert copy_s(plan) == pytest.approx(copied_s)
    assert copy_s(plan, name="out") == pytest.approx(1.0 + copied_s + (200 - 75 - 25 * (copied_s - 0.5)) / 50)


def test_what_is_gone_slows_no_copy_to_the_host() -> None:
    assert copy_s(out_of("cuda:1", host(back=2.0), n="cpu/w0"), name="out") == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("options", "to"), [({"pinned": False}, "cpu"), ({}, "cuda:0"), ({}, "cuda:1")], ids=["pageable", "peer", "local"]
)
def test_only_copies_to_pinned_memory_are_slow_beside_it(options: dict[str, bool], to: str) -> None:
    plan = out_of("cuda:1", host(back=2.0), to=to, **options)  # type: ignore[arg-type]
    assert tabulated(plan, 1, Model())[0].to_host == frozenset()
    assert copy_s(plan, name="out") == pytest.approx(4.0)


def test_copies_from_the_host_are_not_slow_beside_it() -> None:
    """Of what nobody wrote, to another GPU."""
    work = Workload()
    work.copy(work.input("g", TensorSpec((200,), "uint8"), device="cpu"), to="cuda:1", name="other", pinned=True)
    made = work.task(kernel, name="a", outputs=[TensorSpec((NBYTES,), "uint8")], device="cpu", duration_s=1.0)
    work.task(kernel, made, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    plan = planned(work, host(back=2.0), {"a": "cpu/w0", "b": "cuda:0/s0"})
    assert copy_s(plan, name="other") == pytest.approx(4.0)


def test_beside_two_of_them_the_slower_one_counts() -> None:
    slow, less = Written(1.0, 0.0, 1, "a", back=0.5), Written(0.5, 0.0, 2, "b", back=0.8)
    copies = WrittenCopies({1: slow, 2: less}, [0.0] + [-1.0] * 4, to_host={3, 4})
    assert copies.longer([1, 2, 3], False, 0.0) == pytest.approx({1: 2.0, 2: 1.5, 3: 1.5})
    assert copies.longer([2, 3, 4], False, 1.0) == pytest.approx({2: 1.5, 3: 1.4, 4: 1.4})
    assert copies.longer([3, 4], False, 2.0) == {}


@pytest.mark.parametrize("where", [host(), host(0.0, back=2.0)], ids=["not known", "nothing to slow it"])
def test_without_it_copies_to_the_host_stay_off_the_clock(where: Platform) -> None:
    plan = out_of("cuda:1", where)
    columns = tabulated(plan, 1, Model())[0]
    assert columns.to_host == frozenset()
    assert columns.resource[plan.index_of["out"]] == ALONE


def test_copies_to_the_host_of_each_step_are_slow() -> None:
    """a, out and b twice.

    a0 0-1, a1 1-2; copy 1-4 (a1 computes beside it until 2 s, which leaves it all), copy 4-7; out of 200 bytes: 50 in
    each of the first 2 s, then 25 a second: over at 6 s; the second has 25 bytes at 7 s, and 175 to come.
    """
    plan = out_of("cuda:1", host(busy=(1.0, STAYS), back=2.0))
    columns = tabulated(plan, 2, Model())[0]
    assert columns.to_host == {plan.index_of["out"], plan.index_of["out"] + len(plan)}
    assert predict(plan, steps=2).makespan_s == pytest.approx(7.0 + 175 / 50, rel=1e-5)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_copies_to_the_host_are_slow_beside_it_in_both_modes(mode: str) -> None:
    """out (200 bytes) begins at 3 s, the copy of what a wrote, of the same CUDA graph in graph mode, ends at 4 s.

    ::

        a (1 s) ─100 B─▶ b
           └──────1 B──▶ e (0.98 s on cuda:1) ─200 B─▶ out     1.02 s for the byte, as slow to fetch as 100 are
    """
    work, (many, one) = Workload(), [TensorSpec((n,), "uint8") for n in (NBYTES, 1)]
    large, small = work.task(kernel, name="a", outputs=[many, one], device="cpu", duration_s=1.0)
    made = work.task(kernel, small, name="e", outputs=[TensorSpec((200,), "uint8")], device="cuda:1", duration_s=0.98)
    work.copy(made, to="cpu", name="out", pinned=True)
    work.task(kernel, large, name="b", outputs=[], device="cuda:0", duration_s=1.0)
    plan = planned(work, host(back=2.0), {"a": "cpu/w0", "b": "cuda:0/s0", "e": "cuda:1/s0"})
    spans = {span.action: span for span in predict(replace(plan, mode=mode))}
    assert (spans["out"].start_s, spans["b"].start_s) == pytest.approx((3.0, 4.0), rel=1e-4)
    assert spans["out"].duration_s == pytest.approx(1.0 + 175 / 50, rel=1e-4)


def test_a_copy_to_the_host_beside_it_has_been_slowed_by_others() -> None:
    plan = out_of("cuda:1", host(back=2.0))
    predicted = predict(plan)
    assert Substitution(as_measured(predicted, plan)).loaded(predicted) == {plan.index_of["out"]}
