"""Schedulers by name: those of this package, and those that others bring by entry point."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from importlib import metadata

from graphsched.errors import ScheduleError, error_text
from graphsched.plan import Placement

Scheduler = Callable[..., Placement]

GROUP = "graphsched.schedulers"
ONE_LANE = frozenset({"sequential", "one_stream"})

_REGISTERED: dict[str, Scheduler] = {}


def register(name: str) -> Callable[[Scheduler], Scheduler]:
    """Decorator: make a scheduler known as `name`.

    Raises:
        ScheduleError: Another scheduler has that name.
    """

    def keep(function: Scheduler) -> Scheduler:
        if _REGISTERED.setdefault(name, function) is not function:
            raise ScheduleError(f"{_two(name, _place(_REGISTERED[name]), _place(function))}: rename one")
        return function

    return keep


def schedulers() -> tuple[str, ...]:
    """Names of all schedulers, in alphabetical order; those of entry points are not loaded.

    Example:
        >>> "heft" in schedulers()
        True
    """
    return tuple(sorted({*_REGISTERED, *_entry_points()}))


def find_scheduler(name: str) -> Scheduler:
    """The scheduler of this name.

    Raises:
        ScheduleError: There is none, there are two, the one of an entry point cannot be loaded, or `name` is no text.

    Example:
        >>> find_scheduler("sequential").__name__
        'sequential'
    """
    if not isinstance(name, str):
        raise ScheduleError(f"scheduler is {name!r}: the name of one is needed: {', '.join(schedulers())}")
    points = _entry_points().get(name, ())
    if len(points) > 1:
        raise ScheduleError(
            f"{_two(name, points[0].value, points[1].value)}: rename or remove one, {_declared(points[0])} or "
            f"{_declared(points[1])}"
        )
    if points:
        return _loaded(points[0])
    if name not in _REGISTERED:
        nearest = difflib.get_close_matches(name, schedulers(), n=1)
        meant = f"did you mean {nearest[0]!r}? There are " if nearest else "there are "
        raise ScheduleError(f"no scheduler {name!r}: {meant}{', '.join(schedulers())}")
    return _REGISTERED[name]


def one_lane(name: str) -> bool:
    """Whether a scheduler puts all tasks of a device on one lane, so that no two run side by side there.

    Example:
        >>> one_lane("one_stream"), one_lane("heft")
        (True, False)
    """
    return name in ONE_LANE


def takes_mode(function: Scheduler) -> bool:
    """Whether a scheduler is to be told how the plan is meant to run: it has a parameter ``mode`` before its options.

    Example:
        >>> takes_mode(find_scheduler("one_stream"))
        False
    """
    found = inspect.signature(function).parameters.get("mode")
    return found is not None and found.kind is not inspect.Parameter.KEYWORD_ONLY


def of_others(function: Scheduler) -> bool:
    """Whether a scheduler is not of this package.

    Example:
        >>> of_others(find_scheduler("heft")), of_others(max)
        (False, True)
    """
    return not str(getattr(function, "__module__", "")).startswith("graphsched.")


@functools.cache
def _entry_points() -> dict[str, tuple[metadata.EntryPoint, ...]]:
    """Entry points of the group by name; the same one found twice counts once."""
    found: dict[str, dict[str, metadata.EntryPoint]] = {}
    for point in metadata.entry_points(group=GROUP):
        found.setdefault(point.name, {})[point.value] = point
    return {name: tuple(points[value] for value in sorted(points)) for name, points in sorted(found.items())}


def _loaded(point: metadata.EntryPoint) -> Scheduler:
    try:
        function = point.load()
    except (Exception, SystemExit) as error:
        raise ScheduleError(
            f"scheduler {point.name!r} of entry point {point.value!r} cannot be loaded "
            f"({error_text(error)}): mend or remove the package that brings it"
        ) from error
    if not callable(function):
        raise ScheduleError(f"scheduler {point.name!r} of entry point {point.value!r} is no function: {function!r}")
    first = _REGISTERED.get(point.name, function)
    if first is not function:
        raise ScheduleError(f"{_two(point.name, _place(first), point.value)}: rename or remove {_declared(point)}")
    return register(point.name)(function)


def _two(name: str, *places: str) -> str:
    return f"there are two schedulers {name!r}: {' and '.join(places)}"


def _declared(point: metadata.EntryPoint) -> str:
    """An entry point as its package declares it."""
    package = None if point.dist is None else point.dist.name
    return f"the entry point '{point.name} = {point.value}'" + (f" of package {package!r}" if package else "")


def _place(function: Scheduler) -> str:
    return f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
