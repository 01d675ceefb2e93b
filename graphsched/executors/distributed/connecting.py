"""How ranks that have met connect: torch.distributed's groups on all of them, or an error on all."""

from __future__ import annotations

import atexit
import os
import time
from typing import Any

from graphsched.errors import RankError
from graphsched.executors.distributed.board import LINGER_S
from graphsched.executors.distributed.bounded_store import BoundedStore
from graphsched.executors.distributed.lost import reason_of
from graphsched.executors.distributed.meeting import Address, backend, span

LOOK_S = 0.005
NCCL_SETTINGS = {"NCCL_NVLS_ENABLE": "0", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
"""NVLink's multicast stays off: point-to-point messages have no use for it. And torch does not end this process where
a communicator fails or is slow, before it has said which rank it waited for: a run's watchdog does that."""


def connect(kept: Any, store: BoundedStore, address: Address, timeout_s: float) -> tuple[Any, Any]:
    """Start torch.distributed if this has not been done: Gloo on the host, NCCL where there are GPUs.

    It returns once all ranks are connected: one that ends later is lost in what they do together then. `kept` is the
    store of all ranks that `store` asks.

    Returns:
        Gloo's groups of all ranks, for messages to a lower rank and to a higher one.

    Raises:
        RankError: One could not connect, or has ended meanwhile; on all of them.
    """
    from torch import distributed

    ways, failure = None, None
    try:
        if not distributed.is_initialized():
            _start(kept, address, timeout_s)
        ways = _two_ways(timeout_s)
    except RuntimeError as error:
        failure = error
    cause = _what_failed(
        store, address, "" if failure is None else reason_of(failure) or type(failure).__name__, timeout_s
    )
    if ways is None or cause:
        raise RankError(
            f"rank {address.rank}: {address.size} ranks met at {address.host}:{address.port} and could not connect "
            f"within {timeout_s:g} s: {cause}"
        ) from failure
    return ways


def _start(kept: Any, address: Address, timeout_s: float) -> None:
    from torch import distributed

    library: Any = distributed
    os.environ.update({name: os.environ.get(name, value) for name, value in NCCL_SETTINGS.items()})
    distributed.init_process_group(
        backend(),
        store=library.PrefixStore("torch", kept),
        rank=address.rank,
        world_size=address.size,
        timeout=span(timeout_s),
    )
    atexit.register(_leave)


def _leave() -> None:
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


def _two_ways(timeout_s: float) -> tuple[Any, Any]:
    """Gloo has one connection for two ranks of a group.

    A receiver tells the sender on it that it is ready; that would stand behind what goes the other way, and only one of
    two long messages would pass at a time.
    """
    from torch import distributed

    library: Any = distributed
    return library.group.WORLD, library.new_group(backend="gloo", timeout=span(timeout_s))


def _what_failed(store: BoundedStore, address: Address, mine: str, timeout_s: float) -> str:
    """Why not all ranks are connected; empty where they are.

    It is what the first one says that could not: the others have often waited for that one. `mine` is why this one
    could not.
    """
    keys = [f"connected {rank}" for rank in range(address.size)]
    until = time.monotonic() + (min(LINGER_S, timeout_s) if mine else timeout_s)
    try:
        if mine and store.add("could not connect", 1) == 1:
            store.set("why", f"rank {address.rank} says: {mine}")
        store.set(keys[address.rank], "tried")
        while (silent := [rank for rank, key in enumerate(keys) if not store.check(key)]) and time.monotonic() < until:
            time.sleep(LOOK_S)
        why = store.get("why") if store.check("why") else mine
    except RuntimeError as error:
        return f"{mine or reason_of(error)}: the rank that keeps the store has ended, or hangs"
    gone = f"rank {', '.join(map(str, silent))} has ended meanwhile, hangs or tries yet: look at what it prints"
    network = "is there a network between their hosts? GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name the interface"
    return "; ".join(filter(None, [why, gone if silent else "", network if why and not silent else ""]))
