"""The parts of a platform: devices and links."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, get_args

from graphsched.errors import PlatformError
from graphsched.platform.checks import check_count, check_number, check_seconds

DeviceKind = Literal["cuda", "worker", "cpu"]
LinkMemory = Literal["pinned", "pageable", "fresh", "peer", "staged", "local", "network"]


HOST_MEMORY = "host/memory"
"""The capacity that copies within the host's memory cross."""


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
        lanes_in, lanes_out: What kernels on several of its lanes at once cost copies into it from the host's pinned
            memory and out of it to there, whatever they move: how much longer they take, as a fraction. 0: unknown.
        peer_engines: Copies to other GPUs, over peer links, that it makes at a time; more wait. 0: any number.
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
    lanes_in: float = 0.0
    lanes_out: float = 0.0
    peer_engines: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("cuda", "worker", "cpu"):
            raise PlatformError(f"device {self.name!r} has kind {self.kind!r}: one of cuda, worker, cpu")
        if not self.name or any(c in "/>,@;#" or c.isspace() for c in self.name):
            raise PlatformError(f"device name {self.name!r}: letters, digits, ':', '.', '_' or '-' are needed")
        for name in ("memory_bytes", "peer_engines", *MEMORY_FACTORS, *LANE_FACTORS):
            check_number(getattr(self, name), f"{name} of {self.name}")
        for name in ("threads", "lanes"):
            object.__setattr__(self, name, check_count(getattr(self, name), f"{name} of {self.name}"))
        for name in ("flop_per_s", "bytes_per_s"):
            check_number(getattr(self, name), f"{name} of {self.name}", positive=True)

    @property
    def is_accelerator(self) -> bool:
        """Whether experiments may ask for it with `Platform.accelerators`."""
        return self.kind != "cpu"


MEMORY_FACTORS = ("traffic_in", "traffic_out", "slowed_in", "slowed_out", "slowed_peer_in", "slowed_peer_out")
"""Fields of `Device`: what kernels and copies that share its memory cost each other."""

LANE_FACTORS = ("lanes_in", "lanes_out")
"""Fields of `Device`: what kernels on several of its lanes cost copies."""


@dataclass(frozen=True, slots=True)
class Link:
    """A way from one device's memory to another's.

    Attributes:
        source, target: Device names; equal for copies inside one memory.
        memory: On the host side ``pinned``, ``pageable`` (warm) or ``fresh``; between GPUs ``peer``,
            or ``staged`` through pinned host memory; ``local`` inside one device; ``network``: of another host, which
            network cards copy and no engine of a GPU.
        latency_s: Time of a transfer of no bytes.
        bandwidth_bytes_per_s: Rate of a large transfer that is alone.
        crosses: Names of the shared capacities (`Platform.capacities`) that a transfer takes part of.
        blocking: The dispatching thread waits for the transfer (pageable memory).
        sizes_bytes, seconds: Measured points, sizes ascending; between them time is interpolated.
        written_s: From pinned memory to a GPU, what a transfer of each of `sizes_bytes` takes longer where a CPU lane
            has just written it and rests. Empty: unknown, and no effect.
        fades_s: Time in which that falls to a part of 1/e; 0: it stays.
        written_busy: What is left of it, as a fraction, where a lane computes meanwhile.
        busy_fades_s: Time in which it falls to a part of 1/e while one does; 0: it is gone at once.
        written_back: How much longer a copy from a GPU takes beside one of these, over how much longer that takes.
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
    written_s: tuple[float, ...] = ()
    fades_s: float = 0.0
    written_busy: float = 0.0
    busy_fades_s: float = 0.0
    written_back: float = 0.0

    def __post_init__(self) -> None:
        if self.memory not in get_args(LinkMemory):
            raise PlatformError(f"link {self} has memory {self.memory!r}: one of {', '.join(get_args(LinkMemory))}")
        check_seconds(self.latency_s, f"latency_s of link {self}")
        for name in ("fades_s", "busy_fades_s"):
            check_seconds(getattr(self, name), f"{name} of link {self}")
        for name in ("written_busy", "written_back"):
            check_number(getattr(self, name), f"{name} of link {self}")
        check_number(self.bandwidth_bytes_per_s, f"bandwidth_bytes_per_s of link {self}", positive=True)
        if len(self.sizes_bytes) != len(self.seconds):
            raise PlatformError(f"link {self}: {len(self.sizes_bytes)} sizes and {len(self.seconds)} times")
        if self.written_s and len(self.written_s) != len(self.sizes_bytes):
            raise PlatformError(f"link {self}: {len(self.sizes_bytes)} sizes and {len(self.written_s)} written_s")
        for size in self.sizes_bytes:
            check_number(size, f"sizes_bytes of link {self}")
        if list(self.sizes_bytes) != sorted(set(self.sizes_bytes)):
            raise PlatformError(f"link {self}: sizes_bytes must ascend, got {self.sizes_bytes}")
        for point in self.seconds:
            check_seconds(point, f"seconds of link {self}", positive=True)
        for point in self.written_s:
            check_seconds(point, f"written_s of link {self}")

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
        return self._between(nbytes, self.seconds)

    def written_longer_s(self, nbytes: int) -> float:
        """Seconds that a transfer of `nbytes` takes longer where they have just been written; linear between points.

        Example:
            >>> link = Link("cpu", "cuda:0", "pinned", 0.0, 1e9, (), False, (1000, 3000), (1e-6, 3e-6), (2e-6, 4e-6))
            >>> [round(link.written_longer_s(n) * 1e6, 9) for n in (10, 2000, 9000)]
            [2.0, 3.0, 4.0]
        """
        if not self.written_s:
            return 0.0
        return self._between(min(max(nbytes, self.sizes_bytes[0]), self.sizes_bytes[-1]), self.written_s)

    def _between(self, nbytes: int, seconds: tuple[float, ...]) -> float:
        """`seconds`, by `sizes_bytes`, at a size between these."""
        after = bisect_left(self.sizes_bytes, nbytes) or 1
        if after == len(self.sizes_bytes):
            return seconds[-1]
        (x0, x1), (y0, y1) = self.sizes_bytes[after - 1 : after + 1], seconds[after - 1 : after + 1]
        return y0 + (y1 - y0) * (nbytes - x0) / (x1 - x0)
