"""Recorded cases side by side: one workload and scheduler in several modes, and beside the code of others.

Cases belong together that are of one experiment, workload, scheduler with its options, and devices, and whose labels
are the same but for a part that names the mode. Code of others has no workload: it stands beside the cases that were
run with the same parameters and whose labels hold all parts of its label (between commas) but one, which names it:
"plain PyTorch, 256 × 256, 1 GPU" beside "2 lanes, 256 × 256, 1 GPU". Further parts of their labels say how they were
run ("one graph, gather, 1 GPU"), but not if other code of others has them too, for then they name a problem: beside
"accuracy, plain PyTorch, 1 GPU" the case "accuracy, one graph, 1 GPU" is no training step, and is not held against
"DDP, 1 GPU". Figures are those recorded; `records.accuracy` simulates again.

Not modelled: that the cases of a row may have been run on different days; that a part of a label may name a problem
for which there is no code of others at all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from graphsched.comparison import noisy
from graphsched.plan import MODES
from graphsched.platform import Platform
from graphsched.records.concordance import SMALLEST_DIFFERENCE
from graphsched.records.model import CaseRecord, RunRecord

BASELINE = "baseline"
Key = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One workload and scheduler, by the way it was run.

    Attributes:
        experiment, platform, label, scheduler, options: Which; the label without a part that names the mode.
        cells: Its case in each mode, in the order of `MODES`.
        others: Code of others on the same problem, by its name.
        elsewhere: Other ways that would stand here, had they not been recorded on other devices under the platform's
            name.
    """

    experiment: str
    platform: str
    label: str
    scheduler: str
    options: Mapping[str, Any]
    cells: dict[str, CaseRecord] = field(default_factory=dict)
    others: dict[str, CaseRecord] = field(default_factory=dict)
    elsewhere: list[CaseRecord] = field(default_factory=list)

    @property
    def ways(self) -> dict[str, CaseRecord]:
        """All of its cases, modes first."""
        return {mode: self.cells[mode] for mode in MODES if mode in self.cells} | self.others

    @property
    def best(self) -> str:
        """The mode that was measured to be fastest; the first of several."""
        modes = [mode for mode in MODES if mode in self.cells]
        return min(modes, key=lambda mode: self.cells[mode].measured_s or 0.0)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Pairs of modes, and each code of others with the best mode."""
        yield from combinations([mode for mode in MODES if mode in self.cells], 2)
        yield from ((name, self.best) for name in self.others)

    def ratio(self, one: str, other: str) -> float:
        """Measured time of `one` way over that of the `other`: how many times as fast the other is."""
        return (self.ways[one].measured_s or 0.0) / (self.ways[other].measured_s or 1.0)

    def predicted_ratio(self, one: str, other: str) -> float | None:
        """The same by the predictions; None without both."""
        times = [self.ways[way].predicted_s for way in (one, other)]
        return times[0] / times[1] if times[0] and times[1] else None

    @property
    def other_devices(self) -> str:
        """The first device that is another one in a case `elsewhere`, and as what it is known; empty without one."""
        own = next(iter(self.ways.values())).setup.platform
        return _difference(own, self.elsewhere[0].setup.platform) if self.elsewhere else ""

    def noisy(self, *ways: str) -> bool:
        """Whether one of these ways (default: any) scatters too much to be judged by."""
        return any(noisy(self.ways[way].spread) for way in ways or self.ways)

    def agrees(self, one: str, other: str) -> bool | None:
        """Whether the prediction names the faster of two ways; None without predictions, and where they differ by no
        more than the larger of 1 % and twice the spread."""
        predicted, measured = self.predicted_ratio(one, other), self.ratio(one, other)
        spreads = [self.ways[way].spread or 0.0 for way in (one, other)]
        least = max(SMALLEST_DIFFERENCE, 2 * max(spreads))
        if predicted is None or max(measured, 1 / measured) - 1 <= least:
            return None
        return (predicted > 1) == (measured > 1)

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "experiment": self.experiment,
            "platform": self.platform,
            "label": self.label,
            "scheduler": self.scheduler,
            "options": dict(self.options),
            "ways": [_way(name, case) for name, case in self.ways.items()],
            "ratios": [
                {
                    "of": one,
                    "to": other,
                    "measured": self.ratio(one, other),
                    "predicted": self.predicted_ratio(one, other),
                    "agree": self.agrees(one, other),
                    "noisy": self.noisy(one, other),
                }
                for one, other in self.pairs()
            ],
        }


def _way(name: str, case: CaseRecord) -> dict[str, Any]:
    return {
        "way": name,
        "mode": case.mode,
        "label": case.label,
        "predicted_s": case.predicted_s,
        "measured_s": case.measured_s,
        "spread": case.spread,
        "noisy": noisy(case.spread),
        "estimated": bool(case.estimated),
    }


def side_by_side(runs: Iterable[RunRecord]) -> list[Row]:
    """The cases of `runs` in rows, in recorded order; those with one way alone too (see `comparable`).

    A case that several runs hold counts as the last of them has it. Cases without a measured time are left out.
    """
    rows: dict[tuple[Key, Key], Row] = {}
    others: dict[tuple[Key, str], CaseRecord] = {}
    for run in runs:
        for case in run.cases:
            if not case.measured_s:
                continue
            place = _place(run.experiment, case)
            if case.mode == BASELINE:
                others[place, case.label] = case
            elif case.workload is not None:
                row = Row(run.experiment, case.setup.platform.name, _problem(case), case.scheduler or "", case.options)
                rows.setdefault((place, _subject(case)), row).cells[case.mode] = case
    for (place, subject), row in rows.items():
        for there, name, case in _others(row, others):
            if there == place:
                row.others[name] = case
            elif _namesakes(there, place):
                row.elsewhere.append(case)
        akin = [other for (there, what), other in rows.items() if what == subject and _namesakes(there, place)]
        row.elsewhere.extend(case for other in akin for mode, case in other.cells.items() if mode not in row.cells)
    return list(rows.values())


def comparable(rows: Sequence[Row]) -> list[Row]:
    """Those with several ways."""
    return [row for row in rows if len(row.ways) > 1]


def _place(experiment: str, case: CaseRecord) -> Key:
    """The experiment, and the platform's name and devices; measured anew it is the same."""
    platform = case.setup.platform
    return (experiment, platform.name, *(f"{device.name} {device.model}" for device in platform.devices))


def _namesakes(one: Key, other: Key) -> bool:
    """Whether two places differ in their devices alone."""
    return one != other and one[:2] == other[:2]


def _difference(one: Platform, other: Platform) -> str:
    """The first device that is another one there, and what its models do not have in common, in one order."""
    here, there = ({device.name: _parts(device.model) for device in platform.devices} for platform in (one, other))
    for name in dict.fromkeys((*here, *there)):
        own, others = here.get(name, []), there.get(name, [])
        if own != others:
            models = ([part for part in own if part not in others], [part for part in others if part not in own])
            return f"{name}: {' or '.join(sorted(', '.join(model) or 'none' for model in models))}"
    return "in another order"


def _subject(case: CaseRecord) -> Key:
    """What was run, whatever the mode and wherever."""
    options = json.dumps(case.options, sort_keys=True)
    return (_problem(case), case.scheduler or "", options, case.work.digest())


def _parts(label: str) -> list[str]:
    return label.split(", ")


def _problem(case: CaseRecord) -> str:
    """The label without a part that names the mode."""
    parts = [part for part in _parts(case.label) if part != f"{case.mode} mode"]
    return ", ".join(parts) or case.label


def _others(row: Row, others: Mapping[tuple[Key, str], CaseRecord]) -> Iterator[tuple[Key, str, CaseRecord]]:
    """Code of others on the problem of `row`, wherever: the place, the part of its label that names it, and itself."""
    own = {key: case for key, case in others.items() if key[0][0] == row.experiment}
    known = {part for case in own.values() for part in _parts(case.label)}
    for (place, label), case in own.items():
        name = _name(_parts(label), _parts(row.label), known)
        if name and any(cell.setup.parameters == case.setup.parameters for cell in row.cells.values()):
            yield place, name, case


def _name(label: Sequence[str], beside: Sequence[str], known: Collection[str]) -> str | None:
    """The one part of a label that is not `beside` it; None if that is of another problem (see the module)."""
    names = [part for part in label if part not in beside]
    of_another = any(part in known and part not in label for part in beside)
    return names[0] if len(names) == 1 and len(label) > 1 and not of_another else None
