"""How fast the dispatching thread and CPU lanes are just now: others on a core make it up to twice as slow.

They slow down calls of several kinds by more than a row of one: such calls need more of the caches that a core's
threads share. On a host of two H200s a tiny operation in a row took 6.5 µs and then 9.3, six kinds in turn 8.4 and then
15.1 (docs/readings.md). So the yardstick of a plan with calls of several kinds is that row, or what the six take over
what they take on a quiet thread (`Dispatch.mixed_calls`), whichever is slower.

Not modelled: plans of two kinds, which lie between; that long calls may be slowed down by other parts than tiny ones.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from graphsched.platform import Pace, Platform

if TYPE_CHECKING:
    from graphsched.calibration.cold_calls import ColdCalls
    from graphsched.calibration.cold_launches import ColdLaunches
    from graphsched.calibration.cuda_calls import Yardstick
    from graphsched.calibration.lane_pace import LaneYardstick, Row
    from graphsched.calibration.launch_pace import LaunchYardstick
    from graphsched.plan import Plan


MANY_KINDS = 3  # of calls, from which on those of a run are no row of one kind


def present_call_s(platform: Platform) -> float:
    """The yardstick `Dispatch.call_s` as it is now; 0 without a GPU, or where it was not taken at calibration."""
    gpus = [d.name for d in platform.devices if d.kind == "cuda"]
    if not gpus or not platform.dispatch.call_s:
        return 0.0
    from graphsched.calibration.cuda_calls import tiny_call_s

    return tiny_call_s(int(gpus[0].partition(":")[2]))


class PaceMeter:
    """Takes the yardsticks, and what calls take longer after waits, again and again while something is measured.

    Example:
        >>> import contextlib
        >>> from graphsched.platform import Device
        >>> with contextlib.closing(PaceMeter(Platform("here", (Device("cpu", "cpu"),)))) as meter:
        ...     meter.take()
        ...     meter.pace.call_s
        0.0
    """

    def __init__(self, platform: Platform, plan: Plan | None = None, run_s: float = 0.0) -> None:
        """For runs of `plan`, which take about `run_s` seconds; without it, of the dispatching thread alone."""
        self._samples: list[float] = []
        self._mixed_calls = platform.dispatch.mixed_calls if plan is not None and _calls_many_kinds(plan) else 0.0
        self._rows: list[Row] = []
        self._after_waits: list[tuple[float, ...]] = []
        self._yardstick: Yardstick | None = None
        self._cold_calls: ColdCalls | None = None
        gpus = [d.name for d in platform.devices if d.kind == "cuda"]
        if gpus and platform.dispatch.call_s:
            from graphsched.calibration.cold_calls import ColdCalls
            from graphsched.calibration.cuda_calls import Yardstick

            gpu = int(gpus[0].partition(":")[2])
            self._yardstick, self._cold_calls = Yardstick(gpu), ColdCalls(gpu)
        self._launches: dict[int, LaunchYardstick] = {}
        self._launched: list[tuple[float, ...]] = []
        self._cold_launches: list[ColdLaunches] = []
        self._launched_cold: list[tuple[tuple[float, ...], ...]] = []
        if self._yardstick is not None and plan is not None and plan.mode == "graph":
            self._launches = _launch_yardsticks(platform, plan)
            self._cold_launches = _cold_launches(platform, plan)
        self._lanes: LaneYardstick | None = None
        self._row_s = 0.0
        if plan is not None:
            from graphsched.calibration.lane_pace import LaneYardstick

            self._lanes = LaneYardstick(plan, run_s)
            self._row_s = self._lanes.row_s

    def take(self) -> None:
        """One sample of a few milliseconds on a GPU, and one of up to 70 of a plan that computes on CPUs."""
        if self._cold_calls is not None and self._yardstick is not None:
            mixed_s, colds_s = self._cold_calls.sample()
            self._after_waits.append(colds_s)
            call_s = self._yardstick.sample_s()
            self._samples.append(max(call_s, mixed_s / self._mixed_calls) if self._mixed_calls else call_s)
        if self._launches:
            self._launched.append(tuple(yardstick.sample_s() for yardstick in self._launches.values()))
        if self._cold_launches:
            self._launched_cold.append(tuple(cold.sample_s() for cold in self._cold_launches))
        if self._lanes is not None:
            self._rows.append(self._lanes.sample())

    @property
    def pace(self) -> Pace:
        """Medians of the samples."""
        from graphsched.calibration.cold_calls import colds_of

        launched = map(statistics.median, zip(*self._launched, strict=True))
        return Pace(
            call_s=statistics.median(self._samples) if self._samples else 0.0,
            **self._lane_row(),
            colds=colds_of(self._after_waits),
            launches=tuple(zip(self._launches, launched, strict=True)) if self._launched else (),
            launch_colds=tuple(colds_of(samples) for samples in zip(*self._launched_cold, strict=True)),
        )

    def _lane_row(self) -> dict[str, float]:
        """The middle of the rows of CPU lanes by what they are of, see `lane_pace.middle_s`."""
        if not self._rows:
            return {}
        from graphsched.calibration.lane_pace import Row, middle_s

        products_s, sweeps_s, *others_s = zip(*self._rows, strict=True)
        middles_s = middle_s(products_s, self._row_s), middle_s(sweeps_s, self._row_s)
        return Row(*middles_s, *map(statistics.median, others_s))._asdict()

    def close(self) -> None:
        """Give streams and memory back."""
        self._cold_calls = self._lanes = None
        for yardstick in (self._yardstick, *self._launches.values(), *self._cold_launches):
            if yardstick is not None:
                yardstick.close()


def _calls_many_kinds(plan: Plan) -> bool:
    """Whether the thread itself calls at least `MANY_KINDS` of kinds of operations and copies in a run."""
    from graphsched.simulator.host_calls import call_kinds

    called = (kind for what, kind in zip(plan.kinds, call_kinds(plan), strict=True) if what != "wait")
    return plan.mode != "graph" and len(set(called)) >= MANY_KINDS


def _launch_yardsticks(platform: Platform, plan: Plan) -> dict[int, LaunchYardstick]:
    """By the number of GPUs: those that launches of `plan` go with and that were measured with the platform."""
    from graphsched.calibration.launch_pace import LaunchYardstick

    gpus = _gpus(platform)
    return {n: LaunchYardstick(gpus[:n]) for n, _ in platform.dispatch.graph_launches if n <= max(1, _used(plan))}


def _cold_launches(platform: Platform, plan: Plan) -> list[ColdLaunches]:
    """On one GPU, and over two where `plan` is on several: those that were measured with the platform."""
    from graphsched.calibration.cold_launches import ColdLaunches

    gpus, costs = _gpus(platform), platform.dispatch
    known = [n for n, points in enumerate((costs.graph_colds, costs.graph_across_colds), 1) if points]
    return [ColdLaunches(gpus[:n]) for n in known if n <= max(1, _used(plan))]


def _gpus(platform: Platform) -> list[int]:
    return [int(device.name.partition(":")[2]) for device in platform.devices if device.kind == "cuda"]


def _used(plan: Plan) -> int:
    """On how many GPUs."""
    return len({lane.device for lane in plan.lanes if lane.device.startswith("cuda")})
