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

from torch.distributed import TCPStore

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
    function: Callable[..., Any],
    count: int,
    *args: Any,
    stops: int | None = None,
    method: str = "forkserver",
    rank_0_keeps_store: bool = False,
) -> list[Ended]:
    """``function(rank, *args)`` in `count` processes; `function` must be found by its name in its module.

    All together have `LIMIT_S` seconds; what still runs then is killed. So is the rank that `stops`, once all others
    have ended. The `method` of multiprocessing must be ``spawn`` for processes that use GPUs. The store is kept here,
    as torchrun does, or by rank 0.
    """
    until = time.perf_counter() + LIMIT_S
    context: Any = multiprocessing.get_context(method)
    context.set_forkserver_preload(PRELOADED)
    store = None if rank_0_keeps_store else TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    env, pairs = _environment(count, store), []
    for rank in range(count):
        mine, other = context.Pipe()
        process = context.Process(target=_work, args=(rank, env, other, function, args), daemon=True)
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


def _environment(count: int, store: Any) -> dict[str, str]:
    return {
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port() if store is None else store.port),
        "TORCHELASTIC_USE_AGENT_STORE": str(store is not None),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }


def _work(rank: int, env: dict[str, str], pipe: Connection, function: Callable[..., Any], args: Any) -> None:
    os.environ.update(env, RANK=str(rank), LOCAL_RANK=str(rank))
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
