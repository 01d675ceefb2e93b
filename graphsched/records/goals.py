"""What predictions are to reach, and whether they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.records.checked import Checked
from graphsched.records.concordance import places

Figures = Mapping[str, Any]

ABOUT_NINE_IN_TEN = 0.87
SCHEDULES = 4  # of one workload, platform and mode, so that it counts as compared


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit of a figure.

    Attributes:
        name: What the figure is.
        limit: The largest value that reaches the goal; with `at_least` the smallest.
        figure: Where `accuracy`'s result holds it; a count or a fraction, None where there is none.
    """

    name: str
    limit: float
    figure: Callable[[Figures], float | None]
    at_least: bool = False

    def row(self, data: Figures) -> dict[str, Any]:
        """For JSON; ``reached`` is None where there is no figure."""
        found = self.figure(data)
        reached = None if found is None else (found >= self.limit if self.at_least else found <= self.limit)
        row = {"goal": self.name, "limit": self.limit, "at_least": self.at_least}
        return row | {"figure": found, "reached": reached}


GOALS = (
    Goal("cases", 80, lambda d: d["runs"], at_least=True),
    Goal("workloads", 12, lambda d: d["coverage"]["workloads"], at_least=True),
    Goal(f"workloads under {SCHEDULES} schedules or more", 12, lambda d: d["coverage"]["compared"], at_least=True),
    Goal("GPU-bound: makespan, median", 0.01, lambda d: d["makespan_error"]["median"]),
    Goal("GPU-bound: makespan, p95, or 5 µs", 0.03, lambda d: d["gpu_bound"]["makespan_p95_or_5us"]),
    Goal("GPU-bound: cases over 5 % without a written cause", 0, lambda d: d["large_errors"]["without_cause"]),
    Goal("GPU-bound: starts of actions, p95", 0.03, lambda d: d["task_start_error"]["p95"]),
    Goal("GPU-bound: ends of actions, p95", 0.03, lambda d: d["task_end_error"]["p95"]),
    Goal("kernels share a GPU: makespan, median", 0.02, lambda d: d["sm_sharing"]["makespan_error"]["median"]),
    Goal("kernels share a GPU: makespan, p95", 0.08, lambda d: d["sm_sharing"]["makespan_error"]["p95"]),
    Goal("kernels share a GPU: ends of lanes, median", 0.02, lambda d: d["sm_sharing"]["lane_end_error"]["median"]),
    Goal("kernels share a GPU: ends of lanes, p95", 0.10, lambda d: d["sm_sharing"]["lane_end_error"]["p95"]),
    Goal("host-bound: makespan, median", 0.05, lambda d: d["host_bound"]["makespan_error"]["median"]),
    Goal("host-bound: makespan, p95", 0.10, lambda d: d["host_bound"]["makespan_error"]["p95"]),
    Goal("pairs of schedules in the measured order", 0.975, lambda d: d["concordant"], at_least=True),
    Goal("measured inside the 90 % interval", ABOUT_NINE_IN_TEN, lambda d: d["interval"]["share"], at_least=True),
    Goal("predicted best against the best, beyond noise", 0.01, lambda d: d["regret"]["beyond_noise"]),
)


def goal_rows(data: Figures) -> list[dict[str, Any]]:
    """Each goal with its limit, the figure in `data` and whether it is reached."""
    return [goal.row(data) for goal in GOALS]


def coverage(checked: Sequence[Checked]) -> dict[str, int]:
    """How many distinct workloads there are, and how many have been run under four schedules or more."""
    schedules = {
        place[0].place: len({(c.case.scheduler, str(sorted(c.case.options.items()))) for c in place})
        for place in places(checked)
    }
    enough = {work for (work, _, _), count in schedules.items() if count >= SCHEDULES}
    return {"workloads": len({work for work, _, _ in schedules}), "compared": len(enough)}
