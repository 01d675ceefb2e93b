"""Cores of the host that a plan's CPU lanes leave to the thread that dispatches."""

from __future__ import annotations

from graphsched.plan.model import Plan


def spares_a_core(plan: Plan, usable: int | None = None) -> bool:
    """Whether the thread that dispatches `plan` has a core beside those of CPU lanes, and need not sleep for them.

    Ranks of a plan in distributed mode have a thread each, and share a host or not: they count as having none.
    `usable`: cores that a process may use, which may have fewer than the platform; None: all of that.

    Not modelled: shares of time that a container allows, and what else runs on the host.

    Example:
        >>> import torch
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import Workload
        >>> work = Workload()
        >>> a = work.task(torch.neg, work.input("x", torch.ones(2)), name="a")
        >>> def on(cores: int) -> Plan:
        ...     here = Platform("here", (Device("cpu", "cpu", threads=3),), cores=cores)
        ...     return build_plan(work, here, None, Placement(["a"], {"a": "cpu/w0"}), scheduler="by hand")
        >>> spares_a_core(on(4)), spares_a_core(on(3)), spares_a_core(on(4), usable=2)
        (True, False, False)
    """
    if plan.mode == "distributed":
        return False
    lanes = [lane for lane in plan.lanes if lane.kind != "host" and lane.device.partition(":")[0] != "cuda"]
    threads = [plan.platform.device(lane.device).threads if lane.kind == "compute" else 1 for lane in lanes]
    there = plan.platform.cores
    return sum(threads) < (there if usable is None else min(there, usable))
