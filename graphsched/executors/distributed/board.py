"""Where ranks say why they end, so that the others end too and can tell whose fault it was."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from graphsched.executors.distributed.bounded_store import BoundedStore

LOOK_S = 0.1  # between two looks at what others say
HEARD_S = 2.0  # after which a rank that waited in vain does not expect the others to say more
LINGER_S = 3.0  # that a failed rank stays, so that the others can hear of it before its connections break


@dataclass(frozen=True)
class Report:
    """Why a rank ends.

    Attributes:
        rank: Which.
        text: What it was at; names lane and action.
        blames: The rank that it waited for in vain; its own where it failed itself.
    """

    rank: int
    text: str
    blames: int


def root_of(reports: Iterable[Report], blamed: int) -> Report | None:
    """The report that explains why rank `blamed` did not answer: its own, or that of the one it waited for in turn.

    The last one blames itself or a rank that says nothing. None: `blamed` says nothing itself.

    Example:
        >>> reports = [Report(3, "no answer of 2", blames=2), Report(2, "no answer of 1", blames=1)]
        >>> root_of(reports, blamed=3), root_of(reports, blamed=1)
        (Report(rank=2, text='no answer of 1', blames=1), None)
    """
    by_rank = {report.rank: report for report in reports}
    found: Report | None = None
    while (told := by_rank.pop(blamed, None)) is not None:
        found, blamed = told, told.blames
    return found


class Board:
    """The reports of all ranks, in the store that torchrun keeps for them."""

    def __init__(self, store: BoundedStore, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._posted = False

    def post(self, report: Report) -> None:
        """Say why this rank ends; only the first report counts."""
        if not self._posted:
            self._posted = True
            with contextlib.suppress(RuntimeError):  # the store may be gone with the rank or launcher that kept it
                self._store.set(f"report {self._rank}", json.dumps(asdict(report)))
                self._store.add("reports", 1)

    def reports(self) -> list[Report]:
        """What all ranks have said so far.

        Raises:
            RuntimeError: The store is gone.
        """
        keys = [f"report {rank}" for rank in range(self._size)]
        return [Report(**json.loads(self._store.get(key))) for key in keys if self._store.check(key)]

    def explanation(self, blamed: int, wait_s: float) -> Report | None:
        """Why rank `blamed` did not answer, as it or another one says within so many seconds; None: nobody says.

        Ranks that wait for each other may name no cause: then it is one that blames itself, if there is one.
        """
        until, found = time.perf_counter() + wait_s, None
        with contextlib.suppress(RuntimeError):
            while time.perf_counter() < until and (found is None or found.blames != found.rank):
                reports = [report for report in self.reports() if report.rank != self._rank]
                found = root_of(reports, blamed)
                if found is None or found.blames != found.rank:
                    found = next((report for report in reports if report.blames == report.rank), found)
                time.sleep(LOOK_S / 2)
        return found

    def cause(self, wait_s: float) -> Report | None:
        """The report of another rank that tells best why the run ends; waits so long for one that is sure.

        That is one whose rank blames itself or this one.
        """
        until, found = time.perf_counter() + wait_s, None
        with contextlib.suppress(RuntimeError):
            while time.perf_counter() < until and (found is None or found.blames not in (found.rank, self._rank)):
                reports = [report for report in self.reports() if report.rank != self._rank]
                roots = [root_of(reports, report.rank) for report in reports]
                telling = sorted((r for r in roots if r), key=lambda r: (r.blames != r.rank, r.blames != self._rank))
                found = telling[0] if telling else None
                time.sleep(LOOK_S / 2)
        return found

    def leave(self, *, last: bool) -> None:
        """Say that this rank needs no more reports; the `last` stay until all have said so, or for `LINGER_S`."""
        until = time.perf_counter() + LINGER_S
        with contextlib.suppress(RuntimeError):
            gone = self._store.add("left", 1)
            while last and gone < self._size and time.perf_counter() < until:
                time.sleep(LOOK_S)
                gone = self._store.add("left", 0)

    def say_over(self) -> None:
        """Rank 0 has done what it does after a failure, as writing down what succeeded before."""
        with contextlib.suppress(RuntimeError):
            self._store.set("over", "yes")

    def await_over(self, wait_s: float) -> None:
        """Stay until rank 0 has said so, at most so many seconds: a launcher ends all ranks with the first."""
        until = time.perf_counter() + wait_s
        with contextlib.suppress(RuntimeError):
            while not self._store.check("over") and time.perf_counter() < until:
                time.sleep(LOOK_S)

    def watch(self, tell: Callable[[Report], None]) -> Callable[[], None]:
        """Call `tell` once from a thread when another rank has reported; returns what ends that."""
        over = threading.Event()

        def look() -> None:
            with contextlib.suppress(RuntimeError):
                while not over.wait(LOOK_S):
                    if self._store.check("reports") and (cause := self.cause(HEARD_S)) is not None:
                        tell(cause)
                        return

        threading.Thread(target=look, name="graphsched board", daemon=True).start()
        return over.set
