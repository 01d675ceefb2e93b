"""Where tasks may run: their constraints, the durations given, and states that have one home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from graphsched.errors import ScheduleError
from graphsched.plan import allowed_devices
from graphsched.platform import Platform
from graphsched.workload import Task, Value, Workload

Devices = tuple[str, ...]


@dataclass(frozen=True)
class Candidates:
    """Where each task of a workload may run.

    Tasks that update a state, or make a view of one, run on its home; those of states that share
    such a task form a group, which runs on one device.

    Attributes:
        devices: Devices of each run task, accelerators first.
        group_of: Group number of each task that is in one, and of each state (by name).
        group_devices: Devices that all tasks of a group may use.
    """

    devices: Mapping[str, Devices]
    group_of: Mapping[str, int]
    group_of_state: Mapping[str, int]
    group_devices: tuple[Devices, ...]

    def homes(self, state: Value) -> Devices:
        """Devices of which one will be the home of a state that is in a group; empty where any may be."""
        group = self.group_of_state.get(state.name)
        return () if group is None else self.group_devices[group]

    def used(self) -> Devices:
        """All devices that some task may use, in order of first use."""
        return tuple(dict.fromkeys(d for devices in dict.fromkeys(self.devices.values()) for d in devices))


def find_candidates(work: Workload, platform: Platform) -> Candidates:
    """Where each task of `work` may run on `platform`.

    Raises:
        ScheduleError: Tasks that must share a device have none in common.
        PlatformError: A constraint names no device of the platform.
    """
    devices: dict[str, Devices] = {}
    bound: dict[str, list[str]] = {}  # task -> states it updates or makes views of
    known: dict[tuple[Devices, Devices], Devices] = {}
    has_states = "state" in {value.kind for value in work.values.values()}
    for task in work.tasks:
        if task.kind != "run":
            continue
        states = _states(task, work) if has_states else []
        if states:
            bound[task.name] = states
            devices[task.name] = _with_duration(task, platform, allowed_devices(task, platform, work))
            continue
        key = task.devices, tuple(task.duration_s) if isinstance(task.duration_s, dict) else ()
        found = known.get(key)
        if found is None:
            found = known[key] = _with_duration(task, platform, allowed_devices(task, platform, work))
        devices[task.name] = found
    group_of_state = _groups(bound.values())
    group_of = {name: group_of_state[states[0]] for name, states in bound.items()}
    shared = _intersect(devices, group_of)
    devices.update((name, shared[group]) for name, group in group_of.items())
    return Candidates(devices, group_of, group_of_state, tuple(shared))


def _states(task: Task, work: Workload) -> list[str]:
    views = [v.root for v in task.outputs if v.root != v.name and work.values[v.root].kind == "state"]
    return list(dict.fromkeys([*(v.root for v in task.updates), *views])) if views or task.updates else []


def _with_duration(task: Task, platform: Platform, devices: Devices) -> Devices:
    """Of `devices` those that a duration was given for, where durations were given by device."""
    given = task.duration_s
    if not isinstance(given, Mapping):
        return devices
    return tuple(d for d in devices if d in given or platform.device(d).kind in given) or devices


def _groups(bound: Iterable[list[str]]) -> dict[str, int]:
    """Numbers of the groups of states that some task binds together, in order of appearance."""
    parent: dict[str, str] = {}

    def top(state: str) -> str:
        while parent[state] != state:
            parent[state] = state = parent[parent[state]]
        return state

    for states in bound:
        for state in states:
            parent.setdefault(state, state)
            parent[top(state)] = top(states[0])
    numbers: dict[str, int] = {}
    return {state: numbers.setdefault(top(state), len(numbers)) for state in parent}


def _intersect(devices: Mapping[str, Devices], group_of: Mapping[str, int]) -> list[Devices]:
    shared: dict[int, Devices] = {}
    first: dict[int, str] = {}
    for name, group in group_of.items():
        before = shared.get(group, devices[name])
        shared[group] = tuple(d for d in before if d in devices[name])
        if not shared[group]:
            raise ScheduleError(
                f"tasks {first[group]!r} ({', '.join(before)}) and {name!r} ({', '.join(devices[name])}) update or "
                "view the same state and so must share a device: change their devices, or make the state twice"
            )
        first.setdefault(group, name)
    return [shared[group] for group in range(len(shared))]


def assign(
    candidates: Candidates, tasks: Iterable[Task], choose: Callable[[Task, Devices], tuple[str, str]]
) -> dict[str, str]:
    """Lane of each run task: `choose` picks device and lane in turn; a group stays where its first task went."""
    settled: dict[int, Devices] = {}
    lanes: dict[str, str] = {}
    for task in tasks:
        if task.kind != "run":
            continue
        group = candidates.group_of.get(task.name, -1)
        device, lanes[task.name] = choose(task, settled.get(group, candidates.devices[task.name]))
        if group >= 0:
            settled[group] = (device,)
    return lanes


def spread_over(task: Task, devices: Devices, platform: Platform) -> Devices:
    """Of `devices` the accelerators, if there are any; all, if the task names the cpu."""
    if "cpu" in task.devices:
        return devices
    return tuple(d for d in devices if platform.device(d).is_accelerator) or devices
