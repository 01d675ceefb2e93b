"""Schedules of one workload held against each other: is the predicted order, and the predicted best, the real one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from graphsched.records.checked import Checked

SMALLEST_DIFFERENCE = 0.01  # two schedules nearer than this have no order worth predicting


def places(checked: Sequence[Checked]) -> list[list[Checked]]:
    """The cases by workload, platform and mode."""
    found: dict[tuple[str, str, str], list[Checked]] = {}
    for entry in checked:
        found.setdefault(entry.place, []).append(entry)
    return list(found.values())


def concordance(checked: Sequence[Checked]) -> float | None:
    """Share of pairs of schedules of one workload, platform and mode that are predicted in the measured order.

    Only pairs count whose measured times differ by more than 1 % and by more than twice the larger
    spread, and that are not two names of one plan. None where there is no such pair.
    """
    right = [
        (a.predicted_s < b.predicted_s) == (a.measured_s < b.measured_s)
        for place in places(checked)
        for a, b in combinations(place, 2)
        if differ(a, b)
    ]
    return sum(right) / len(right) if right else None


def differ(a: Checked, b: Checked) -> bool:
    """Whether two cases differ by more than noise: in their measured times, and in their plans."""
    return _actions(a) != _actions(b) and beyond_noise(
        a.measured_s, b.measured_s, max(a.case.spread or 0.0, b.case.spread or 0.0)
    )


def _actions(checked: Checked) -> str:
    """Lanes and actions of the plan: what comes before names the scheduler and the platform."""
    return (checked.case.plan_text or "").partition("\nlanes\n")[2]


def beyond_noise(one_s: float, other_s: float, spread: float) -> bool:
    """Whether two measured times, of which `spread` is the larger spread, differ by more than noise.

    Example:
        >>> beyond_noise(1.0, 1.02, 0.0), beyond_noise(1.0, 1.02, 0.015)
        (True, False)
    """
    low, high = sorted((one_s, other_s))
    return high - low > max(SMALLEST_DIFFERENCE, 2 * spread) * low


@dataclass(frozen=True, eq=False)
class Regret:
    """What it costs to take the schedule that is predicted to be best.

    Attributes:
        chosen: The case that is predicted to be fastest; the first of several.
        best: The case that was fastest.
    """

    chosen: Checked
    best: Checked

    @property
    def share(self) -> float:
        """Measured time of the chosen schedule over that of the best, less 1."""
        return self.chosen.measured_s / self.best.measured_s - 1

    @property
    def beyond_noise(self) -> bool:
        """Whether it is more than 1 %, and more than twice the larger spread."""
        return differ(self.chosen, self.best)

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        case = self.best.case
        return {
            "experiment": self.best.experiment,
            "platform": case.setup.platform.name,
            "mode": case.mode,
            "chosen": self.chosen.case.label,
            "best": case.label,
            "regret": self.share,
        }


def regrets(checked: Sequence[Checked]) -> list[Regret]:
    """One for each workload, platform and mode with several schedules; ties go to the first case."""
    return [
        Regret(min(place, key=lambda c: c.predicted_s), min(place, key=lambda c: c.measured_s))
        for place in places(checked)
        if len(place) > 1 and all(entry.measured_s for entry in place)
    ]
