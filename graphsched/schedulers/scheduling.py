"""From a workload, a platform and the name of a scheduler to a plan."""

from __future__ import annotations

import reprlib
from functools import partial
from typing import Any

from graphsched.costs import Costs
from graphsched.errors import CostError, PlatformError, ScheduleError
from graphsched.plan import MODES, Plan, check_capturable
from graphsched.platform import Platform
from graphsched.schedulers.asking.answers import answer_of, plan_of
from graphsched.schedulers.asking.options import check_options, described
from graphsched.schedulers.asking.watchdog import within
from graphsched.schedulers.placing.durations import costs_in
from graphsched.schedulers.registry import find_scheduler
from graphsched.workload import Workload


def schedule(
    work: Workload,
    platform: Platform,
    costs: Costs | None = None,
    *,
    scheduler: str = "heft",
    mode: str = "eager",
    time_limit_s: float | None = None,
    **options: Any,
) -> Plan:
    """Decide what of `work` runs where and in which order; reads only, measures nothing.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks; default those that the platform carries. What is missing is estimated.
        scheduler: Name of one of `schedulers()`.
        mode: How the plan is meant to run: ``eager``, ``graph`` (CUDA graphs; the scheduler reckons with what
            tasks take inside these, where that was measured) or ``distributed`` (one process a device).
        time_limit_s: Seconds after which the scheduler is ended with an error; default none.
        options: Options of the scheduler; all take ``copies``: copies that the workload asks for go to lanes
            of their ``own`` (default), or to the ``compute`` lane that made the value.

    Raises:
        ScheduleError: `work` is no workload; the scheduler, an option or the mode does not exist, or no device may run
            a task; or the scheduler fails: it raises, takes too long, or returns what is no placement of all tasks. The
            message names it.
        PlatformError: `platform` is none, or a task or value names a device, or needs a link, that it does not have.
        CostError: `costs` are no costs, or a task has durations, but none for a device where it may run.
        CaptureError: The mode is ``graph``, and the plan has what no CUDA graph can hold.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> graph = nx.DiGraph([("a", "b")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> here = Platform("one", (Device("cuda:0", "cuda"),))
        >>> plan = schedule(Workload.from_graph(graph), here, scheduler="round_robin", lanes=2)
        >>> plan.scheduler, [action.lanes[0].name for action in plan]
        ('round_robin lanes=2', ['cuda:0/s0', 'cuda:0/s1'])
    """
    check_request(work, platform)
    check_mode(mode)
    function = find_scheduler(scheduler)
    check_options(scheduler, function, options)
    costs = platform.costs if costs is None else costs
    if not isinstance(costs, Costs):
        raise CostError(f"costs are {costs!r}: gs.Costs are needed; the name of a scheduler goes to scheduler=")
    ask = partial(answer_of, scheduler, function, work, platform, costs_in(mode, costs), mode, options)
    placement = within(time_limit_s, f"scheduler {scheduler!r}", ask)
    name = described(scheduler, function, options) + (f" ({placement.note})" if placement.note else "")
    plan = plan_of(scheduler, work, platform, costs, placement, called=name, mode=mode)
    if mode == "graph":
        check_capturable(plan)
    return plan


def check_request(work: Workload, platform: Platform) -> None:
    """Make sure that there is a workload, and a platform for it.

    Raises:
        ScheduleError: `work` is something else.
        PlatformError: `platform` is, or it has no device for the tasks.
    """
    if not isinstance(work, Workload):
        raise ScheduleError(
            f"a {type(work).__name__} was given: a workload is needed, gs.Workload or what gs.trace makes"
        )
    if not isinstance(platform, Platform):
        raise PlatformError(
            f"platform is {reprlib.repr(platform)}: a gs.Platform is needed, that of gs.local_platform() or one of "
            "gs.Platform.load"
        )
    if not platform.devices and len(work):
        raise PlatformError(f"platform {platform.name!r} has no device to run tasks on: add one")


def check_mode(mode: str) -> None:
    """Make sure that a plan may be meant to run in `mode`.

    Raises:
        ScheduleError: There is no such mode.
    """
    if mode not in MODES:
        raise ScheduleError(f"no mode {mode!r}: there is {', '.join(MODES)}")
