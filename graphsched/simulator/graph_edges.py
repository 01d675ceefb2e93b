"""Edges between the lanes of a CUDA graph: which of them cost time.

A graph knows no lanes, only nodes and what each waits for. Where a node is the only one that waits for another, and
waits for nothing else, the two are links of a chain wherever the plan has put them, and the edge between them is as
cheap as one inside a lane. Where a branch leaves a lane or comes back to one, an edge has to be paid. What a node
waits for is taken without what follows from the rest: a wait for what an earlier wait implies is no edge.

A wait of the thread is no node: what comes behind it on any lane waits for what the thread would wait for.

Not modelled: which of several branches CUDA goes on with at no cost where none of them stays on its lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.plan import OUTSIDE
from graphsched.simulator.lane_costs import CUDA, WAIT

Waits = Sequence[tuple[int, ...]]
Known = dict[int, int]
"""By lane, the last action known to be over."""


def joined(waits: Waits, lane: Sequence[int], kind: Sequence[int], of: Sequence[int]) -> list[tuple[int, ...]]:
    """`waits`, and for each lane's next action behind a wait of the thread what that waits for, by lane the last.

    `of`: number of the graph of each action, -1 for one that is in none; a wait that is in none stays the thread's.

    Example:
        >>> kind = [CUDA, WAIT, CUDA, CUDA]
        >>> joined([(), (0,), (), ()], lane=[0, 2, 0, 1], kind=kind, of=[0] * 4)  # 0 and 1 are streams
        [(), (0,), (), (0,)]
    """
    found = list(waits)
    pending: dict[int, Known] = {number: {} for number, what in zip(lane, kind, strict=True) if what == CUDA}
    for i, before in enumerate(waits):
        if kind[i] == WAIT and of[i] != OUTSIDE:
            for known in pending.values():
                _learn(known, {lane[j]: j for j in sorted(before)})
        elif kind[i] == CUDA and (known := pending[lane[i]]):
            found[i] = (*before, *(j for where, j in known.items() if where != lane[i] and j not in before))
            known.clear()
    return found


def chained(waits: Waits, lane: Sequence[int], kind: Sequence[int]) -> list[int]:
    """Actions that wait for one on another lane and for nothing else, being the only ones to wait for that.

    Example:
        >>> chained([(), (0,), (1,)], lane=[0, 1, 0], kind=[CUDA] * 3)  # to and fro
        [1, 2]
        >>> chained([(), (), (0,), (1,)], lane=[0, 0, 1, 0], kind=[CUDA] * 4)  # 2 leaves lane 0, where 1 goes on
        []
    """
    found = needed(waits, lane, kind)
    users = [0] * len(found)
    for before in found:
        for j in before:
            users[j] += 1
    alone = ((i, before[0]) for i, before in enumerate(found) if len(before) == 1)
    return [i for i, j in alone if lane[i] != lane[j] and users[j] == 1]


def needed(waits: Waits, lane: Sequence[int], kind: Sequence[int]) -> list[list[int]]:
    """What each action on a stream waits for, its lane's last included, without what the others imply."""
    known: list[Known] = [{}] * len(waits)  # to the action when it starts; shared along a lane
    last: Known = {}
    found: list[list[int]] = [[] for _ in waits]
    for i, before in enumerate(waits):
        if kind[i] != CUDA:
            continue
        own = last.get(lane[i], -1)
        direct = [own, *before] if own >= 0 else list(before)
        direct = [j for j in dict.fromkeys(direct) if kind[j] == CUDA]
        found[i] = [j for j in direct if not any(_implies(k, j, lane, known) for k in direct if k != j)]
        known[i] = _together(direct, own, lane, known)
        last[lane[i]] = i
    return found


def _implies(k: int, j: int, lane: Sequence[int], known: Sequence[Known]) -> bool:
    """Whether action j is over when k is."""
    return (lane[k] == lane[j] and k > j) or known[k].get(lane[j], -1) >= j


def _together(direct: Sequence[int], own: int, lane: Sequence[int], known: Sequence[Known]) -> Known:
    """What is known to be over once all of `direct` are, but for the lane of `own`, that of the action itself."""
    if not direct or list(direct) == [own]:
        return known[own] if direct else {}
    found: Known = dict(known[own]) if own >= 0 else {}
    for j in direct:
        _learn(found, known[j])
        _learn(found, {lane[j]: j})
    return found


def _learn(known: Known, more: Known) -> None:
    for where, j in more.items():
        if known.get(where, -1) < j:
            known[where] = j
