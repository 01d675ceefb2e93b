"""How the processes of a distributed run find each other: by torchrun's environment and a store."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from graphsched.errors import RankError, ScheduleError
from graphsched.executors.distributed.agreement import check_agreement, facts_of_software
from graphsched.executors.distributed.board import LINGER_S

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
COMMAND = "torchrun --nproc-per-node 4 -m graphsched run EXPERIMENT --mode distributed"


@dataclass(frozen=True)
class Address:
    """What torchrun tells a process.

    Attributes:
        rank, size: Which of how many processes this is.
        local_rank: Which on its host: the number of its GPU there.
        host, port: Where the store of all processes is.
        attempt: How often torchrun has started all processes again.
        keeps_store: Whether this process keeps the store, as rank 0 does where torchrun itself does not.
    """

    rank: int
    size: int
    local_rank: int
    host: str
    port: int
    attempt: int = 0
    keeps_store: bool = False


def read_address(env: Mapping[str, str]) -> Address:
    """The address that torchrun has put into the environment.

    Raises:
        ScheduleError: It is not there, or is no address; or ``GLOO_SOCKET_IFNAME`` names an interface that is not here.

    Example:
        >>> read_address({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"})
        Address(rank=1, size=2, local_rank=1, host='localhost', port=29500, attempt=0, keeps_store=False)
    """
    missing = [name for name in NEEDED if not env.get(name)]
    if missing:
        raise ScheduleError(
            f"mode 'distributed' needs several processes that torchrun starts ({', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not in the environment): {COMMAND}"
        )
    _check_interfaces(env)
    numbers = {name: _number(env, name) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
    rank, size, port = numbers.values()
    if not 0 <= rank < size:
        raise ScheduleError(f"RANK is {rank}, WORLD_SIZE {size}: a rank from 0 to {size - 1} is needed: {COMMAND}")
    if not 0 < port < 2**16:
        raise ScheduleError(f"MASTER_PORT is {port}: a port from 1 to {2**16 - 1} is needed: {COMMAND}")
    return Address(
        rank,
        size,
        local_rank=_number(env, "LOCAL_RANK") if env.get("LOCAL_RANK") else rank,
        host=env["MASTER_ADDR"],
        port=port,
        attempt=_number(env, "TORCHELASTIC_RESTART_COUNT") if env.get("TORCHELASTIC_RESTART_COUNT") else 0,
        keeps_store=rank == 0 and env.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
    )


def _number(env: Mapping[str, str], name: str) -> int:
    if not env[name].isdecimal():
        raise ScheduleError(f"{name} is {env[name]!r} in the environment: a whole number is needed: {COMMAND}")
    return int(env[name])


def _check_interfaces(env: Mapping[str, str]) -> None:
    here = _interfaces()
    for name in filter(None, env.get("GLOO_SOCKET_IFNAME", "").split(",")):
        if name not in here:
            raise ScheduleError(
                f"GLOO_SOCKET_IFNAME is {env['GLOO_SOCKET_IFNAME']!r}, and this host has no network interface "
                f"{name!r}: it has {', '.join(here)}"
            )


def _interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def check_nccl_interfaces(env: Mapping[str, str], here: Sequence[str]) -> None:
    """Make sure that ``NCCL_SOCKET_IFNAME`` leaves one of the network interfaces `here` to NCCL.

    It is a list of prefixes, separated by commas, of which one must fit; ``=`` before it asks for whole names, ``^``
    for the interfaces that it does not name.

    Raises:
        ScheduleError: It leaves none.

    Source: NVIDIA, NCCL's environment variables.

    Example:
        >>> check_nccl_interfaces({"NCCL_SOCKET_IFNAME": "ib,eth"}, ["lo", "eth0"])
        >>> check_nccl_interfaces({"NCCL_SOCKET_IFNAME": "=eth"}, ["lo", "eth0"])
        Traceback (most recent call last):
        graphsched.errors.ScheduleError: NCCL_SOCKET_IFNAME is '=eth', and this host has no network interface of one of
        these names: it has lo, eth0: ...
    """
    told = env.get("NCCL_SOCKET_IFNAME", "")
    excludes, exact = told.startswith("^"), told.removeprefix("^").startswith("=")
    names = [name.partition(":")[0] for name in told.removeprefix("^").removeprefix("=").split(",") if name]

    def is_named(interface: str) -> bool:
        return interface in names if exact else interface.startswith(tuple(names))

    if names and not any(is_named(interface) != excludes for interface in here):
        kind = "of one of these names" if exact else "that begins so"
        raise ScheduleError(
            f"NCCL_SOCKET_IFNAME is {told!r}, and this host has no network interface "
            f"{'but those that it excludes' if excludes else kind}: it has {', '.join(here)}: name one "
            "of them, or leave it unset"
        )


def meet(address: Address, timeout_s: float) -> Any:
    """Meet the other processes, and compare software.

    Returns:
        The store of all processes, for this attempt to run them.

    Raises:
        RankError: They did not all come, or run other software.
        ScheduleError: ``NCCL_SOCKET_IFNAME`` leaves NCCL no interface of this host.
    """
    from torch import distributed

    if "nccl" in backend():
        check_nccl_interfaces(os.environ, _interfaces())
    library: Any = distributed
    until = time.monotonic() + timeout_s
    store = library.PrefixStore(f"graphsched {address.attempt}", _store(address, timeout_s))
    store.set(f"here {address.rank}", json.dumps(facts_of_software() | {"messages": backend()}))
    _await_all(store, address, until, timeout_s)
    check_agreement([json.loads(store.get(f"here {rank}")) for rank in range(address.size)])
    return store


def _store(address: Address, timeout_s: float) -> Any:
    from torch import distributed

    library: Any = distributed
    try:
        return library.TCPStore(
            address.host,
            address.port,
            is_master=address.keeps_store,
            timeout=span(timeout_s),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:
        raise RankError(
            f"rank {address.rank}: the store of all ranks at {address.host}:{address.port} could not be reached within "
            f"{timeout_s:g} s: {_first_line(error)}: torchrun or rank 0 keeps it: start rank 0, and name its "
            "host and a free port there"
        ) from error


def _await_all(store: Any, address: Address, until: float, timeout_s: float) -> None:
    keys = [f"here {rank}" for rank in range(address.size)]
    try:
        store.wait(keys, span(until - time.monotonic()))
    except RuntimeError as error:
        raise RankError(
            f"rank {address.rank}: {_missing(store, keys)} did not come to {address.host}:{address.port} within "
            f"{timeout_s:g} s: start as many processes as WORLD_SIZE says ({address.size}), on hosts that reach each "
            "other, and look at what the missing ones print"
        ) from error


def _missing(store: Any, keys: list[str]) -> str:
    try:
        missing = [str(rank) for rank, key in enumerate(keys) if not store.check([key])]
        store.add("told", 1)
        until = time.monotonic() + LINGER_S  # whoever keeps the store stays until all have looked
        while store.add("told", 0) < len(keys) - len(missing) and time.monotonic() < until:
            time.sleep(LINGER_S / 30)
    except RuntimeError:
        return "some ranks"
    return f"rank {', '.join(missing)}"


def backend() -> str:
    """Which libraries carry messages: Gloo on the host, and NCCL where there are GPUs."""
    import torch
    from torch import distributed

    both = torch.cuda.is_available() and distributed.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if both else "gloo"


def span(seconds: float) -> timedelta:
    """At least a millisecond: torch takes none at all as no limit."""
    return timedelta(seconds=max(seconds, 1e-3))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
