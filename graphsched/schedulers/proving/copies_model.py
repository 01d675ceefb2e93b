"""Copies of values between devices, as part of a constraint model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from graphsched.schedulers.proving.constraint_chart import Chart
from graphsched.schedulers.proving.solver import Grid
from graphsched.schedulers.searching.instance import Home, Instance, Need

On = Sequence[Mapping[int, Any]]
"""For each task, a literal for each device: it is there."""


@dataclass(frozen=True, eq=False)
class Shipment:
    """A copy that a plan may have to make.

    Attributes:
        need: What is copied.
        readers: Tasks that read it and may run at the target.
        target, lane: Number of the device, and of the lane that it takes there.
        is_made: Literal.
        start, end: Moments.
    """

    need: Need
    readers: Sequence[int]
    target: int
    lane: int
    is_made: Any
    start: Any
    end: Any


@dataclass(frozen=True, eq=False)
class FirstRead:
    """When a value is first read on a device, and a literal for each task that may be the first to read it."""

    moment: Any
    is_by: Mapping[int, Any]


@dataclass(frozen=True, eq=False)
class CopiesModel:
    """Adds copies to a chart whose tasks have `starts`, `ends` and devices (`on`)."""

    chart: Chart
    tasks: Instance
    grid: Grid
    starts: Sequence[Any]
    ends: Sequence[Any]
    on: On

    def ask(self) -> None:
        """Put the copies that the workload asks for on their lanes."""
        for i, kind in enumerate(self.tasks.kinds):
            if kind == "copy":
                need, target = self.tasks.needs[i][0], self.tasks.targets[i]
                for source, is_home in self._homes(need.home).items():
                    lane = self._lane(source, target) if self.tasks.copies == "own" else ("copy", i)
                    units = self._units(need, source, target)
                    self.chart.occupy(lane, self.starts[i], units, self.ends[i], is_home)
                    self._use_engine(source, target, self.starts[i], units, self.ends[i], is_home)

    def ship(self) -> list[Shipment]:
        """Let each value be copied, once, to each device where a task reads it that is elsewhere than the value."""
        needs: dict[int, Need] = {}
        readers: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i in self.tasks.runs:
            for need in self.tasks.needs[i]:
                needs[need.key] = need
                for device in self.on[i]:
                    readers[need.key, device].append(i)
        return [
            self._shipment(needs[key], source, is_home, target, found)
            for (key, target), found in readers.items()
            for source, is_home in self._homes(needs[key].home).items()
            if source != target
        ]

    def order(self, shipments: Sequence[Shipment]) -> None:
        """Let what is shipped over one lane to one device go in the order of its first readers, as in a plan.

        What one task reads goes in the order in which it reads it.
        """
        firsts: dict[tuple[int, int], FirstRead] = {}
        for one, two in combinations(shipments, 2):
            if (one.lane, one.target) != (two.lane, two.target) or one.need.key == two.need.key:
                continue
            first, second = self._first(one, firsts), self._first(two, firsts)
            both = (one.is_made, two.is_made)
            in_order = self.chart.model.new_bool_var("in order")
            self.chart.after(two.start, one.end, in_order, *both)
            self.chart.after(second.moment, first.moment, in_order, *both)
            self.chart.after(one.start, two.end, in_order.negated(), *both)
            self.chart.after(first.moment, second.moment, in_order.negated(), *both)
            for i in first.is_by.keys() & second.is_by.keys():
                goes_first = in_order if self._reads(i, one) < self._reads(i, two) else in_order.negated()
                self.chart.model.add_bool_or([first.is_by[i].negated(), second.is_by[i].negated(), goes_first])

    def _reads(self, i: int, shipment: Shipment) -> int:
        """As which of its values task `i` reads what is shipped."""
        return [need.key for need in self.tasks.needs[i]].index(shipment.need.key)

    def _homes(self, home: Home) -> Mapping[int, Any]:
        """Devices where a value may live, each with a literal."""
        return {home.device: self.chart.true} if home.like < 0 else self.on[home.like]

    def _lane(self, source: int, target: int) -> tuple[str, int]:
        return "copies", self.tasks.copy_lanes[source][target]

    def _use_engine(self, source: int, target: int, start: Any, units: int, end: Any, literal: Any) -> None:
        engine = self.tasks.engines[source][target]
        if engine >= 0:
            self.chart.occupy(("engine", engine), start, units, end, literal)

    def _units(self, need: Need, source: int, target: int) -> int:
        seconds = need.rows[source][target]
        return self.grid.units(seconds) if seconds < math.inf else self.chart.most + 1

    def _shipment(self, need: Need, source: int, is_home: Any, target: int, readers: list[int]) -> Shipment:
        chart = self.chart
        is_made = chart.all_of([is_home, chart.any_of([self.on[i][target] for i in readers])])
        start, end = chart.moment(f"ship{need.key} to {target}"), chart.moment(f"shipped{need.key} to {target}")
        if need.rows[source][target] == math.inf:
            chart.model.add(is_made == 0)
        else:
            units = self._units(need, source, target)
            chart.occupy(self._lane(source, target), start, units, end, is_made)
            self._use_engine(source, target, start, units, end, is_made)
        if need.source >= 0:
            chart.after(start, self.ends[need.source], is_made)
        for i in self._barriers_before(min(readers)):
            chart.after(start, self.ends[i], is_made)
        for i in readers:
            chart.after(self.starts[i], end, is_made, self.on[i][target])
        for i in self._updates_after(min(readers), need.root):
            chart.after(self.starts[i], end, is_made)
        return Shipment(need, readers, target, self.tasks.copy_lanes[source][target], is_made, start, end)

    def _barriers_before(self, first: int) -> list[int]:
        return [i for i in range(first) if self.tasks.kinds[i] == "barrier"]

    def _updates_after(self, first: int, root: int) -> list[int]:
        """Tasks that change what was copied, and wait until the copy is made; the first reader may be one of them."""
        return [i for i in self.tasks.runs if i > first and root in self.tasks.updates[i]]

    def _first(self, shipment: Shipment, firsts: dict[tuple[int, int], FirstRead]) -> FirstRead:
        key = (shipment.need.key, shipment.target)
        if key not in firsts:
            moment = self.chart.moment("first read")
            is_by = {i: self.chart.model.new_bool_var("is first") for i in shipment.readers}
            for i, literal in is_by.items():
                self.chart.model.add_implication(literal, self.on[i][shipment.target])
                self.chart.after(moment, self.starts[i], literal)
                self.chart.after(self.starts[i], moment, self.on[i][shipment.target])
            self.chart.model.add_at_most_one(is_by.values())
            firsts[key] = FirstRead(moment, is_by)
        self.chart.model.add_bool_or(firsts[key].is_by.values()).only_enforce_if(shipment.is_made)
        return firsts[key]
