"""Identical processors as a constraint model: starts in windows, and no more tasks at once than processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphsched.schedulers.proving.solver import Grid
from graphsched.schedulers.searching.identical import Identical


def identical_model(
    tasks: Identical, grid: Grid, least: int, most: int, hint_s: Sequence[float]
) -> tuple[Any, list[Any]]:
    """A CP-SAT model of all schedules that take `least` to `most` units, and the starts of its tasks.

    Each start lies in the window that the paths before and after the task leave.

    Args:
        tasks: What to schedule.
        grid: Its units.
        least, most: Bounds of the makespan.
        hint_s: Starts of a schedule to begin with.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    units = [grid.units(seconds) for seconds in tasks.seconds]
    heads, tails = _paths(tasks, units)
    makespan = model.new_int_var(least, most, "makespan")
    starts = [model.new_int_var(heads[i], most - tails[i], f"start{i}") for i in range(len(tasks))]
    for i, after in enumerate(tasks.after):
        for j in after:
            model.add(starts[j] >= starts[i] + units[i])
        if not after:
            model.add(makespan >= starts[i] + units[i])
        model.add_hint(starts[i], min(grid.units(hint_s[i]), most - tails[i]))
    busy = [model.new_fixed_size_interval_var(starts[i], n, f"task{i}") for i, n in enumerate(units) if n]
    model.add_cumulative(busy, [1] * len(busy), len(tasks.lanes))
    model.minimize(makespan)
    return model, starts


def _paths(tasks: Identical, units: Sequence[int]) -> tuple[list[int], list[int]]:
    """Units of the longest path to the start of each task, and from its start to the end of all."""
    heads, tails = [0] * len(units), [0] * len(units)
    for i, before in enumerate(tasks.before):
        heads[i] = max((heads[j] + units[j] for j in before), default=0)
    for i in reversed(range(len(units))):
        tails[i] = units[i] + max((tails[j] for j in tasks.after[i]), default=0)
    return heads, tails
