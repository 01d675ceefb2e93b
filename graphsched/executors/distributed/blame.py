"""Which rank is at fault where one ends another: what it says itself, or that it gives no sign of life."""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.executors.distributed.board import HEARD_S, Board
from graphsched.executors.distributed.lost import LostRankError, silent
from graphsched.executors.distributed.pulses import Pulses


def told_of(blamed: int, mine: str, rank: int, size: int, board: Board, pulses: Pulses) -> tuple[str, int | None]:
    """What is to be added to a message that blames a rank; and the rank at fault, where it says nothing itself.

    Args:
        blamed: The rank that did not answer.
        mine: What this rank says.
        rank, size: Of this rank, of how many.
        board, pulses: Of all ranks.
    """
    cause = board.explanation(blamed, HEARD_S)
    if cause is None:
        return "", blamed
    said = "" if cause.text in mine or mine in cause.text else f"; rank {cause.rank} says: {cause.text}"
    if cause.blames == cause.rank:
        return said, None
    waiting = {rank, *(report.rank for report in board.reports())}
    stopped = pulses.silent([k for k in range(size) if k not in waiting]) if cause.blames in waiting else []
    return (f"{said}; {silent(stopped[0])}", stopped[0]) if stopped else (said, cause.blames)


def missed(ranks: Sequence[int], what: str, pulses: Pulses) -> LostRankError:
    """What a rank ends with that one of these other `ranks` did not come to on a stream, in time.

    The stream does not say why: a rank without a sign of life is gone. Takes seconds; `what` was missed.
    """
    gone = pulses.silent(ranks)
    lost = gone or list(ranks)
    end = "gives no sign of life" if gone else "did not answer in time"
    who = f"rank {lost[0]}" if len(lost) == 1 else f"one of rank {', '.join(map(str, lost))}"
    return LostRankError(f"{what}: {who} {end}", lost[0])
