"""Gloo's groups of all ranks, and how messages on groups are ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from graphsched.errors import RankError
from graphsched.executors.distributed.lost import is_late, reason_of
from graphsched.executors.distributed.meeting import span


def two_ways(timeout_s: float) -> tuple[Any, Any]:
    """Groups of all ranks, for messages to a lower rank and to a higher one.

    Gloo has one connection for two ranks of a group. A receiver tells the sender on it that it is ready; that would
    stand behind what goes the other way, and only one of two long messages would pass at a time.
    """
    from torch import distributed

    library: Any = distributed
    try:
        return library.group.WORLD, library.new_group(backend="gloo", timeout=span(timeout_s))
    except RuntimeError as error:
        raise RankError(f"the ranks met and could not connect: {reason_of(error)}: one of them has ended") from error


def end_messages(groups: Iterable[tuple[Any, Sequence[int]]], rank: int, tag: int) -> None:
    """End every message of `rank` that is under way in `groups`, each with its members.

    When a message times out, Gloo closes all connections of its group. One from a rank that is gone fails and does not
    time out, so all are tried.
    """
    from torch import distributed

    irecv: Any = distributed.irecv
    for group, members in groups:
        if rank not in members:
            continue
        for other in (other for other in members if other != rank):
            try:
                irecv(token(), other, group=group, tag=tag).wait(span(0.0))
            except RuntimeError as error:
                if is_late(error):
                    break


def token() -> Any:
    """The shortest message: a byte."""
    import torch

    return torch.zeros(1, dtype=torch.uint8)
