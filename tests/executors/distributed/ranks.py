"""Runs a function in several processes as torchrun would start them, on this host, and gives what each one returned."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

LIMIT_S = 60.0
PRELOADED = ["tests.executors.distributed.preload"]


@dataclass(frozen=True)
class Ended:
    """How one process ended: what it returned, or the error's class name and text; and its exit code."""

    result: Any = None
    error: str = ""
    text: str = ""
    exit_code: int | None = None


def on_ranks(
    function: Callable[..., Any], count: int, *args: Any, stops: int | None = None, method: str = "forkserver"
) -> list[Ended]:
    """``function(rank, *args)`` in `count` processes; `function` must be found by its name in its module.

    All together have `LIMIT_S` seconds; what still runs then is killed. So is the rank that `stops`, once all others
    have ended. The `method` of multiprocessing must be ``spawn`` for processes that use GPUs.
    """
    until = time.perf_counter() + LIMIT_S
    context: Any = multiprocessing.get_context(method)
    context.set_forkserver_preload(PRELOADED)
    port, pairs = _free_port(), []
    for rank in range(count):
        mine, other = context.Pipe()
        process = context.Process(target=_work, args=(rank, count, port, other, function, args), daemon=True)
        process.start()
        other.close()
        pairs.append((process, mine))
    ended = {k: _ended(*pair, until) for k, pair in enumerate(pairs) if k != stops}
    return [ended[k] if k in ended else _ended(*pair, 0.0) for k, pair in enumerate(pairs)]


def _ended(process: Any, pipe: Connection, until: float) -> Ended:
    found = Ended()
    with contextlib.suppress(EOFError):
        if pipe.poll(max(0.0, until - time.perf_counter())):
            found = pipe.recv()
    process.join(max(0.0, until - time.perf_counter()))
    if process.is_alive():
        process.kill()
        process.join()
    return Ended(found.result, found.error, found.text, process.exitcode)


def _work(rank: int, count: int, port: int, pipe: Connection, function: Callable[..., Any], args: Any) -> None:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
    )  # fmt: skip
    try:
        pipe.send(Ended(result=function(rank, *args)))
    except Exception as error:
        if os.environ.get("GRAPHSCHED_DEBUG"):
            traceback.print_exc()
        pipe.send(Ended(error=type(error).__name__, text=str(error)))
        sys.exit(1)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
