"""Durations that a user gives for a task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from graphsched.costs import check_seconds


def checked_duration(task: str, given: Any) -> Any:
    """A duration given for `task`, as seconds or as a mapping from device or kind to seconds.

    Raises:
        CostError: It is negative or not finite.
    """
    if isinstance(given, Mapping):
        plain = {*map(type, given), *map(type, given.values())} == {str, float}
        if plain and min(given.values()) >= 0.0 and sum(given.values()) < math.inf:  # nor is there a NaN
            return dict(given)
        return {str(k): check_seconds(v, f"duration of task {task!r} on {k}") for k, v in given.items()}
    return None if given is None else check_seconds(given, f"duration of task {task!r}")
