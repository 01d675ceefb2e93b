"""The ranks of a distributed run as one of them sees them: messages, a barrier, objects, and how they fail."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from graphsched.errors import ExecutionError, RankError
from graphsched.executors.distributed.board import HEARD_S, Board, Report
from graphsched.executors.distributed.meeting import Address, new_store, read_address, span, start_torch_distributed

BARRIER_TAG, CLOCK_TAG, ABORT_TAG, FIRST_LANE_TAG = 1, 2, 3, 16
PATIENCE_S = 3600.0  # for what rank 0 does alone, as measuring; one that ends is noticed at once


class World:
    """This process among the others.

    Attributes:
        rank, size: Which of how many.
        board: Where ranks say why they end.
        failure: What ended a run; no other can follow.
        communicators: Those of NCCL, by lane, sender and receiver.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        """`timeout_s`: for the meeting of all ranks.

        Raises:
            RankError: They did not all come.
        """
        start_torch_distributed(address, timeout_s)
        self.address, self.rank, self.size = address, address.rank, address.size
        self.board = Board(new_store(address, timeout_s), self.rank, self.size)
        self.failure: BaseException | None = None
        self.communicators: dict[tuple[str, int, int], Any] = {}
        self._token = _token()

    # -- messages --------------------------------------------------------------------------------------

    def send(self, tensor: Any, to: int, tag: int, timeout_s: float, what: Callable[[], str]) -> None:
        """Send bytes of host memory; returns when they may change. Of one tag they arrive in order.

        Raises:
            RankError: The other rank is gone or did not take them in time; `what` says what it was.
        """
        from torch import distributed

        self._carry_out(lambda: distributed.isend(tensor, to, tag=tag), to, timeout_s, what)

    def receive(self, tensor: Any, source: int, tag: int, timeout_s: float, what: Callable[[], str]) -> None:
        """Receive into host memory; as `send`."""
        from torch import distributed

        self._carry_out(lambda: distributed.irecv(tensor, source, tag=tag), source, timeout_s, what)

    def _carry_out(self, start: Callable[[], Any], peer: int, timeout_s: float, what: Callable[[], str]) -> None:
        try:
            start().wait(span(timeout_s))
        except RuntimeError as error:
            raise self._lost(peer, what(), error) from error

    def barrier(self, timeout_s: float, what: Callable[[], str]) -> None:
        """Wait until all ranks are here: in round k each tells the one 2ᵏ further, so that log2 rounds do.

        Raises:
            RankError: One is gone or did not come in time.
        """
        from torch import distributed

        isend: Any = distributed.isend
        irecv: Any = distributed.irecv
        distance = 1
        while distance < self.size:
            to, source = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            come = _token()
            try:
                sent = isend(self._token, to, tag=BARRIER_TAG)
                irecv(come, source, tag=BARRIER_TAG).wait(span(timeout_s))
                sent.wait(span(timeout_s))
            except RuntimeError as error:
                raise self._lost(source, what(), error) from error
            distance *= 2

    def gather(self, thing: Any) -> list[Any]:
        """What every rank gives, by rank; on all of them. Anything that can be pickled.

        Raises:
            RankError: A rank is gone.
        """
        from torch import distributed

        found: list[Any] = [None] * self.size
        self._together(lambda: distributed.all_gather_object(found, thing))
        return found

    def share(self, thing: Any) -> Any:
        """What rank 0 gives, on all ranks, however long that takes it.

        Raises:
            RankError: Rank 0 is gone.
        """
        import torch

        def what() -> str:
            return "a message of rank 0 to all ranks"

        if self.rank == 0:
            data = torch.frombuffer(bytearray(pickle.dumps(thing)), dtype=torch.uint8)
            for rank in range(1, self.size):
                self.send(torch.tensor([len(data)]), rank, BARRIER_TAG, PATIENCE_S, what)
                self.send(data, rank, BARRIER_TAG, PATIENCE_S, what)
            return thing
        length = torch.zeros(1, dtype=torch.int64)
        self.receive(length, 0, BARRIER_TAG, PATIENCE_S, what)
        data = torch.empty(int(length), dtype=torch.uint8)
        self.receive(data, 0, BARRIER_TAG, PATIENCE_S, what)
        return pickle.loads(data.numpy().tobytes())

    def _together(self, call: Callable[[], object]) -> None:
        try:
            call()
        except RuntimeError as error:
            raise RankError(f"rank {self.rank}: an exchange with all ranks failed: {_reason(error)}") from error

    def abort(self) -> None:
        """End every message of this rank that is under way: when one times out, Gloo closes all connections."""
        from torch import distributed

        irecv: Any = distributed.irecv
        if self.size > 1:
            with contextlib.suppress(RuntimeError):
                irecv(_token(), (self.rank + 1) % self.size, tag=ABORT_TAG).wait(span(0.0))

    # -- failing ---------------------------------------------------------------------------------------

    def _lost(self, peer: int, what: str, error: RuntimeError) -> RankError:
        late = "imed out" in str(error)
        end = "did not answer in time" if late else f"is gone ({_reason(error)})"
        found = LostRankError(f"{what}: rank {peer} {end}", peer)
        found.__cause__ = error
        return found

    def fail(self, error: BaseException) -> BaseException:
        """What to raise for `error`: it names this rank, and what another one says that was at fault.

        The others are told. This world is of no use any more.
        """
        if not isinstance(error, Exception) or self.failure is not None:
            return error
        blames = error.peer if isinstance(error, LostRankError) else self.rank
        self.board.post(Report(self.rank, str(error), blames))
        kind = RankError if isinstance(error, LostRankError) or not isinstance(error, ExecutionError) else type(error)
        self.failure = kind(f"rank {self.rank}: {error}{'' if blames == self.rank else self._said(str(error))}")
        self.failure.__cause__ = error.__cause__ or error
        self.board.leave(last=self.rank in (blames, 0))  # rank 0's process may keep the store
        return self.failure

    def _said(self, mine: str) -> str:
        """What the rank at fault says itself, where that is more than this one knows."""
        cause = self.board.cause(HEARD_S)
        known = cause is None or cause.text in mine or mine in cause.text
        return "" if cause is None or known else f"; rank {cause.rank} says: {cause.text}"


class LostRankError(RankError):
    """A rank that another one waited for in vain, or heard to fail."""

    def __init__(self, message: str, peer: int) -> None:
        super().__init__(message)
        self.peer = peer


def _token() -> Any:
    import torch

    return torch.zeros(1, dtype=torch.uint8)


def _reason(error: BaseException) -> str:
    """The first sentence of one of torch's errors, without the file and line that stand before it."""
    line = str(error).partition("\n")[0].partition(". ")[0]
    return line.partition("] ")[2] or line if line.startswith("[") else line


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
    if world.failure is not None:
        raise RankError(f"rank {world.rank}: the ranks cannot run again after: {world.failure}: start them anew")
    return world


def lane_tags(lanes: Sequence[str]) -> dict[str, int]:
    """A tag for the messages of each lane; the same on all ranks, which know the same lanes."""
    return {lane: FIRST_LANE_TAG + k for k, lane in enumerate(sorted(set(lanes)))}
