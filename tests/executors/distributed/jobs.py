"""What the processes of these tests do; found by name in each of them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch

from graphsched.errors import GraphschedError, RankError
from graphsched.executors import execute
from graphsched.executors.distributed import RankProgram, join
from graphsched.executors.distributed.clock_offsets import measure_offsets
from graphsched.executors.distributed.message_links import measure_messages
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


def measure(rank: int) -> Any:
    """Offsets of clocks and seconds of messages, as rank 0 measures them."""
    world = join(20.0)
    return measure_offsets(world, 20.0), measure_messages(world)


# -- what goes wrong -----------------------------------------------------------------------------------


def fail(a: Any) -> Any:
    raise ValueError("no such luck")


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


WRONG = {"fail": fail, "die": die, "hang": hang, "stop": stop}


def chain(wrong: str = "", size: int = 4) -> Plan:
    """x ──▶ a (worker:0) ──▶ b (worker:1) ──▶ c (worker:2) ──▶ d (worker:0): b may be what goes wrong."""
    work = Workload("chain")
    value = work.input("x", torch.ones(size), device="worker:0")
    place = {"a": 0, "b": 1, "c": 2, "d": 0}
    for name in place:
        function = WRONG[wrong] if wrong and name == "b" else torch.neg
        value = work.task(function, value, name=name, outputs=[TensorSpec((size,))])
    return by_hand(work, machine(*workers(3)), {name: f"worker:{k}/s0" for name, k in place.items()})


def run_chain(rank: int, wrong: str, timeout_s: float) -> float:
    """Seconds that it took; what it raises says how long that took."""
    began = time.perf_counter()
    try:
        with RankProgram(chain(wrong), timeout_s=timeout_s) as program:
            program.run()
    except GraphschedError as error:
        raise type(error)(f"{error} ({time.perf_counter() - began:.1f} s)") from error
    return time.perf_counter() - began


def fail_beside(rank: int, timeout_s: float) -> None:
    """a (worker:0) and b (worker:1), which raises, have nothing to do with each other; rank 1 stays afterwards."""
    work = Workload()
    for k, function in enumerate((torch.neg, fail)):
        x = work.input(f"x{k}", torch.ones(4), device=f"worker:{k}")
        work.task(function, x, name="ab"[k], outputs=[TensorSpec((4,))])
    plan = by_hand(work, machine(*workers(2)), {"a": "worker:0/s0", "b": "worker:1/s0"})
    began = time.perf_counter()
    try:
        RankProgram(plan, timeout_s=timeout_s).run()
    except GraphschedError as error:
        if rank == 1:
            time.sleep(60)
        raise type(error)(f"{error} ({time.perf_counter() - began:.1f} s)") from error


def run_different_plans(rank: int) -> None:
    """Rank 1 has made its plan from something else."""
    RankProgram(chain(size=4 + rank % 2), timeout_s=20.0)


def run_twice(rank: int) -> str:
    """A second run after one that failed."""
    with pytest.raises(GraphschedError):
        run_chain(rank, "fail", 20.0)
    with pytest.raises(RankError) as caught:
        RankProgram(chain(), timeout_s=20.0)
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
