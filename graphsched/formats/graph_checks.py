"""Whether a plain graph can be a workload: durations, bytes, no circle; see `plain_graphs` for its attributes."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

import networkx as nx

from graphsched.costs import MOST, check_seconds
from graphsched.errors import CostError, CycleError, WorkloadError
from graphsched.workload.bare import check_kind

SHOWN = 12  # tasks of a circle that an error names
MOST_S = 1e300  # of all tasks together: schedulers multiply and add up times, and none of that is to overflow


def check_graph(graph: nx.DiGraph) -> None:
    """Make sure that `graph` can be a workload: tasks with durations, and no circle.

    Raises:
        WorkloadError: It is no `networkx.DiGraph`, has no task, or an attribute is wrong: bytes that are negative or no
            number, bytes by name that are something else or add up to others, a list of devices that is none.
        CostError: A duration is missing, negative or not finite, or all of them together are too long to count with.
        CycleError: Tasks depend on each other in a circle.
    """
    check_kind(graph)
    if not graph:
        raise WorkloadError("the graph has 0 tasks: there is nothing to schedule")
    for node, data in graph.nodes(data=True):
        check_duration(node, data.get("duration_s"))
        _check_devices(node, data.get("devices", ()))
        for name, nbytes in _by_name(data, "inputs", node).items():
            check_bytes(nbytes, f"bytes of input {name!r} of {node}")
    check_total(graph.nodes(data="duration_s"))
    for source, target, data in graph.edges(data=True):
        values = _by_name(data, "values", f"{source} -> {target}").values()
        for nbytes in (data.get("nbytes", 0), *values):
            check_bytes(nbytes, f"bytes of {source} -> {target}")
        if values and data.get("nbytes", sum(values)) != sum(values):
            raise WorkloadError(
                f"{source} -> {target} passes {data['nbytes']} bytes, and {sum(values)} by name: correct one, or leave "
                "nbytes out"
            )
    if not nx.is_directed_acyclic_graph(graph):
        circle = [str(u) for u, *_ in nx.find_cycle(graph)]
        shown = circle if len(circle) <= SHOWN else [*circle[:SHOWN], f"… ({len(circle)} tasks)"]
        raise CycleError(
            f"tasks depend on each other in a circle: {' -> '.join([*shown, circle[0]])}: remove one of these edges"
        )


def _check_devices(task: Any, given: Any) -> None:
    """A text is a list of its letters, and a set has another order in every process: neither is meant."""
    if not isinstance(given, (tuple, list)) or not all(isinstance(device, str) for device in given):
        raise WorkloadError(f"devices of task {task!r} is {reprlib.repr(given)}: a list of names or kinds is needed")


def _by_name(data: Mapping[str, Any], key: str, where: Any) -> Mapping[Any, Any]:
    given = data.get(key, {})
    if not isinstance(given, Mapping):
        raise WorkloadError(f"{key} of {where} is {reprlib.repr(given)}: bytes by name are needed")
    return given


def check_duration(task: Any, given: Any) -> None:
    """Make sure that what is given as the duration of `task` is one, or one by device.

    Raises:
        CostError: It is missing, negative or not finite.
    """
    if isinstance(given, Mapping) and given:
        for device, seconds in given.items():
            _check_number(seconds, f"duration of task {task!r} on {device}")
    else:
        _check_number(given, f"duration of task {task!r}")


def check_one_duration(graph: nx.DiGraph, format: str) -> None:
    """Make sure that each task takes the same time on every device, as in a `format` that holds one duration a task.

    Raises:
        CostError: One has durations by device.
    """
    for node, given in graph.nodes(data="duration_s"):
        if isinstance(given, Mapping):
            raise CostError(
                f"task {node!r} has durations by device, and {format} holds one a task: give one, or choose the format "
                "json or node-link"
            )


def _check_number(given: Any, what: str) -> None:
    """Make sure that it is a number as it stands: text is none, even if it reads like one."""
    if isinstance(given, (bool, str)):
        raise CostError(f"{what} is {reprlib.repr(given)}: a finite number of seconds, 0 or more, is needed")
    check_seconds(given, what)


def check_total(durations: Iterable[tuple[Any, Any]]) -> None:
    """Make sure that all tasks one after another, each where it takes longest, take a time that can be counted with.

    Args:
        durations: Tasks and what is given as their durations, checked; None counts as nothing.

    Raises:
        CostError: They take more than `MOST_S`.

    Example:
        >>> check_total([("a", 1e308), ("b", {"cpu": 1e308, "cuda": 1.0})])
        Traceback (most recent call last):
        ...
        graphsched.errors.CostError: all durations add up to more than 1e+300 (task 'a' alone takes 1e+308): ...
    """
    longest = {task: _longest(given) for task, given in durations}
    if sum(longest.values()) > MOST_S:
        task = max(longest, key=longest.__getitem__)
        raise CostError(
            f"all durations add up to more than {MOST_S:g} (task {task!r} alone takes {longest[task]:g}): give them in "
            "a larger unit, or correct them"
        )


def _longest(given: Any) -> float:
    seconds = given.values() if isinstance(given, Mapping) else () if given is None else (given,)
    return max(map(float, seconds), default=0.0)


def check_bytes(given: Any, what: str) -> int:
    """Bytes as a whole number.

    Raises:
        WorkloadError: They are none: negative, broken, no number, or too large to count with.

    Example:
        >>> check_bytes(2e3, "nbytes")
        2000
    """
    whole = isinstance(given, int) or (isinstance(given, float) and given.is_integer())
    if isinstance(given, bool) or not whole or not 0 <= given <= MOST:
        raise WorkloadError(f"{what} is {reprlib.repr(given)}: a whole number of bytes from 0 to 2**53 is needed")
    return int(given)
