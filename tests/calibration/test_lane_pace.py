"""The yardstick of CPU lanes: rows of products, on all lanes of a plan at once."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from graphsched.calibration import lane_pace, written_copies
from graphsched.calibration.lane_pace import (
    LONGEST_ROW_S,
    LaneYardstick,
    Row,
    Yardsticks,
    mean_s,
    product_size,
    small_product,
)
from graphsched.calibration.lane_sweep import ROW_S
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.workload import TensorSpec, Workload
from tests.builders import kernel, planned, platform, workload
from tests.executors.programs import WORKERS, by_hand, machine
from tests.simulator.beside import gpus


@pytest.mark.parametrize(("row_s", "seconds", "made"), [(5.0, 2.0, 4), (0.0, 2.0, 2), (0.5, 2.0, 2)])
def test_a_row_is_as_long_as_it_is_to_be_and_one_product_at_least(
    monkeypatch: pytest.MonkeyPatch, row_s: float, seconds: float, made: int
) -> None:
    """One product before the row does not count."""
    clock = itertools.count(0.0, seconds)
    calls: list[None] = []
    monkeypatch.setattr(lane_pace.time, "perf_counter", lambda: next(clock))
    assert mean_s(lambda: calls.append(None), row_s) == seconds
    assert len(calls) == made


def three_lanes(cores: int) -> Plan:
    """a ∥ b ∥ c: two lanes of one device and one of another."""
    work = Workload()
    for name in "abc":
        work.task(torch.neg, work.input(f"{name}/x", torch.ones(1)), name=name)
    lanes = {"a": "worker:0/w0", "b": "worker:0/w1", "c": "worker:1/w0"}
    return by_hand(work, replace(WORKERS, cores=cores), lanes)


def test_lanes_make_their_products_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each on its own thread; the mean counts. Lanes of one thread go through no memory."""
    order: list[str] = []
    names: list[str] = []
    seconds = iter((1.0, 2.0, 6.0))

    class Gate(threading.Barrier):
        def wait(self, timeout: float | None = 10.0) -> int:
            order.append("at the gate")
            return super().wait(timeout)

    def played(call: object, row_s: float) -> float:
        order.append("row")
        names.append(threading.current_thread().name)
        assert row_s == 0.01
        return next(seconds)

    monkeypatch.setattr(lane_pace, "mean_s", played)
    monkeypatch.setattr(lane_pace.threading, "Barrier", Gate)
    assert LaneYardstick(three_lanes(3), 0.01).sample() == Row(3.0, 0.0)
    assert order == ["at the gate"] * 3 + ["row"] * 3
    assert sorted(names) == [f"graphsched {lane}" for lane in ("worker:0/w0", "worker:0/w1", "worker:1/w0")]
    assert not {t.name for t in threading.enumerate()} & set(names)


@pytest.mark.parametrize(("cores", "at_once"), [(1, 1), (2, 2), (64, 3)])
def test_no_more_lanes_compute_at_once_than_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, at_once: int
) -> None:
    """What lanes beyond them take from each other is the simulator's, and would count twice."""
    lanes: list[str] = []
    monkeypatch.setattr(lane_pace, "mean_s", lambda *_: lanes.append(threading.current_thread().name) or 1.0)
    assert LaneYardstick(three_lanes(cores), 0.01).sample() == Row(1.0, 0.0)
    assert len(lanes) == len(set(lanes)) == at_once


def test_lanes_of_many_threads_compute_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lanes of 2 threads on 2 cores; one of 4 threads on 2 cores was measured so."""
    monkeypatch.setattr(lane_pace, "mean_s", lambda *_: lanes.append(threading.current_thread().name) or 1.0)
    monkeypatch.setattr(lane_pace, "Sweep", lambda: int)
    work = Workload()
    for name in "ab":
        work.task(torch.neg, work.input(f"{name}/x", torch.ones(1)), name=name)
    for threads in (2, 4):
        lanes: list[str] = []
        here = machine("worker:0", "worker:1", threads={"worker:0": threads, "worker:1": threads})
        LaneYardstick(by_hand(work, here, {"a": "worker:0/w0", "b": "worker:1/w0"}), 0.0).sample()
        assert lanes == ["graphsched worker:0/w0"] * 2  # products, and sweeps


@pytest.mark.parametrize("threads", [1, 2])
def test_a_lane_has_its_threads_which_rest_before(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Those that are several go through memory, too."""
    seen: list[object] = []
    monkeypatch.setattr(lane_pace.time, "sleep", seen.append)
    monkeypatch.setattr(lane_pace, "Sweep", lambda: lambda: seen.append(("sweep", torch.get_num_threads())))
    monkeypatch.setattr(lane_pace, "small_product", lambda n: lambda: seen.append((n, torch.get_num_threads())))
    monkeypatch.setattr(lane_pace, "ROW_S", 0.0)
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(1)), name="a")
    plan = by_hand(work, machine(threads={"cpu": threads}), "cpu/w0")
    product_s, sweep_s, fetch_s, pinned_s = LaneYardstick(plan, 0.0).sample()
    assert product_s > 0
    assert fetch_s == pinned_s == 0.0
    assert (sweep_s > 0) == (threads > 1)
    assert seen == [lane_pace.REST_S] * (threads > 1) + [(threads, threads)] * 2 + [("sweep", threads)] * 2 * (
        threads > 1
    )


def test_a_plan_without_tasks_on_cpus_has_no_yardstick() -> None:
    """a on a GPU; a row is never long."""
    plan = planned(workload({"a": 1.0}), platform(), {"a": "cuda:0/s0"})
    yardstick = LaneYardstick(plan, 1e3)
    assert (yardstick.sample(), yardstick.row_s) == (Row(0.0, 0.0), LONGEST_ROW_S)


@pytest.mark.parametrize("threads", [2, 5, 16, 64])
def test_each_of_several_threads_has_as_much_to_do(threads: int) -> None:
    assert product_size(threads) ** 3 / threads == pytest.approx(768**3 / 2, rel=0.05)


def test_products_are_of_their_size() -> None:
    assert [small_product(threads)().shape for threads in (1, 2)] == [(256, 256), (768, 768)]


@pytest.mark.parametrize("row_s", [0.0, 0.03])
def test_a_row_of_sweeps_is_of_one_length(monkeypatch: pytest.MonkeyPatch, row_s: float) -> None:
    """Beside what is short and what is long, and where costs are measured: else one would differ from the other."""
    asked: list[float] = []
    monkeypatch.setattr(lane_pace, "mean_s", lambda call, row_s: asked.append(row_s) or float(len(asked)))
    monkeypatch.setattr(lane_pace, "Sweep", lambda: int)
    assert Yardsticks(2).row(row_s) == Row(1.0, 2.0)
    assert asked == [row_s, ROW_S]


def test_of_several_lanes_one_goes_through_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 2 threads on 4 cores: what they take from each other is the simulator's. Costs were measured so."""
    swept: list[str] = []
    monkeypatch.setattr(lane_pace, "Sweep", lambda: lambda: swept.append(threading.current_thread().name))
    work = Workload()
    for name in "ab":
        work.task(torch.neg, work.input(f"{name}/x", torch.ones(1)), name=name)
    here = replace(machine("worker:0", "worker:1", threads={"worker:0": 2, "worker:1": 2}), cores=4)
    row = LaneYardstick(by_hand(work, here, {"a": "worker:0/w0", "b": "worker:1/w0"}), 0.0).sample()
    assert row.sweep_s > 0.0
    assert set(swept) == {"graphsched worker:0/w0"}


def fetched(links: Platform, *, read: bool = True) -> Plan:
    """a (on the CPU) ─▶ b (on a GPU); if it is not `read`, b only comes after a."""
    work = Workload()
    made = work.task(kernel, name="a", outputs=[TensorSpec((100,), "uint8")], device="cpu", duration_s=1.0)
    reads, after = ([made], []) if read else ([], ["a"])
    work.task(kernel, *reads, name="b", outputs=[], device="cuda:1", duration_s=1.0, after=after)
    return planned(work, links, {"a": "cpu/w0", "b": "cuda:1/s0"})


def written(threads: int, seconds: float = 1e-4) -> Platform:
    """Two GPUs; what a lane of so many threads has just written takes longer to come to them."""
    here = gpus({})
    links = tuple(
        replace(k, sizes_bytes=(100,), seconds=(2.0,), written_s=(seconds,)) if k.memory == "pinned" else k
        for k in here.links
    )
    devices = tuple(replace(d, threads=threads) if d.kind == "cpu" else d for d in here.devices)
    return replace(here, links=links if seconds else here.links, devices=devices)


class Fetches:
    """A yardstick of copies, which notes where it is taken."""

    made: ClassVar[list[tuple[int, int]]] = []
    threads: ClassVar[list[str]] = []

    def __init__(self, gpu: int, threads: int, sweep: object) -> None:
        self.made.append((gpu, threads))

    def __call__(self) -> tuple[float, float]:
        self.threads.append(threading.current_thread().name)
        return 7e-4, 9e-4


@pytest.mark.parametrize(("threads", "read", "taken"), [(2, True, True), (1, True, False), (2, False, False)])
def test_where_a_gpu_reads_what_a_lane_of_several_threads_writes_copies_are_a_yardstick(
    monkeypatch: pytest.MonkeyPatch, threads: int, read: bool, taken: bool
) -> None:
    """Of the GPU that does, in the lane's thread."""
    monkeypatch.setattr(written_copies, "WrittenYardstick", Fetches)
    monkeypatch.setattr(Fetches, "made", [])
    monkeypatch.setattr(Fetches, "threads", [])
    row = LaneYardstick(fetched(written(threads), read=read), 0.0).sample()
    assert row[2:] == ((7e-4, 9e-4) if taken else (0.0, 0.0))
    assert Fetches.made == [(1, 2)] * taken
    assert Fetches.threads == ["graphsched cpu/w0"] * taken


def test_platforms_and_ranks_that_know_nothing_of_such_copies_have_no_such_yardstick() -> None:
    here = written(2)
    assert lane_pace._fetching_gpu(fetched(here)) == 1
    assert lane_pace._fetching_gpu(fetched(written(2, 0.0))) is None
    assert lane_pace._fetching_gpu(replace(fetched(here), mode="distributed")) is None


def test_what_fails_on_a_lane_is_raised() -> None:
    yardstick = LaneYardstick(three_lanes(3), 0.0)

    def full() -> None:
        raise MemoryError("full")

    yardstick._yardsticks["worker:0/w1"].product = full
    with pytest.raises(MemoryError, match="full"):
        yardstick.sample()
    names = {t.name for t in threading.enumerate()}
    assert not names & {f"graphsched {lane}" for lane in yardstick._yardsticks}
