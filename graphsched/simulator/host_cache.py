"""What tasks on CPU lanes find in the host's caches: little of what a large plan goes through, all of a small one's.

Costs of operations, and of the way into pinned memory, are measured on more memory than caches hold. A plan goes
through the same memory in each run: if that is little, caches still hold it. On a host of an H200 tasks of plans that
go through 16 to 112 MB took 0.58 to 0.88 times what such costs say, those of 192 MB and more 0.64 to 1.09 (medians 0.7
and 0.87; docs/readings.md). How far it is from one to the other is read off sweeps that go round so many bytes
(`Dispatch.sweeps`, `calibration.lane_sweep`).

Not modelled: that a part of what a run goes through is read again at once, and other parts not before the next; what
programs beside it push out; caches that hold less than the least that sweeps go round.
"""

from __future__ import annotations

from collections import Counter

from graphsched.costs.points import between
from graphsched.plan import Plan, pinned_results
from graphsched.platform.points import Points
from graphsched.simulator.footprints import memory_of

CPU = "cpu"
"""The CPU beside GPUs, in whose memory they read and write."""

LEAST_GAIN = 1.05
"""Times as long as sweeps that go round the least take those that go round the most, if caches matter to them."""


def uncached_part(plan: Plan, sweeps: Points, memory: Counter[str] | None = None) -> float:
    """How far from finding all in caches, 0, to finding nothing there, 1, the tasks on CPU lanes of a plan are.

    Args:
        plan: The plan.
        sweeps: `Dispatch.sweeps`; without them caches are taken to hold nothing.
        memory: `memory_of` the plan, if it is known.
    """
    on_cpu = any(lane.device == CPU and lane.kind == "compute" for lane in plan.lanes)
    if not (sweeps and on_cpu and plan.platform.device(CPU).threads > 1):
        return 1.0
    least_s, most_s = sweeps[0][1], sweeps[-1][1]
    if most_s <= LEAST_GAIN * least_s:
        return 1.0
    return (between(sweeps, host_bytes(plan, memory)) - least_s) / (most_s - least_s)


def host_bytes(plan: Plan, memory: Counter[str] | None = None) -> int:
    """What a run goes through of the host's memory: values there, copies to it, and results on their way to GPUs.

    Example:
        >>> from graphsched import Device, Platform, TensorSpec, Workload, schedule
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((4, 4)), device="cpu")
        >>> y = work.task(lambda x: x, x, name="y", outputs=[TensorSpec((2, 4))], device="cpu", duration_s=1.0)
        >>> host_bytes(schedule(work, Platform("here", [Device("cpu", "cpu")])))
        96
    """
    held = memory if memory is not None else memory_of(plan)
    return held[CPU] + sum(read.value.nbytes for reads in pinned_results(plan).values() for read in reads)
