"""Times that every programmer of a host should know: as the text prints them, and as measured.

Source: Dive into Deep Learning 12.4, tables "Common Latency Numbers" and "Latency Numbers for NVIDIA Tesla GPUs".

Not modelled: caches, mutexes, disks and networks, which the text lists too and a platform does not hold.
"""

from __future__ import annotations

from statistics import median

from graphsched.calibration.nominal import TEXT, NominalRow
from graphsched.platform import Link, Platform
from graphsched.platform.parts import LinkMemory

NONE = "–"
MEGABYTE = 10**6
SMALL_BYTES = 4096
PRODUCT = 4096
US = 1e6


def latency_rows(platform: Platform) -> list[NominalRow]:
    """What launches, waits, transfers and arithmetic take, in microseconds, shortest first as measured.

    Of several links of a kind the median is shown. Rows of which nothing was measured come last.

    Example:
        >>> rows = latency_rows(Platform.load("h200-x2"))
        >>> [(row.what, row.nominal) for row in rows if row.nominal is not None][0]
        ('launch of a kernel on an idle stream', 10.0)
    """
    gpus = any(d.kind == "cuda" for d in platform.devices)
    rows = (_gpu_calls(platform) + _gpu_transfers(platform) if gpus else []) + _cpu_rows(platform)
    return sorted(rows, key=lambda row: (row.measured is None, row.measured or 0.0))


def _gpu_calls(platform: Platform) -> list[NominalRow]:
    costs, pairs = platform.dispatch, len(platform.accelerators()) > 1
    rows = [
        _row("event recorded, on the host", costs.record_s),
        _row("timing event recorded, on the host", costs.timed_record_s),
        _row("another stream waits for an event, on the host", costs.wait_s),
        _row("other stream made current", costs.switch_s),
        _row("copy issued, host and GPU", costs.copy_s),
        _row("launch of a kernel on an idle stream", costs.launch_s, 10.0),
        _row("edge to another stream of the GPU", costs.same_device_s),
        _row("return from waiting for a GPU", costs.sync_s),
    ]
    if costs.copy_edge_s:
        rows.append(_row("edge between a kernel and a copy, host and GPU", costs.copy_edge_s))
    between = [
        _row("copy issued, GPU to GPU", costs.peer_copy_s),
        _row("edge to another GPU", costs.other_device_s),
        *([_row("edge between a kernel and a copy, GPU to GPU", costs.peer_edge_s)] if costs.peer_edge_s else []),
        _row("stream of another GPU made current", costs.device_switch_s),
    ]
    return rows + (between if pairs else [])


def _gpu_transfers(platform: Platform) -> list[NominalRow]:
    into, out = _links(platform, "pinned", "cpu", None), _links(platform, "pinned", None, "cpu")
    peer, local = _links(platform, "peer"), [k for k in _links(platform, "local") if k.source != "cpu"]
    rows = [
        _transfer("4 KB to a GPU over PCIe", into, SMALL_BYTES, 5.0),
        _transfer("4 KB from a GPU over PCIe", out, SMALL_BYTES, 5.0),
        _transfer("1 MB to a GPU over PCIe", into, MEGABYTE, 80.0),
        _transfer("1 MB from a GPU over PCIe", out, MEGABYTE, 80.0),
        _transfer("4 KB from GPU to GPU over NVLink", peer, SMALL_BYTES, None),
        _transfer("1 MB from GPU to GPU over NVLink", peer, MEGABYTE, 30.0),
        _transfer("1 MB from GPU to GPU, staged through the host", _links(platform, "staged"), MEGABYTE, None),
        _transfer("1 MB to a GPU, pageable", _links(platform, "pageable", "cpu", None), MEGABYTE, None),
        _transfer("1 MB from a GPU, pageable", _links(platform, "pageable", None, "cpu"), MEGABYTE, None),
        _transfer("1 MB from a GPU, new memory", _links(platform, "fresh", None, "cpu"), MEGABYTE, None),
        _transfer("1 MB within a GPU's memory", local, MEGABYTE, None),
    ]
    rates = [d.flop_per_s for d in platform.devices if d.kind == "cuda"]
    rows.append(_row("fp32 product of 4096² matrices on a GPU", 2 * PRODUCT**3 / median(rates)))
    return [row for row in rows if row.measured is not None or row.nominal is not None]


def _cpu_rows(platform: Platform) -> list[NominalRow]:
    cpu = next((d for d in platform.devices if d.kind == "cpu"), None)
    rows = [
        _row("task handed to a CPU lane", platform.dispatch.handoff_s),
        _row("start of a CPU lane that slept", platform.dispatch.wake_s),
        _transfer("1 MB within the host's memory", _links(platform, "local", "cpu", "cpu"), MEGABYTE, None),
    ]
    found = [
        ("task handed to a CPU lane that is busy", platform.dispatch.put_s),
        ("start of a CPU lane that another one tells", platform.dispatch.told_s),
        ("return of a CPU lane that waits for the interpreter's lock", platform.dispatch.lock_wake_s),
    ]
    rows += [_row(what, seconds) for what, seconds in found if seconds]
    if cpu is not None:
        rows.append(_row("fp32 product of 4096² matrices on a CPU lane", 2 * PRODUCT**3 / cpu.flop_per_s))
    return [row for row in rows if row.measured is not None]


def _row(what: str, seconds: float | None, nominal_us: float | None = None) -> NominalRow:
    source = TEXT if nominal_us is not None else NONE
    return NominalRow(what, nominal_us, None if seconds is None else seconds * US, "µs", source)


def _transfer(what: str, links: list[Link], nbytes: int, nominal_us: float | None) -> NominalRow:
    return _row(what, median(k.duration_s(nbytes) for k in links) if links else None, nominal_us)


def _links(platform: Platform, memory: LinkMemory, source: str | None = None, target: str | None = None) -> list[Link]:
    """Links of this kind, between these devices; None: accelerators of any name."""
    return [
        k
        for k in platform.links
        if k.memory == memory and _is(platform, k.source, source) and _is(platform, k.target, target)
    ]


def _is(platform: Platform, name: str, wanted: str | None) -> bool:
    return name == wanted if wanted is not None else platform.device(name).is_accelerator
