"""Work spread over processes of one machine: each takes one item at a time.

Each has a pipe of its own. `concurrent.futures` has one for the results of all: where a process is ended in the
middle of a result, the thread that reads it waits for the rest without end, and Python at exit for that thread.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

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
        items: Worked on in their order.
        processes: How many, at most one an item.
        begin: Is called with `given` in each process before its first item.
        given: What all items have in common.

    Raises:
        BrokenProcessPool: A process died.
        Exception: What `function` raises; the items that are not begun are left.
    """
    context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
    left, started, busy = iter(items), dict[Connection, BaseProcess](), dict[Connection, Item]()
    end = functools.partial(_end, started, busy)
    atexit.register(end)  # where results are kept until then, Python waits at exit for processes that wait for items
    try:
        for item in itertools.islice(left, max(1, processes)):
            ours, theirs = context.Pipe()
            started[ours], busy[ours] = context.Process(target=_work, args=(theirs,)), item
            started[ours].start()
            theirs.close()  # so that ours ends with the process, be it in the middle of a result
            _send(ours, (function, begin, given))  # as arguments they would be waited for where the process has died
            _send(ours, item)
        while busy:
            for ours in cast("list[Connection]", wait(busy)):
                item, result = busy.pop(ours), _received(ours)
                for following in itertools.islice(left, 1):
                    busy[ours] = following
                    _send(ours, following)
                yield item, result
    finally:
        end()
        atexit.unregister(end)


def _send(process: Connection, found: object) -> None:
    try:
        process.send_bytes(pickle.dumps(found))
    except OSError as error:
        raise BrokenProcessPool("a process died") from error


def _received(process: Connection) -> Any:
    """The result of an item; raises what that raised."""
    try:
        answer = process.recv_bytes()
    except (EOFError, OSError) as error:
        raise BrokenProcessPool("a process died") from error
    done, found = pickle.loads(answer)
    if not done:
        raise found
    return found


def _end(started: Mapping[Connection, BaseProcess], busy: Container[Connection]) -> None:
    """End all processes, those that are at an item at once."""
    for ours, process in started.items():
        ours.close()
        if ours in busy and process.pid is not None:
            process.terminate()
    for process in started.values():
        if process.pid is not None:
            process.join()


def _work(theirs: Connection) -> None:
    """What a process does until it is told no more items."""
    _prepare()
    function, begin, given = pickle.loads(theirs.recv_bytes())
    if begin is not None:
        begin(*given)
    with contextlib.suppress(EOFError, OSError):  # nobody asks any more, or listens
        while True:
            item = pickle.loads(theirs.recv_bytes())
            try:
                answer = pickle.dumps((True, function(item)))
            except BaseException as error:
                answer = _failed(error)
            theirs.send_bytes(answer)


def _failed(error: BaseException) -> bytes:
    """The answer that an item has raised `error`; one that tells of it, where it does not come through a pipe."""
    trace = traceback.format_exc()
    error.add_note(trace)
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)
    except Exception:
        told = RuntimeError(f"{type(error).__name__}: {error}")
        told.add_note(trace)
        return pickle.dumps((False, told))
    return answer


def _prepare() -> None:
    """Set up a process of the pool: it says nothing on stdout, and ends with the one that started it."""
    os.environ["OMP_NUM_THREADS"] = "1"  # there are as many processes as cores
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process of the pool waits for work without end where the one that started it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
