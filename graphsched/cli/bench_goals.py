"""Goals of speed: what ``bench`` measured of the simulator, the schedulers and the building of workloads, beside them.

They are for one core of a host of x86-64 with CPython 3.11. A loaded host misses those in seconds, and keeps those that
are ratios to something timed in the same process.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]

SLACK = 0.1
"""Of an exponent over n log n: caches that small sizes fit into, and noise."""


class Goal(NamedTuple):
    """A figure that is wanted to be no larger, or no smaller, than a limit."""

    name: str
    unit: str
    limit: float
    measured: float
    at_least: bool = False

    def row(self) -> dict[str, Any]:
        """For a table: ``ratio`` is measured / limit.

        Example:
            >>> Goal("heft", "s", 0.5, 0.25).row()
            {'goal': 'heft', 'unit': 's', 'wanted': '≤ 0.5', 'measured': 0.25, 'ratio': 0.5, 'held': True}
        """
        held = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        wanted = f"{'≥' if self.at_least else '≤'} {self.limit:,.6g}"
        ratio = self.measured / self.limit
        return {
            "goal": self.name,
            "unit": self.unit,
            "wanted": wanted,
            "measured": self.measured,
            "ratio": ratio,
            "held": held,
        }


ROUNDING = 1e-9

GOAL_TABLES = ("growth", "goals")
HEFT_S = {1_000: 0.015, 10_000: 0.5, 100_000: 8.0}
WORKLOAD_S = {100_000: 2.0}
FASTER_THAN_PEER = 20.0
ACTIONS_PER_S = {False: 250_000.0, True: 40_000.0}  # by contention
OF_BARE_LOOP = 0.2
LARGE_ACTIONS, LARGE_S, LARGE_BYTES = 1_000_000, 20.0, 4e9


def speed_goals(data: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Tables ``growth`` and ``goals`` of what is in `data`; none where nothing of it has a goal."""
    growths = [*_growths(data)]
    goals = [*_scheduler_goals(data), *_simulator_goals(data.get("simulator", ()))]
    goals += [
        Goal(f"growth of {row['what']} over n log n", "exponent", 1.0 + SLACK, row["exponent_over_n_log_n"])
        for row in growths
    ]
    tables = (growths, [goal.row() for goal in goals])
    return {name: rows for name, rows in zip(GOAL_TABLES, tables, strict=True) if rows}


def growth(what: str, sizes: Sequence[int], seconds: Sequence[float]) -> dict[str, Any]:
    """How the time grows: least-squares slopes of its logarithm over that of n, and over that of n log n.

    Example:
        >>> row = growth("sorting", [10, 100, 1000], [10.0, 200.0, 3000.0])
        >>> round(row["exponent"], 3), round(row["exponent_over_n_log_n"], 3)
        (1.239, 1.0)
    """
    import numpy as np

    times = np.log(seconds)
    slopes = [float(np.polyfit(np.log(over), times, 1)[0]) for over in (sizes, [n * math.log(n) for n in sizes])]
    return {
        "what": what,
        "smallest": min(sizes),
        "largest": max(sizes),
        "exponent": slopes[0],
        "exponent_over_n_log_n": slopes[1],
    }


def _growths(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    series = {
        "heft": [(r["tasks"], r["seconds"]) for r in data.get("schedulers", ()) if r["name"] == "heft"],
        "building workloads": [(r["tasks"], r["seconds"]) for r in data.get("workloads", ()) if r["graph"] == "random"],
        "simulating": [(r["actions"], r["seconds"]) for r in _uncontended(data.get("simulator", ()))],
    }
    for what, points in series.items():
        if len(points) > 1:
            yield growth(what, *zip(*points, strict=True))


def _uncontended(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row["contention"]]


def _scheduler_goals(data: Mapping[str, Any]) -> Iterator[Goal]:
    for row in data.get("schedulers", ()):
        if row["name"].startswith("heft") and row["tasks"] in HEFT_S:
            what = f"{row['name']}: {row['tasks']:,} tasks on {row['devices']} devices"
            yield Goal(what, "s", HEFT_S[row["tasks"]], row["seconds"])
    for row in data.get("peer", ()):
        if row["faster"] is not None:
            name = f"heft of {row['tasks']:,} tasks, times faster than {row['peer']}"
            yield Goal(name, "ratio", FASTER_THAN_PEER, row["faster"], at_least=True)
            yield Goal(
                f"its makespan, over that of {row['peer']}", "ratio", 1.0, row["own_makespan_s"] / row["makespan_s"]
            )
    for row in data.get("workloads", ()):
        if row["tasks"] in WORKLOAD_S and row["graph"] != "calls":
            name = f"building and checking {row['tasks']:,} tasks, {row['edges']:,} edges"
            yield Goal(name, "s", WORKLOAD_S[row["tasks"]], row["seconds"])


def _simulator_goals(rows: Iterable[Row]) -> Iterator[Goal]:
    for row in rows:
        name = f"simulating {row['actions']:,} actions"
        if row["actions"] == LARGE_ACTIONS:
            yield Goal(name, "s", LARGE_S, row["seconds"])
            yield Goal(f"{name}, memory", "bytes", LARGE_BYTES, row["peak_bytes"])
            continue
        name += ", half of them transfers" if row["contention"] else ""
        yield Goal(name, "actions / s", ACTIONS_PER_S[row["contention"]], row["actions_per_s"], at_least=True)
        if not row["contention"]:
            share = row["actions_per_s"] / row["bare_simpy_events_per_s"]
            yield Goal(f"{name}, over a bare SimPy loop", "ratio", OF_BARE_LOOP, share, at_least=True)
