"""Work spread over processes of one machine: each takes one item at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    processes: int,
    begin: Callable[..., object] | None = None,
    given: tuple[Any, ...] = (),
) -> Iterator[tuple[Item, Result]]:
    """`function` of each item, with the item, as they are finished; an interrupt ends the processes.

    Args:
        function: Of a module, as all that goes to another process; so are items and results.
        items: Hashable or not, and worked on in their order.
        processes: How many, at most one an item.
        begin: Is called with `given` in each process before its first item.
        given: What all items have in common.

    Raises:
        BrokenProcessPool: A process died.
        Exception: What `function` raises; the items that are not begun are left.
    """
    context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
    workers = max(1, min(processes, len(items)))
    with ProcessPoolExecutor(workers, context, _prepare, (begin, given)) as pool:
        try:
            left = {pool.submit(function, item): item for item in items}
            for done in as_completed(left):
                yield left[done], done.result()
        except BrokenProcessPool:
            raise
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _prepare(begin: Callable[..., object] | None, given: tuple[Any, ...]) -> None:
    """Set up a process of the pool: it says nothing on stdout, and ends with the one that started it."""
    os.environ["OMP_NUM_THREADS"] = "1"  # there are as many processes as cores
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*given)


def _end_with_parent() -> None:
    """A process of the pool waits for work without end where the one that started it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
