"""The parts of a platform: devices, links and the costs of dispatch."""

from __future__ import annotations

import reprlib
import sys
from bisect import bisect_left
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from graphsched.errors import PlatformError

DeviceKind = Literal["cuda", "worker", "cpu"]
LinkMemory = Literal["pinned", "pageable", "fresh", "peer", "staged", "local"]


def check_number(number: Any, what: str, *, positive: bool = False) -> float:
    """`number` as a finite float, at least 0 (above 0 with `positive`).

    Raises:
        PlatformError: It is not.
    """
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(number) <= sys.float_info.max:
        shown = reprlib.repr(number)  # an integer may have hundreds of digits
        raise PlatformError(f"{what} is {shown}: a finite number is needed")
    if number < 0 or (positive and number == 0):
        raise PlatformError(f"{what} is {number!r}: it must be {'above' if positive else 'at least'} 0")
    return float(number)


@dataclass(frozen=True, slots=True)
class Device:
    """A processor with its memory.

    Attributes:
        name: ``cuda:0``, ``cpu``, or ``worker:0`` for a group of CPU threads that stands in for a GPU.
        kind: ``cuda``, ``worker`` or ``cpu``.
        model: What costs are filed under: ``NVIDIA H200``; for CPUs the processor and threads of a lane.
        memory_bytes: Size of its memory.
        threads: Threads that one compute lane uses (intra-op threads); 1 for GPUs.
        lanes: Most compute lanes it may have.
        flop_per_s, bytes_per_s: Peak rates that estimates rest on (fp32 arithmetic, memory).
        host: The machine it is in.
        traffic_in, traffic_out: What copies into it and out of it cost a kernel that fills its memory rate: how much
            longer that takes, over the copies' rate as a share of the memory's. 0: unknown, and no effect.
        slowed_in, slowed_out: What a kernel that fills its memory rate costs copies into it from the host's pinned
            memory and out of it to there: how much longer they take, as a fraction. 0: unknown, and no effect.
        slowed_peer_in, slowed_peer_out: Likewise, copies from and to another GPU over a peer link.
        crowded_in, crowded_out: What kernels of two lanes or more cost copies from the host's pinned memory and to
            it beyond those of one lane, whatever memory they use. 0: unknown, and no effect.
    """

    name: str
    kind: DeviceKind
    model: str = ""
    memory_bytes: int = 0
    threads: int = 1
    lanes: int = 32
    flop_per_s: float = 1e11
    bytes_per_s: float = 1e10
    host: str = "host0"
    traffic_in: float = 0.0
    traffic_out: float = 0.0
    slowed_in: float = 0.0
    slowed_out: float = 0.0
    slowed_peer_in: float = 0.0
    slowed_peer_out: float = 0.0
    crowded_in: float = 0.0
    crowded_out: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("cuda", "worker", "cpu"):
            raise PlatformError(f"device {self.name!r} has kind {self.kind!r}: one of cuda, worker, cpu")
        if not self.name or any(c in "/>,@;#" or c.isspace() for c in self.name):
            raise PlatformError(f"device name {self.name!r}: letters, digits, ':', '.', '_' or '-' are needed")
        for name in ("memory_bytes", *MEMORY_FACTORS):
            check_number(getattr(self, name), f"{name} of {self.name}")
        for name in ("threads", "lanes", "flop_per_s", "bytes_per_s"):
            check_number(getattr(self, name), f"{name} of {self.name}", positive=True)

    @property
    def is_accelerator(self) -> bool:
        """Whether experiments may ask for it with `Platform.accelerators`."""
        return self.kind != "cpu"


MEMORY_FACTORS = (
    "traffic_in", "traffic_out", "slowed_in", "slowed_out", "slowed_peer_in", "slowed_peer_out", "crowded_in",
    "crowded_out",
)  # fmt: skip
"""Fields of `Device`: what kernels and copies that share its memory cost each other."""


@dataclass(frozen=True, slots=True)
class Link:
    """A way from one device's memory to another's.

    Attributes:
        source, target: Device names; equal for copies inside one memory.
        memory: On the host side ``pinned``, ``pageable`` (warm) or ``fresh``; between GPUs ``peer``,
            or ``staged`` through pinned host memory; ``local`` inside one device.
        latency_s: Time of a transfer of no bytes.
        bandwidth_bytes_per_s: Rate of a large transfer that is alone.
        crosses: Names of the shared capacities (`Platform.capacities`) that a transfer takes part of.
        blocking: The dispatching thread waits for the transfer (pageable memory).
        sizes_bytes, seconds: Measured points, sizes ascending; between them time is interpolated.
    """

    source: str
    target: str
    memory: LinkMemory
    latency_s: float
    bandwidth_bytes_per_s: float
    crosses: tuple[str, ...] = ()
    blocking: bool = False
    sizes_bytes: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.memory not in get_args(LinkMemory):
            raise PlatformError(f"link {self} has memory {self.memory!r}: one of {', '.join(get_args(LinkMemory))}")
        check_number(self.latency_s, f"latency_s of link {self}")
        check_number(self.bandwidth_bytes_per_s, f"bandwidth_bytes_per_s of link {self}", positive=True)
        if len(self.sizes_bytes) != len(self.seconds):
            raise PlatformError(f"link {self}: {len(self.sizes_bytes)} sizes and {len(self.seconds)} times")
        for size in self.sizes_bytes:
            check_number(size, f"sizes_bytes of link {self}")
        if list(self.sizes_bytes) != sorted(set(self.sizes_bytes)):
            raise PlatformError(f"link {self}: sizes_bytes must ascend, got {self.sizes_bytes}")
        for point in self.seconds:
            check_number(point, f"seconds of link {self}", positive=True)

    def __str__(self) -> str:
        return f"{self.source}>{self.target} ({self.memory})"

    def duration_s(self, nbytes: int) -> float:
        """Seconds that a transfer of `nbytes` takes alone.

        Inside the measured points linear between them; outside, latency + bytes / bandwidth, scaled
        to meet the nearest point below and continued at the full rate above.

        Example:
            >>> Link("cpu", "cuda:0", "pinned", 1e-5, 5e10).duration_s(50_000_000)
            0.00101
        """
        affine = self.latency_s + nbytes / self.bandwidth_bytes_per_s
        if not self.sizes_bytes:
            return affine
        if nbytes < self.sizes_bytes[0]:
            first = self.sizes_bytes[0]
            return self.seconds[0] * affine / (self.latency_s + first / self.bandwidth_bytes_per_s)
        if nbytes > self.sizes_bytes[-1]:
            return self.seconds[-1] + (nbytes - self.sizes_bytes[-1]) / self.bandwidth_bytes_per_s
        after = bisect_left(self.sizes_bytes, nbytes) or 1
        if after == len(self.sizes_bytes):
            return self.seconds[-1]
        (x0, x1), (y0, y1) = self.sizes_bytes[after - 1 : after + 1], self.seconds[after - 1 : after + 1]
        return y0 + (y1 - y0) * (nbytes - x0) / (x1 - x0)


def checked_changes(changes: Any) -> tuple[tuple[int, float], ...]:
    """`Dispatch.changes` as tuples.

    Raises:
        PlatformError: They are no pairs of a number of kinds, ascending from 1 on, and seconds.
    """
    try:
        found = tuple((kinds, check_number(seconds, "dispatch changes")) for kinds, seconds in changes)
    except (TypeError, ValueError) as error:
        shown = reprlib.repr(changes)
        raise PlatformError(
            f"dispatch changes are {shown}: pairs of a number of kinds and seconds are needed"
        ) from error
    numbers = [kinds for kinds, _ in found]
    whole = all(isinstance(kinds, int) and not isinstance(kinds, bool) for kinds in numbers)
    if not whole or numbers != sorted(set(numbers)) or any(kinds < 1 for kinds in numbers):
        shown = reprlib.repr(numbers)
        raise PlatformError(f"dispatch changes are after {shown} kinds: whole numbers from 1 on are needed, ascending")
    return found


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What the dispatching thread and the waits between lanes cost, in seconds.

    Attributes:
        call_s: The yardstick: issuing one tiny operation in a row, when these figures were measured; 0 if unknown.
        run_s: Own time of the executor for one task beside the task's calls.
        copy_s, peer_copy_s: Issuing one copy between host and GPU; between GPUs.
        change_s: What a call takes longer after one of another kind than after one of its own.
        changes: The same by the number of other kinds that were called in between, ascending: (kinds, seconds);
            empty where only `change_s` is known.
        free_s: Giving a value's memory back.
        record_s, wait_s: Recording an event; making a lane wait for one.
        device_wait_s: Making a lane wait for an event of another GPU.
        switch_s, device_switch_s: Making another stream current, of the same GPU; of another.
        timed_record_s: Recording a timing event (host); two an action when spans are measured.
        timed_gap_s: What two timing events around an action add to its lane.
        timed_edge_s: What a wait for another lane takes longer where timing events stand around both actions.
        sync_s: The thread's return from waiting for one finished device.
        handoff_s: Giving a task to a worker lane (host).
        wake_s: From a worker task being ready to its start.
        same_device_s, other_device_s: Latency of a wait on another lane of the device, of another device.
        queue_depth: Launches that a device's queue holds before the thread blocks.
        start_s: What the first calls of a timed run take longer, for the processor's caches are cold; a run that
            follows one like it does not.
        cold_s: What returning from a long wait and the call after it take longer than after a short one.
        query_s: Asking once whether a lane is done, when it is.
        launch_s: From a launch being issued to its start on an idle lane.
        item_s: Host time of one launch inside a task of several.
        graph_launch_s: Launching a CUDA graph of some hundred nodes (host).
        graph_node_s, graph_wait_s: What a node adds to a replay on the device; an edge from another lane.
    """

    call_s: float = 0.0
    run_s: float = 2e-6
    copy_s: float = 8e-6
    peer_copy_s: float = 2.5e-5
    change_s: float = 0.0
    changes: tuple[tuple[int, float], ...] = ()
    free_s: float = 0.0
    record_s: float = 1.2e-6
    wait_s: float = 1.3e-6
    device_wait_s: float = 1.3e-6
    switch_s: float = 1.1e-6
    device_switch_s: float = 1.1e-6
    timed_record_s: float = 2.2e-6
    timed_gap_s: float = 2e-6
    timed_edge_s: float = 0.0
    sync_s: float = 1e-5
    handoff_s: float = 1e-5
    wake_s: float = 3e-5
    same_device_s: float = 4e-7
    other_device_s: float = 5.7e-6
    queue_depth: int = 1024
    start_s: float = 0.0
    cold_s: float = 0.0
    query_s: float = 0.0
    launch_s: float = 4e-6
    item_s: float = 4e-6
    graph_launch_s: float = 1e-5
    graph_node_s: float = 1e-6
    graph_wait_s: float = 2e-7

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "changes":
                check_number(getattr(self, field.name), f"dispatch {field.name}", positive=field.name == "queue_depth")
        object.__setattr__(self, "changes", checked_changes(self.changes))

    def change_after_s(self, others: int) -> float:
        """What a call takes longer after calls of `others` other kinds, linear between those measured.

        Example:
            >>> Dispatch(changes=((4, 1.0), (8, 3.0))).change_after_s(6)
            2.0
            >>> Dispatch(change_s=1e-6).change_after_s(1), Dispatch(change_s=1e-6).change_after_s(0)
            (1e-06, 0.0)
        """
        x0, y0 = 0, 0.0
        for x1, y1 in self.changes or ((1, self.change_s),):
            if others <= x1:
                return y0 + (y1 - y0) * (others - x0) / (x1 - x0)
            x0, y0 = x1, y1
        return y0

    def at(self, call_s: float) -> Dispatch:
        """These figures for a thread whose tiny operation takes `call_s` now: a core's speed changes within minutes.

        All host time of calls is scaled by the ratio to the yardstick; as it is where either is unknown (0).

        Example:
            >>> Dispatch(call_s=6e-6, record_s=1e-6).at(9e-6).record_s
            1.5e-06
        """
        if not (self.call_s and call_s):
            return self
        pace = call_s / self.call_s
        scaled: dict[str, Any] = {name: getattr(self, name) * pace for name in HOST_CALLS}
        return replace(self, **scaled, changes=tuple((k, seconds * pace) for k, seconds in self.changes), call_s=call_s)


HOST_CALLS = (
    "run_s", "copy_s", "peer_copy_s", "change_s", "free_s", "record_s", "wait_s", "device_wait_s", "switch_s",
    "device_switch_s", "timed_record_s", "handoff_s", "start_s", "cold_s", "query_s",
)  # fmt: skip
"""Fields of `Dispatch` that are host time of the dispatching thread's calls."""
