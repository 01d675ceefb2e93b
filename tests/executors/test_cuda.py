"""Programs on GPUs: results, copies, streams, clocks, failures."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from graphsched.errors import ExecutionError, ScheduleError, StuckError, TaskFailedError, WorkloadError
from graphsched.executors import Program, execute
from graphsched.plan import Plan
from graphsched.schedulers import schedule, schedulers
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import (
    Plain,
    add7,
    assert_same,
    by_hand,
    digits,
    machine,
    mm7,
    random_plan,
    random_workload,
    slow,
    step_,
)

pytestmark = pytest.mark.gpu

GPU = machine("cuda:0")
ROOT = Path(__file__).resolve().parents[2]
ONE = [TensorSpec((1,))]


def gpus(most: int = 4) -> tuple[str, ...]:
    return tuple(f"cuda:{k}" for k in range(min(most, torch.cuda.device_count())))


def poison(program: Program) -> None:
    """Fill what the allocator will give to the program's streams with NaN."""
    for lane in program._cuda.values():
        for stream in (lane.stream, *lane.targets.values()):
            with torch.cuda.stream(stream):
                blocks = [torch.full((8, 8), torch.nan, dtype=torch.float64, device=stream.device) for _ in range(40)]
                del blocks
    torch.cuda.synchronize()


def assert_runs_like_plain_pytorch(plan: Plan, runs: int = 3) -> None:
    """Several runs of one program against the loop over the workload's tasks on one GPU."""
    plain = Plain(plan.work, "cuda:0")
    with Program(plan) as program:
        poison(program)
        for step in range(runs):
            x = digits(100 + step)
            assert_same(program.run(x=x), plain.run(x=x))
        assert_same(program.state(), plain.states)


# -- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", schedulers())
def test_every_scheduler_on_one_gpu(scheduler: str) -> None:
    """A random graph over the GPU and the cpu."""
    if scheduler == "optimal":
        pytest.importorskip("ortools")
    work = random_workload(3, ("cuda:0", "cpu"))
    assert_runs_like_plain_pytorch(schedule(work, GPU, scheduler=scheduler))


@pytest.mark.parametrize("streams", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_random_placements_on_streams_of_one_gpu(seed: int, streams: int) -> None:
    """Pinned, pageable and fresh copies, on lanes of their own or on those that compute."""
    work = random_workload(seed, ("cuda:0",), tasks=20)
    assert_runs_like_plain_pytorch(random_plan(work, GPU, seed + streams, streams, on=("cuda:0",)))


@pytest.mark.parametrize("seed", range(8))
def test_random_placements_on_gpu_and_cpu(seed: int) -> None:
    """Tasks of the cpu feed those of the GPU and the other way."""
    work = random_workload(seed, ("cuda:0", "cpu"), tasks=20)
    assert_runs_like_plain_pytorch(random_plan(work, GPU, seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_stress(block: int) -> None:
    """200 random graphs on random streams of all GPUs without waits of the thread, in reused, poisoned memory."""
    names = gpus()
    for seed in range(20 * block, 20 * block + 20):
        work = random_workload(seed, names, tasks=40)
        plan = random_plan(work, machine(*names), seed, 1 + seed % 6, on=names, waits=False)
        assert_runs_like_plain_pytorch(plan, runs=2)


def test_a_task_of_the_cpu_between_two_of_the_gpu() -> None:
    """x (cpu) ──▶ a (GPU, slow) ──▶ b (cpu) ──▶ c (GPU), with the copies that this needs."""
    work = Workload()
    x = work.input("x", digits(1))
    a = work.task(slow, x, name="a")
    b = work.task(add7, a, x, name="b")
    work.task(mm7, b, a, name="c")
    plan = by_hand(work, GPU, {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:0/s1"})
    assert list(plan.names) == ["x>cuda:0", "a", "a>cpu", "b", "b>cuda:0", "c"]
    with Program(plan) as program:
        for _ in range(3):
            result = program.run()["c"]
            assert result.device == torch.device("cuda:0")
            assert torch.equal(result.cpu(), mm7(add7(slow(digits(1)), digits(1)), slow(digits(1))))


def test_random_numbers_are_those_of_torchs_generator() -> None:
    """x ──▶ dropout ──▶ dropout on one stream, from one seed."""
    x = torch.ones(1000, device="cuda:0")
    work = Workload()
    value = work.input("x", x, device="cuda:0")
    for name in "ab":
        value = work.task(torch.nn.functional.dropout, value, name=name)
    plan = by_hand(work, GPU, "cuda:0/s0")
    torch.manual_seed(7)
    expected = torch.nn.functional.dropout(torch.nn.functional.dropout(x))
    before = torch.cuda.get_rng_state()
    with Program(plan) as program:
        torch.manual_seed(7)
        assert torch.equal(program.run()["b"], expected)
        torch.manual_seed(7)
        program.time_once()
        assert torch.equal(torch.cuda.get_rng_state(), before)
    execute(plan, repeats=2)
    assert torch.equal(torch.cuda.get_rng_state(), before)


# -- copies and memory -----------------------------------------------------------------------------


@pytest.mark.parametrize("copies", ["own", "compute"])
@pytest.mark.parametrize("memory", ["pinned", "pageable", "fresh"])
def test_copies_to_the_host(memory: str, copies: Any) -> None:
    """x ──▶ a (slow) ──▶ back: the kind of memory asked for, valid until the run after next."""
    work = Workload()
    a = work.task(slow, work.input("x", digits(1), device="cuda:0"), name="a")
    work.copy(a, to="cpu", name="back", pinned=memory == "pinned", fresh=memory == "fresh")
    plan = by_hand(work, GPU, "cuda:0/s0", copies=copies)
    assert plan.lanes[plan.lane_of[1]].name == ("cuda:0/d2h" if copies == "own" else "cuda:0/s0")
    with Program(plan) as program:
        backs = [program.run(x=digits(k))["back"] for k in (1, 2)]
        for k, back in zip((1, 2), backs, strict=True):
            assert back.is_pinned() == (memory == "pinned")
            assert torch.equal(back, slow(digits(k)))
        assert backs[0].data_ptr() != backs[1].data_ptr()


def test_inputs_wait_in_pinned_memory_or_at_home() -> None:
    """x (cpu) and y (GPU): each may be given on the host, y on its GPU too."""
    work = Workload()
    x, y = work.input("x", digits(1)), work.input("y", digits(2), device="cuda:0")
    work.task(add7, x, y, name="sum")
    with Program(by_hand(work, GPU, "cuda:0/s0")) as program:
        slots, slot_of = program.buffers.slots, program.buffers.slot_of
        assert slots[slot_of["x"]].is_pinned()
        assert slots[slot_of["y"]].device == torch.device("cuda:0")
        for given in (digits(4), digits(4).to("cuda:0")):
            result = program.run(x=digits(3), y=given)["sum"]
            assert torch.equal(result.cpu(), add7(digits(3), digits(4)))
        with pytest.raises(WorkloadError, match="'x' is on cpu, got a tensor on cuda:0: give one there or on the host"):
            program.run(x=digits(3).to("cuda:0"), y=digits(4))


def test_what_the_plan_frees_is_used_again() -> None:
    """A chain of 12 tensors of 64 MB on one stream never holds more than three, and none after the run."""
    work = Workload()
    value = work.input("x", torch.ones(16 << 20), device="cuda:0")
    for i in range(12):
        value = work.task(torch.neg, value, name=f"t{i}")
    work.task(torch.sum, value, name="sum")
    with Program(by_hand(work, GPU, "cuda:0/s0")) as program:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        program.run()
        assert torch.cuda.max_memory_allocated() - before <= 3 * (64 << 20) + (1 << 20)
        assert torch.cuda.memory_allocated() - before < 1 << 20


# -- streams and devices ---------------------------------------------------------------------------


def test_the_users_stream_and_device_are_as_before() -> None:
    """After a run, and after one that fails, inside a stream of the user's own."""
    work = Workload()
    work.task(lambda t: torch.neg(t) if t.sum() >= 0 else 1 / 0, work.input("x", torch.ones(1)), name="y", outputs=ONE)
    mine = torch.cuda.Stream()
    with Program(by_hand(work, GPU, "cuda:0/s0")) as program, torch.cuda.stream(mine):
        program.run()
        assert torch.cuda.current_stream() == mine
        with pytest.raises(TaskFailedError):
            program.run(x=-torch.ones(1))
        assert torch.cuda.current_stream() == mine
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_a_run_waits_for_what_the_user_has_under_way() -> None:
    """x is made by slow work on the user's stream and given without waiting for it."""
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(4), device="cuda:0"), name="y")
    with Program(by_hand(work, GPU, "cuda:0/s0")) as program:
        torch.cuda._sleep(20_000_000)
        x = torch.full((4,), 3.0, device="cuda:0")
        assert program.run(x=x)["y"].tolist() == [-3.0] * 4


def lanes_of(count: int, copies: int = 0) -> Plan:
    """x ──▶ t0, t1, …: each on a stream of its own; x ──▶ copies on the host."""
    work = Workload()
    x = work.input("x", torch.ones(1), device="cuda:0")
    for k in range(count):
        work.task(torch.neg, x, name=f"t{k}")
    for k in range(copies):
        work.copy(x, to="cpu", name=f"copy{k}")
    return by_hand(work, GPU, {f"t{k}": f"cuda:0/s{k}" for k in range(count)})


def test_all_streams_of_the_pool_are_distinct() -> None:
    """32 lanes of one GPU."""
    with Program(lanes_of(32)) as program:
        assert len({lane.stream.cuda_stream for lane in program._cuda.values()}) == 32
        assert len(program.run()) == 32


def test_more_lanes_than_the_pool_has_streams_are_refused() -> None:
    """32 lanes that compute and one that copies."""
    with pytest.raises(ScheduleError, match="more than 32 streams on cuda:0"):
        Program(lanes_of(32, copies=1))


def test_a_gpu_that_is_not_here_is_refused() -> None:
    """One more than there are."""
    here = torch.cuda.device_count()
    name = f"cuda:{here}"
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(1)), name="y")
    with pytest.raises(ExecutionError, match=f"the plan runs on {name}, this host has {here} CUDA devices"):
        Program(by_hand(work, machine(name), f"{name}/s0"))


# -- time ------------------------------------------------------------------------------------------

CYCLES = 4_000_000


def spin(x: torch.Tensor) -> torch.Tensor:
    if x.is_cuda:
        torch.cuda._sleep(CYCLES)
    return x + 1


def spin_s() -> float:
    """Seconds of one `spin` on the first GPU, after some that raise its clocks."""
    x = torch.ones(1, device="cuda:0")
    samples = []
    for _ in range(60):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        spin(x)
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) / 1e3)
    return statistics.median(samples[-9:])


def spins(lanes: str) -> Plan:
    """x ──▶ t0 ──▶ t1 ──▶ … on one lane each by its digit; a letter starts a chain of its own."""
    work = Workload()
    x = value = work.input("x", torch.ones(1), device="cuda:0")
    place = {}
    for i, lane in enumerate(lanes):
        value = work.task(spin, x if lane.isalpha() else value, name=f"t{i}")
        place[f"t{i}"] = f"cuda:0/s{ord(lane) - ord('a') if lane.isalpha() else lane}"
    return by_hand(work, GPU, place)


@pytest.mark.parametrize("lanes", ["000000", "012012"])
def test_a_chain_takes_the_sum_of_its_tasks(lanes: str) -> None:
    """Six spins of about 2 ms, on one stream and across three."""
    one = spin_s()
    timeline = execute(spins(lanes), repeats=5)
    assert timeline.makespan_s == pytest.approx(6 * one, rel=0.05)
    assert timeline.timed_makespan_s == pytest.approx(6 * one, rel=0.05)
    for span in timeline:
        assert span.duration_s == pytest.approx(one, rel=0.05)
    assert timeline.end_s[-1] - timeline.start_s[0] == pytest.approx(6 * one, rel=0.05)


def test_spins_on_four_streams_run_at_once() -> None:
    """Four chains of one task."""
    one = spin_s()
    timeline = execute(spins("abcd"), repeats=5)
    assert timeline.makespan_s < 1.5 * one
    assert timeline.overlap_s(["cuda:0/s0"], ["cuda:0/s3"]) > 0.7 * one


def test_a_pinned_copy_runs_beside_a_product_and_a_pageable_one_holds_the_thread() -> None:
    """big ──▶ back (d2h) beside t (spin), which is dispatched after the copy."""
    for memory, together in (("pinned", True), ("fresh", False)):
        work = Workload()
        big = work.input("big", torch.ones(64 << 20, dtype=torch.uint8), device="cuda:0")
        x = work.input("x", torch.ones(1), device="cuda:0")
        work.copy(big, to="cpu", name="back", pinned=memory == "pinned", fresh=memory == "fresh")
        work.task(spin, x, name="t")
        timeline = execute(by_hand(work, GPU, "cuda:0/s0"), repeats=3)
        assert (timeline.issue_end_s[0] - timeline.issue_start_s[0] < 0.5e-3) == together
        assert (timeline.overlap_s(["cuda:0/d2h"], ["cuda:0/s0"]) > 0.5e-3) == together


def test_spans_are_on_the_threads_clock() -> None:
    """Every span starts after its issue began and ends before the thread goes on, within the uncertainty."""
    timeline = execute(spins("010a1b"), repeats=3)
    slack = timeline.clock_uncertainty_s + 2e-6
    assert 0 < timeline.clock_uncertainty_s < 5e-5
    assert (timeline.start_s >= timeline.issue_start_s - slack).all()
    assert (timeline.end_s > timeline.start_s).all()
    assert timeline.end_s.max() <= timeline.timed_makespan_s + slack


def test_the_thread_waits_for_a_stream() -> None:
    """x ──▶ a (spin) ──▶ wait ──▶ b: b is issued after a is over."""
    work = Workload()
    x = work.input("x", torch.ones(1), device="cuda:0")
    work.task(spin, x, name="a")
    work.barrier("gate")
    work.task(torch.neg, x, name="b")
    timeline = execute(by_hand(work, GPU, {"a": "cuda:0/s0", "b": "cuda:0/s1"}), repeats=3)
    a, gate, b = timeline
    slack = timeline.clock_uncertainty_s + 2e-6
    assert gate.end_s >= a.end_s - slack
    assert gate.end_s - gate.start_s > 0.5 * spin_s()
    assert b.issue_start_s >= gate.end_s


# -- failures --------------------------------------------------------------------------------------


def test_a_failing_task_is_named_with_its_stream() -> None:
    """x ──▶ a (slow) ──▶ bad (shapes do not fit in the second run) ──▶ c."""
    limit = [0]

    def bad(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(3, 3, dtype=x.dtype, device=x.device) if limit[0] else x + 1

    work = Workload()
    a = work.task(slow, work.input("x", digits(1)), name="a")
    b = work.task(bad, a, name="bad", outputs=[TensorSpec((8, 8), "float64")])
    work.task(torch.neg, b, name="c")
    with Program(by_hand(work, GPU, {"a": "cuda:0/s0", "bad": "cuda:0/s1", "c": "cuda:0/s0"})) as program:
        good = program.run()["c"].clone()
        limit[0] = 1
        with pytest.raises(
            TaskFailedError, match=r"'bad' failed on lane cuda:0/s1 with inputs a: float64\[8,8\]: Runtime"
        ):
            program.run()
        limit[0] = 0
        assert torch.equal(program.run()["c"], good)


def test_a_task_that_returns_a_tensor_of_another_device() -> None:
    """x (GPU) ──▶ y = x.cpu()."""
    work = Workload()
    work.task(lambda t: t.cpu(), work.input("x", torch.ones(1), device="cuda:0"), name="y", outputs=ONE)
    message = r"'y' failed on lane cuda:0/s0 .* ran on cuda:0 and returned y on cpu: .*work.copy"
    with Program(by_hand(work, GPU, "cuda:0/s0")) as program, pytest.raises(TaskFailedError, match=message):
        program.run()


def long_once() -> tuple[Plan, list[int]]:
    """x ──▶ t, which spins for about two seconds in its first call ──▶ copy on the host."""
    left = [1]

    def long(x: torch.Tensor) -> torch.Tensor:
        if left and x.is_cuda:
            left.pop()
            torch.cuda._sleep(4_000_000_000)
        return x + 1

    work = Workload()
    t = work.task(long, work.input("x", torch.ones(1)), name="t", outputs=ONE)
    work.copy(t, to="cpu", name="back", pinned=True)
    return by_hand(work, GPU, "cuda:0/s0"), left


def test_a_stream_that_hangs() -> None:
    """The run is ended, names the lane, and the next one is right."""
    with Program(long_once()[0], timeout_s=0.3) as program:
        with pytest.raises(
            StuckError, match=r"waited for the end of lane cuda:0/\w+ beyond 0.3 s.*not over: .*cuda:0/s0"
        ):
            program.run()
        program._timeout_s = 60.0
        assert program.run(x=torch.zeros(1))["back"].item() == 1.0


def test_ctrl_c_while_a_stream_is_busy() -> None:
    """The interrupt comes through at once, and the next run is right."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    try:
        with Program(long_once()[0]) as program:
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                program.run()
            assert program.run(x=torch.zeros(1))["back"].item() == 1.0
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def child(code: str, **environment: str) -> str:
    """What a process of its own prints: CUDA's errors stay with the process that met them."""
    head = """
        import os

        import torch
        from graphsched.errors import *
        from graphsched.executors import Program
        from graphsched.workload import TensorSpec, Workload
        from tests.executors.programs import by_hand, machine
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


BAD_INDEX = """
    work = Workload()
    x, at = work.input("x", torch.ones(4), device="cuda:0"), work.input("at", torch.tensor([99]), device="cuda:0")
    work.task(torch.neg, x, name="first")
    y = work.task(lambda t, i: t[i], x, at, name="bad", outputs=[TensorSpec((1,))])
    work.task(torch.neg, y, name="last")
    plan = by_hand(work, machine("cuda:0"), "cuda:0/s0")
    program = Program(plan, timeout_s=20)
    try:
        program.run()
    except TaskFailedError as error:
        print("caught", error, flush=True)
    os._exit(0)  # what torch does at the end of a process whose GPU has failed is not ours
"""


def test_an_error_inside_a_kernel_is_reported() -> None:
    """An index out of range: late by nature, with the way to find the task."""
    found = child(BAD_INDEX)
    assert "caught" in found
    assert "device-side assert" in found
    assert "CUDA_LAUNCH_BLOCKING=1" in found or "CUDA reports errors of earlier work late" in found


def test_an_error_inside_a_kernel_is_named_when_launches_block() -> None:
    """The same with CUDA_LAUNCH_BLOCKING=1."""
    assert "caught 'bad' failed on lane cuda:0/s0" in child(BAD_INDEX, CUDA_LAUNCH_BLOCKING="1")


# -- several GPUs ----------------------------------------------------------------------------------


@pytest.mark.multigpu
@pytest.mark.parametrize("between", ["peer", "staged"])
@pytest.mark.parametrize("seed", range(8))
def test_random_placements_on_several_gpus(seed: int, between: str) -> None:
    """Copies between GPUs directly, and through pinned host memory."""
    names = gpus()
    work = random_workload(seed, names, tasks=24)
    assert_runs_like_plain_pytorch(random_plan(work, machine(*names, between=between), seed, 2, on=names))


@pytest.mark.multigpu
@pytest.mark.parametrize("seed", range(8))
def test_random_placements_on_everything(seed: int) -> None:
    """All GPUs and the cpu."""
    names = (*gpus(), "cpu")
    work = random_workload(seed, names, tasks=24)
    assert_runs_like_plain_pytorch(random_plan(work, machine(*names[:-1]), seed, 2))


@pytest.mark.multigpu
@pytest.mark.parametrize("copies", ["own", "compute"])
@pytest.mark.parametrize("between", ["peer", "staged"])
def test_a_chain_over_two_gpus(between: str, copies: Any) -> None:
    """x ──▶ a (cuda:0, slow) ──▶ there (cuda:1) ──▶ b (cuda:1, slow) ──▶ c (cuda:0) ──▶ back (cpu)."""
    work = Workload()
    x = work.input("x", digits(1), device="cuda:0")
    a = work.task(slow, x, name="a", device="cuda:0")
    there = work.copy(a, to="cuda:1", name="there")
    b = work.task(slow, there, name="b", device="cuda:1")
    c = work.task(add7, b, a, name="c", device="cuda:0")
    work.copy(c, to="cpu", name="back", pinned=True)
    place = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s1"}
    plan = by_hand(work, machine("cuda:0", "cuda:1", between=between), place, copies=copies)
    with Program(plan) as program:
        for k in range(3):
            expected = add7(slow(slow(digits(k))), slow(digits(k)))
            assert torch.equal(program.run(x=digits(k))["back"], expected)
    timeline = execute(plan, repeats=3)
    assert timeline.clock_uncertainty_s < 5e-5


@pytest.mark.multigpu
def test_a_state_is_updated_at_home_and_read_elsewhere() -> None:
    """step_(w, x) on cuda:0, y = 2w on cuda:1 before and after."""
    work = Workload()
    x, w = work.input("x", digits(1)), work.state("w", digits(2), device="cuda:0")
    work.task(add7, w, w, name="old", device="cuda:1")
    work.task(step_, w, x, updates=w, name="step")
    work.task(add7, w, w, name="new", device="cuda:1")
    place = {"old": "cuda:1/s0", "step": "cuda:0/s0", "new": "cuda:1/s1"}
    assert_runs_like_plain_pytorch(by_hand(work, machine("cuda:0", "cuda:1"), place))


@pytest.mark.multigpu
def test_the_users_device_is_as_before() -> None:
    """The last action is on cuda:1."""
    work = Workload()
    y = work.task(torch.neg, work.input("x", torch.ones(1)), name="y", device="cuda:1")
    work.copy(y, to="cpu", name="back")
    with Program(by_hand(work, machine("cuda:0", "cuda:1"), "cuda:1/s0")) as program:
        program.run()
        assert torch.cuda.current_device() == 0
        for k in (0, 1):
            assert torch.cuda.current_stream(k) == torch.cuda.default_stream(k)
        with torch.cuda.device(1):
            program.run()
            assert torch.cuda.current_device() == 1


@pytest.mark.multigpu
def test_a_program_leaves_gpus_alone_that_it_does_not_use() -> None:
    """A run on cuda:0 makes no context on cuda:1."""
    code = """
        work = Workload()
        work.task(torch.neg, work.input("x", torch.ones(1)), name="y")
        with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0")) as program:
            program.run()
        print([torch._C._cuda_hasPrimaryContext(k) for k in (0, 1)])
    """
    assert child(code).strip() == "[True, False]"
