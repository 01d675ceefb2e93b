"""How messages and computing slow each other where all hosts share the cores of one machine::

    python -m experiments.hosts run --ranks 1,1,1,1 --gbit 10 --delay-ms 0.1 -- -m experiments.hosts.beside

Rank 0 sends to rank 1 for some seconds, while none, one and two of the other ranks make small products; each rank
stops by its own clock. Rank 0 prints the rate of the messages and what a product took, alone and together.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import torch

from experiments.hosts.measuring import MEET_S, WITHIN_S
from graphsched.calibration.lane_pace import mean_s, small_product
from graphsched.errors import ScheduleError
from graphsched.executors.distributed import World, join
from graphsched.executors.distributed.tags import FIRST_LANE_TAG

SECONDS, NBYTES = 3.0, 4_000_000
COMPUTING = (2, 3)


def rate(world: World, seconds: float) -> float:
    """Bytes per second of messages from rank 0 to rank 1, which are told before each one whether it is the last."""
    data, last = torch.ones(NBYTES, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
    call, peer = (world.send, 1) if world.rank == 0 else (world.receive, 0)
    began, count = time.perf_counter(), 0
    while not last:
        if world.rank == 0:
            last.fill_(int(time.perf_counter() - began > seconds))
        for tensor in (last, data):
            call(tensor, peer, FIRST_LANE_TAG, WITHIN_S, _what)
        count += 1
    return count * NBYTES / (time.perf_counter() - began)


def both(world: World, messages: bool, computing: int) -> tuple[float, list[float]]:
    """Bytes per second of messages, and seconds of a product on each rank that computes; 0 for what is not asked."""
    mine: Callable[[], float] = lambda: 0.0  # noqa: E731
    if messages and world.rank in (0, 1):
        mine = functools.partial(rate, world, SECONDS)
    elif world.rank in COMPUTING[:computing]:
        mine = functools.partial(mean_s, small_product(1), SECONDS)
    world.barrier(WITHIN_S, lambda _: _what())
    sent, _, *products = world.gather(mine(), WITHIN_S, _what())
    return float(sent), [float(seconds) for seconds in products[:computing]]


def _what() -> str:
    return "messages beside computing"


def main() -> None:
    """Measure and print.

    Raises:
        ScheduleError: There are fewer than four ranks.
    """
    world = join(MEET_S)
    if world.size <= max(COMPUTING):
        raise ScheduleError(f"{world.size} ranks: {max(COMPUTING) + 1} are needed, two send and two compute")
    for messages, computing in ((True, 0), (False, 1), (False, 2), (True, 1), (True, 2)):
        sent, products = both(world, messages, computing)
        if world.rank == 0:
            told = ", ".join(f"{seconds * 1e3:.2f} ms a product" for seconds in products)
            print(f"{sent / 1e6:.0f} MB/s of messages" if messages else "no messages", told or "no products", sep="; ")


if __name__ == "__main__":
    main()
