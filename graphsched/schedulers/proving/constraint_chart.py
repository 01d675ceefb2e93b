"""A constraint model in the making: moments, intervals on lanes, and literals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any


class Chart:
    """A CP-SAT model whose intervals lie on lanes, one at a time.

    Attributes:
        model: The model.
        most: Units of the longest schedule.
        true: A literal that holds.
    """

    def __init__(self, most: int) -> None:
        from ortools.sat.python import cp_model

        self.model: Any = cp_model.CpModel()
        self.most = most
        self.true = self.model.new_constant(1)
        self._lanes: dict[Hashable, list[Any]] = defaultdict(list)

    def moment(self, name: str) -> Any:
        """A moment of the schedule."""
        return self.model.new_int_var(0, self.most, name)

    def occupy(self, lane: Hashable, start: Any, units: int, end: Any, literal: Any) -> None:
        """Where `literal` holds, `end` is `units` after `start`, and a lane is taken up in between."""
        name = f"{lane} {len(self._lanes[lane])}"
        self._lanes[lane].append(self.model.new_optional_interval_var(start, units, end, literal, name))

    def close(self) -> None:
        """Nothing more is put on lanes."""
        for intervals in self._lanes.values():
            self.model.add_no_overlap(intervals)

    def after(self, later: Any, earlier: Any, *literals: Any) -> None:
        """`later` is not before `earlier` where all `literals` hold."""
        self.model.add(later >= earlier).only_enforce_if(literals)

    def any_of(self, literals: Sequence[Any]) -> Any:
        """A literal that holds where one of `literals` does."""
        if len(literals) == 1:
            return literals[0]
        found = self.model.new_bool_var("any")
        self.model.add_max_equality(found, literals)
        return found

    def all_of(self, literals: Sequence[Any]) -> Any:
        """A literal that holds where all of `literals` do."""
        asked = [literal for literal in literals if literal is not self.true]
        if len(asked) <= 1:
            return asked[0] if asked else self.true
        found = self.model.new_bool_var("all")
        self.model.add_min_equality(found, asked)
        return found
