"""All hops of rings over hundreds of GPUs, in one vector operation a hop.

Copy h over the edge into member d starts when copy h-1 over it is over and its member's sum of hop h-1 is, after a
wait; sum h of member d starts when copy h is there, after a wait, and sum h-1 is over. That is what the simulator's
events amount to where the rate of each copy does not change. Rates are those of all copies of one hop at once.

Nothing is extrapolated: the 2 (k-1) hops of k members are all evaluated. Not exact: blocks of unequal bytes (all are
taken to be as large as the largest); edges that are busy at some times only leave others faster then.

Source: `collectives.ring`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphsched.collectives.blocks import part_sizes
from graphsched.collectives.scaling.costs import ITEM_BYTES, Seconds, Waits, sum_s, together_s, waits_of
from graphsched.platform import Platform


def rings_s(platform: Platform, rings: Sequence[Sequence[str]], nbytes: int) -> float:
    """Seconds of rings side by side, of as many members each, that all sum values of `nbytes` among their members.

    Example:
        >>> from graphsched.platform import topologies
        >>> platform = topologies.two_level(hosts=16)
        >>> members = platform.accelerators()
        >>> 0.5 < rings_s(platform, [members], 10**9) / (2 * 10**9 / 50e9) < 1.5
        True
    """
    k = len(rings[0])
    block = part_sizes(nbytes // ITEM_BYTES, k, ITEM_BYTES)[0] * ITEM_BYTES
    pairs = [(ring[d - 1], ring[d]) for ring in rings for d in range(k)]
    copy_s = together_s(platform, pairs, block).reshape(len(rings), k)
    first, waits = rings[0][0], waits_of(platform)
    over_s = _hops(copy_s, sum_s(platform, first, block, 2), waits)
    return float(over_s.max()) + waits.after_copy_s


def _hops(copy_s: Seconds, add_s: float, waits: Waits) -> Seconds:
    """When the last copy into each member is over; ``copy_s[r, d]``: into member d of ring r."""
    k = copy_s.shape[1]
    sent, added = np.zeros_like(copy_s), np.zeros_like(copy_s)
    for _ in range(k - 1):
        ready = np.roll(added, 1, axis=1) + waits.after_kernel_s
        sent = np.maximum(sent, ready) + copy_s
        added = np.maximum(added, sent + waits.after_copy_s) + add_s
    ready = np.roll(added, 1, axis=1) + waits.after_kernel_s
    for _ in range(k - 1):
        sent = np.maximum(sent, ready) + copy_s
        ready = np.roll(sent, 1, axis=1) + waits.after_copy_s
    return sent
