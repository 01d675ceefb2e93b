"""Actions by name or number."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from graphsched.errors import PlanError
from graphsched.plan import Plan

OFFERED = 5
SEARCHED = 20_000  # names among which near ones are looked for


def find_action(plan: Plan, action: str | int) -> int:
    """Number of an action, by name or number.

    Raises:
        PlanError: There is none; the nearest names are offered.
    """
    if isinstance(action, int):
        if 0 <= action < len(plan):
            return action
        raise PlanError(f"no action number {action}: the plan has {len(plan)}, from 0")
    found = plan.index_of.get(action)
    if found is None:
        raise PlanError(f"no action {action!r} in the plan: {offer_names(plan.names, action)}")
    return found


def offer_names(names: Iterable[str], action: str) -> str:
    """What to say instead of `action`: the names nearest to it, or the first ones.

    Example:
        >>> offer_names(["copy1", "copy2", "mm1"], "copy3")
        'the nearest are copy2, copy1'
    """
    known = list(islice(names, SEARCHED))
    near = get_close_matches(action, known, n=OFFERED)
    if near:
        return f"the nearest are {', '.join(near)}"
    return f"the first are {', '.join(known[:OFFERED])}" if known else "there are none"
