"""Orders of a pipeline's steps: GPipe, 1F1B and interleaved 1F1B, as rows of text that a person can read.

Stage `s` is on device ``s % devices``; device `d` has the stages ``d``, ``d + devices``, and so on. A row ``F0 F1 B0``
says that its device does the forward pass of micro-batches 0 and 1, then the backward pass of micro-batch 0; with
several stages a device the stage stands first, ``0F0 2F0``.

Not modelled: backward passes cut in two (zero bubble), and micro-batches from both ends (Chimera).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from graphsched.errors import DeadlockError, WorkloadError

Order = Literal["1f1b", "gpipe", "interleaved"]
ORDERS: tuple[Order, ...] = ("1f1b", "gpipe", "interleaved")


class Step(NamedTuple):
    """One pass of one micro-batch through one stage.

    Attributes:
        kind: ``F``, forward, or ``B``, backward.
        stage, micro_batch: From 0.
    """

    kind: Literal["F", "B"]
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


Rows = Sequence[Sequence[Step]]
"""For each device its steps."""


class Start(NamedTuple):
    """When a step begins.

    Attributes:
        start_s: In seconds.
        device: Number of the device.
        step: The step.
    """

    start_s: float
    device: int
    step: Step


def steps_of(order: Order, devices: int, micro_batches: int, chunks: int = 1) -> list[list[Step]]:
    """The steps of each device.

    Args:
        order: ``gpipe``: all forward passes, then all backward ones. ``1f1b``: a backward pass as soon as there can be
            one, then one of each in turn, so that device `d` of `p` keeps at most ``p - d`` micro-batches.
            ``interleaved``: 1F1B over `chunks` stages a device.
        devices: How many.
        micro_batches: How many; in interleaved order, with ``r = max(1, micro_batches // devices)`` rounds, a
            multiple of r.
        chunks: Stages a device; 2 or more where interleaved, else 1.

    Raises:
        WorkloadError: There is no such order, or it does not go with these numbers.

    Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019 (1F1B; here with a flush at the
    end of each step) and Efficient Large-Scale Language Model Training on GPU Clusters, SC 2021 (interleaved).

    Example:
        >>> print(as_text(steps_of("1f1b", 3, 4)))
        F0 F1 F2 B0 F3 B1 B2 B3
        F0 F1 B0 F2 B1 F3 B2 B3
        F0 B0 F1 B1 F2 B2 F3 B3
        >>> print(as_text(steps_of("interleaved", 2, 2, chunks=2)))
        0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
        1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
    """
    _check(order, devices, micro_batches, chunks)
    if order == "interleaved":
        return [_interleaved(device, devices, micro_batches, chunks) for device in range(devices)]
    ahead = [micro_batches if order == "gpipe" else devices - device - 1 for device in range(devices)]
    forward = [[Step("F", device, m) for m in range(micro_batches)] for device in range(devices)]
    backward = [[Step("B", device, m) for m in range(micro_batches)] for device in range(devices)]
    return [_in_turn(*of_device) for of_device in zip(forward, backward, ahead, strict=True)]


def _check(order: str, devices: int, micro_batches: int, chunks: int) -> None:
    if order not in ORDERS:
        raise WorkloadError(f"order is {order!r}: one of {', '.join(ORDERS)} is needed")
    for name, number in {"devices": devices, "micro_batches": micro_batches, "chunks": chunks}.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise WorkloadError(f"{name} is {number!r}: a whole number of 1 or more is needed")
    if (order == "interleaved") != (chunks > 1):
        raise WorkloadError(
            f"order {order!r} with chunks={chunks}: interleaved needs 2 stages a device or more, the other orders 1"
        )
    rounds = max(1, micro_batches // devices)
    if order == "interleaved" and micro_batches % rounds:
        raise WorkloadError(
            f"{micro_batches} micro-batches cannot be interleaved in {rounds} equal rounds on {devices} devices: give "
            f"a multiple of {devices}"
        )


def _in_turn(forward: Sequence[Step], backward: Sequence[Step], ahead: int) -> list[Step]:
    """`ahead` forward steps, then one forward and one backward step in turn, then what is left."""
    steps = list(forward[:ahead])
    for f, b in zip(forward[ahead:], backward, strict=False):
        steps += [f, b]
    return steps + list(backward[len(forward[ahead:]) :])


def _interleaved(device: int, devices: int, micro_batches: int, chunks: int) -> list[Step]:
    """In each round a group of micro-batches through the first chunk, then the same through the next."""
    group = micro_batches // max(1, micro_batches // devices)
    forward, backward = [], []
    for first in range(0, micro_batches, group):
        for chunk in range(chunks):
            for m in range(first, first + group):
                forward.append(Step("F", chunk * devices + device, m))
                backward.append(Step("B", (chunks - 1 - chunk) * devices + device, m))
    return _in_turn(forward, backward, (chunks - 1) * group + 2 * (devices - 1 - device))


def as_text(rows: Rows) -> str:
    """A line for each device.

    Example:
        >>> as_text([[Step("F", 0, 0), Step("B", 0, 0)], [Step("F", 1, 0), Step("B", 1, 0)]])
        'F0 B0\\nF0 B0'
    """
    single = all(len({step.stage for step in row}) <= 1 for row in rows)
    return "\n".join(" ".join(f"{s.kind}{s.micro_batch}" if single else str(s) for s in row) for row in rows)


def timetable(rows: Rows, forward_s: float = 1.0, backward_s: float = 2.0) -> list[Start]:
    """When each step begins, by time and device, where stages are equal and transfers take no time.

    A forward step waits for that of the stage before; a backward step for its own forward step and for the backward
    step of the stage after.

    Args:
        rows: Steps of each device.
        forward_s, backward_s: Seconds of a step.

    Raises:
        DeadlockError: Steps wait for each other, or for one that no device does; names the first that cannot begin.

    Example:
        >>> rows = steps_of("gpipe", 2, 2)
        >>> [f"{start.start_s:g}s {start.step}" for start in timetable(rows)]
        ['0s 0F0', '1s 0F1', '1s 1F0', '2s 1F1', '3s 1B0', '5s 0B0', '5s 1B1', '7s 0B1']
        >>> timetable([[Step("B", 0, 0), Step("F", 0, 0)]])
        Traceback (most recent call last):
        graphsched.errors.DeadlockError: line 1: 0B0 waits for 0F0, which is never over: B0 F0
    """
    seconds = {"F": forward_s, "B": backward_s}
    last = max((step.stage for row in rows for step in row), default=0)
    free_s, place = [0.0] * len(rows), [0] * len(rows)
    over_s: dict[Step, float] = {}
    starts: list[Start] = []
    moved = True
    while moved:
        moved = False
        for device, row in enumerate(rows):
            while place[device] < len(row) and all(need in over_s for need in _needs(row[place[device]], last)):
                step = row[place[device]]
                start_s = max([free_s[device], *(over_s[need] for need in _needs(step, last))])
                starts.append(Start(start_s, device, step))
                free_s[device] = over_s[step] = start_s + seconds[step.kind]
                place[device] += 1
                moved = True
    _check_ended(rows, place, over_s, last)
    return sorted(starts)


def _needs(step: Step, last: int) -> list[Step]:
    if step.kind == "F":
        return [step._replace(stage=step.stage - 1)] if step.stage else []
    return [step._replace(kind="F"), *([step._replace(stage=step.stage + 1)] if step.stage < last else [])]


def _check_ended(rows: Rows, place: Sequence[int], over_s: dict[Step, float], last: int) -> None:
    for device, row in enumerate(rows):
        if place[device] < len(row):
            step = row[place[device]]
            missing = next(need for need in _needs(step, last) if need not in over_s)
            line = as_text(rows).splitlines()[device]
            raise DeadlockError(f"{step} waits for {missing}, which is never over: {line}", device + 1)


def most_in_flight(rows: Rows) -> list[int]:
    """For each stage how many micro-batches at most are past their forward step and not past their backward one.

    Example:
        >>> most_in_flight(steps_of("gpipe", 3, 8)), most_in_flight(steps_of("1f1b", 3, 8))
        ([8, 8, 8], [3, 2, 1])
    """
    now: dict[int, int] = {}
    most: dict[int, int] = {}
    for row in rows:
        for step in row:
            now[step.stage] = now.get(step.stage, 0) + (1 if step.kind == "F" else -1)
            most[step.stage] = max(most.get(step.stage, 0), now[step.stage])
    return [most[stage] for stage in sorted(most)]
