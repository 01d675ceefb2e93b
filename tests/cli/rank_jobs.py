"""What the processes of the tests of ranks do; found by name in each of them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from graphsched.cli import ranks
from graphsched.errors import RankError
from graphsched.executors import execute
from graphsched.executors.distributed import join
from tests.executors.distributed.jobs import plan_of


def interrupted_between_runs(rank: int, ctrl_c_on_rank_1: bool) -> tuple[Any, float]:
    """Rank 0 is interrupted between two runs, while rank 1 waits in a barrier for the next, deaf to signals.

    How it ended (the exit code, or what was raised), and after how many seconds.
    """
    world = join(20.0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began: list[float] = []

    def run(between: Callable[[], None]) -> Any:
        return execute(plan_of(5, 2), mode="distributed", repeats=2, warmup=0, timeout_s=50.0, between=between)

    def interrupt() -> None:
        time.sleep(0.5)  # rank 1 is in the barrier
        began.append(time.perf_counter())
        raise KeyboardInterrupt

    def follow() -> None:
        began.append(time.perf_counter() + 0.5)
        if ctrl_c_on_rank_1:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    try:
        if rank > 0:
            ranks._follow = lambda *_: run(follow)  # type: ignore[assignment]
            ended: Any = ranks.follow(world, None, {}, "", None)  # type: ignore[arg-type]
        else:
            with ranks.leading(world):
                ended = run(interrupt)
    except KeyboardInterrupt:
        ended = "interrupted"
    return ended, time.perf_counter() - began[0]


def rank_0_ends(rank: int, dies: bool, writes_s: float) -> tuple[int, float]:
    """Rank 0 dies, or fails and then takes so long to write; what the others' command gives, and after how long."""
    world = join(20.0)
    world.share(None, 20.0, "the beginning")
    began = time.perf_counter()
    if rank > 0:
        return ranks.follow(world, None, {}, "", None), time.perf_counter() - began  # type: ignore[arg-type]
    if dies:
        os._exit(7)
    world.fail(RankError("no such luck"))
    time.sleep(writes_s)
    world.board.say_over()
    return 1, time.perf_counter() - began
