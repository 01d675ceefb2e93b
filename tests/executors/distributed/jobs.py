"""What the processes of these tests do; found by name in each of them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphsched
from graphsched.collectives import all_reduce
from graphsched.errors import ExecutionError, GraphschedError, RankError, WorkloadError
from graphsched.executors import execute, repeats
from graphsched.executors.distributed import RankProgram, connecting, join, pulses, termination
from graphsched.executors.distributed.clock_offsets import measure_offsets
from graphsched.executors.distributed.lost import LostRankError
from graphsched.executors.distributed.measuring import measured_spans
from graphsched.executors.distributed.message_links import measure_messages
from graphsched.executors.distributed.rank_buffers import RankBuffers
from graphsched.executors.distributed.termination import in_order
from graphsched.executors.distributed.world import PATIENCE_S, World
from graphsched.kvstore import Builder
from graphsched.plan import Plan
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import by_hand, digits, machine, random_plan, random_workload


def workers(count: int) -> list[str]:
    return [f"worker:{k}" for k in range(count)]


def plan_of(seed: int, count: int, tasks: int = 20) -> Plan:
    """A random plan on so many workers and the host, the same in every process."""
    names = workers(count)
    work = random_workload(seed, names, tasks=tasks)
    return random_plan(work, machine(*names), seed, 1 + seed % 3, on=[*names, "cpu"])


def run_plans(rank: int, count: int, seeds: list[int]) -> list[Any]:
    """Of each plan the results of two runs, and the states then."""
    return _run_all([plan_of(seed, count) for seed in seeds])


def _run_all(plans: list[Plan]) -> list[Any]:
    found = []
    for plan in plans:
        with RankProgram(plan, timeout_s=20.0) as program:
            runs = [program.run(x=digits(step)) for step in range(2)]
            found.append([{name: t.numpy() for name, t in run.items()} for run in (*runs, program.state())])
    return found


def time_plan(rank: int, seed: int, count: int) -> Any:
    timeline = execute(plan_of(seed, count), mode="distributed", repeats=3, warmup=1, timeout_s=20.0)
    return timeline.to_dict()


def rest_between_runs(rank: int) -> list[float]:
    """When rank 0 was free to do something else, and when rank 1, which is slow at that, had cleared its memory."""
    moments: list[float] = []

    def now() -> None:
        moments.append(time.perf_counter())

    if rank == 0:
        execute(plan_of(5, 2), mode="distributed", repeats=2, warmup=0, timeout_s=20.0, between=now)
        return moments
    clear = RankBuffers.clear

    def slow(buffers: RankBuffers) -> None:
        time.sleep(0.1)
        clear(buffers)
        now()

    RankBuffers.clear = slow  # type: ignore[method-assign]
    execute(plan_of(5, 2), mode="distributed", repeats=2, warmup=0, timeout_s=20.0, between=lambda: None)
    return moments


def count_timed_runs(rank: int, threads: int) -> int:
    """Runs with timing that a rank makes for its spans: x ──▶ a (on rank 0, whose lane has so many threads) ──▶ b."""
    repeats.SETTLED_S = repeats.SETTLED_ON_THREADS_S = 60.0
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(1)), name="a")
    work.task(torch.neg, a, name="b")
    here = machine(*workers(2), threads={"worker:0": threads})
    with RankProgram(by_hand(work, here, {"a": "worker:0/s0", "b": "worker:1/s0"}), timeout_s=20.0) as program:
        run, ran = program.time_spans, []

        def counted() -> Any:
            ran.append(rank)
            return run()

        program.time_spans = counted  # type: ignore[method-assign]
        measured_spans(program)
    return len(ran)


def measure(rank: int) -> Any:
    """Offsets of clocks and seconds of messages, as rank 0 measures them."""
    world = join(20.0)
    return measure_offsets(world, 20.0), measure_messages(world)


# -- what goes wrong -----------------------------------------------------------------------------------


def refuse(a: Any) -> Any:
    raise RuntimeError("no route to host")


def refuse_silently(a: Any) -> Any:
    raise RuntimeError("")


def fail(a: Any) -> Any:
    raise ValueError("no such luck")


def leave(a: Any) -> Any:
    sys.exit(3)


def interrupt(a: Any) -> Any:
    """What Ctrl-C does to the main thread, which waits for the end of this task's rank."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
    return a


def raise_interrupt(a: Any) -> Any:
    raise KeyboardInterrupt


def die(a: Any) -> Any:
    os._exit(7)


def hang(a: Any) -> Any:
    time.sleep(60)
    return a


def stop(a: Any) -> Any:
    """No thread of the process goes on."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)
    return a


def short(a: Any) -> Any:
    return a[:1]


WRONG = {
    "fail": fail,
    "leave": leave,
    "interrupt": interrupt,
    "raise interrupt": raise_interrupt,
    "refuse": refuse,
    "refuse silently": refuse_silently,
    "die": die,
    "hang": hang,
    "stop": stop,
    "short": short,
}


def chain(wrong: str = "", size: int = 4, at: str = "b") -> Plan:
    """x ──▶ a (worker:0) ──▶ b (worker:1) ──▶ c (worker:2) ──▶ d (worker:0): one of them may be what goes wrong."""
    return chain_over({"a": 0, "b": 1, "c": 2, "d": 0}, wrong, size, at)


def chain_over(place: dict[str, int], wrong: str, size: int, at: str) -> Plan:
    """A chain of tasks, each on the worker of this number."""
    work = Workload("chain")
    value = work.input("x", torch.ones(size), device="worker:0")
    for name in place:
        function = WRONG[wrong] if wrong and name == at else torch.neg
        value = work.task(function, value, name=name, outputs=[TensorSpec((size,))])
    return by_hand(work, machine(*workers(max(place.values()) + 1)), {n: f"worker:{k}/s0" for n, k in place.items()})


def run_chain(rank: int, wrong: str, timeout_s: float, at: str = "b") -> float:
    """Seconds that it took; what it raises says how long that took."""
    return _timed(lambda: RankProgram(chain(wrong, at=at), timeout_s=timeout_s).run())


def run_long_chain(rank: int, wrong: str, timeout_s: float) -> float:
    """As `run_chain`, over four workers: a, b, c, d, and e on the first again."""
    place = {"a": 0, "b": 1, "c": 2, "d": 3, "e": 0}
    return _timed(lambda: RankProgram(chain_over(place, wrong, 4, "b"), timeout_s=timeout_s).run())


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    try:
        call()
    except GraphschedError as error:
        raise type(error)(f"{error} ({time.perf_counter() - began:.1f} s)") from error
    return time.perf_counter() - began


def interrupted(rank: int, wrong: str) -> list[str]:
    """What a rank says of two runs of a chain."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = RankProgram(chain_over({"a": 0, "b": 1, "c": 0}, wrong, 4, "b"), timeout_s=50.0)
    return [_ends(program.run) for _ in range(2)]


def _ends(call: Callable[[], object]) -> str:
    try:
        return f"returned {call()}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def wrong_before_a_run(rank: int, who: int, wrong: str, timeout_s: float) -> float:
    """Rank `who` goes wrong after all have met, and before plans are compared."""
    join(timeout_s)
    if rank == who:
        WRONG[wrong](None)
    return _timed(lambda: RankProgram(chain(), timeout_s=timeout_s))


def wrong_while_connecting(rank: int, who: int, wrong: str, timeout_s: float) -> None:
    """Rank `who` goes wrong after all have met, and before messages can pass."""
    if rank == who:
        connecting._two_ways = WRONG[wrong]
    join(timeout_s)


def stop_while_others_are_patient(rank: int) -> float:
    """Rank 0 stops where the others would wait an hour for it."""
    pulses.BEAT_S, pulses.SILENT_LOOKS = 0.2, 5
    world = join(20.0)
    world.share(None, 20.0, "a first message")
    if rank == 0:
        stop(None)
    return _timed(lambda: world.share(None, PATIENCE_S, "what rank 0 says next"))


def wrong_input(rank: int, who: list[int]) -> str:
    """Ranks `who` are given an input of another shape; x lies on rank 0."""
    program = RankProgram(chain(), timeout_s=20.0)
    with pytest.raises(GraphschedError) as caught:
        program.run(x=torch.ones(5 if rank in who else 4))
    return f"{type(caught.value).__name__}: {caught.value}"


def wrong_output(rank: int) -> None:
    """b declares four numbers and returns one, which c would take for four."""
    RankProgram(chain("short"), timeout_s=20.0).run()


def later_output(rank: int) -> None:
    """b returns one number in the second run, which c would take for four."""
    results = [torch.ones(4), torch.ones(1)]
    WRONG["later"] = lambda a: results.pop(0)
    with RankProgram(chain("later"), timeout_s=20.0) as program:
        program.run()
        program.run()


def other_version(rank: int) -> None:
    """Rank 1 has another version of graphsched."""
    graphsched.__version__ = f"0.{rank % 2}"
    join(20.0)


def more_ranks(rank: int) -> Any:
    """A plan for three workers."""
    with RankProgram(chain(), timeout_s=20.0) as program:
        return {name: tensor.tolist() for name, tensor in program.run().items()}


def wrong_workloads(rank: int) -> list[str]:
    """What cannot be built, on any rank."""
    found = []
    for build in (_sum_of_shapes, _sum_of_types, _pull_first, _push_twice):
        with pytest.raises(WorkloadError) as caught:
            build(Workload())
        found.append(str(caught.value))
    return found


def _sum_of_shapes(work: Workload) -> None:
    all_reduce(work, [work.input(f"x{k}", torch.ones(4 + k), device=f"worker:{k}") for k in range(2)])


def _sum_of_types(work: Workload) -> None:
    types = (torch.float32, torch.float64)
    all_reduce(work, [work.input(f"x{k}", torch.ones(4, dtype=types[k]), device=f"worker:{k}") for k in range(2)])


def _pull_first(work: Workload) -> None:
    Builder(work, servers=["worker:0"], workers=2).pull("w", device="worker:1")


def _push_twice(work: Workload) -> None:
    store = Builder(work, servers=["worker:0"], workers=2)
    x = work.input("x", torch.ones(4), device="worker:0")
    store.push("w", x, worker=0)
    store.push("w", x, worker=0)


def told_to_end(rank: int) -> str:
    """Rank 0 is told to end while it waits for a message of rank 1, which hangs."""
    world = join(20.0)
    if rank == 1:
        time.sleep(60)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with in_order(world), pytest.raises(RankError) as caught:
        world.collect(None, 60.0, "an answer")
    return str(caught.value)


def told_to_end_beside_a_child(rank: int) -> tuple[int, int, int]:
    """The signal that ends a forked child, and how often a wait is ended by it and then by one to this process."""
    termination.NOTICE_S = 0.1
    termination._why_ended = lambda world: LostRankError("it was told to end", world.rank)
    world = join(20.0)
    termination.stand_by(world)
    ended: list[LostRankError] = []
    with world.waiting(ended.append):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        time.sleep(0.2)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        time.sleep(1.0)
        by_child = len(ended)
        os.kill(os.getpid(), signal.SIGTERM)
        until = time.monotonic() + 20.0
        while not ended and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
    return os.WTERMSIG(status), by_child, len(ended)


def told_to_end_at_work(rank: int) -> tuple[str, list[str]]:
    """Rank 1 is killed, so that torchrun ends ranks 0, which measures, and 2, which waits for it.

    What rank 0 or 2 ends with, and what it did before.
    """
    world = join(20.0)
    world.gather(None, 20.0, "the beginning")
    if rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    done: list[str] = []
    with pytest.raises(RankError) as caught, in_order(world):
        _measure(world, done)
    return str(caught.value), done


def _measure(world: World, done: list[str]) -> None:
    try:
        if world.rank == 0:
            time.sleep(30)
        world.share(None, 60.0, "the next plan")
    except Exception:
        done.append("took it for a failed case")
        raise
    finally:
        done.append("wrote results")


def wrong_beside(rank: int, wrong: str, timeout_s: float) -> None:
    """a (worker:0) and b (worker:1), which goes wrong, have nothing to do with each other; rank 1 stays if it can."""
    work = Workload()
    for k, function in enumerate((torch.neg, WRONG[wrong])):
        x = work.input(f"x{k}", torch.ones(4), device=f"worker:{k}")
        work.task(function, x, name="ab"[k], outputs=[TensorSpec((4,))])
    plan = by_hand(work, machine(*workers(2)), {"a": "worker:0/s0", "b": "worker:1/s0"})
    try:
        _timed(lambda: RankProgram(plan, timeout_s=timeout_s).run())
    finally:
        if rank == 1:
            time.sleep(60)


def run_different_plans(rank: int) -> None:
    """Rank 1 has made its plan from something else."""
    RankProgram(chain(size=4 + rank % 2), timeout_s=20.0)


def run_twice(rank: int) -> list[str]:
    """What everything says after a run that failed: its program, one made before it, and a new one."""
    failed, other = (RankProgram(chain(wrong), timeout_s=20.0) for wrong in ("fail", ""))
    with pytest.raises(GraphschedError):
        failed.run()
    again: list[Callable[[], object]] = [failed.run, other.run, other.time_once, other.state, other.reset]
    again += [lambda: other.load({}), lambda: other.at_rest(list), lambda: RankProgram(chain(), timeout_s=20.0)]
    return [_refused(call, RankError) for call in again]


def use_from_two_threads(rank: int) -> tuple[list[str], float]:
    """What a program says while another thread is in it; what that got."""
    found: list[float] = []
    with RankProgram(chain(), timeout_s=50.0) as program:
        begun, go = threading.Event(), threading.Event()

        def work() -> None:
            program.at_rest(lambda: begun.set() or go.wait(50))
            found.append(sum(t.sum().item() for t in program.run().values()))

        other = threading.Thread(target=work)
        other.start()
        begun.wait(50)
        calls: list[Callable[[], object]] = [program.run, program.state, program.reset, program.time_once]
        calls += [program.time_spans, program.close, lambda: program.load({}), lambda: program.at_rest(list)]
        refused = [_refused(call, ExecutionError) for call in calls]
        go.set()
        other.join()
    return refused, found[0]


def use_closed(rank: int) -> list[str]:
    """What a program says that is closed; the next one runs."""
    with RankProgram(chain(), timeout_s=20.0) as closed:
        pass
    found = [_refused(call, ExecutionError) for call in (closed.run, closed.reset, closed.time_once, closed.time_spans)]
    with RankProgram(chain(), timeout_s=20.0) as program:
        program.run()
    return found


def _refused(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def need_more(rank: int) -> None:
    RankProgram(chain(), timeout_s=20.0)


def meet(rank: int, size: int, timeout_s: float) -> None:
    os.environ["WORLD_SIZE"] = str(size)
    join(timeout_s)


# -- on GPUs -------------------------------------------------------------------------------------------


def gpu_plan(seed: int, host: bool) -> Plan:
    """A random plan on two GPUs, and the host's lanes if asked for."""
    names = ["cuda:0", "cuda:1"]
    work = random_workload(seed, names, tasks=20, memories=host)
    return random_plan(work, machine(*names), seed, 1 + seed % 3, on=[*names, "cpu"] if host else names)


def run_gpu_plans(rank: int, seeds: list[int], host: bool) -> list[Any]:
    """As `run_plans`."""
    return _run_all([gpu_plan(seed, host) for seed in seeds])


def time_gpu_plan(rank: int, seed: int) -> Any:
    return execute(gpu_plan(seed, False), mode="distributed", repeats=3, warmup=2, timeout_s=60.0).to_dict()


def spin(a: Any) -> Any:
    """The GPU is at it for about a minute, and the thread goes on."""
    torch.cuda._sleep(10**11)
    return torch.neg(a)


WRONG["spin"] = spin


def gpu_chain(wrong: str) -> Plan:
    """x ──▶ a (cuda:0) ──▶ b (cuda:1), which goes wrong ──▶ c (cuda:0)."""
    work = Workload("chain")
    value = work.input("x", torch.ones(4), device="cuda:0")
    for name in "abc":
        function = WRONG[wrong] if wrong and name == "b" else torch.neg
        value = work.task(function, value, name=name, outputs=[TensorSpec((4,))])
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0"}
    return by_hand(work, machine("cuda:0", "cuda:1"), lanes)


def run_gpu_chain(rank: int, wrong: str, timeout_s: float) -> float:
    """As `run_chain`; the second run goes wrong: the first one makes NCCL's connections."""
    with RankProgram(gpu_chain(""), timeout_s=60.0) as program:
        program.run()
    return _timed(lambda: RankProgram(gpu_chain(wrong), timeout_s=timeout_s).run())


def gpu_sum(wrong: str) -> Plan:
    """x0 ──▶ a (cuda:0) ──▶ sum over both GPUs ◀── b (cuda:1), which goes wrong, ◀── x1."""
    work, made = Workload("sum"), []
    for k, name in enumerate("ab"):
        x = work.input(f"x{k}", torch.ones(4), device=f"cuda:{k}")
        function = WRONG[wrong] if wrong and name == "b" else torch.neg
        made.append(work.task(function, x, name=name, outputs=[TensorSpec((4,))]))
    work.keep(*work.collective("all_reduce", made, devices=["cuda:0", "cuda:1"], name="sum"))
    return by_hand(work, machine("cuda:0", "cuda:1"), {"a": "cuda:0/s0", "b": "cuda:1/s0"})


def run_gpu_sum(rank: int, wrong: str, timeout_s: float) -> float:
    """As `run_gpu_chain`."""
    with RankProgram(gpu_sum(""), timeout_s=60.0) as program:
        program.run()
    return _timed(lambda: RankProgram(gpu_sum(wrong), timeout_s=timeout_s).run())
