"""What each rank does: parts of actions, in one global order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphsched.plan.model import Plan
from graphsched.plan.ranks.places import Places

PartKind = Literal["run", "copy", "send", "receive", "collective"]

NOBODY = -1  # in place of a rank or of an action


@dataclass(frozen=True, slots=True)
class Part:
    """What one rank does of an action.

    An action inside one rank is one part. A copy between two ranks is a ``send`` and a ``receive``. A collective is one
    on each of its ranks, on that rank's lane. A wait of the dispatching thread is a ``collective`` of all ranks, a
    barrier. Where an action waits for one of another rank and no
    copy tells it of the end, a message of one element does: a signal, ``a#1`` that action ``a`` is over, for rank 1.

    Attributes:
        number: Place in the global order, which the lists of all ranks keep.
        kind: ``run``, ``copy`` (inside the rank), ``send``, ``receive`` or ``collective``.
        name: The action's, or the signal's.
        action: Number of the action in the plan; of a signal, the one that it tells of.
        rank: Whose part it is.
        peer: The other rank of a message, or `NOBODY`.
        lane: Where it queues: the action's lane; of signals one a pair of ranks, ``rank0>rank1``.
        waits: Numbers of parts of this rank, on other lanes, that must be over before it.
        signal: Whether it is half of a signal.
    """

    number: int
    kind: PartKind
    name: str
    action: int
    rank: int
    peer: int
    lane: str
    waits: tuple[int, ...]
    signal: bool = False


@dataclass(frozen=True, eq=False)
class RankLists:
    """The parts of a plan by rank.

    Attributes:
        plan: Whose actions they are.
        places: Where these are.
        parts: Of each rank, in the order in which it dispatches them: by number.
    """

    plan: Plan
    places: Places
    parts: Sequence[Sequence[Part]]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, rank: int) -> Sequence[Part]:
        return self.parts[rank]

    def __repr__(self) -> str:
        return f"RankLists({len(self)} ranks, {sum(map(len, self.parts))} parts of {len(self.plan)} actions)"
