"""Whether a platform's figures still hold: a sample of them measured again.

Measured are small and large transfers of every link with the host and inside a GPU, and of some between GPUs;
transfers together (shared capacities); arithmetic of every GPU; and of dispatch a tiny operation's
call, device time of waits, returns from waiting and replays of graphs. A figure has drifted if it differs by more than
the spread that was recorded with it, and by more than a stated minimum: what two sound measurements of one host may
differ by.

Not modelled: costs of a workload's operations, whose code a platform does not hold; `profile` measures them again.
Other calls' host time, which is measured in units of the tiny operation's, is not measured again, nor are edges to
copies, joins with them, graphs of several lanes or GPUs, and steps; what dispatch has as tables (`Dispatch.colds`,
`graph_starts`, …) is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from graphsched.calibration.capacities import Flow
from graphsched.calibration.cold_launches import launch_colds_on
from graphsched.calibration.cpu_dispatch import lane_figures
from graphsched.calibration.cpu_links import copy_points, shared_memory
from graphsched.calibration.cuda_calls import tiny_call_s
from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.cuda_dispatch import chain_figures, idle_figures
from graphsched.calibration.cuda_graphs import sampled_figures
from graphsched.calibration.cuda_together import Together
from graphsched.calibration.cuda_ways import Bench, warm_all, way_of_link, way_s
from graphsched.calibration.graph_rows import Launches
from graphsched.calibration.launch_pace import launches_on
from graphsched.calibration.patterns import pattern_bytes_per_s, pattern_label, sampled_patterns
from graphsched.calibration.profiling import check_is_here
from graphsched.calibration.rates import cpu_flop_per_s, cuda_flop_per_s
from graphsched.executors.kept_memory import keep_memory
from graphsched.platform import Device, Link, Platform

LARGE_BYTES = 2**26
SMALL_BYTES = 4096
LARGE_TOLERANCE = 0.03
SMALL_TOLERANCE = 0.5
TOGETHER_TOLERANCE = 0.05
ARITHMETIC_TOLERANCE = 0.05
HOST_TOLERANCE = 0.5  # memory, arithmetic and calls of a CPU, which other processes use too
FLOOR_S = 1e-6
CPU_BYTES = 2**24
REPEATS = 5  # of a transfer
IDLE_REPEATS = 100


@dataclass(frozen=True, slots=True)
class Drift:
    """A stored figure beside the same measured now.

    Attributes:
        entry: What it is of.
        stored, now: In `unit`.
        ratio: `now` / `stored`; None where nothing was stored and something is now.
        drifted: Whether they differ by more than the tolerance, and (times) by more than a microsecond.
        tolerance: Share by which the larger may exceed the smaller: the recorded spread, or the least for its kind.
        unit: ``s``, ``bytes/s`` or ``flop/s``.
    """

    entry: str
    stored: float
    now: float
    ratio: float | None
    drifted: bool
    tolerance: float
    unit: str = "s"


def drift(entry: str, stored: float, now: float, tolerance: float, unit: str = "s") -> Drift:
    """One row.

    Example:
        >>> drift("copy", 1e-3, 1.2e-3, 0.1).drifted, drift("copy", 1e-3, 1.05e-3, 0.1).drifted
        (True, False)
        >>> drift("record_s", 1e-7, 5e-7, 0.1).drifted  # less than a microsecond
        False
        >>> drift("lock_s", 0.0, 5e-6, 0.1).ratio is None, drift("lock_s", 0.0, 5e-6, 0.1).drifted
        (True, True)
    """
    ratio = now / stored if stored else (1.0 if now == stored else None)
    outside = ratio is None or not 1 / (1 + tolerance) <= ratio <= 1 + tolerance
    floor = FLOOR_S if unit == "s" else 0.0
    return Drift(entry, stored, now, ratio, outside and abs(now - stored) > floor, tolerance, unit)


def check_platform(platform: Platform, *, report: Callable[[str], None] = lambda _: None) -> list[Drift]:
    """Measure a sample of links, capacities, arithmetic and dispatch again, in about ten seconds.

    Args:
        platform: As it was measured on this host.
        report: Called with a line of text before each part.

    Raises:
        PlatformError: The platform is another host's, or copied data arrived changed.
    """
    keep_memory()
    gpus = [d.name for d in platform.devices if d.kind == "cuda"]
    for name in gpus:
        check_is_here(platform, name)
    rows = list(_cuda_rows(platform, gpus, report) if gpus else _host_rows(platform, report))
    report("host dispatch")
    lanes = lane_figures()
    if gpus:
        del lanes["sync_s"]  # there it is the wait for a device
    return rows + _dispatch_rows(platform, lanes)


def _recorded_spread(platform: Platform, entry: str) -> float:
    return float(platform.provenance.get("spread", {}).get(entry, 0.0))


def _dispatch_rows(platform: Platform, figures: dict[str, float]) -> list[Drift]:
    """Rows for the figures in seconds; a queue's depth is no time."""
    return [
        drift(f"dispatch {name}", getattr(platform.dispatch, name), now, HOST_TOLERANCE)
        for name, now in figures.items()
        if name.endswith("_s")
    ]


# -- hosts without GPUs ---------------------------------------------------------------------------


def _host_rows(platform: Platform, report: Callable[[str], None]) -> Iterator[Drift]:
    report("memory copies")
    cpu = platform.device("cpu")
    points = copy_points(CPU_BYTES, cpu.threads)
    for kind, spread, found in zip(("local", "fresh"), ("memory", "fresh memory"), points, strict=True):
        link = platform.link("cpu", "cpu", kind)
        tolerance = max(HOST_TOLERANCE, _recorded_spread(platform, spread))
        yield drift(f"{link}, {CPU_BYTES} bytes", link.duration_s(CPU_BYTES), found.seconds[-1], tolerance)
    for name, now in shared_memory(CPU_BYTES).items():
        if name in platform.capacities:
            yield drift(f"capacity {name}", platform.capacities[name], now, HOST_TOLERANCE, "bytes/s")
    report("arithmetic")
    yield _arithmetic(cpu, cpu_flop_per_s(cpu.threads), HOST_TOLERANCE)


def _arithmetic(device: Device, now: float, tolerance: float) -> Drift:
    return drift(f"fp32 product on {device.name}", device.flop_per_s, now, tolerance, "flop/s")


# -- hosts with GPUs ------------------------------------------------------------------------------


def _cuda_rows(platform: Platform, gpus: Sequence[str], report: Callable[[str], None]) -> Iterator[Drift]:
    count = 1 + max(int(name.partition(":")[2]) for name in gpus)
    bench = Bench(count, LARGE_BYTES * count)
    try:
        warm_all(bench)
        report("links")
        for link in sampled_links(platform, gpus):
            yield from _link_rows(platform, bench, link)
        report("transfers together")
        together = Together(bench, repeats=3)
        for flows in sampled_patterns(platform):
            yield _together_row(platform, together, flows)
        report("arithmetic")
        for name in gpus:
            rate = cuda_flop_per_s(bench.spinners[int(name.partition(":")[2])])
            yield _arithmetic(platform.device(name), rate, ARITHMETIC_TOLERANCE)
        report("dispatch")
        yield from _dispatch_rows(platform, sampled_dispatch(bench.spinners))
    finally:
        bench.close()


def sampled_links(platform: Platform, gpus: Sequence[str]) -> list[Link]:
    """Links to measure again: all pinned ones and those inside a GPU; between GPUs a ring, and the first that is not
    of it.

    Example:
        >>> here = Platform.load("h200-x4")
        >>> chosen = sampled_links(here, here.accelerators())
        >>> [(link.source[-1], link.target[-1]) for link in chosen if link.memory == "peer"]
        [('0', '1'), ('0', '2'), ('1', '2'), ('2', '3'), ('3', '0')]
    """
    ring = {(a, b) for a, b in zip(gpus, [*gpus[1:], *gpus[:1]], strict=True)}
    peers = [k for k in platform.links if k.memory == "peer"]
    others = [k for k in peers if (k.source, k.target) not in ring][:1]
    chosen = [k for k in peers if (k.source, k.target) in ring] + others
    near = [k for k in platform.links if k.memory in ("pinned", "local") and (k.source, k.target) != ("cpu", "cpu")]
    return [k for k in platform.links if k in near or k in chosen]


def sampled_dispatch(spinners: Sequence[Spinner]) -> dict[str, float]:
    """Fields of `Dispatch`, in seconds: a tiny operation's call, waits on the device, returns, replays of graphs."""
    first = spinners[0]
    figures = {"call_s": tiny_call_s(first.device)} | chain_figures(spinners)
    launches = Launches(dict(launches_on([first.device]))[1], *launch_colds_on([first.device]))
    return figures | idle_figures(first, IDLE_REPEATS) | sampled_figures(first, launches)


def _link_rows(platform: Platform, bench: Bench, link: Link) -> Iterator[Drift]:
    way, spread = way_of_link(bench, link), _recorded_spread(platform, str(link))
    for nbytes, least in ((SMALL_BYTES, SMALL_TOLERANCE), (LARGE_BYTES, LARGE_TOLERANCE)):
        now = way_s(bench, way, nbytes, REPEATS)
        yield drift(f"{link}, {nbytes} bytes", link.duration_s(nbytes), now, max(least, spread))


def _together_row(platform: Platform, together: Together, flows: Sequence[Flow]) -> Drift:
    now, entry = sum(together(flows)), pattern_label(flows)
    tolerance = max(TOGETHER_TOLERANCE, _recorded_spread(platform, entry))
    return drift(f"{entry}, together", pattern_bytes_per_s(platform, flows), now, tolerance, "bytes/s")
