"""What small operations leave of a device's time: limits of a grid, and the smallest operation at half efficiency.

Not modelled: the gap between two kernels, which a time measured in a row holds already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx

import graphsched as gs
from graphsched.costs import Kernel, Multiprocessors
from graphsched.estimates import task_cost

HALF = 0.5


def limits(
    work: gs.Workload, platform: gs.Platform, costs: gs.Costs, device: str, operation_share: float | None = None
) -> tuple[float, float]:
    """Seconds that `work` takes at least on `device`, and with one task after the other.

    `operation_share`: of the device, what each average takes up; default: what its costs say.
    """
    here = platform.device(device)
    found = {task.name: task_cost(task, here, costs) for task in work.tasks}
    shares = {task.name: operation_share if is_operation(task.signature) else None for task in work.tasks}
    parts = (cost.device_s * (shares[name] or share(cost)) for name, cost in found.items())
    work_s = math.fsum(parts) / (1 if here.kind == "cuda" else here.lanes)
    end_s: dict[str, float] = {}
    for name in nx.topological_sort(work.graph):
        end_s[name] = found[name].device_s + max((end_s[before] for before in work.graph.pred[name]), default=0.0)
    return max(work_s, *end_s.values()), math.fsum(cost.device_s for cost in found.values())


def is_operation(signature: str) -> bool:
    """Whether a task is an average, not a join."""
    return "avg_pool2d" in signature


def share(cost: gs.TaskCost) -> float:
    """The part of a device that an operation takes up at least: as beside copies of itself, or by room for its blocks.

    Where neither is known, all of it.

    Example:
        >>> share(gs.TaskCost(1e-5, concurrency=((1, 1.0), (8, 2.0))))
        0.25
    """
    shares = [1.0, *(slowdown / k for k, slowdown in cost.concurrency if k)]
    if cost.kernels and (there := cost.processors) is not None:
        shares.append(math.fsum(k.share * min(1.0, k.blocks * _room(k, there) / there.count) for k in cost.kernels))
    return min(shares)


def _room(kernel: Kernel, there: Multiprocessors) -> float:
    """The part of a multiprocessor that one block has to itself."""
    needs = [(kernel.threads, there.threads), (kernel.registers, there.registers), (1, there.blocks)]
    return max(need / room for need, room in [*needs, (kernel.shared_bytes, there.shared_bytes)] if room)


def smallest(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The smallest operation at half efficiency for each pattern, width and way, from rows at several sizes."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["pattern"], row["width"], row["way"]), []).append(row)
    found = []
    for (pattern, width, way), same in groups.items():
        timed = sorted((row for row in same if row["efficiency"] is not None), key=lambda row: row["operation_s"])
        by_size = [(row["operation_s"], row["efficiency"]) for row in timed]
        serial = [(row["operation_s"], row["serial_efficiency"]) for row in timed]
        found.append(
            {
                "pattern": pattern,
                "width": width,
                "way": way,
                "metg_s": crossing(by_size),
                "serial_metg_s": crossing(serial),
                "best_efficiency": max((e for _, e in by_size), default=None),
                "note": _remark(same, by_size),
            }
        )
    return found


def _remark(rows: Sequence[Mapping[str, Any]], by_size: Sequence[tuple[float, float]]) -> str:
    failures = [str(row["note"]) for row in rows if row["note"]]
    if failures:
        return failures[0]
    if by_size and by_size[0][1] >= HALF:
        return "at most: the smallest operation tried"
    return "" if any(e >= HALF for _, e in by_size) else "not reached with the operations tried"


def unfinished(rows: Sequence[Mapping[str, Any]], done: int, sizes: int) -> list[dict[str, Any]]:
    """`rows`, their notes saying so where they rest on `done` of several `sizes`.

    Example:
        >>> unfinished([{"note": ""}, {"note": "no compiler"}], 2, 6)
        [{'note': 'only 2 of 6 sizes'}, {'note': 'only 2 of 6 sizes; no compiler'}]
        >>> unfinished([{"note": ""}], 6, 6)
        [{'note': ''}]
    """
    words = f"only {done} of {sizes} sizes" if done < sizes else ""
    return [{**row, "note": "; ".join(filter(None, (words, row["note"])))} for row in rows]


def crossing(points: Sequence[tuple[float, float]], level: float = HALF) -> float | None:
    """The size from which on efficiency is at least `level`, between sizes on a line over their logarithm.

    Args:
        points: Sizes with their efficiencies, by size.

    Returns:
        The smallest size if it is enough there already; None if the largest is not enough.

    Example:
        >>> crossing([(1.0, 0.25), (4.0, 0.75)]), crossing([(1.0, 0.6)]), crossing([(1.0, 0.1)])
        (2.0, 1.0, None)
    """
    below = [i for i, (_, efficiency) in enumerate(points) if efficiency < level]
    last = below[-1] if below else -1
    if last == len(points) - 1:
        return None
    if last < 0:
        return points[0][0]
    (small, low), (large, high) = points[last], points[last + 1]
    return float(small * (large / small) ** ((level - low) / (high - low)))
