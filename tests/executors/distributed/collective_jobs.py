"""What the processes of the tests of collectives do; found by name in each of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any, get_args

import torch

from graphsched.collectives import all_reduce
from graphsched.executors import execute
from graphsched.executors.distributed import RankProgram
from graphsched.plan import Placement, Plan, build_plan
from graphsched.workload import Value, Workload
from graphsched.workload.collective import Collective
from tests.executors.programs import machine, turned


def steps(count: int, kind: str = "worker") -> Workload:
    """Each operation in turn over all of `count` devices, the last one first, then a sum of two of them."""
    work, devices = Workload("collectives"), [f"{kind}:{k}" for k in range(count)]
    given = [
        work.input(f"x{k}", torch.arange(12.0 * count).view(-1, 3) * 7**k, device=d) for k, d in enumerate(devices)
    ]
    for operation in get_args(Collective):
        values = [
            _negative(work, f"{operation}.in{k}", v, d) for k, (v, d) in enumerate(zip(given, devices, strict=True))
        ]
        made = work.collective(operation, values[::-1], devices=devices[::-1], name=operation)
        work.keep(*made)
    some = work.collective("all_reduce", given[:2], devices=devices[:2], name="some")
    for k, value in enumerate(some):
        _negative(work, f"end{k}", value, devices[k])
    return work


def _negative(work: Workload, name: str, value: Value, device: str) -> Value:
    made: Value = work.task(torch.neg, value, name=name, device=device)
    return made


def plan_of(work: Workload, devices: Sequence[str]) -> Plan:
    lanes = {task.name: f"{task.devices[0]}/s0" for task in work.tasks if task.kind == "run"}
    return build_plan(work, machine(*devices), None, Placement([*work.graph], lanes), scheduler="by hand")


def plan_of_steps(count: int, kind: str = "worker") -> Plan:
    return plan_of(steps(count, kind), [f"{kind}:{k}" for k in range(count)])


def run_steps(rank: int, count: int, kind: str = "worker") -> Any:
    """Results of two runs."""
    with RankProgram(plan_of_steps(count, kind), timeout_s=60.0) as program:
        return [{name: t.numpy() for name, t in program.run().items()} for _ in range(2)]


def run_turned(rank: int) -> Any:
    """Of each operation on values that turn out not to be contiguous: its results."""
    found = []
    for operation in get_args(Collective):
        with RankProgram(turned(operation), timeout_s=20.0) as program:
            found.append({name: t.numpy() for name, t in program.run().items()})
    return found


def time_steps(rank: int, count: int) -> Any:
    plan = plan_of_steps(count)
    return execute(plan, mode="distributed", repeats=3, warmup=1, timeout_s=20.0).to_dict()


def die(rank: int) -> None:
    """Rank 1 is gone before the sum."""
    work = Workload()
    given = [work.input(f"x{k}", torch.ones(4), device=f"worker:{k}") for k in range(2)]
    values = [given[0], work.task(_end_process, given[1], name="y", device="worker:1")]
    work.collective("all_reduce", values, devices=["worker:0", "worker:1"], name="sum")
    with RankProgram(plan_of(work, ["worker:0", "worker:1"]), timeout_s=10.0) as program:
        program.run()


def _end_process(value: torch.Tensor) -> torch.Tensor:
    if not torch._C._len_torch_dispatch_stack():  # not where shapes are inferred
        os.kill(os.getpid(), signal.SIGKILL)
    return value + 1


def fail(rank: int) -> None:
    """A task of rank 1 raises before the sum."""
    work = Workload()
    given = [work.input(f"x{k}", torch.ones(4), device=f"worker:{k}") for k in range(2)]
    values = [given[0], work.task(_raise, given[1], name="y", device="worker:1")]
    work.collective("all_reduce", values, devices=["worker:0", "worker:1"], name="sum")
    with RankProgram(plan_of(work, ["worker:0", "worker:1"]), timeout_s=10.0) as program:
        program.run()


def _raise(value: torch.Tensor) -> torch.Tensor:
    if not torch._C._len_torch_dispatch_stack():
        raise ValueError("no number")
    return value + 1


def miss(rank: int, wrong: str) -> None:
    """A task of rank 2 never ends, or stops its process, so that it does not come to the sum of all three."""
    devices = [f"worker:{k}" for k in range(3)]
    work = Workload()
    given = [work.input(f"x{k}", torch.ones(4), device=device) for k, device in enumerate(devices)]
    values = [*given[:2], work.task(WRONG[wrong], given[2], name="y", device=devices[2])]
    work.collective("all_reduce", values, devices=devices, name="sum")
    with RankProgram(plan_of(work, devices), timeout_s=2.0) as program:
        program.run()


def _never(value: torch.Tensor) -> torch.Tensor:
    if not torch._C._len_torch_dispatch_stack():
        time.sleep(1000.0)
    return value + 1


def wrong_in_turn(rank: int, wrong: str) -> None:
    """A sum of shares: each of three ranks waits for both others, and y of rank 2 never ends, or stops its process."""
    devices = [f"worker:{k}" for k in range(3)]
    work = Workload()
    given = [work.input(f"x{k}", torch.ones(12), device=device) for k, device in enumerate(devices)]
    values = [*given[:2], work.task(WRONG[wrong], given[2], name="y", device=devices[2])]
    work.keep(*all_reduce(work, values, algorithm="sharded", name="sum"))
    with RankProgram(plan_of(work, devices), timeout_s=2.0) as program:
        program.run()


def _stop(value: torch.Tensor) -> torch.Tensor:
    if not torch._C._len_torch_dispatch_stack():
        os.kill(os.getpid(), signal.SIGSTOP)
    return value + 1


WRONG = {"hang": _never, "stop": _stop}
