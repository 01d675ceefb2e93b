"""What stores need of their arguments."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from graphsched.collectives.requests import check_known
from graphsched.errors import WorkloadError
from graphsched.workload import TensorSpec, check_name


def checked_servers(servers: Sequence[str]) -> tuple[str, ...]:
    """Names of servers.

    Raises:
        WorkloadError: There is none, or one is named twice.
    """
    listed = isinstance(servers, Sequence) and not isinstance(servers, str) and bool(servers)
    if not listed or not all(isinstance(server, str) for server in servers) or len(set(servers)) < len(servers):
        raise WorkloadError(f"servers are {servers!r}: a list of devices is needed, one or more, each once")
    for server in servers:
        check_name(server)
    return tuple(servers)


def checked_workers(workers: int) -> int:
    """The number of workers.

    Raises:
        WorkloadError: It is no whole number above 0.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise WorkloadError(f"workers is {workers!r}: their number is needed, 1 or more")
    return workers


def checked_timeout(timeout_s: float) -> float:
    """Seconds that are waited at most.

    Raises:
        WorkloadError: They are no finite number above 0.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < math.inf:
        raise WorkloadError(f"timeout_s is {timeout_s!r}: seconds above 0 are needed")
    return timeout_s


def check_push(key: str, worker: int, workers: int, priority: float) -> None:
    """Make sure that a push names a key, a worker and a priority.

    Raises:
        DuplicateNameError: `key` is no name.
        WorkloadError: There is no such worker, or the priority is no number.
    """
    check_name(key)
    check_worker(key, worker, workers)
    if isinstance(priority, bool) or not isinstance(priority, (int, float)) or not math.isfinite(priority):
        raise WorkloadError(f"key {key!r}, worker {worker}: priority is {priority!r}: a finite number is needed")


def check_worker(key: str, worker: int, workers: int) -> None:
    """Make sure that there is a worker of this number.

    Raises:
        WorkloadError: There is none.
    """
    if isinstance(worker, bool) or not isinstance(worker, int) or not 0 <= worker < workers:
        raise WorkloadError(f"key {key!r}: no worker {worker!r}: workers have numbers from 0 to {workers - 1}")


def check_like(key: str, who: str, spec: TensorSpec, expected: TensorSpec) -> None:
    """Make sure that a value is like all others of its key.

    Raises:
        WorkloadError: It has another shape, type or order in memory.
    """
    if spec == expected:
        return
    if spec.dtype != expected.dtype:
        needed = f"values of one element type are needed, convert it to {expected.dtype}"
    elif spec.shape != expected.shape:
        needed = "values of one shape are needed, reshape it or use another key"
    else:
        needed = "values of one order in memory are needed, make all of them contiguous"
    raise WorkloadError(f"{who} has {spec} for key {key!r}, which is {expected}: {needed}")


def check_pulled(key: Any, known: Collection[str]) -> None:
    """Make sure that there is something to pull.

    Raises:
        DuplicateNameError: `key` is no name.
        WorkloadError: Nobody has pushed the key, and it was not initialised.
    """
    if check_name(key) not in known:
        if not known:
            raise WorkloadError(f"no key {key!r}: nobody has pushed or initialised anything; push or init it first")
        check_known("key that was pushed or initialised", key, known)


def missing_text(missing: Sequence[int]) -> str:
    """Workers that have not pushed.

    Example:
        >>> missing_text([1]), missing_text([0, 2])
        ('worker 1 has', 'workers 0, 2 have')
    """
    several = len(missing) > 1
    return f"worker{'s' if several else ''} {', '.join(map(str, missing))} {'have' if several else 'has'}"
