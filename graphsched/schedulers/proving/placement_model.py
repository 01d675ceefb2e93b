"""Any platform as a constraint model: tasks on places, copies on their lanes.

Not modelled: dispatch; lanes that share a device; copies on different lanes that share a capacity; what copies that
stay on a compute lane (``copies="compute"``) take up there. All of these only make plans longer, so that bounds hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphsched.schedulers.proving.constraint_chart import Chart
from graphsched.schedulers.proving.copies_model import CopiesModel, On
from graphsched.schedulers.proving.solver import Grid
from graphsched.schedulers.searching.instance import Instance
from graphsched.schedulers.searching.placement_moves import Candidate


@dataclass(frozen=True, eq=False)
class PlacementModel:
    """A CP-SAT model, and its variables by task.

    Attributes:
        model: The model.
        starts: Moments.
        places: Numbers of places; 0 of tasks that run on none.
    """

    model: Any
    starts: list[Any]
    places: list[Any]

    def hint(self, tasks: Instance, known: Candidate) -> None:
        """Let the solver begin with the places of a placement that is known."""
        for i in tasks.runs:
            self.model.add_hint(self.places[i], known.place[i])


def placement_model(tasks: Instance, grid: Grid, least: int, most: int, *, ordered: bool) -> PlacementModel:
    """The model of all placements that take `least` to `most` units.

    Args:
        tasks: The problem.
        grid: Its units.
        least, most: Bounds of the makespan.
        ordered: Whether values that go over one lane must go in the order of their first readers, as plans have it.
            Without it the model is smaller; its bound holds, but a plan may take longer than it says.
    """
    chart = Chart(most)
    starts = [chart.moment(f"start{i}") for i in range(len(tasks))]
    ends = [chart.moment(f"end{i}") for i in range(len(tasks))]
    places = [chart.model.new_constant(0)] * len(tasks)
    on: list[dict[int, Any]] = [{} for _ in range(len(tasks))]
    for i in tasks.runs:
        places[i], on[i] = _put(chart, tasks, grid, i, starts[i], ends[i])
    for group in tasks.groups:
        for i in group[1:]:
            for device, literal in on[i].items():
                chart.model.add(literal == on[group[0]][device])
    copies = CopiesModel(chart, tasks, grid, starts, ends, on)
    copies.ask()
    shipments = copies.ship()
    if ordered:
        copies.order(shipments)
    _follow(chart, tasks, starts, ends, on)
    chart.close()
    makespan = chart.model.new_int_var(least, most, "makespan")
    for end in ends:
        chart.after(makespan, end)
    chart.model.minimize(makespan)
    return PlacementModel(chart.model, starts, places)


def _put(chart: Chart, tasks: Instance, grid: Grid, i: int, start: Any, end: Any) -> tuple[Any, dict[int, Any]]:
    """Task `i` on one of its places: the number of that, and for each device a literal."""
    place = chart.model.new_int_var_from_domain(_domain(tasks.choices[i]), f"place{i}")
    here: dict[int, list[Any]] = {}
    for k in tasks.choices[i]:
        literal = chart.model.new_bool_var(f"task{i} on {k}")
        chart.occupy(("place", k), start, grid.units(tasks.seconds[i][k]), end, literal)
        chart.model.add(place == k).only_enforce_if(literal)
        here.setdefault(tasks.device_of[k], []).append(literal)
    chart.model.add_exactly_one(literal for literals in here.values() for literal in literals)
    return place, {device: chart.any_of(literals) for device, literals in here.items()}


def _domain(values: Any) -> Any:
    from ortools.sat.python import cp_model

    return cp_model.Domain.from_values(list(values))


def _follow(chart: Chart, tasks: Instance, starts: list[Any], ends: list[Any], on: On) -> None:
    """Each task starts when those before it are over, as far as plans wait for them."""
    for i, kind in enumerate(tasks.kinds):
        chart.after(ends[i], starts[i])
        if kind == "barrier":
            chart.model.add(ends[i] == starts[i])
        apart = {j for j, unless_elsewhere in tasks.follows[i] if unless_elsewhere}
        for j in tasks.before[i]:
            if j not in apart:
                chart.after(starts[i], ends[j])
        for j in apart:
            for device, literal in on[i].items():
                if device in on[j]:
                    chart.after(starts[i], ends[j], literal, on[j][device])
