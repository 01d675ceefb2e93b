"""SIGTERM, by which torchrun ends all ranks once one has ended: time to say which one, and to write results."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from graphsched.executors.distributed.board import HEARD_S
from graphsched.executors.distributed.lost import LostRankError, ended_by
from graphsched.executors.distributed.world import World

NOTICE_S = 1.5  # in which a rank finds out by itself whom it waits for in vain; torchrun kills after 30 s


class _WorkEndedError(BaseException):
    """SIGTERM at work of this rank's own: neither a failure of the case that it meets nor a script's ``exit``."""


@contextlib.contextmanager
def in_order(world: World) -> Iterator[None]:
    """End what this rank does in `world` with an error of its own where SIGTERM would end the process.

    It names the rank at fault, if that is known. Where this rank does work of its own, as measuring, it is raised at
    the end of the block, when what stood open has been written. Without effect outside the main thread.

    Raises:
        RankError: SIGTERM came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    end = _hear(world, lambda: _leave_work(world), lambda: None)
    try:
        yield
    except _WorkEndedError as ended:
        lost = _why_ended(world)
        words = f"{lost}, while rank {world.rank} did work of its own and no run was under way"
        raise world.fail(LostRankError(words, lost.peer)) from ended
    finally:
        end()


def stand_by(world: World) -> None:
    """From now on, end what this rank does together with others in `world` with an error where SIGTERM comes.

    Only once: the next one ends the process, as the first one does where no run is under way and none has failed. Runs
    take no longer. Without effect outside the main thread, and where SIGTERM has a handler, as in `in_order`.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def heard() -> None:
        end()
        die_at_rest()

    def die_at_rest() -> None:
        if not world.waits and world.failure is None:
            os.kill(os.getpid(), signal.SIGTERM)

    end = _hear(world, heard, die_at_rest)


def _hear(world: World, heard: Callable[[], None], unused: Callable[[], None]) -> Callable[[], None]:
    """Have SIGTERM call `heard` in the main thread, and end what `world` waits for, or call `unused`, in another one.

    Processes that are forked do not hear it so.

    Returns:
        What ends that, in the main thread.
    """
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    handler: Any = lambda *_: heard()  # noqa: E731
    before: Any = signal.signal(signal.SIGTERM, handler)
    fd = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)

    def end() -> None:
        signal.set_wakeup_fd(fd)
        signal.signal(signal.SIGTERM, before)
        wakes.close()

    def forget() -> None:
        if signal.getsignal(signal.SIGTERM) is handler:
            signal.set_wakeup_fd(-1)  # their signals would seem to be this process's
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=forget)
    threading.Thread(target=_listen, args=(world, woken, unused), name="graphsched termination", daemon=True).start()
    return end


def _leave_work(world: World) -> None:
    """In the main thread: not while it waits for other ranks, which ends by itself or by `_listen`."""
    if not world.waits and world.failure is None:
        raise _WorkEndedError


def _listen(world: World, woken: socket.socket, unused: Callable[[], None]) -> None:
    """In a thread of its own: the main one hears no signal while it waits for a message."""
    with woken:
        while numbers := woken.recv(16):
            if signal.SIGTERM in numbers:
                time.sleep(NOTICE_S)
                world.end(_why_ended(world))
                unused()
                return


def _why_ended(world: World) -> LostRankError:
    """Why SIGTERM came: what another rank says, or which ones give no sign of life; takes seconds."""
    cause = world.board.cause(HEARD_S)
    if cause is not None:
        return ended_by(cause)
    gone = world.pulses.silent([rank for rank in range(world.size) if rank != world.rank])
    if not gone:
        return LostRankError("it was told to end by SIGTERM, and no other rank is known to have ended", world.rank)
    words = f"rank {', '.join(map(str, gone))} {'is' if len(gone) == 1 else 'are'} gone"
    return LostRankError(f"torchrun ends all ranks, for {words}", gone[0])
