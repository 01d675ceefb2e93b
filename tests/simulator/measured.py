"""Measured timelines in round figures: what the simulator says of the same plan with other figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphsched.plan import Plan
from graphsched.platform import Dispatch, Platform
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from tests.builders import planned, workload


def twin(plan: Plan, **figures: object) -> Timeline:
    """`plan` as it would be measured on a platform whose `figures` are others."""
    return as_measured(predict(replace(plan, platform=replace(plan.platform, **figures))), plan)


def as_measured(line: Timeline, plan: Plan) -> Timeline:
    """A prediction in the place of a measurement of `plan`."""
    return replace(line, plan=plan, source="measured", find_interval=None)


def slower_links(where: Platform, factor: float) -> tuple[object, ...]:
    """The links of a platform, `factor` times as slow."""
    return tuple(replace(k, bandwidth_bytes_per_s=k.bandwidth_bytes_per_s / factor) for k in where.links)


def slower_host(costs: Dispatch, factor: float) -> Dispatch:
    """What the thread pays for its calls, `factor` times as much."""
    names = ("run_s", "copy_s", "peer_copy_s", "record_s", "wait_s", "switch_s", "device_switch_s", "handoff_s")
    return replace(costs, **{name: factor * getattr(costs, name) for name in names})


def of_durations(
    durations: Mapping[str, object],
    edges: Sequence[tuple[str, str, int]],
    where: Platform,
    lanes: Mapping[str, str],
    **placement: object,
) -> Plan:
    """The plan of tasks with these durations, in seconds."""
    return planned(workload(durations, edges), where, lanes, **placement)  # type: ignore[arg-type]
