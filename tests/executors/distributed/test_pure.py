"""What needs no other process: torchrun's environment, agreement, clocks, spans put together, layouts of messages."""

from __future__ import annotations

import functools
import re
import socket
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed

from graphsched.errors import RankError, ScheduleError, WorkloadError
from graphsched.executors import Program, execute
from graphsched.executors.distributed import meeting
from graphsched.executors.distributed.agreement import check_agreement, facts_of, first_difference, parts_of
from graphsched.executors.distributed.blame import told_of
from graphsched.executors.distributed.board import Board, Report
from graphsched.executors.distributed.bounded_store import BoundedStore
from graphsched.executors.distributed.clock_offsets import Offset, RankClock
from graphsched.executors.distributed.layouts import flat_bytes, laid_out
from graphsched.executors.distributed.local_plans import local_plan
from graphsched.executors.distributed.lost import LostRankError
from graphsched.executors.distributed.measuring import COLUMNS, RankSpans, merged
from graphsched.executors.distributed.meeting import check_nccl_interfaces, meet, read_address
from graphsched.executors.distributed.message_links import with_messages
from graphsched.executors.distributed.objects import from_bytes, to_bytes
from graphsched.executors.distributed.rank_buffers import RankBuffers
from graphsched.executors.distributed.rank_watch import RankWatch
from graphsched.executors.distributed.world import World
from graphsched.executors.tensors import copied, new_tensor
from graphsched.plan.ranks import Places, compile_ranks
from graphsched.workload import TensorSpec, Workload
from tests.executors.distributed import jobs
from tests.executors.programs import by_hand, machine

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "there", "MASTER_PORT": "29500"}


# -- objects -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "complex64", "uint16", "uint32", "float8_e4m3fn"])
def test_tensors_of_every_type_travel_as_objects(dtype: str) -> None:
    """A transposed tensor, one without elements and a scalar: the same bits, shape and order in memory."""
    whole = torch.arange(6, dtype=torch.uint8).to(getattr(torch, dtype)).view(2, 3)
    for tensor in (whole.t(), whole[:0], whole[0, 1]):
        (found,) = from_bytes(to_bytes([tensor]))
        assert (found.dtype, found.shape, found.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
        assert found.tolist() == tensor.tolist()


def test_a_view_is_sent_without_what_it_leaves_out() -> None:
    assert len(to_bytes(torch.zeros(1 << 20)[:4])) < 1 << 14


# -- who is at fault -----------------------------------------------------------------------------------------


def test_of_ranks_that_blame_each_other_none_is_taken_for_the_cause() -> None:
    """Rank 0 waits for rank 1 and rank 1 for rank 0; rank 2 says that it is at fault."""
    store = BoundedStore(distributed.HashStore())
    told = [Report(0, "no answer of 1", 1), Report(1, "no answer of 0", 0), Report(2, "my task hangs", 2)]
    boards = [Board(store, rank, 3) for rank in range(3)]
    for board, report in zip(boards, told, strict=True):
        board.post(report)
    assert boards[0].explanation(1, 1.0) == told[2]
    store.close()


def test_of_ranks_that_blame_each_other_the_silent_one_is_named() -> None:
    """As before, but rank 2 says nothing and has no pulse."""
    store = BoundedStore(distributed.HashStore())
    pulses: Any = SimpleNamespace(silent=lambda ranks: [rank for rank in ranks if rank == 2])
    Board(store, 1, 3).post(Report(1, "no answer of 0", 0))
    more, lost = told_of(1, "no answer of 1", 0, 3, Board(store, 0, 3), pulses)
    assert "; rank 2 gives no sign of life" in more
    assert lost == 2
    store.close()


# -- a barrier ---------------------------------------------------------------------------------------------


class Messages:
    """In place of torch's: notes what is begun and waited for; messages with rank `lost` fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lost: int = -1) -> None:
        self.seen: list[str] = []
        self.lost = lost
        for name, way in (("irecv", "from"), ("isend", "to")):
            monkeypatch.setattr(f"torch.distributed.{name}", functools.partial(self.begin, way))

    def begin(self, way: str, _: torch.Tensor, peer: int, tag: int) -> Any:
        """A message with `peer`."""
        self.seen.append(f"{way} {peer}")
        return SimpleNamespace(wait=lambda _: self.wait(way, peer))

    def wait(self, way: str, peer: int) -> None:
        """The end of one."""
        self.seen.append(f"waited {way} {peer}")
        if (way, peer) == ("to", self.lost):
            raise RuntimeError("Connection closed by peer")


def world_of(size: int) -> Any:
    """Rank 1 of so many."""
    world: Any = World.__new__(World)
    world.rank, world.size, world._token = size > 1, size, None
    return world


@pytest.mark.parametrize(("size", "further", "before"), [(1, [], []), (2, [0], [0]), (5, [2, 3, 0], [0, 4, 2])])
def test_a_barrier_is_ready_for_all_messages_before_it_sends_one(
    size: int, further: list[int], before: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 of 5 hears from those 1, 2 and 4 before it, and tells those 1, 2 and 4 further, one after another."""
    messages = Messages(monkeypatch)
    world_of(size).barrier(1.0, lambda _: "a barrier")
    rounds = [
        [f"to {to}", f"waited from {source}", f"waited to {to}"] for to, source in zip(further, before, strict=True)
    ]
    assert messages.seen == [f"from {source}" for source in before] + [word for words in rounds for word in words]


def test_a_barrier_names_the_rank_that_took_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 of 5 tells rank 2, and hears from rank 0, in the first round."""
    Messages(monkeypatch, lost=2)
    with pytest.raises(LostRankError, match="a barrier with rank 2: rank 2 is gone") as raised:
        world_of(5).barrier(1.0, lambda peer: f"a barrier with rank {peer}")
    assert raised.value.peer == 2


# -- the environment -----------------------------------------------------------------------------------


def test_what_a_lane_says_of_a_message_just_behind_the_deadline_is_told() -> None:
    """And not that the run waited too long for that lane."""
    watch, done = RankWatch(0.05), threading.Event()

    def fail() -> None:
        watch.fail(ValueError("message 'm' did not pass"))
        done.set()

    watch.begin()
    late = threading.Timer(0.15, fail)
    late.start()
    with pytest.raises(ValueError, match="message 'm'"):
        watch.wait(done, "x")
    late.join()


@pytest.mark.parametrize("left_out", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_without_torchrun_the_command_is_told(left_out: str) -> None:
    env = {name: value for name, value in TORCHRUN.items() if name != left_out}
    with pytest.raises(ScheduleError, match=rf"\({left_out} is not in the environment\): torchrun --nproc-per-node"):
        read_address(env)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RANK", "2"),
        ("RANK", "one"),
        ("MASTER_PORT", "x"),
        ("MASTER_PORT", "65536"),
        ("MASTER_PORT", "0"),
        ("WORLD_SIZE", "-2"),
    ],
)
def test_a_wrong_environment_is_refused(name: str, value: str) -> None:
    with pytest.raises(ScheduleError, match=rf"{name} is '?{value}'?"):
        read_address(TORCHRUN | {name: value})


def test_an_interface_that_does_not_exist_is_refused() -> None:
    here = socket.if_nameindex()[0][1]
    assert read_address(TORCHRUN | {"GLOO_SOCKET_IFNAME": here}).local_rank == 0
    with pytest.raises(ScheduleError, match=rf"no network interface 'nope0': it has .*{here}"):
        read_address(TORCHRUN | {"GLOO_SOCKET_IFNAME": f"{here},nope0"})


@pytest.mark.parametrize("told", ["", "eth", "=eth0", "ib,eth0:29500", "=ib0,eth1", "^lo,docker", "^=eth", "^"])
def test_interfaces_for_nccl_that_are_here(told: str) -> None:
    """One that asks for what is here is refused where there is only what it does not ask for."""
    check_nccl_interfaces({"NCCL_SOCKET_IFNAME": told}, ["lo", "eth0", "eth1"])
    if told.strip("^"):
        with pytest.raises(ScheduleError, match="has no network interface"):
            check_nccl_interfaces({"NCCL_SOCKET_IFNAME": told}, ["eth"] if "^=" in told else ["lo"])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("ib", "that begins so"),
        ("eth00,ens", "that begins so"),
        ("=eth,ib0", "of one of these names"),
        ("^lo,eth", "but those that it excludes"),
        ("^=lo,eth0,eth1", "but those that it excludes"),
    ],
)
def test_interfaces_for_nccl_of_which_none_is_here_are_refused(told: str, words: str) -> None:
    message = f"NCCL_SOCKET_IFNAME is {told!r}, and this host has no network interface {words}: it has lo, eth0, eth1:"
    with pytest.raises(ScheduleError, match=re.escape(message)):
        check_nccl_interfaces({"NCCL_SOCKET_IFNAME": told}, ["lo", "eth0", "eth1"])


def test_interfaces_for_nccl_are_checked_before_ranks_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where NCCL is used: without it the store is asked for, which nobody keeps here."""
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "nope0")
    with pytest.raises(RankError, match="could not be reached"):
        meet(read_address(TORCHRUN), 0.1)
    monkeypatch.setattr(meeting, "backend", lambda: "cpu:gloo,cuda:nccl")
    with pytest.raises(ScheduleError, match=f"NCCL_SOCKET_IFNAME is 'nope0'.*: it has .*{socket.if_nameindex()[0][1]}"):
        meet(read_address(TORCHRUN), 0.1)


def test_execute_without_torchrun_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ScheduleError, match=r"torchrun --nproc-per-node 4 -m graphsched run EXPERIMENT"):
        execute(jobs.chain(), mode="distributed")


def test_steps_are_refused() -> None:
    with pytest.raises(ScheduleError, match="steps is 2 in mode 'distributed'"):
        execute(jobs.chain(), mode="distributed", steps=2)


def test_one_process_does_not_run_a_plan_for_several() -> None:
    with pytest.raises(ScheduleError, match=r"mode 'distributed' cannot be run here: .* ranks that torchrun started"):
        Program(jobs.chain(), mode="distributed")


# -- agreement -----------------------------------------------------------------------------------------


def test_tensors_without_data_are_alike() -> None:
    """x, on meta."""
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(2, device="meta")), name="y")
    facts = [facts_of(by_hand(work, machine("worker:0"), "worker:0/s0")) for _ in range(2)]
    assert facts[0] == facts[1]
    check_agreement(facts)


def test_facts_of_equal_plans_are_equal() -> None:
    facts = [facts_of(jobs.chain()) for _ in range(2)]
    assert facts[0] == facts[1]
    check_agreement(facts)


def test_other_numbers_in_an_input_are_found() -> None:
    """The same workload, its input filled anew, as with another seed."""
    plan = jobs.chain()
    facts = facts_of(plan)
    plan.work.tensors["x"] = plan.work.tensors["x"] + 1
    assert {name for name, value in facts_of(plan).items() if value != facts[name]} == {"tensors given"}


def test_other_numbers_in_one_element_of_a_column_are_found() -> None:
    """x, the first element of a column of three, whose stride is 3 ──▶ y."""
    columns = [torch.full((4, 3), number)[:1, 0] for number in (1.0, 1.0, 2.0)]
    facts = []
    for column in columns:
        work = Workload()
        work.task(torch.neg, work.input("x", column), name="y")
        facts.append(facts_of(by_hand(work, machine("worker:0"), "worker:0/s0")))
    assert facts[0] == facts[1]
    assert facts[0]["tensors given"] != facts[2]["tensors given"]


def test_who_disagrees_is_named() -> None:
    facts = [{"torch": "2.6", "plan": "a"}, {"torch": "2.7", "plan": "a"}, {"torch": "2.6", "plan": "b"}]
    expected = r"torch is 2.6 on rank 0, 2; 2.7 on rank 1, and plan is a on rank 0, 1; b on rank 2: start all"
    with pytest.raises(RankError, match=expected):
        check_agreement(facts)


def _doubled(by: float) -> Workload:
    """x ──▶ y = by x, in which `by` is read by the code."""
    work = Workload()
    x = work.input("x", torch.ones(2))
    work.task(lambda tensor: tensor * by, x, name="y")
    return work


def test_the_first_difference_of_workloads_is_named() -> None:
    """Code that reads another number on rank 1, and a task that rank 2 has not."""
    mine, other, less = parts_of(_doubled(2.0)), parts_of(_doubled(3.0)), parts_of(Workload())
    assert mine == parts_of(_doubled(2.0))
    assert first_difference([mine, other]).startswith("the first that differs is 'y', in its ")
    assert "signature (what its code reads besides its arguments counts" in first_difference([mine, other])
    assert first_difference([mine, mine, less]) == "the first that differs is 'x', which rank 2 does not have"


# -- clocks --------------------------------------------------------------------------------------------


@given(st.floats(-1e3, 1e3), st.floats(-1e-4, 1e-4), st.floats(0, 100))
def test_a_clock_that_drifts_is_followed(offset: float, drift: float, time: float) -> None:
    """A clock that is ahead by `offset` and gains `drift` a second, measured at 0 s and at 100 s."""

    def shown(at: float) -> float:
        return at + offset + drift * at

    clock = RankClock(Offset(0.0, shown(0) - 0, 1e-6), Offset(100.0, shown(100) - 100, 3e-6))
    assert clock.on_rank_0(shown(time)) == pytest.approx(time, abs=1e-6)
    assert clock.uncertainty_s == 3e-6


def test_spans_of_ranks_become_one_timeline() -> None:
    """a (worker:0) ──▶ a>worker:1 ──▶ b (worker:1), whose clock is 100 s ahead.

    The send begins at 2 and the receive at 1.5, 103.5 on its clock... it ends at 4; rank 1 began the run at -0.5.
    """
    work = Workload()
    x = work.input("x", torch.ones(2), device="worker:0")
    work.task(torch.neg, work.task(torch.neg, x, name="a"), name="b")
    plan = by_hand(work, machine("worker:0", "worker:1"), {"a": "worker:0/s0", "b": "worker:1/s0"})
    lists = compile_ranks(plan)
    assert [[part.kind for part in parts] for parts in lists.parts] == [["run", "send"], ["receive", "run"]]

    def spans(began: float, *rows: tuple[float, ...]) -> RankSpans:
        columns = zip(COLUMNS, zip(*rows, strict=True), strict=True)
        return RankSpans({name: np.array(column) for name, column in columns}, began, 0.25)

    zero = spans(10.0, (10, 10.1, 11, 12), (10.2, 10.3, 12, 13.5))
    one = spans(109.5, (110.4, 110.5, 111.5, 114), (110.6, 110.7, 114, 116))
    at = [Offset(0.0, 0.0, 0.0), Offset(0.0, 100.0, 0.5)]
    found = merged(lists, [zero, one], at, at, seconds=7.0)
    assert found.columns["start"].tolist() == [1.5, 2.5, 4.5]
    assert found.columns["end"].tolist() == [2.5, 4.5, 6.5]
    assert found.columns["issue_start"] == pytest.approx([0.5, 0.7, 1.1])
    assert found.makespan_s == 7.5
    assert found.uncertainty_s == 0.75


@pytest.mark.parametrize(("late_s", "end_s"), [(0.5, 1.5), (1.0, 1.0)])
def test_a_message_ends_before_it_begins_by_no_more_than_the_clocks_are_off(late_s: float, end_s: float) -> None:
    """x ──▶ a (worker:0) ──▶ b (worker:1): by rank 0's clock it is sent from 1 + `late_s` on; received until 1."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(2), device="worker:0"), name="a")
    work.task(torch.neg, a, name="b")
    lists = compile_ranks(by_hand(work, machine("worker:0", "worker:1"), {"a": "worker:0/s0", "b": "worker:1/s0"}))

    def spans(*rows: tuple[float, float]) -> RankSpans:
        columns = np.array([(start, end, start, end) for start, end in rows]).T
        return RankSpans(dict(zip(COLUMNS, columns, strict=True)), 0.0, 0.6)

    still = [Offset(0.0, 0.0, 0.0)] * 2
    sent, received = (1 + late_s, 2 + late_s), (0.5, 1.0)
    found = merged(lists, [spans((0.0, 0.4), sent), spans(received, (3.0, 4.0))], still, still, seconds=5.0)
    assert (found.columns["start"][1], found.columns["end"][1]) == (1 + late_s, end_s)
    assert (found.columns["issue_start"][1], found.columns["issue_end"][1]) == sent
    assert found.halves_s == {(1, 1): received}


def test_a_wait_of_all_ranks_ends_when_the_first_goes_on() -> None:
    """Two tasks on two workers and a barrier: rank 0 is there from 1 to 5, rank 1 from 3 to 4."""
    work = Workload()
    for k in range(2):
        work.task(torch.neg, work.input(f"x{k}", torch.ones(2), device=f"worker:{k}"), name=f"y{k}")
    work.barrier("all")
    plan = by_hand(work, machine("worker:0", "worker:1"), {"y0": "worker:0/s0", "y1": "worker:1/s0"})
    lists = compile_ranks(plan)

    def spans(*row: float) -> RankSpans:
        return RankSpans({name: np.array([0.0, time]) for name, time in zip(COLUMNS, row, strict=True)}, 0.0, 0.0)

    still = [Offset(0.0, 0.0, 0.0)] * 2
    found = merged(lists, [spans(1, 5, 1, 5), spans(3, 4, 3, 4)], still, still, seconds=6.0)
    assert (found.columns["start"][2], found.columns["end"][2]) == (1, 4)


# -- messages for predictions --------------------------------------------------------------------------


def test_links_between_ranks_take_what_messages_took() -> None:
    """Three ranks; rank 2 is the slower to reach: 3 ms a byte at first, and 30 ms for 1,000; 10 ms a barrier round."""
    platform = machine("worker:0", "worker:1", "worker:2")
    found = with_messages(platform, [(0.001, 0.01), (0.003, 0.03)], sizes=(1, 1000))
    assert found.link("worker:0", "worker:1").duration_s(1000) == pytest.approx(0.01)
    assert found.link("cpu", "worker:1").duration_s(1000) == pytest.approx(0.01)
    assert found.link("worker:2", "worker:1").duration_s(1000) == pytest.approx(0.03)
    assert found.link("worker:1", "worker:2").duration_s(1) == pytest.approx(0.003)
    assert found.link("cpu", "worker:0") == platform.link("cpu", "worker:0")
    assert found.link("worker:1", "worker:1") == platform.link("worker:1", "worker:1")
    assert found.dispatch == replace(platform.dispatch, meeting_s=2 * 0.003)
    assert with_messages(platform, []) is platform


def test_links_between_gpus_stay() -> None:
    platform = machine("cuda:0", "cuda:1")
    found = with_messages(platform, [(0.001, 0.01)], sizes=(1, 1000))
    assert found.link("cuda:0", "cuda:1") == platform.link("cuda:0", "cuda:1")
    copied_s = platform.link("cuda:1", "cpu").duration_s(1000)
    assert found.link("cuda:1", "cpu").duration_s(1000) == pytest.approx(0.01 + copied_s)
    assert found.link("cuda:1", "cpu").blocking


# -- lists as plans of one process ---------------------------------------------------------------------


def test_a_ranks_gpu_has_the_number_that_its_process_sees() -> None:
    """a (cuda:1) ──▶ b (cuda:3), the second GPU of a second host: it is cuda:1 there, and cuda:1's values cuda:3's."""
    names = [f"cuda:{k}" for k in range(4)]
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:1"), name="a")
    b = work.task(torch.neg, a, name="b")
    work.copy(b, to="cpu", name="back")
    plan = by_hand(work, machine(*names), {"a": "cuda:1/s0", "b": "cuda:3/s0"})
    local = local_plan(compile_ranks(plan), 3, 1)
    assert [lane.device for lane in local.plan.lanes[1:]] == ["cuda:1"] * 3
    assert list(local.plan.names) == ["a>cuda:1", "b", "back"]
    assert (local.moves[0].source, local.moves[0].target) == ("cuda:3", "cuda:1")
    assert local.plan.homes == {"x": "cuda:3", "a": "cuda:3", "b": "cuda:1", "back": "cpu"}
    assert local.plan.buffer(plan.work["b"].reads[0], "cuda:1") == "a>cuda:1"


def test_a_lane_that_uses_a_gpu_and_the_host_is_the_gpus() -> None:
    """a (cuda:1), its copy to the host, read there by rank 0, and its copy to cuda:0: both on a's lane."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:1"), name="a")
    back = work.copy(a, to="cpu", name="back")
    there = work.copy(a, to="cuda:0", name="there")
    work.task(torch.neg, back, name="b")
    work.task(torch.neg, there, name="c")
    place = {"a": "cuda:1/s0", "b": "cpu/w0", "c": "cuda:0/s0"}
    lists = compile_ranks(by_hand(work, machine("cuda:0", "cuda:1"), place, copies="compute"))
    local = local_plan(lists, 0, 0).plan
    devices = {lane.name: lane.device for lane in local.lanes}
    assert [local.names[k] for k in range(2)] == ["back", "there"]
    assert devices["cuda:1/s0"] == "cuda:0"
    assert {lane.name: lane.device for lane in local_plan(lists, 1, 1).plan.lanes}["cuda:1/s0"] == "cuda:1"


def test_a_rank_frees_what_it_has_made() -> None:
    """Random plans on three workers: what a rank frees, a part of its own has made before."""
    count = 0
    for seed in range(10):
        plan = jobs.plan_of(seed, 3)
        lists = compile_ranks(plan)
        for rank in range(3):
            local = local_plan(lists, rank, rank)
            made: set[str] = set()
            for row, part in enumerate(local.parts):
                task = plan.task(part.action) if part.kind == "run" else None
                made |= {value.name for value in task.outputs} if task else {part.name}
                made -= {part.name} if part.kind == "send" else set()
                freed = local.plan.frees.get(row, ())
                assert made.issuperset(freed)
                count += len(freed)
    assert count > 20


def test_an_input_of_another_rank_that_is_not_dense_is_refused_here_too() -> None:
    """x lies on rank 0."""
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(3), device="cuda:0"), name="y")
    plan = by_hand(work, machine("cuda:0", "cuda:1"), "cuda:0/s0")
    memory = RankBuffers(plan, Places({"cuda:0": 0, "cuda:1": 1}, [(0, 0)], {"x": 0, "y": 0}), 1)
    memory.load({"x": torch.zeros(3)})
    with pytest.raises(WorkloadError, match=r"input 'x' must be dense, got a sparse_coo tensor: call .to_dense\(\)"):
        memory.load({"x": torch.ones(3).to_sparse()})


@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_no_tensor_is_refused_alike_on_every_rank(rank: int) -> None:
    """x and w lie on rank 0."""
    work = Workload()
    w = work.state("w", torch.ones(1), device="worker:0")
    work.task(torch.add, work.input("x", torch.ones(1), device="worker:0"), w, name="y")
    plan = by_hand(work, machine("worker:0", "worker:1"), "worker:0/s0")
    memory = RankBuffers(plan, Places({"worker:0": 0, "worker:1": 1}, [(0, 0)], {"x": 0, "w": 0, "y": 0}), rank)
    given: Any = [1.0]
    with pytest.raises(WorkloadError, match="input 'x' must be a tensor, got list"):
        memory.load({"x": given})
    with pytest.raises(WorkloadError, match="state 'w' must be a tensor, got list"):
        memory.restore({"w": given})


# -- messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t.t(),
        lambda t: t[:, ::2],
        lambda t: t[1],
        lambda t: t[0, 0],
        lambda t: t[:0],
        lambda t: t[:1].expand(3, 4),
        lambda t: t.conj(),
    ],
)
def test_any_tensor_arrives_as_a_copy_of_it_would(view: object, dtype: torch.dtype) -> None:
    """Bytes are taken out of one tensor and put into the other, as a message does."""
    tensor = view(torch.arange(12).view(3, 4).to(dtype))  # type: ignore[operator]
    layout = copied(TensorSpec.of(tensor))
    here = new_tensor(layout, "cpu")
    flat_bytes(here).copy_(flat_bytes(laid_out(tensor, layout, "cpu")))
    assert torch.equal(here, tensor)
    assert here.stride() == new_tensor(layout, "cpu").stride()
