"""Tasks that launch nothing, as cuts and sums that are made in their places: a CUDA graph has no nodes for them.

What waits for such a task waits for what it would have waited for, and what follows it on its lane does, too: an edge
less on the way. It is over when that is, at no cost. In a timed run there are timing events or stamps around it, which
are nodes, and the edges go to these.

A task is taken as one if it was given to take no time (``duration_s=0.0``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.simulator.columns import ALONE
from graphsched.simulator.graph_edges import Waits
from graphsched.simulator.graph_launches import spread
from graphsched.simulator.graph_mode import CHAINED, EMPTY, PASSED, flag_chains
from graphsched.simulator.lane_costs import WAIT

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns


def without_empty(columns: Columns) -> Columns:
    """`columns` of a run without timing events: nothing goes through tasks that launch nothing."""
    if columns.graphs is None:
        return columns
    empty = frozenset(i for i, flags in enumerate(columns.flags) if flags & EMPTY)
    if not empty:
        return columns
    waits = passed(columns.waits, columns.lane, empty)
    nodes = replace(
        columns,
        waits=waits,
        kind=[WAIT if i in empty else kind for i, kind in enumerate(columns.kind)],
        flags=[(flags | PASSED if i in empty else flags) & ~CHAINED for i, flags in enumerate(columns.flags)],
    )
    flag_chains(nodes)
    resource = [ALONE if i in empty else k for i, k in enumerate(columns.resource)]
    return replace(columns, waits=waits, flags=nodes.flags, resource=resource, graphs=spread(nodes, columns.graphs))


def passed(waits: Waits, lane: Sequence[int], empty: Collection[int]) -> list[tuple[int, ...]]:
    """`waits` with those for actions that are `empty` replaced by what these wait for, the last on their lane included.

    Example:
        >>> passed([(), (0,), (1,)], lane=[0, 1, 2], empty={1})
        [(), (0,), (0,)]
        >>> passed([(), (), (0,), ()], lane=[0, 1, 1, 1], empty={2})  # 3 follows 2 on its lane
        [(), (), (0,), (0,)]
    """
    found: list[tuple[int, ...]] = []
    over: dict[int, tuple[int, ...]] = {}  # of each that is empty, what it waits for
    last: dict[int, int] = {}  # by lane, the last that is not
    pending: dict[int, tuple[int, ...]] = {}  # by lane, what those that are empty behind it wait for
    for i, before in enumerate(waits):
        where = lane[i]
        through = tuple(dict.fromkeys(k for j in before for k in over.get(j, (j,))))
        mine = tuple(dict.fromkeys((*through, *pending.pop(where, ()))))
        if i in empty:
            own = (last[where],) if where in last else ()
            over[i], pending[where] = tuple(dict.fromkeys((*own, *mine))), mine
        else:
            mine = tuple(j for j in mine if lane[j] != where)
            last[where] = i
        found.append(mine)
    return found
