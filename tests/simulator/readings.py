"""How far calibrations differ in the same figure: what `simulator.interval` takes as standard deviations.

And how figures of the dispatching thread go with its yardsticks from one calibration to the next: `pace.POWERS`.

Read off the platforms that are shipped and those of recorded runs, with the costs in them; no measured makespan is
looked at. Call: python -m tests.simulator.readings [DIR...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from graphsched.plan import Plan
from graphsched.platform import Dispatch, Platform
from graphsched.platform.pace import GRAPH_CALLS, HOST_CALLS, LAUNCHES, LAUNCHES_ACROSS
from graphsched.records.model import CaseRecord
from graphsched.records.store import find_runs, load_run
from graphsched.simulator import predict

SHIPPED = ("h200-x1", "h200-x2", "h200-x4")
SHORT_S = 12e-6  # GPU operations below rest on the handover
OUTLIER = 1.5  # the same operation so many times as long: another kernel, or a reading that failed
EDGES = ("graph_other_device_s", "graph_copy_edge_s", "graph_copies_edge_s", "graph_peer_edge_s")
ACROSS = ("graph_across_s", "graph_across_start_s", "graph_across_root_s", "graph_across_edge_s")

FEWEST = 8  # calibrations that a power is read off

Readings = Mapping[Any, Sequence[float]]


def pooled(readings: Readings) -> tuple[float, int, int]:
    """Relative standard deviation between readings of the same thing, the number of readings and of things.

    Example:
        >>> pooled({"a": [1.0, 1.0], "b": [0.9, 1.1], "c": [1.0]})
        (0.1, 4, 2)
    """
    groups = [values for values in readings.values() if len(values) > 1]
    if not groups:
        return 0.0, 0, 0
    squares = sum(sum((v / fmean(values) - 1) ** 2 for v in values) for values in groups)
    free = sum(len(values) - 1 for values in groups)
    return float(np.sqrt(squares / free).round(12)), sum(map(len, groups)), len(groups)


def operations(platforms: Iterable[Platform], *, on_cpu: bool) -> dict[tuple[str, str], list[float]]:
    """Distinct seconds of each measured operation, GPU operations of `SHORT_S` and more."""
    found: dict[tuple[str, str], set[float]] = {}
    for platform in platforms:
        models = {d.model for d in platform.devices if (d.kind == "cpu") == on_cpu}
        for key in (key for key in platform.costs if key[1] in models):
            cost = platform.costs[key]
            if cost.source == "measured" and (on_cpu or cost.device_s >= SHORT_S):
                found.setdefault(key, set()).add(cost.device_s)
    return {key: sorted(values) for key, values in found.items() if max(values) <= OUTLIER * min(values)}


def dispatch_figures(dispatches: Sequence[Dispatch], names: Sequence[str]) -> dict[str, list[float]]:
    """Distinct values of each figure, where it was measured."""
    return {name: sorted({getattr(d, name) for d in dispatches} - {0.0}) for name in names}


def powers(dispatches: Iterable[Dispatch]) -> dict[str, tuple[float, float, int]]:
    """As which power of its yardstick each figure of the thread goes, the standard error, and of how many calibrations.

    Of distinct ones, where figure and yardstick were measured in `FEWEST` and more; the slope of the logarithms.

    Example:
        >>> slow_and_fast = [Dispatch(call_s=us * 1e-6, record_s=us**1.5 * 1e-7) for us in range(4, 13)]
        >>> {name: [round(x, 6) for x in found] for name, found in powers(slow_and_fast).items() if name == "record_s"}
        {'record_s': [1.5, 0.0, 9]}
    """
    known, found = list(dispatches), {}
    for names, gpus in ((HOST_CALLS + GRAPH_CALLS, 0), (LAUNCHES, 1), (LAUNCHES_ACROSS, 2)):
        yardsticks = [dict(d.graph_launches).get(gpus, 0.0) if gpus else d.call_s for d in known]
        for name in names:
            points = sorted({(s, getattr(d, name)) for s, d in zip(yardsticks, known, strict=True)})
            x, y = np.log([pair for pair in points if min(pair) > 0.0] or [(1.0, 1.0)]).T
            if len(x) >= FEWEST:
                (slope, _), spread = np.polyfit(x, y, 1, cov=True)
                found[name] = float(slope), float(np.sqrt(spread[0][0])), len(x)
    return found


def launches(cases: Iterable[CaseRecord], dispatches: Sequence[Dispatch]) -> list[float]:
    """Of each plan, the relative standard deviation of what launching piece by piece adds, over calibrations."""
    known = list({tuple(getattr(d, name) for name in ACROSS): d for d in dispatches if d.graph_across_s}.values())
    nothing: Any = dict.fromkeys(ACROSS, 0.0)
    found = []
    for plan in _distinct(cases):
        without_s = _with_launch(plan, replace(plan.platform.dispatch, **nothing))
        added = [_with_launch(plan, d) - without_s for d in known]
        if fmean(added) > 1e-6:
            found.append(stdev(added) / fmean(added))
    return found


def _distinct(cases: Iterable[CaseRecord]) -> list[Plan]:
    """Plans in graph mode over several GPUs, one of each kind and size."""
    found: dict[Any, Plan] = {}
    for case in cases:
        gpus = {lane.device for lane in case.plan.lanes if lane.device.startswith("cuda")}
        if len(gpus) > 1:
            found.setdefault((case.label.split(",")[0], len(gpus), len(case.plan)), case.plan)
    return list(found.values())


def _with_launch(plan: Plan, dispatch: Dispatch) -> float:
    figures: Any = {name: getattr(dispatch, name) for name in ACROSS}
    platform = replace(plan.platform, dispatch=replace(plan.platform.dispatch, **figures))
    return predict(replace(plan, platform=platform), mode="graph").makespan_s


def _main(folders: Sequence[str]) -> None:
    runs = [load_run(path) for path in find_runs(folders)]
    cases = [case for run in runs for case in run.cases]
    platforms = [*map(Platform.load, SHIPPED), *{id(c.setup.platform): c.setup.platform for c in cases}.values()]
    dispatches = [platform.dispatch for platform in platforms]
    names = {f.name for f in fields(Dispatch)}
    assert names.issuperset(EDGES + ACROSS)
    for name, on_cpu in (("GPU operation", False), ("CPU operation", True)):
        print(name, "{:.4f} ({} readings of {})".format(*pooled(operations(platforms, on_cpu=on_cpu))))
    print("latency in graphs", "{:.4f} ({} readings of {})".format(*pooled(dispatch_figures(dispatches, EDGES))))
    shares = launches((c for c in cases if c.workload is not None and c.mode == "graph"), dispatches)
    for name, (power, error, count) in powers(dispatches).items():
        print(f"power of the yardstick: {name} {power:.2f} ± {error:.2f} ({count})")
    print(f"launch over GPUs {np.sqrt(np.mean(np.square(shares))):.4f} ({len(shares)} plans)")


if __name__ == "__main__":
    _main(sys.argv[1:] or ["experiments/results"])
