"""Schedulers held against each other where a group of cases differs in them: who is best, and by how much."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from graphsched.cli.best import listed, same_within_noise
from graphsched.cli.output import NONE, percent, print_table, seconds

YARDSTICKS = ("one_stream", "round_robin")
WAYS = ("predicted", "measured")
ALIKE = 1.0005  # predicted times over the best's below this are all called the fastest
WITHIN_NOISE = "within noise"
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Ranking:
    """The cases of one group and mode, by scheduler.

    Attributes:
        group, mode: Which.
        cases: Their figures by scheduler.
    """

    group: str
    mode: str
    cases: Mapping[str, Figures]

    @property
    def lower_bound_s(self) -> float | None:
        """The largest lower bound that is known of the workload."""
        return max((f["lower_bound_s"] for f in self.cases.values() if f.get("lower_bound_s")), default=None)

    def seconds(self, way: str) -> dict[str, float]:
        """Seconds by scheduler, ``predicted`` or ``measured``, the fastest first; those that have none are left out."""
        known = {name: float(f[f"{way}_s"]) for name, f in self.cases.items() if f.get(f"{way}_s") is not None}
        return dict(sorted(known.items(), key=lambda item: item[1]))

    def over_best(self, way: str) -> dict[str, float]:
        """Seconds over those of the fastest, by scheduler, the fastest first; none where that takes no time."""
        known = self.seconds(way)
        best_s = next(iter(known.values()), 0.0)
        return {name: value / best_s for name, value in known.items()} if best_s else {}

    def fastest(self, way: str) -> list[str]:
        """The fastest scheduler, and those as fast: as measured, those that differ from it by no more than noise."""
        over = self.over_best(way)
        if way == "predicted":
            return [name for name, ratio in over.items() if ratio <= ALIKE]
        best = next(iter(over), "")
        return [name for name in over if name == best or same_within_noise(self.cases[name], self.cases[best])]

    @property
    def chosen(self) -> str | None:
        """The one predicted to be the fastest, of those that were measured."""
        measured = self.seconds("measured")
        return next((name for name in self.seconds("predicted") if name in measured), None)

    @property
    def lost(self) -> float | None:
        """By how much longer the one predicted to be the fastest was measured to take, as a fraction of the fastest."""
        over = self.over_best("measured")
        return over[self.chosen] - 1.0 if self.chosen in over else None

    @property
    def pairs(self) -> list[bool]:
        """Of each pair whose measured times differ by more than noise: whether it is predicted in that order."""
        from graphsched.records.concordance import beyond_noise

        both = [f for f in self.cases.values() if f.get("measured_s") and f.get("predicted_s")]
        return [
            (a["predicted_s"] < b["predicted_s"]) == (a["measured_s"] < b["measured_s"])
            for a, b in combinations(both, 2)
            if beyond_noise(a["measured_s"], b["measured_s"], max(a["spread"] or 0.0, b["spread"] or 0.0))
        ]

    def figures(self) -> dict[str, Any]:
        """For JSON: times over the best's by scheduler, the fastest first; `alike`: as fast as it within noise."""
        found: dict[str, Any] = {"group": self.group, "mode": self.mode, "lower_bound_s": self.lower_bound_s}
        found |= {f"{way}_over_best": self.over_best(way) or None for way in WAYS}
        return found | {
            "alike": self.fastest("measured")[1:],
            "lost": self.lost,
            "pairs": len(self.pairs),
            "in_order": sum(self.pairs),
        }


def rankings(cases: Iterable[tuple[str, Figures]]) -> list[Ranking]:
    """The groups whose cases have several schedulers, each mode by itself.

    Args:
        cases: Group and figures of each case; those of no group (an empty name) and baselines are left out.

    Example:
        >>> one = {"scheduler": "one_stream", "mode": "eager", "predicted_s": 2.0}
        >>> found = rankings([("LeNet", one), ("LeNet", one | {"scheduler": "heft", "predicted_s": 1.0})])
        >>> found[0].over_best("predicted")
        {'heft': 1.0, 'one_stream': 2.0}
    """
    groups: dict[tuple[str, str], dict[str, Figures]] = {}
    for group, figures in cases:
        if group and figures["scheduler"]:
            groups.setdefault((group, figures["mode"]), {}).setdefault(figures["scheduler"], figures)
    return [Ranking(*key, found) for key, found in groups.items() if len(found) > 1]


def print_rankings(ranked: Sequence[Ranking]) -> None:
    """Print who is best in each group, and how each scheduler does over all groups; measured where it was."""
    for way in WAYS:
        known = [each for each in ranked if each.over_best(way)]
        if known:
            print_table(*_groups_table(known, way), title=f"fastest schedulers, {way}")
            print_table(*_schedulers_table(known, way), title=f"schedulers over {len(known)} groups, {way}")
    pairs = [right for each in ranked for right in each.pairs]
    if pairs:
        print(f"in the measured order: {sum(pairs)} of {len(pairs)} pairs that differ by more than noise")


def _groups_table(ranked: Sequence[Ranking], way: str) -> tuple[list[str], list[tuple[str, ...]]]:
    headings = ["workload", "mode", "fastest", ">takes", ">lower bound", *(f">{name}, times" for name in YARDSTICKS)]
    if way == "predicted":
        return headings, [_group_row(each, way) for each in ranked]
    return [*headings, ">lost"], [(*_group_row(each, way), _lost(each)) for each in ranked]


def _group_row(ranking: Ranking, way: str) -> tuple[str, ...]:
    over, known, alike = ranking.over_best(way), ranking.seconds(way), ranking.fastest(way)
    best = alike[0]
    within = f", {WITHIN_NOISE}" if way == "measured" and len(alike) > 1 else ""
    estimated = way == "predicted" and bool(ranking.cases[best].get("estimated"))
    return (
        ranking.group,
        ranking.mode,
        listed(alike) + within,
        seconds(known[best], estimated=estimated),
        seconds(ranking.lower_bound_s),
        *(f"{over[name]:.2f}" if name in over else NONE for name in YARDSTICKS),
    )


def _lost(ranking: Ranking) -> str:
    """What is lost by the choice that the prediction makes, unless that is noise."""
    fastest = ranking.fastest("measured")
    return WITHIN_NOISE if ranking.chosen in fastest[1:] else percent(ranking.lost)


def _schedulers_table(ranked: Sequence[Ranking], way: str) -> tuple[list[str], list[tuple[str, ...]]]:
    """Schedulers by the geometric mean of their times over the best, where they made a plan."""
    found: dict[str, list[float]] = {}
    for each in ranked:
        for name, ratio in each.over_best(way).items():
            found.setdefault(name, []).append(ratio)
    by_mean = sorted(found.items(), key=lambda item: statistics.geometric_mean(item[1]))
    headings = ["scheduler", ">over the fastest, mean", ">at worst", ">within 1 %", ">groups"]
    return headings, [
        (
            name,
            f"{statistics.geometric_mean(ratios):.3f}",
            f"{max(ratios):.2f}",
            str(sum(ratio <= 1.01 for ratio in ratios)),
            str(len(ratios)),
        )
        for name, ratios in by_mean
    ]


def draw_rankings(ranked: Sequence[Ranking], folder: Path, name: str, title: str) -> tuple[Path, ...]:
    """Write a picture of all groups for each mode into `folder`; nothing where there is no group."""
    from graphsched.charts.ranking import plot_ranking

    paths = []
    drawn = [each for each in ranked if any(map(each.over_best, WAYS))]
    for mode in dict.fromkeys(each.mode for each in drawn):
        columns = {each.group: _column(each) for each in drawn if each.mode == mode}
        bounds = {each.group: each.lower_bound_s for each in drawn if each.mode == mode}
        paths.append(folder / f"{name}-{mode}-ranking.png")
        fastest = {each.group: _fastest_shown(each) for each in drawn if each.mode == mode}
        plot_ranking(columns, bounds, paths[-1], title=f"{title}, {mode}", fastest=fastest)
    return tuple(paths)


def _fastest_shown(ranking: Ranking) -> list[str]:
    return ranking.fastest("measured") or ranking.fastest("predicted")


def _column(ranking: Ranking) -> dict[str, tuple[float | None, float | None]]:
    predicted, measured = (ranking.seconds(way) if ranking.over_best(way) else {} for way in WAYS)
    return {name: (predicted.get(name), measured.get(name)) for name in ranking.cases}
