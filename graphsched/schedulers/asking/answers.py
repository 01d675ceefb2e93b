"""Schedulers asked for a placement: what they return is held against the workload, and an error names them."""

from __future__ import annotations

import math
import re
import threading
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

from graphsched.costs import Costs
from graphsched.errors import GraphschedError, PlanError, ScheduleError, error_text
from graphsched.plan import Lane, Placement, Plan, build_plan
from graphsched.platform import Device, Platform
from graphsched.schedulers.asking.lending import lent, lent_platform, platform_was_changed, was_changed
from graphsched.schedulers.asking.stand_ins import with_stand_ins, without_stand_ins
from graphsched.schedulers.asking.watchdog import EndedError
from graphsched.schedulers.placing.lanes import Copies, lane_name
from graphsched.schedulers.registry import Scheduler, of_others, takes_mode
from graphsched.workload import Workload

_NUMBERED = re.compile(r"(.*/[sw])(0|[1-9][0-9]{0,8})")
"""A compute lane: its device and letter, and its number."""


def answer_of(
    name: str,
    function: Scheduler,
    work: Workload,
    platform: Platform,
    costs: Costs,
    mode: str,
    options: Mapping[str, Any],
) -> Placement:
    """What a scheduler says; it is not asked about collectives, see `asking.stand_ins`.

    Schedulers of others are asked about copies of the workload and the platform, see `asking.lending`; ours are tested.

    Args:
        name: What errors call it.
        function: The scheduler.
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks, as tasks take them in `mode`.
        mode: How the plan is meant to run; told to schedulers that ask for it.
        options: Options of the scheduler, checked.

    Raises:
        ScheduleError: It raises what is no error of graphsched, changes the workload or the platform, or returns what
            is no placement of all tasks.
        GraphschedError: It raises that.
    """
    told = {"mode": mode} if takes_mode(function) else {}
    asked = with_stand_ins(work, platform, costs, mode)
    shown, there = (lent(asked), lent_platform(platform)) if of_others(function) else (asked, platform)
    try:
        answer = function(shown, there, costs, **told, **options)
        changed = _changed(shown, asked, there, platform) if of_others(function) else None
    except (GraphschedError, MemoryError):
        raise
    except BaseException as error:
        if not _is_failure(error, function):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise ScheduleError(
            f"scheduler {name!r} failed: {error_text(error)} ({where.filename}:{where.lineno}, in "
            f"{where.name}): mend it, or take another"
        ) from error
    if changed is not None:
        what, way = changed
        raise ScheduleError(
            f"scheduler {name!r} changed the {what}, which it may only read: have it change a copy ({way}), or take "
            "another"
        )
    return without_stand_ins(check_answer(name, answer, asked, platform), work)


def _changed(shown: Workload, work: Workload, there: Platform, platform: Platform) -> tuple[str, str] | None:
    """What of the two that were lent is no longer as it was, and how to copy such."""
    if was_changed(shown, work):
        return "workload", "work.graph.copy()"
    if platform_was_changed(there, platform):
        return "platform", "dataclasses.replace(platform, …)"
    return None


def _is_failure(error: BaseException, function: Scheduler) -> bool:
    """Whether a scheduler failed; else it was ended by its time limit, or by Ctrl-C (which the main thread gets)."""
    if isinstance(error, (Exception, SystemExit)):
        return True
    on_main = threading.current_thread() is threading.main_thread()
    ended = isinstance(error, EndedError) or (isinstance(error, KeyboardInterrupt) and on_main)
    return of_others(function) and not ended


def plan_of(
    name: str, work: Workload, platform: Platform, costs: Costs, placement: Placement, *, called: str, mode: str
) -> Plan:
    """The plan of what scheduler `name` said; `called`: what the plan calls it.

    Raises:
        ScheduleError: A task may not run where the scheduler put it, or a device has not so many lanes.
        PlatformError: A link does not exist.
    """
    try:
        return build_plan(work, platform, costs, placement, scheduler=called, mode=mode)
    except ScheduleError as error:
        raise ScheduleError(f"scheduler {name!r}: {error}") from error


def check_answer(scheduler: str, answer: Any, work: Workload, platform: Platform) -> Placement:
    """The placement that a scheduler returned for `work` on `platform`, if it is one.

    Raises:
        ScheduleError: It is none, leaves out or repeats a task, has one before another that it depends on, or names
            what is not there; the message names the scheduler and the first such task.

    Example:
        >>> import networkx as nx
        >>> graph = nx.DiGraph([("a", "b")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> lanes = {"a": "cpu/w0", "b": "cpu/w0"}
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> check_answer("mine", Placement(["b", "a"], lanes), Workload.from_graph(graph), here)
        Traceback (most recent call last):
        graphsched.errors.ScheduleError: scheduler 'mine' has 'b' before 'a', on which it depends: ...
    """
    if not isinstance(answer, Placement):
        raise ScheduleError(f"scheduler {scheduler!r} returned {type(answer).__name__}: a Placement is needed")
    for wrong in _wrong(answer, work, platform):
        raise ScheduleError(f"scheduler {scheduler!r} {wrong}")
    return answer


def _wrong(placement: Placement, work: Workload, platform: Platform) -> Iterable[str]:
    """What is wrong with a placement, in words that follow the scheduler's name."""
    yield from _wrong_kinds(placement)
    yield from _wrong_order(list(placement.order), work)
    yield from _wrong_lanes(placement, work, platform)
    for name in placement.wait_after:
        if name not in work.graph:
            yield f"waits after {name!r}, which the workload does not have: name one of its tasks"
    if placement.copies not in get_args(Copies):
        yield f"has copies={placement.copies!r}: one of {', '.join(map(repr, get_args(Copies)))} is needed"


def _wrong_kinds(placement: Placement) -> Iterable[str]:
    """Fields that are not what they should be, so that nothing else can be asked of them."""
    order, lanes, waits, bound_s = placement.order, placement.lanes, placement.wait_after, placement.bound_s
    if not isinstance(order, Sequence) or not all(isinstance(name, str) for name in order):
        yield f"has an order of type {type(order).__name__}: a list of names of tasks is needed"
    if not isinstance(lanes, Mapping):
        yield f"has lanes of type {type(lanes).__name__}: a mapping from names of tasks to those of lanes is needed"
    if not isinstance(waits, Collection) or isinstance(waits, str):
        yield f"has wait_after={waits!r}: a set of names of tasks is needed"
    if bound_s is not None and not (isinstance(bound_s, (int, float)) and 0.0 <= bound_s < math.inf):
        yield f"has bound_s={bound_s!r}: finite seconds, 0 or more, or None are needed"


def _wrong_order(order: list[str], work: Workload) -> Iterable[str]:
    counts = Counter(order)
    for name in order:
        if name not in work.graph:
            yield f"has {name!r} in its order, which the workload does not have: remove it"
        elif counts[name] > 1:
            yield f"has {name!r} {counts[name]} times in its order: each task stands there once"
    missing = [name for name in work.graph if name not in counts]
    if missing:
        yield f"left out {len(missing)} of {len(work.graph)} tasks, the first of them {missing[0]!r}: place them all"
    place = {name: i for i, name in enumerate(order)}
    for before, name in work.graph.edges:
        if place[before] > place[name]:
            yield f"has {name!r} before {before!r}, on which it depends: its order must be a topological one"


def _wrong_lanes(placement: Placement, work: Workload, platform: Platform) -> Iterable[str]:
    devices = {device.name: device for device in platform.devices}
    right: set[str] = set()
    for name, lane in placement.lanes.items():
        if name not in work.graph or work[name].kind != "run":
            yield f"gave {name!r} a lane, which is no task of kind run: remove it"
        if not isinstance(lane, str) or lane not in right:
            if needed := _needed(lane, devices):
                yield f"put {name!r} on {lane!r}: {needed}"
            right.add(lane)
    for task in work.tasks:
        if task.kind == "run" and task.name not in placement.lanes:
            yield f"gave task {task.name!r} no lane: each task of kind run needs one"


def _needed(lane: Any, devices: Mapping[str, Device]) -> str:
    """What is needed instead of `lane`; of a device that is not there it is said where tasks are held against it."""
    try:
        device = devices.get(Lane.named(lane).device)
    except (PlanError, AttributeError, TypeError):
        return "the name of a lane is needed, such as 'cuda:0/s0'"
    if device is None or Lane.named(lane).kind != "compute":
        return ""
    first, last = lane_name(device, 0), lane_name(device, device.lanes - 1)
    found = _NUMBERED.fullmatch(lane)
    if found is None or found[1] != first.removesuffix("0"):
        return f"the name of a lane is needed, such as {first!r}"
    return f"{device.name} has the lanes {first} to {last}" if int(found[2]) >= device.lanes else ""
