"""Measuring a host: devices, links, shared capacities and dispatch, put together into a `Platform`."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeVar

from graphsched.calibration.capacities import Capacities, corrected, fit_capacities, rates_alone
from graphsched.calibration.cpu_dispatch import lane_figures, returns_s, waiting_figures
from graphsched.calibration.cpu_links import copy_points, cpu_links, pinned_link, shared_memory, worker_links
from graphsched.calibration.host import HostFacts, cpu_model, host_facts, host_memory_bytes, platform_name
from graphsched.calibration.own_time import own_time_s
from graphsched.calibration.rates import cpu_flop_per_s, cpu_threads, cuda_flop_per_s
from graphsched.environment import noted
from graphsched.executors.collector import left_alone
from graphsched.executors.kept_memory import give_memory_back, keep_memory
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.platform.consistency import reconciled
from graphsched.platform.parts import LANE_FACTORS, MEMORY_FACTORS, DeviceKind

if TYPE_CHECKING:
    from graphsched.calibration.cuda_traffic import Reading

FULL_BYTES = 2**30
QUICK_BYTES = 2**26
CPU_FULL_BYTES = 2**26
CPU_QUICK_BYTES = 2**24
CPU_LOCAL_BYTES = 2**26
ROUNDS, QUICK_ROUNDS = 5, 2  # of transfers together
WORKER_LANES = 32

Report = Callable[[str], None]
Figure = TypeVar("Figure")


def measure_platform(*, name: str | None = None, quick: bool = False, report: Report | None = None) -> Platform:
    """Measure this host: its devices, links, shared capacities and dispatch costs.

    Args:
        name: Of the platform; default from GPUs or cores (``h200-x4``, ``cpu-x2``).
        quick: Smaller largest transfers.
        report: Called with a line of text before each part.

    Raises:
        PlatformError: Copied data arrived changed.
    """
    keep_memory()
    began, facts = time.perf_counter(), host_facts()
    say = report or _silent
    measured = _cuda_host if facts.gpus else _cpu_host
    try:
        with left_alone():
            devices, links, found, dispatch, readings = measured(facts, quick, say)
    finally:
        give_memory_back()
    platform = Platform(
        name=name or platform_name(facts),
        devices=tuple(devices),
        links=tuple(links),
        capacities=found.rates,
        tables=found.tables,
        dispatch=Dispatch(**dispatch),
        cores=facts.cores,
        provenance=_provenance(facts, quick, time.perf_counter() - began) | readings | {"patterns": found.patterns},
    )
    return reconciled(platform)


Parts = tuple[list[Device], list[Link], Capacities, dict[str, Any], dict[str, Any]]
"""Of a host, the last: readings for its platform's provenance."""


def _silent(_: str) -> None:
    """No report."""


def _provenance(facts: HostFacts, quick: bool, seconds: float) -> dict[str, Any]:
    return {
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "fingerprint": facts.fingerprint(),
        "quick": quick,
        "seconds": round(seconds, 1),
        **noted(),
    }


def _rounded(spread: dict[str, float]) -> dict[str, float]:
    return {what: round(share, 4) for what, share in spread.items()}


# -- hosts without GPUs ---------------------------------------------------------------------------


def worker_count(cores: int) -> int:
    """Workers that stand in for GPUs: one a core, from 2 to 4.

    Example:
        >>> worker_count(1), worker_count(3), worker_count(64)
        (2, 3, 4)
    """
    return min(max(cores, 2), 4)


def _cpu_host(facts: HostFacts, quick: bool, say: Report) -> Parts:
    largest = CPU_QUICK_BYTES if quick else CPU_FULL_BYTES
    say("memory copies")
    warm, fresh = copy_points(largest, 1)
    workers = [f"worker:{i}" for i in range(worker_count(facts.cores))]
    links = worker_links(["cpu", *workers], warm, fresh)
    say("arithmetic")
    cpu = Device(
        name="cpu",
        kind="cpu",
        model=cpu_model(facts.processor, 1),
        memory_bytes=host_memory_bytes(),
        lanes=1,
        flop_per_s=cpu_flop_per_s(1),
        bytes_per_s=2 * links[0].bandwidth_bytes_per_s,
    )
    devices = [cpu, *(replace(cpu, name=w, kind="worker", lanes=WORKER_LANES) for w in workers)]
    say("dispatch")
    dispatch = lane_figures() | returns_s(1)
    spread = _rounded({"memory": warm.spreads[-1], "fresh memory": fresh.spreads[-1]})
    return devices, links, Capacities(shared_memory(largest)), dispatch | {"run_s": own_time_s()}, {"spread": spread}


# -- hosts with GPUs ------------------------------------------------------------------------------


def _cuda_host(facts: HostFacts, quick: bool, say: Report) -> Parts:
    from graphsched.calibration.copies_beside_lanes import beside_lanes
    from graphsched.calibration.cpu_traffic import cpu_traffic_readings
    from graphsched.calibration.cuda_dispatch import cuda_dispatch
    from graphsched.calibration.cuda_ways import Bench
    from graphsched.calibration.lane_sweep import sweeps_by_bytes
    from graphsched.calibration.lost_locks import lost_locks
    from graphsched.calibration.slept_launches import slept_launches_on
    from graphsched.calibration.written_copies import with_written

    memory_bytes = _gpus_memory_bytes(len(facts.gpus))
    bench = Bench(len(facts.gpus), min(QUICK_BYTES if quick else FULL_BYTES, min(memory_bytes) // 8))
    try:
        say("dispatch")
        threads, cpu_flops = cpu_threads(facts.cores)
        dispatch: dict[str, Any] = lane_figures() | waiting_figures(threads) | cuda_dispatch(bench.spinners)
        dispatch |= lost_locks(bench.spinners[0].device, threads)
        say("arithmetic")
        dispatch["sweeps"] = sweeps_by_bytes(threads)
        flops = _by_model(facts.gpus, lambda i: cuda_flop_per_s(bench.spinners[i]))
        links, spread = _cuda_links(bench, dispatch, threads, say)
        say("graphs behind tasks of the CPU")
        dispatch |= slept_launches_on([spinner.device for spinner in bench.spinners], threads)
        say("shared capacities")
        capacities, together = _cuda_capacities(bench, links, QUICK_ROUNDS if quick else ROUNDS)
        say("kernels beside copies")
        memory_rates = {k.source: 2 * k.bandwidth_bytes_per_s for k in links if k.memory == "local"}
        traffic = _by_model(facts.gpus, lambda i: _cuda_traffic(bench, i, links, memory_rates[f"cuda:{i}"]))
        beside = _by_model(facts.gpus, lambda i: beside_lanes(bench, i))
        cpu = _cpu_device(facts, threads, cpu_flops, memory_rates["cpu"])
        say("tasks of the CPU beside copies")
        traffic["cpu"] = cpu_traffic_readings(bench, 0, threads, cpu.bytes_per_s)
        say("copies of what the CPU has just written")
        links = with_written(bench, links, threads)
    finally:
        bench.close()
    devices = [_beside_copies(cpu, traffic["cpu"])]
    for i, model in enumerate(facts.gpus):
        rate, engines = memory_rates[f"cuda:{i}"], capacities.peer_engines
        device = Device(f"cuda:{i}", "cuda", model, memory_bytes[i], flop_per_s=flops[model], bytes_per_s=rate)
        devices.append(_beside_copies(replace(device, peer_engines=engines), traffic[model], beside[model]))
    return devices, links, capacities, dispatch | {"run_s": own_time_s()}, _notes(spread | together, traffic)


def _gpus_memory_bytes(gpus: int) -> list[int]:
    import torch

    return [int(torch.cuda.get_device_properties(i).total_memory) for i in range(gpus)]


def _notes(spreads: dict[str, float], traffic: Mapping[str, Sequence[Reading]]) -> dict[str, Any]:
    """Readings for the provenance: how much transfers vary, and what copies cost kernels and tasks beside them."""
    beside = {model: [asdict(reading) for reading in found] for model, found in traffic.items()}
    return {"spread": _rounded(spreads), "traffic": beside}


def _cpu_device(facts: HostFacts, threads: int, flop_per_s: float, bytes_per_s: float) -> Device:
    model, memory = cpu_model(facts.processor, threads), host_memory_bytes()
    return Device("cpu", "cpu", model, memory, threads, lanes=1, flop_per_s=flop_per_s, bytes_per_s=bytes_per_s)


def _beside_copies(device: Device, found: list[Reading], lanes: tuple[float, float] = (0.0, 0.0)) -> Device:
    """`device` with what copies cost what fills its memory rate, and this and several `lanes` them.

    See `calibration.cuda_traffic` and `calibration.copies_beside_lanes`.
    """
    from graphsched.calibration.cuda_traffic import fit_slowed, fit_traffic

    figures = (*fit_traffic(found), *fit_slowed(device.name, found), *lanes)
    factors: dict[str, Any] = dict(zip((*MEMORY_FACTORS, *LANE_FACTORS), figures, strict=True))
    return replace(device, **factors)


def _cuda_links(
    bench: Any, dispatch: Mapping[str, float], threads: int, say: Report
) -> tuple[list[Link], dict[str, float]]:
    from graphsched.calibration.cuda_links import host_links, local_link, pair_link, pinned_again, timed_again
    from graphsched.calibration.cuda_ways import warm_all

    largest, calls_s = bench.largest, [dispatch[name] + dispatch["launch_s"] for name in ("copy_s", "copy_out_s")]
    say("first use of every pair")
    warm_all(bench)
    found = []
    for i in range(bench.gpus):
        say(f"host memory and cuda:{i}")
        found += [*host_links(bench, i, largest, calls_s), local_link(bench, i, largest)]
        for j in range(bench.gpus):
            if i != j:
                found.append(pair_link(bench, i, j, largest, say))
    say("host memory")
    most = min(largest, CPU_LOCAL_BYTES)
    within = cpu_links(*copy_points(most, threads), pinned_link(bench.pinned, most, threads))
    found = timed_again(found, pinned_again(bench, largest))
    links = [m.link for m in found] + within
    return links, {str(m.link): m.spread for m in found}


def _cuda_capacities(bench: Any, links: list[Link], rounds: int) -> tuple[Capacities, dict[str, float]]:
    from graphsched.calibration.cuda_together import Together
    from graphsched.calibration.patterns import asked_patterns, fitted_patterns, new_patterns, pattern_rows
    from graphsched.calibration.survey import Survey

    gpus = bench.gpus
    patterns = [*fitted_patterns(gpus, links), *new_patterns(gpus, links)]
    survey = Survey(Together(bench, repeats=1), [*asked_patterns(gpus, links), *patterns], rounds)
    found = fit_capacities(gpus, links, survey)
    fitted = fitted_patterns(gpus, links, survey)
    ends = dict.fromkeys(name for link in links for name in (link.source, link.target))
    kinds: dict[str, DeviceKind] = {name: "cuda" if name.startswith("cuda") else "cpu" for name in ends}
    devices = tuple(Device(name, kind, peer_engines=found.peer_engines) for name, kind in kinds.items())
    here = reconciled(Platform("here", devices, tuple(links), found.rates, tables=found.tables))
    rates = corrected(survey, rates_alone(links))
    found.patterns.extend(pattern_rows(here, fitted, rates, fitted=True))
    found.patterns.extend(pattern_rows(here, [flows for flows in patterns if flows not in fitted], rates, fitted=False))
    return found, survey.spreads


def _cuda_traffic(bench: Any, gpu: int, links: list[Link], bytes_per_s: float) -> list[Reading]:
    from graphsched.calibration.cuda_traffic import traffic_readings

    return traffic_readings(bench, gpu, peer_of(gpu, links), bytes_per_s)


def peer_of(gpu: int, links: list[Link]) -> int | None:
    """The first GPU that is linked with this one directly, both ways; None if there is none.

    Example:
        >>> peer_of(0, [Link("cuda:0", "cuda:2", "peer", 0.0, 1.0), Link("cuda:2", "cuda:0", "peer", 0.0, 1.0)])
        2
    """
    ends, name = {(k.source, k.target) for k in links if k.memory == "peer"}, f"cuda:{gpu}"
    peers = [source for source, target in ends if target == name and (name, source) in ends]
    return min((int(peer.partition(":")[2]) for peer in peers), default=None)


def _by_model(gpus: tuple[str, ...], measure: Callable[[int], Figure]) -> dict[str, Figure]:
    """One measurement for each distinct GPU name, on the first of that name."""
    return {model: measure(gpus.index(model)) for model in dict.fromkeys(gpus)}
