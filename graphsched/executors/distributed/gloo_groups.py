"""How messages on Gloo's groups are ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from graphsched.executors.distributed.lost import is_late
from graphsched.executors.distributed.meeting import span


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
