"""Tasks on CPU lanes of several threads: the longer these have rested, the longer their first operation takes.

Threads look for work for a while after an operation, then they sleep, and sleeping cores take longer to wake the
deeper they sleep. Costs are measured after rests of several lengths (`TaskCost.rests`); between these times are linear
in the logarithm of the rest, which is an assumption.

Not modelled: rests shorter than the first, longer than the last; that before a lane's first task of a run, which is
taken to be the time since the beginning of the run: runs follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphsched.simulator.columns import Columns

Rests = tuple[tuple[float, float], ...]


def rested_s(columns: Columns, i: int, start_s: float, end_s: Sequence[float]) -> float:
    """Seconds that task `i`, which starts at `start_s`, takes longer than after the first rest; `end_s` by action."""
    before = columns.previous[i]
    return longer_s(columns.rested[i], start_s - (end_s[before] if before >= 0 else 0.0))


def longer_s(rests: Rests, rest_s: float) -> float:
    """What a rest of so many seconds costs more than the first of `rests`, (rest, seconds) pairs.

    Example:
        >>> rests = ((1e-3, 5e-5), (4e-3, 9e-5), (8e-3, 1e-4))
        >>> [round(longer_s(rests, rest_s) * 1e6, 9) for rest_s in (0.0, 1e-3, 2e-3, 4e-3, 1.0)]
        [0.0, 0.0, 20.0, 40.0, 50.0]
    """
    known, seconds = zip(*rests, strict=True)
    return float(np.interp(math.log(max(rest_s, known[0])), np.log(known), seconds)) - float(seconds[0])
