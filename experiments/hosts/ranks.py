"""Processes inside the hosts, one for each rank, started with what torch.distributed's ``env://`` needs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from experiments.hosts.namespaces import Hosts, enter, uninterrupted
from experiments.hosts.network import CARD, address
from graphsched.calibration.cache import cache_folder
from graphsched.errors import PlatformError

PORT = 29500
KEEP_MEMORY = {"arena_max": 1, "hugetlb": 1, "mmap_max": 0, "top_pad": 1 << 26, "trim_threshold": 1 << 40}
USUAL = {
    "OMP_NUM_THREADS": "1",
    "THP_MEM_ALLOC_ENABLE": "1",  # large tensors in large pages: new memory costs the shared cores a quarter
    # A rank keeps memory that it has had: on a virtual machine, pages that the machine had given back take 3 ns a byte.
    "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in KEEP_MEMORY.items()),
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
OTHERS_END_S = 30.0  # that the others have, once one has failed


def check_counts(ranks: Sequence[int], hosts: int) -> None:
    """Make sure that every host has ranks.

    Raises:
        PlatformError: One has none, or there are more or fewer numbers than hosts.
    """
    if len(ranks) != hosts or any(count < 1 for count in ranks):
        given = ",".join(map(str, ranks))
        raise PlatformError(f"ranks of the hosts are {given!r}, hosts {hosts}: one number above 0 a host is needed")


def environments(ranks: Sequence[int]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Host and environment of each rank, given the number of ranks of each host.

    Example:
        >>> [(host, env["RANK"], env["LOCAL_RANK"]) for host, env in environments([2, 1])]
        [(0, '0', '0'), (0, '1', '1'), (1, '2', '0')]
    """
    rank = 0
    for host, count in enumerate(ranks):
        for local in range(count):
            yield (
                host,
                {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(local),
                    "WORLD_SIZE": str(sum(ranks)),
                    "MASTER_ADDR": address(0),
                    "MASTER_PORT": str(PORT),
                    "GLOO_SOCKET_IFNAME": CARD,
                },
            )
            rank += 1


@contextlib.contextmanager
def started(hosts: Hosts, ranks: Sequence[int], arguments: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """``python ARGUMENTS`` once for each rank; those that still run at the end of the context are killed.

    What rank 0 prints is printed; of the others only what they write to standard error is. Costs that they measure are
    kept apart from those of other processes, whose memory is new each time.

    Raises:
        PlatformError: A host has no rank.
    """
    check_counts(ranks, len(hosts.names))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for host, env in environments(ranks):
            with uninterrupted():  # else one that has just been started would be known to nobody
                processes.append(_start(hosts.names[host], env, arguments))
        yield processes
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(name: str, env: Mapping[str, str], arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**USUAL, **os.environ, "GRAPHSCHED_CACHE": str(cache_folder() / "hosts"), **env},
        stdin=subprocess.DEVNULL,
        stdout=None if env["RANK"] == "0" else subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the caller, which kills them
        preexec_fn=lambda: enter(name),
    )


def ended(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all; the exit code of the first that failed, or 0. After a failure the others have a little while."""
    code, until = 0, None
    running = list(processes)
    while running and (until is None or time.monotonic() < until):
        for process in [p for p in running if p.poll() is not None]:
            running.remove(process)
            if process.returncode and not code:
                code, until = process.returncode, time.monotonic() + OTHERS_END_S
        time.sleep(0.05)
    return code if code >= 0 else 1
