"""Rows of an operation as plans in graph mode: what it takes is measured where the plans of users are run.

A row is a `Program`, so that its nodes are captured, launched and waited for by the executors' own calls, on their
streams: nodes of a graph that is put together otherwise take other times.

Not modelled: rows over several GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, ClassVar, NamedTuple

from graphsched.calibration.graph_replays import Replay, each_s
from graphsched.calibration.launch_pace import LaunchYardstick
from graphsched.executors import waking
from graphsched.executors.program import Program
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Dispatch, Platform
from graphsched.platform.points import Points, after_wait
from graphsched.workload import Workload

RUNS, COLD_RUNS = 5, 2
MOST_RUNS, RUNS_S = 40, 0.02  # more than the least number, while all of them take no longer
TURNS = 3  # of rows that are replayed in turn
TINY_ELEMENTS = 64
EVENTS, STAMPS = Dispatch(), Dispatch(graph_stamp_s=1e-6)  # of rows that are timed by these

Calls = Sequence[Callable[[], Any]]


class Launches(NamedTuple):
    """What measured launches are told for.

    Attributes:
        launch_s: The yardstick of launches, on one GPU or over two in `Dispatch.graph_launches`.
        colds: What a run is longer for a wait before its launch, as `Dispatch.graph_colds`; the runs of a row are told
            as without.
    """

    launch_s: float
    colds: Points = ()

    def without_wait(self, seen: Replay) -> Replay:
        """A replay that follows ones like it, less what the wait at the end of the one before made it longer.

        Example:
            >>> Launches(1e-5, ((20, 1e-6),)).without_wait(Replay(host_s=1e-5, whole_s=3e-5)).whole_s
            2.9e-05
        """
        return Replay(seen.host_s, seen.whole_s - after_wait(self.colds, seen.whole_s - seen.host_s))


class Fork(NamedTuple):
    """Calls on a first lane, then some on it and some on a second one beside them."""

    before: Calls
    here: Calls
    there: Calls


@dataclass(slots=True, eq=False)
class _Step:
    """The operation as a task of a number: what each returns is kept, as the results of a captured plan are."""

    operation_name: ClassVar = "a row"  # else every task's name is looked for in what the calls do
    calls: Calls
    kept: dict[int, Any] = field(default_factory=dict, repr=False)

    def __call__(self, k: int) -> None:
        self.kept[k] = self.calls[k % len(self.calls)]()


def row_of(
    calls: Calls,
    length: int,
    device: int,
    lanes: int = 1,
    dispatch: Dispatch = EVENTS,
    before: Callable[[], Any] | None = None,
) -> Program:
    """A program in graph mode of `length` calls of an operation, going round `calls` and round `lanes`.

    Args:
        calls: The same on different inputs.
        length: Of them in all lanes.
        device: Number of the GPU.
        lanes: Side by side.
        dispatch: Of its platform: says whether events or stamps time it.
        before: A call that all of them wait for.

    Raises:
        TaskFailedError: It cannot be captured.
    """
    work, step, name = Workload("row"), _Step(calls), f"cuda:{device}"
    names = [f"t{k}" for k in range(length)]
    placed = {task: f"{name}/s{k % lanes}" for k, task in enumerate(names)}
    first: list[str] = []
    if before is not None:
        work.task(_Step([before]), 0, name="before", outputs=[], device=name)
        work.barrier("all")
        first, placed["before"] = ["before", "all"], f"{name}/s0"
    for k, task in enumerate(names):
        work.task(step, k, name=task, outputs=[], device=name)
    return _program(work, name, Placement(first + names, placed), dispatch)


def sequence_of(calls: Calls, device: int, dispatch: Dispatch = EVENTS) -> Program:
    """A program in graph mode of these calls on one lane, each once and in their order; the k-th action is the k-th.

    Args:
        calls: Any.
        device: Number of the GPU.
        dispatch: Of its platform: says whether events or stamps time it.

    Raises:
        TaskFailedError: One of them cannot be captured.
    """
    work, step, name = Workload("sequence"), _Step(calls), f"cuda:{device}"
    names = [f"t{k}" for k in range(len(calls))]
    for k, task in enumerate(names):
        work.task(step, k, name=task, outputs=[], device=name)
    return _program(work, name, Placement(names, dict.fromkeys(names, f"{name}/s0")), dispatch)


def forks_of(forks: Sequence[Fork], device: int) -> Program:
    """A program in graph mode of forks that come one after another: each begins when the one before is all over.

    Args:
        forks: Of any calls; on one lane those of the first come before those of the second.
        device: Number of the GPU.

    Raises:
        TaskFailedError: One of them cannot be captured.
    """
    work, name = Workload("forks"), f"cuda:{device}"
    placed: dict[str, str] = {}

    def add(calls: Calls, lane: int) -> None:
        for call in calls:
            task = f"t{len(placed)}"
            work.task(_Step([call]), 0, name=task, outputs=[], device=name)
            placed[task] = f"{name}/s{lane}"

    for fork in forks:
        add(fork.before, 0)
        work.barrier()
        add(fork.here, 0)
        add(fork.there, 1)
        work.barrier()
    return _program(work, name, Placement([task.name for task in work.tasks], placed), EVENTS)


def _program(work: Workload, device: str, placement: Placement, dispatch: Dispatch) -> Program:
    here = Platform("here", (Device("cpu", "cpu"), Device(device, "cuda")), dispatch=dispatch)
    return waking.awake(Program(build_plan(work, here, None, placement, scheduler="calibration"), mode="graph"))


def replay_of(row: Program, runs: int = RUNS, at_most_s: float = RUNS_S, behind: Program | None = None) -> Replay:
    """Seconds of a run of `row`: until all is issued, and until the thread sees the end; medians.

    Of `runs`, or up to `MOST_RUNS` while they take no more than `at_most_s`: a run is a microsecond or two longer or
    shorter than the next, as much as one or two nodes. Each follows the one before, or a run of `behind`.
    """
    samples: list[tuple[float, float]] = []
    spent_s = 0.0
    while len(samples) < COLD_RUNS + runs or (len(samples) < COLD_RUNS + MOST_RUNS and spent_s < at_most_s):
        if behind is not None:
            behind.time_once()
        whole_s = row.time_once()
        spent_s += whole_s
        samples.append((row.issue_s, whole_s))
    hosts, wholes = zip(*samples[COLD_RUNS:], strict=True)
    return Replay(median(hosts), median(wholes))


def each_in_turns_s(few: Program, many: Program, more: int) -> float:
    """Device seconds of each of the `more` calls that row `many` has above row `few`, not below 0; median of turns.

    The two are replayed in turn: what makes runs longer for some milliseconds is in one difference and not in the next.
    All turns together take about as long as one `replay_of` of each. A launch takes longer the longer the thread has
    waited (`calibration.cold_launches`), so that every run of either follows one of `few`.
    """
    turn_s = RUNS_S / TURNS
    turns = [[replay_of(row, at_most_s=turn_s, behind=few).whole_s for row in (few, many)] for _ in range(TURNS)]
    return median([each_s(few_s, many_s, more) for few_s, many_s in turns])


def timed_replay(row: Program, runs: int = RUNS) -> Replay:
    """As `replay_of`, of runs with timing events around every call, or stamps."""
    samples = [(row.time_spans()[2], row.issue_s) for _ in range(runs + COLD_RUNS)]
    wholes, hosts = zip(*samples[COLD_RUNS:], strict=True)
    return Replay(median(hosts), median(wholes))


def stamped_spans_s(sequence: Program, runs: int = RUNS) -> list[float]:
    """Seconds of each action of `sequence`, of which each has stamps, from one to the other; medians."""
    samples: list[list[float]] = []
    for _ in range(runs + COLD_RUNS):
        marks = sequence.time_spans()[0].events
        read = {mark.memory: mark.memory.read() for mark in marks[0]}
        times = [[read[mark.memory][mark.place] for mark in marks[i]] for i in range(len(marks))]
        samples.append([(end - start) * 1e-9 for start, end in times])  # as seconds since 1970 they have no more digits
    return [median(found) for found in zip(*samples[COLD_RUNS:], strict=True)]


def tiny_replays(device: int, rows: Sequence[tuple[int, int]], launches: Launches) -> list[Replay]:
    """`paced_replays` of rows of tiny operations, each of a length on a number of lanes."""
    with ExitStack() as stack:
        yardstick = stack.enter_context(closing(LaunchYardstick([device])))
        calls = [_tiny_call(device)]
        made = [stack.enter_context(row_of(calls, length, device, lanes)) for length, lanes in rows]
        return paced_replays(made, yardstick, launches)


def paced_replays(rows: Sequence[Program], yardstick: LaunchYardstick, launches: Launches) -> list[Replay]:
    """`replay_of` each of `rows`, as it is for `launches`; medians of some turns.

    The speed of a thread's core changes while they run, so the yardstick is taken before and behind each. What a launch
    takes is scaled; the rest of a run is the GPU's, and stays (`platform.pace`).
    """
    found: list[list[Replay]] = [[] for _ in rows]
    for _ in range(TURNS):
        for samples, row in zip(found, rows, strict=True):
            before_s = yardstick.sample_s()
            seen = launches.without_wait(replay_of(row))
            unit_s = (before_s + yardstick.sample_s()) / 2
            longer_s = seen.host_s * (launches.launch_s / unit_s - 1.0)
            samples.append(Replay(seen.host_s + longer_s, seen.whole_s + longer_s))
    return [Replay(*map(median, zip(*samples, strict=True))) for samples in found]


def tiny_timed(device: int, length: int, lanes: int, yardstick: LaunchYardstick, launches: Launches) -> Replay:
    """`timed_replay` of a row of tiny operations, its launch as it is for `launches`; the rest is the GPU's."""
    with row_of([_tiny_call(device)], length, device, lanes) as row:
        before_s = yardstick.sample_s()
        seen = timed_replay(row)
        unit_s = (before_s + yardstick.sample_s()) / 2
    return Replay(seen.host_s * launches.launch_s / unit_s, seen.whole_s)


def stamped_s(call: Callable[[], Any], length: int, device: int) -> tuple[float, float]:
    """Seconds of a run of a row of `call`, and of one with stamps around every call; medians.

    Raises:
        ExecutionError: There are no stamps here.
    """
    with row_of([call], length, device, dispatch=STAMPS) as row:
        return replay_of(row, 2 * RUNS).whole_s, timed_replay(row).whole_s


def _tiny_call(device: int) -> Callable[[], Any]:
    import torch

    x = torch.zeros(TINY_ELEMENTS, device=f"cuda:{device}")
    torch.cuda.synchronize(device)
    return partial(torch.neg, x)
