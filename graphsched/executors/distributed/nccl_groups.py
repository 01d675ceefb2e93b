"""NCCL's communicators: how they are made and ended, and processes that their GPU keeps from ending."""

from __future__ import annotations

import atexit
import contextlib
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

from graphsched.executors.distributed.meeting import span

PATIENCE_S = 3600.0  # runs have time-outs of their own
END_S = 3.0  # in which communicators end, unless another kernel keeps their GPU
EXIT_S = 10  # whole seconds


def new_communicator(ranks: Sequence[int]) -> Any:
    """A group of torch.distributed for messages and collectives between GPUs of these ranks; all ranks make it.

    Its kernels are on a stream of high priority: torch takes that of a plain one from the pool that lanes have theirs
    from, and a task would stand behind a message that its rank still waits for.
    """
    from torch import distributed

    library: Any = distributed
    options = library.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    return library.new_group(list(ranks), backend="nccl", timeout=span(PATIENCE_S), pg_options=options)


def end_communicators(groups: Sequence[Any]) -> None:
    """End what is under way on these groups of torch.distributed, which are of no use any more.

    Kernels of a communicator wait for the other rank without end, and their stream with them. All are ended at once:
    one that has ended gives memory back, for which it waits until no kernel of another one is on its GPU. Where that
    keeps it longer than `END_S`, as a task that does not end, this process is ended `EXIT_S` after it was about to.
    """
    threads = [threading.Thread(target=_end, args=(group,), name="graphsched abort", daemon=True) for group in groups]
    for thread in threads:
        thread.start()
    until = time.monotonic() + END_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        atexit.register(exit_in_time)


def _end(group: Any) -> None:
    import torch

    with contextlib.suppress(RuntimeError):  # of a communicator that has failed already
        group._get_backend(torch.device("cuda")).abort()


def exit_in_time() -> None:
    """End this process, which is about to end, by SIGALRM if that takes longer than `EXIT_S`; in the main thread."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(EXIT_S)
