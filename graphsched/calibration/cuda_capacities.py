"""Capacities that transfers of several GPUs share: the host's two directions and their sum, each GPU's port.

Not modelled: capacities that depend on which devices are active in each direction; each is one figure.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from graphsched.calibration.cuda_clock import CALL_S, elapsed_s, on_streams
from graphsched.calibration.cuda_links import Bench, Way, host_way, peer_way
from graphsched.calibration.fitting import median
from graphsched.executors.clocks import new_event
from graphsched.platform import Link

FLOWS_BYTES = 2**27


def together_bytes_per_s(bench: Bench, ways: list[Way], nbytes: int, copies: int = 4, repeats: int = 5) -> float:
    """Sum of the rates of transfers that run at the same time, median of `repeats`."""
    return median([_together_once(bench, ways, nbytes, copies) for _ in range(repeats + 1)][1:])


def _together_once(bench: Bench, ways: list[Way], nbytes: int, copies: int) -> float:
    events = []
    hold_s = 5e-4 + len(ways) * copies * CALL_S
    began = time.perf_counter()
    for way in ways:
        start, end = new_event(timing=True), new_event(timing=True)
        with ExitStack() as stack:
            on_streams(stack, way.streams)
            spinner = bench.spinners[way.streams[-1].device.index]
            spinner.spin(max(1e-5, hold_s - (time.perf_counter() - began)))
            start.record(way.streams[-1])
            for _ in range(copies):
                way.copy(nbytes)()
            end.record(way.streams[-1])
        events.append((start, end))
    bench.settle()
    return sum(copies * nbytes / elapsed_s(start, end) for start, end in events)


def shared_capacities(bench: Bench, links: list[Link]) -> dict[str, float]:
    """Capacities in bytes/s: copy engines, all GPUs at once to and from the host, each GPU's port."""
    nbytes = min(FLOWS_BYTES, bench.largest // (2 * bench.gpus))
    rates = {f"{k.source}>{k.target}": k.bandwidth_bytes_per_s for k in links if k.memory in ("pinned", "peer")}
    found: dict[str, float] = {}
    for i in range(bench.gpus):
        found[f"cuda:{i}/h2d"], found[f"cuda:{i}/d2h"] = rates[f"cpu>cuda:{i}"], rates[f"cuda:{i}>cpu"]
    found |= _host_capacities(bench, nbytes)
    for i in range(bench.gpus):
        outgoing = [j for j in range(bench.gpus) if f"cuda:{i}>cuda:{j}" in rates]
        incoming = [j for j in range(bench.gpus) if f"cuda:{j}>cuda:{i}" in rates]
        if outgoing:
            alone = max(rates[f"cuda:{i}>cuda:{j}"] for j in outgoing)
            found[f"cuda:{i}/out"] = _port(bench, [(i, j) for j in outgoing], alone)
        if incoming:
            alone = max(rates[f"cuda:{j}>cuda:{i}"] for j in incoming)
            found[f"cuda:{i}/in"] = _port(bench, [(j, i) for j in incoming], alone)
    return found


def _host_capacities(bench: Bench, nbytes: int) -> dict[str, float]:
    parts = [slice(k * nbytes, (k + 1) * nbytes) for k in range(2 * bench.gpus)]
    into = [host_way(bench, i, to_gpu=True, part=parts[i]) for i in range(bench.gpus)]
    out = [host_way(bench, i, to_gpu=False, part=parts[bench.gpus + i]) for i in range(bench.gpus)]
    return {
        "host/h2d": together_bytes_per_s(bench, into, nbytes),
        "host/d2h": together_bytes_per_s(bench, out, nbytes),
        "host/both": together_bytes_per_s(bench, into + out, nbytes),
    }


def _port(bench: Bench, pairs: list[tuple[int, int]], alone: float) -> float:
    """Rate of one GPU's port with all its peers at once; with one peer that pair's own rate."""
    if len(pairs) == 1:
        return alone
    nbytes = min(2 * FLOWS_BYTES, bench.largest // len(pairs))
    parts = [slice(k * nbytes, (k + 1) * nbytes) for k in range(len(pairs))]
    ways = [peer_way(bench, i, j, part) for (i, j), part in zip(pairs, parts, strict=True)]
    return together_bytes_per_s(bench, ways, nbytes)
