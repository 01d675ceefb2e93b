"""What ranks in the hosts of these tests do; found by name in each process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import graphsched as gs
from experiments._machines import machines_of, served_step
from experiments.hosts.measuring import SIZES_BYTES, Measured
from experiments.hosts.namespaces import enter
from experiments.hosts.network import Network
from experiments.hosts.platforms import platform_of
from experiments.hosts.ranks import USUAL, environments
from graphsched.executors.distributed import RankProgram
from graphsched.platform import Platform
from tests.experiments.small import hand_written

RATE = 125e6
MEASURED = Measured(
    SIZES_BYTES,
    between_hosts=tuple(1e-4 + nbytes / RATE for nbytes in SIZES_BYTES),
    in_host=tuple(1e-5 + nbytes / 5e9 for nbytes in SIZES_BYTES),
    into_one=RATE,
    out_of_one=RATE,
    both_ways=2 * RATE,
    of_all=1e12,
    in_hosts=1e10,
)


def hosts_of(ranks: Sequence[int]) -> Platform:
    """A platform of hosts with so many workers each, with figures of a network of 1 Gbit/s."""
    return platform_of(hand_written("worker", 2), Network(len(ranks)), ranks, MEASURED)


def step_on(platform: Platform, machines: int, servers: int, mbytes: float) -> gs.Workload:
    """A training step with the weight on servers of their own."""
    there = machines_of(platform, machines)
    return served_step(there, there.others[:servers], mbytes, rows=2)


def in_host(rank: int, names: Sequence[str], ranks: Sequence[int], job: str, *args: Any) -> Any:
    """``job(rank, ranks, *args)`` in the host of this rank."""
    host, env = list(environments(ranks))[rank]
    os.environ.update(USUAL | env)
    enter(names[host])
    function: Callable[..., Any] = globals()[job]
    return function(rank, ranks, *args)


def train(
    rank: int, ranks: Sequence[int], machines: int, servers: int, mbytes: float, steps: int, timeout_s: float, mark: str
) -> Any:
    """States after so many steps, on rank 0; the file `mark` is made when the third begins.

    An error says how long the run took that it ended.
    """
    platform = hosts_of(ranks)
    work = step_on(platform, machines, servers, mbytes)
    began = time.perf_counter()
    try:
        plan = gs.schedule(work, platform, scheduler="one_stream", mode="distributed")
        with RankProgram(plan, timeout_s=timeout_s) as program:
            for step in range(steps):
                if step == 2 and rank == 0 and mark:
                    Path(mark).touch()
                began = time.perf_counter()
                program.run()
            return {name: tensor.numpy() for name, tensor in program.state().items()}
    except gs.errors.ExecutionError as error:
        raise type(error)(f"{error} ({time.perf_counter() - began:.1f} s)") from error
