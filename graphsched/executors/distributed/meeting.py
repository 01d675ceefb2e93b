"""How the processes of a distributed run find each other: torchrun's environment, and torch.distributed upon it."""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from graphsched.errors import RankError, ScheduleError

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
COMMAND = "torchrun --nproc-per-node 4 -m graphsched run EXPERIMENT --mode distributed"
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0"}
"""NVLink's multicast stays off: point-to-point messages have no use for it."""


@dataclass(frozen=True)
class Address:
    """What torchrun tells a process.

    Attributes:
        rank, size: Which of how many processes this is.
        local_rank: Which on its host: the number of its GPU there.
        host, port: Where the store of all processes is.
    """

    rank: int
    size: int
    local_rank: int
    host: str
    port: int


def read_address(env: Mapping[str, str]) -> Address:
    """The address that torchrun has put into the environment.

    Raises:
        ScheduleError: It is not there, or is no address; or ``GLOO_SOCKET_IFNAME`` names an interface that is not here.

    Example:
        >>> read_address({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"})
        Address(rank=1, size=2, local_rank=1, host='localhost', port=29500)
    """
    missing = [name for name in NEEDED if not env.get(name)]
    if missing:
        raise ScheduleError(
            f"mode 'distributed' needs several processes that torchrun starts ({', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not in the environment): {COMMAND}"
        )
    _check_interfaces(env)
    numbers = {name: _number(env, name) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
    rank, size = numbers["RANK"], numbers["WORLD_SIZE"]
    if not 0 <= rank < size:
        raise ScheduleError(f"RANK is {rank}, WORLD_SIZE {size}: a rank from 0 to {size - 1} is needed: {COMMAND}")
    local_rank = _number(env, "LOCAL_RANK") if env.get("LOCAL_RANK") else rank
    return Address(rank, size, local_rank, env["MASTER_ADDR"], numbers["MASTER_PORT"])


def _number(env: Mapping[str, str], name: str) -> int:
    if not env[name].isdecimal():
        raise ScheduleError(f"{name} is {env[name]!r} in the environment: a whole number is needed: {COMMAND}")
    return int(env[name])


def _check_interfaces(env: Mapping[str, str]) -> None:
    here = [name for _, name in socket.if_nameindex()]
    for name in filter(None, env.get("GLOO_SOCKET_IFNAME", "").split(",")):
        if name not in here:
            raise ScheduleError(
                f"GLOO_SOCKET_IFNAME is {env['GLOO_SOCKET_IFNAME']!r}, and this host has no network interface "
                f"{name!r}: it has {', '.join(here)}"
            )


def start_torch_distributed(address: Address, timeout_s: float) -> None:
    """Meet the other processes, if this has not been done; Gloo on the host, and NCCL where there are GPUs.

    Raises:
        RankError: They did not all come.
    """
    from torch import distributed

    if distributed.is_initialized():
        return
    os.environ.update({name: os.environ.get(name, value) for name, value in NO_MULTICAST.items()})
    try:
        distributed.init_process_group(_backend(), rank=address.rank, world_size=address.size, timeout=span(timeout_s))
    except RuntimeError as error:
        raise RankError(
            f"rank {address.rank}: {address.size} ranks did not meet at {address.host}:{address.port} within "
            f"{timeout_s:g} s: {_first_line(error)}: start as many processes as WORLD_SIZE says, on hosts that "
            "reach each other"
        ) from error
    atexit.register(_leave)


def _backend() -> str:
    import torch
    from torch import distributed

    both = torch.cuda.is_available() and distributed.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if both else "gloo"


def _leave() -> None:
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


def new_store(address: Address, timeout_s: float) -> Any:
    """A connection of its own to the store of all processes."""
    from torch import distributed

    library: Any = distributed
    store = library.TCPStore(address.host, address.port, is_master=False, timeout=span(timeout_s))
    return library.PrefixStore("graphsched", store)


def span(seconds: float) -> timedelta:
    """At least a millisecond: torch takes none at all as no limit."""
    return timedelta(seconds=max(seconds, 1e-3))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
