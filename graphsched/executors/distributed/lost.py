"""What a rank ends with that has waited for another one in vain, or heard why that one ends."""

from __future__ import annotations

from graphsched.errors import RankError
from graphsched.executors.distributed.board import Report


class LostRankError(RankError):
    """A rank that another one waited for in vain, or heard to fail."""

    def __init__(self, message: str, peer: int) -> None:
        super().__init__(message)
        self.peer = peer


def ended_by(report: Report) -> LostRankError:
    """What a rank ends with that has heard why another one does."""
    return LostRankError(f"rank {report.rank} ended the run: {report.text}", report.blames)


def silent(rank: int | None) -> LostRankError:
    """What a rank ends with that has waited for another one, or for the store (None), in vain."""
    if rank is None:
        return LostRankError("the store of all ranks does not answer: rank 0 or torchrun, which keeps it, hangs", 0)
    return LostRankError(f"rank {rank} gives no sign of life: its process was stopped, or its host hangs", rank)


def is_late(error: BaseException) -> bool:
    """Whether a message did not pass in time, or ended with another one that did not; else its rank is gone."""
    return any(words in str(error) for words in ("imed out", "Application timeout"))


def reason_of(error: BaseException) -> str:
    """The first sentence of one of torch's errors, without the file and line that stand before it."""
    line = str(error).partition("\n")[0].partition(". ")[0]
    return line.partition("] ")[2] or line if line.startswith("[") else line
