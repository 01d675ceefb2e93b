"""Schedulers that look at no times: sequential, one_stream, round_robin and wavefront, by their plans' text."""

from __future__ import annotations

from textwrap import dedent

import pytest

from graphsched.errors import ScheduleError
from graphsched.plan import Plan
from graphsched.schedulers import schedule
from graphsched.workload import Workload
from tests.schedulers.graphs import LIST, MATRIX, add, graph, lanes_of, machine


def actions(plan: Plan) -> str:
    """The lines of a plan's actions."""
    return dedent(plan.text.partition("actions\n")[2])


@pytest.fixture
def products() -> Workload:
    """Two products of an input on cuda:0, each copied to the cpu.

    ::

        x ─▶ p0 ─▶ c0
        └──▶ p1 ─▶ c1
    """
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    for k in range(2):
        work.copy(add(work, f"p{k}", x, x), to="cpu", pinned=True, name=f"c{k}")
    return work


def test_sequential_waits_after_each_task(products: Workload) -> None:
    """Copies included."""
    assert actions(schedule(products, machine(2), scheduler="sequential")) == dedent("""\
        run p0 on cuda:0/s0
        wait wait0 on host/py after p0
        copy c0 from cuda:0 to cpu pinned on cuda:0/d2h
        wait wait1 on host/py after c0
        run p1 on cuda:0/s0 free p0
        wait wait2 on host/py after p1
        copy c1 from cuda:0 to cpu pinned on cuda:0/d2h
        wait wait3 on host/py after c1
    """)


def test_one_stream_waits_for_nothing_but_data(products: Workload) -> None:
    """With copies on the compute lane not even for that: `tensor.to(..., non_blocking=True)`."""
    plan = schedule(products, machine(2), scheduler="one_stream")
    assert lanes_of(plan) == {"p0": "cuda:0/s0", "c0": "cuda:0/d2h", "p1": "cuda:0/s0", "c1": "cuda:0/d2h"}
    assert list(plan.waits) == [(), (0,), (), (2,)]
    same = schedule(products, machine(2), scheduler="one_stream", copies="compute")
    assert set(lanes_of(same).values()) == {"cuda:0/s0"}
    assert list(same.waits) == [()] * 4


def test_one_stream_prefers_accelerators() -> None:
    """Free tasks go to the first GPU, others where they must."""
    work = Workload()
    add(work, "free")
    add(work, "second", device="cuda:1")
    add(work, "host", device="cpu")
    plan = schedule(work, machine(2), scheduler="one_stream")
    assert lanes_of(plan) == {"free": "cuda:0/s0", "second": "cuda:1/s0", "host": "cpu/w0"}
    assert set(lanes_of(schedule(graph(a=1.0), machine(0), scheduler="one_stream")).values()) == {"cpu/w0"}
    workers = schedule(graph(a=1.0), machine(1, kind="worker"), scheduler="one_stream")
    assert set(lanes_of(workers).values()) == {"worker:0/s0"}


def test_round_robin_takes_devices_in_turn_then_lanes() -> None:
    """Five tasks over two lanes on each of two GPUs; the cpu is left out."""
    plan = schedule(graph(**dict.fromkeys("abcde", 1.0)), machine(2), scheduler="round_robin", lanes=2)
    assert list(lanes_of(plan).values()) == ["cuda:0/s0", "cuda:1/s0", "cuda:0/s1", "cuda:1/s1", "cuda:0/s0"]


def test_round_robin_keeps_a_turn_for_each_set_of_devices() -> None:
    """Tasks that alternate between the cpu and the GPU still use both lanes of each."""
    work = Workload()
    for k in range(4):
        add(work, f"gpu{k}", device="cuda")
        add(work, f"cpu{k}", device="cpu")
    lanes = lanes_of(schedule(work, machine(1), scheduler="round_robin", lanes=2))
    assert [lanes[f"gpu{k}"] for k in range(4)] == ["cuda:0/s0", "cuda:0/s1"] * 2
    assert [lanes[f"cpu{k}"] for k in range(4)] == ["cpu/w0", "cpu/w1"] * 2


def test_round_robin_uses_the_cpu_if_a_task_names_it() -> None:
    """Two devices named, two used."""
    work = Workload()
    for k in range(2):
        add(work, f"t{k}", device=("cuda", "cpu"))
    assert list(lanes_of(schedule(work, machine(1), scheduler="round_robin")).values()) == ["cuda:0/s0", "cpu/w0"]


def test_wavefront_starts_each_level_at_the_first_lane() -> None:
    """Levels {a, b, c}, {d, e}, {f} over two lanes; d and f come late in the workload.

    ::

        a ─▶ d ─▶ f
        b ─▶ e
        c
    """
    work = graph([("a", "d"), ("b", "e"), ("d", "f")], a=1.0, d=1.0, f=1.0, b=1.0, e=1.0, c=1.0)
    plan = schedule(work, machine(1), scheduler="wavefront", lanes=2)
    lanes = {name: lane[-2:] for name, lane in lanes_of(plan).items()}
    assert lanes == {"a": "s0", "b": "s1", "c": "s0", "d": "s0", "e": "s1", "f": "s0"}
    assert "wait" not in plan.kinds
    assert [n for n in plan.names if n in "def"] == ["d", "e", "f"]
    assert set(plan.names[:3]) == set("abc")


def test_wavefront_sync_waits_after_each_level() -> None:
    """a ─▶ b: two levels, two waits."""
    plan = schedule(graph([("a", "b")], a=1.0, b=1.0), machine(1), scheduler="wavefront", sync=True)
    assert plan.kinds == ["run", "wait", "run", "wait"]


def test_sync_adds_no_wait_to_a_barrier() -> None:
    """The level of the barrier is a wait already."""
    work = Workload()
    add(work, "a")
    work.barrier("wall")
    add(work, "b")
    assert schedule(work, machine(1), scheduler="wavefront", sync=True).names == ["a", "wait0", "wall", "b", "wait1"]


@pytest.mark.parametrize("name", ["round_robin", "wavefront", *LIST])
def test_too_many_lanes(name: str) -> None:
    """A device's bound is an error that names device and bound; the cpu beside GPUs takes what it may."""
    work = graph(a=1.0)
    with pytest.raises(ScheduleError, match=r"lanes=40: cuda:0 may have 32 compute lanes at most"):
        schedule(work, machine(1), scheduler=name, lanes=40)
    with pytest.raises(ScheduleError, match=r"lanes=5: cpu may have 4"):
        schedule(work, machine(0), scheduler=name, lanes=5)
    with pytest.raises(ScheduleError, match=r"lanes=0: each device needs 1 lane or more"):
        schedule(work, machine(1), scheduler=name, lanes=0)
    assert schedule(work, machine(1), scheduler=name, lanes=32).scheduler == f"{name} lanes=32"


def test_default_lanes_are_no_more_than_a_device_may_have() -> None:
    """Four, or two where a worker may have two."""
    work = graph(**dict.fromkeys("abcdef", 1.0))
    for most, used in ((32, 4), (2, 2)):
        plan = schedule(work, machine(1, kind="worker", lanes=most), scheduler="round_robin")
        assert len(set(lanes_of(plan).values())) == used
