"""Tasks in the order of the workload, each to the next lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Candidates, Devices, assign, find_candidates, spread_over
from graphsched.schedulers.placing.lanes import Copies, lane_counts, lane_name
from graphsched.schedulers.registry import register
from graphsched.workload import Task, Workload


class Rotation:
    """Lanes of sets of devices in turn: first lane of each device, then second lane of each, and so on.

    Each set of devices has a turn of its own, so that tasks bound to one device do not disturb the rest.
    """

    def __init__(self, platform: Platform, counts: Mapping[str, int]) -> None:
        self._platform = platform
        self._counts = counts
        self._turns: dict[Devices, Iterator[tuple[str, str]]] = {}

    def choose(self, task: Task, devices: Devices) -> tuple[str, str]:
        """Device and lane whose turn it is, among those that `task` may use."""
        devices = spread_over(task, devices, self._platform)
        if devices not in self._turns:
            self._turns[devices] = cycle(self._lanes(devices))
        return next(self._turns[devices])

    def restart(self) -> None:
        """Begin with the first lane again."""
        self._turns.clear()

    def _lanes(self, devices: Devices) -> list[tuple[str, str]]:
        most = max(self._counts[d] for d in devices)
        return [
            (d, lane_name(self._platform.device(d), k)) for k in range(most) for d in devices if k < self._counts[d]
        ]


def rotation(work: Workload, platform: Platform, candidates: Candidates, lanes: int | None) -> Rotation:
    """Lanes in turn over the devices that the tasks of `work` are spread over.

    Raises:
        ScheduleError: More lanes than a device may have.
    """
    sets = {(t.devices, candidates.devices[t.name]): t for t in work.tasks if t.kind == "run"}
    used = dict.fromkeys(d for (_, devices), t in sets.items() for d in spread_over(t, devices, platform))
    return Rotation(platform, lane_counts(platform, used, lanes))


@register("round_robin")
def round_robin(
    work: Workload,
    platform: Platform,
    costs: Costs,  # noqa: ARG001
    *,
    lanes: int | None = None,
    copies: Copies = "own",
) -> Placement:
    """Tasks in the order of the workload, each to the next of `lanes` lanes (default 4) on each device.

    Tasks go to accelerators, unless their constraint names the cpu or there is nothing else.

    Raises:
        ScheduleError: More lanes than a device may have.
    """
    candidates = find_candidates(work, platform)
    turn = rotation(work, platform, candidates, lanes)
    return Placement(list(work.graph), assign(candidates, work.tasks, turn.choose), copies=copies)
