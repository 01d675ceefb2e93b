"""The ranks of a distributed run as one of them sees them: messages, a barrier, objects, and how they fail."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphsched.errors import GraphschedError, RankError, error_text
from graphsched.executors.distributed.blame import told_of
from graphsched.executors.distributed.board import HEARD_S, LOOK_S, Board, Report
from graphsched.executors.distributed.bounded_store import BoundedStore
from graphsched.executors.distributed.connecting import connect
from graphsched.executors.distributed.gloo_groups import end_messages, token
from graphsched.executors.distributed.lost import LostRankError, ended_by, is_late, reason_of, silent
from graphsched.executors.distributed.meeting import Address, meet, read_address, span
from graphsched.executors.distributed.nccl_groups import end_communicators
from graphsched.executors.distributed.objects import from_bytes, to_bytes
from graphsched.executors.distributed.pulses import Pulses
from graphsched.executors.distributed.tags import ABORT_TAG, BARRIER_TAG, OBJECT_TAG

ALL_HEARD_S = 3 * LOOK_S  # until all ranks have heard of a failure, and none takes another's end for its cause
PATIENCE_S = 3600.0  # for what rank 0 does alone, as measuring; one that ends or stops is noticed long before


class World:
    """This process among the others.

    Attributes:
        rank, size: Which of how many.
        board: Where ranks say why they end.
        pulses: Signs of life of all ranks.
        failure: What ended a run; no other can follow.
        lost: The rank at fault, where it says nothing itself.
        communicators: Those of NCCL, by lane, sender and receiver.
        groups: Those of collectives, by library and ranks.
        waits: What ends each thing that this rank does together with others at the moment; the last one first.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        """`timeout_s`: for the meeting of all ranks.

        Raises:
            RankError: They did not all come, or run other software.
        """
        self._kept = meet(address, timeout_s)  # ends with this object where this rank keeps it
        self.address, self.rank, self.size = address, address.rank, address.size
        store = BoundedStore(self._kept)
        self.board, self.pulses = Board(store, self.rank, self.size), Pulses(store, self.rank, self.size)
        self.failure: BaseException | None = None
        self.lost: int | None = None
        self.communicators: dict[tuple[str, int, int], Any] = {}
        self.groups: dict[tuple[str, tuple[int, ...]], Any] = {}
        self.waits: list[Callable[[LostRankError], None]] = []
        self._token, self._ways = token(), connect(self._kept, store, address, timeout_s)
        self._coming: list[Any] = []

    # -- messages --------------------------------------------------------------------------------------

    def send(self, tensor: Any, to: int, tag: int, timeout_s: float, what: Callable[[], str]) -> None:
        """Send bytes of host memory; returns when they may change. Of one tag they arrive in order.

        Raises:
            RankError: The other rank is gone or did not take them in time; `what` says what it was.
        """
        from torch import distributed

        isend: Any = distributed.isend
        way = self._ways[self.rank < to]
        self._carry_out(lambda: isend(tensor, to, group=way, tag=tag), to, timeout_s, what)

    def receive(self, tensor: Any, source: int, tag: int, timeout_s: float, what: Callable[[], str]) -> None:
        """Receive into host memory; as `send`."""
        from torch import distributed

        irecv: Any = distributed.irecv
        way = self._ways[source < self.rank]
        self._carry_out(lambda: irecv(tensor, source, group=way, tag=tag), source, timeout_s, what)

    def _carry_out(self, start: Callable[[], Any], peer: int, timeout_s: float, what: Callable[[], str]) -> None:
        with self._together_with(peer, lambda _: what()):
            start().wait(span(timeout_s))

    def finish(self, work: Any, members: Sequence[int], timeout_s: float, what: str) -> None:
        """Wait for a collective of `members` in host memory, which torch has started as `work`.

        Raises:
            RankError: A member is gone or did not come in time.
        """
        try:
            work.wait(span(timeout_s))
        except RuntimeError as error:
            others = [rank for rank in members if rank != self.rank]
            cause = self.board.cause(HEARD_S)
            if cause is not None:
                raise ended_by(cause) from error
            lost = self.pulses.silent(others) or others
            if len(lost) == 1:
                raise self._lost(lost[0], what, error) from error
            end = "did not come in time" if is_late(error) else f"is gone ({reason_of(error)})"
            raise LostRankError(f"{what}: one of rank {', '.join(map(str, lost))} {end}", lost[0]) from error

    def barrier(self, timeout_s: float, what: Callable[[int], str]) -> None:
        """Wait until all ranks are here: in round k each tells the one 2ᵏ further, so that log2 rounds do.

        A message leaves once its receiver has said that it is ready, which each does for all rounds as it comes.

        Raises:
            RankError: One is gone or did not come in time; `what` says what it was, given the number of that one.
        """
        from torch import distributed

        isend: Any = distributed.isend
        irecv: Any = distributed.irecv
        distances = [1 << k for k in range((self.size - 1).bit_length())]
        sources = [(self.rank - distance) % self.size for distance in distances]
        self._coming = [token() for _ in distances]  # kept: after a failure some are still received into
        heard = []
        for source, come in zip(sources, self._coming, strict=True):
            with self._together_with(source, what):
                heard.append(irecv(come, source, tag=BARRIER_TAG))
        for distance, source, come in zip(distances, sources, heard, strict=True):
            to = (self.rank + distance) % self.size
            with self._together_with(to, what):
                sent = isend(self._token, to, tag=BARRIER_TAG)
            with self._together_with(source, what):
                come.wait(span(timeout_s))
            with self._together_with(to, what):
                sent.wait(span(timeout_s))

    @contextlib.contextmanager
    def _together_with(self, peer: int, what: Callable[[int], str]) -> Iterator[None]:
        """What Gloo raises in the block means that rank `peer` is lost."""
        try:
            yield
        except RuntimeError as error:
            raise self._lost(peer, what(peer), error) from error

    # -- objects, between runs -------------------------------------------------------------------------

    def gather(self, thing: Any, timeout_s: float, what: str) -> list[Any]:
        """What every rank gives, by rank; on all of them. Anything that can be pickled.

        Raises:
            RankError: A rank is gone, stopped, failed, or did not come in time; `what` says to what.
        """
        return list(self.share(self.collect(thing, timeout_s, what), 2 * timeout_s, what))

    def collect(self, thing: Any, timeout_s: float, what: str) -> list[Any]:
        """What every rank gives, by rank; on rank 0, the others get an empty list. Raises as `gather`.

        Rank 0 ends first where one does not come: it knows which.
        """
        until = time.monotonic() + timeout_s
        with self.heeding():
            if self.rank > 0:
                self._give(thing, 0, 2 * timeout_s, what)
                return []
            return [thing, *(self._take(rank, until - time.monotonic(), what) for rank in range(1, self.size))]

    def share(self, thing: Any, timeout_s: float, what: str) -> Any:
        """What rank 0 gives, on all ranks. Raises as `gather`."""
        with self.heeding():
            if self.rank > 0:
                return self._take(0, timeout_s, what)
            for rank in range(1, self.size):
                self._give(thing, rank, timeout_s, what)
            return thing

    def _give(self, thing: Any, to: int, timeout_s: float, what: str) -> None:
        import torch

        data = torch.frombuffer(bytearray(to_bytes(thing)), dtype=torch.uint8)
        self.send(torch.tensor([len(data)]), to, OBJECT_TAG, timeout_s, lambda: what)
        self.send(data, to, OBJECT_TAG, timeout_s, lambda: what)

    def _take(self, source: int, timeout_s: float, what: str) -> Any:
        import torch

        length = torch.zeros(1, dtype=torch.int64)
        self.receive(length, source, OBJECT_TAG, timeout_s, lambda: what)
        data = torch.empty(int(length), dtype=torch.uint8)
        self.receive(data, source, OBJECT_TAG, timeout_s, lambda: what)
        return from_bytes(data.numpy().tobytes())

    @contextlib.contextmanager
    def heeding(self) -> Iterator[None]:
        """What ranks do together between runs: it ends here when one says why it ends, or gives no sign of life.

        Raises:
            RankError: In place of those of the block, with what the rank at fault says. The others are told, also of
                an interrupt.
        """
        heard: list[LostRankError] = []

        def end(error: LostRankError) -> None:
            heard.append(error)
            time.sleep(ALL_HEARD_S)
            self.abort()

        unwatch = self.board.watch(lambda report: end(ended_by(report)))
        unheed = self.pulses.watch(lambda rank: end(silent(rank)))
        with self.waiting(end):
            try:
                yield
            except RankError as error:
                raise self.fail(heard[0] if heard else error) from error
            except (KeyboardInterrupt, SystemExit) as error:
                raise self.fail(error)  # noqa: B904 - it has its cause
            finally:
                unwatch()
                unheed()

    @contextlib.contextmanager
    def waiting(self, end: Callable[[LostRankError], None]) -> Iterator[None]:
        """The block waits for other ranks; `end` ends that from another thread."""
        self.waits.append(end)
        try:
            yield
        finally:
            self.waits.remove(end)

    def end(self, error: LostRankError) -> None:
        """End what this rank does together with others, from another thread."""
        for wait in self.waits[-1:]:
            wait(error)

    def abort(self) -> None:
        """End every message of this rank that is under way, those on streams too."""
        everyone = tuple(range(self.size))
        collective = [(group, ranks) for (library, ranks), group in self.groups.items() if library == "gloo"]
        end_messages([*((way, everyone) for way in self._ways), *collective], self.rank, ABORT_TAG)
        on_gpus = [(group, ends) for (_, *ends), group in self.communicators.items()]
        on_gpus += [(group, list(ranks)) for (library, ranks), group in self.groups.items() if library == "nccl"]
        end_communicators([group for group, ranks in on_gpus if self.rank in ranks])

    # -- failing ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Make sure that a run can follow.

        Raises:
            RankError: One has failed.
        """
        if self.failure is not None:
            raise RankError(f"rank {self.rank}: the ranks cannot run again after: {self.failure}: start them anew")

    def _lost(self, peer: int, what: str, error: RuntimeError) -> RankError:
        end = "did not answer in time" if is_late(error) else f"is gone ({reason_of(error)})"
        found = LostRankError(f"{what}: rank {peer} {end}", peer)
        found.__cause__ = error
        return found

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Tell the other ranks where the block fails on this one, as with an input that this rank alone was given.

        Raises:
            GraphschedError: That of the block, with the number of this rank; a `RankError` in place of any other.
        """
        try:
            yield
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            raise self.fail(error)  # noqa: B904 - it has its cause

    def fail(self, error: BaseException, where: str = "") -> BaseException:
        """What to raise for `error`: it names this rank, and what another one says that was at fault.

        The others are told; of an interrupt, which is raised as it came, with `where`. This world is of no use then.
        """
        if self.failure is not None:
            return error
        blames = error.peer if isinstance(error, LostRankError) else self.rank
        interrupted = f"it was interrupted ({type(error).__name__}){where}"
        text = error_text(error) if isinstance(error, Exception) else interrupted
        self.board.post(Report(self.rank, text, blames))
        own = isinstance(error, GraphschedError) and not isinstance(error, LostRankError)
        kind: Any = type(error) if own else RankError
        more = ""
        if blames != self.rank:
            more, self.lost = told_of(blames, text, self.rank, self.size, self.board, self.pulses)
        self.failure = failure = kind(f"rank {self.rank}: {text}{more}")
        failure.__cause__ = error.__cause__ or error
        self.board.leave(last=self.rank in (blames, 0))  # rank 0's process may keep the store
        return failure if isinstance(error, Exception) else error


_world: list[World] = []  # the one that this process is in: torch.distributed cannot be begun twice


def join(timeout_s: float) -> World:
    """The world that torchrun has started this process in; the same at every call.

    Raises:
        ScheduleError: torchrun did not start it.
        RankError: Not all ranks came within `timeout_s` seconds, or a run in this world has failed before.
    """
    if not _world:
        _world.append(World(read_address(os.environ), timeout_s))
    (world,) = _world
    world.check()
    return world
