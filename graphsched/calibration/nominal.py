"""Nominal figures of the hardware, to hold measured ones against.

Source: Dive into Deep Learning 12.4 for buses, memory and storage; the vendors' data sheets for GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphsched.platform import Device, Platform

TEXT = "d2l.ai 12.4"
SHEET = "vendor's data sheet"


@dataclass(frozen=True, slots=True)
class NominalRow:
    """One figure as given and as measured.

    Attributes:
        what: The quantity.
        nominal: As given; the lower end of a range; None where neither the text nor a vendor gives one.
        measured: On the platform; None where nothing of that kind was measured.
        unit: Of both.
        source: Where the nominal figure comes from.
        nominal_high: Upper end of a range, None for a single figure.
    """

    what: str
    nominal: float | None
    measured: float | None
    unit: str
    source: str = TEXT
    nominal_high: float | None = None


@dataclass(frozen=True, slots=True)
class GpuSheet:
    """A GPU's nominal rates: fp32 operations, own memory, NVLink each way (all links), PCIe each way."""

    tflop_per_s: float
    memory_gb_per_s: float
    nvlink_gb_per_s: float
    pcie_gb_per_s: float


SHEETS = {
    "H200": GpuSheet(67.0, 4800.0, 450.0, 64.0),
    "H100": GpuSheet(67.0, 3350.0, 450.0, 64.0),
    "A100": GpuSheet(19.5, 2039.0, 300.0, 32.0),
    "V100": GpuSheet(15.7, 900.0, 150.0, 16.0),
}


def nominal_rows(platform: Platform) -> list[NominalRow]:
    """The text's nominal figures and, for GPUs that are known, the vendor's, beside those of `platform`.

    Example:
        >>> from graphsched.platform import Device
        >>> row = nominal_rows(Platform("desk", (Device("cpu", "cpu"),)))[0]
        >>> row.what, row.nominal, row.measured, row.unit
        ('PCIe 4.0 x16, host to GPU', 32.0, None, 'GB/s')
    """
    return _text_rows(platform) + _vendor_rows(platform)


def _text_rows(platform: Platform) -> list[NominalRow]:
    into, out = _best_gb_per_s(platform, "pinned", into=True), _best_gb_per_s(platform, "pinned", into=False)
    return [
        NominalRow("PCIe 4.0 x16, host to GPU", 32.0, into, "GB/s"),
        NominalRow("PCIe 4.0 x16, GPU to host", 32.0, out, "GB/s"),
        NominalRow("PCIe latency", 5.0, _least_us(platform, "pinned"), "µs"),
        NominalRow("NVLink of a V100, 6 links of 300 Gbit/s", 225.0, _pair_gb_per_s(platform), "GB/s"),
        NominalRow("DDR4 module", 20.0, _host_copy_gb_per_s(platform), "GB/s", nominal_high=25.0),
        NominalRow("DDR4 latency", 0.1, None, "µs"),
        NominalRow("Ethernet", 0.125, None, "GB/s", nominal_high=12.5),
        NominalRow("NVMe", 8.0, None, "GB/s"),
        NominalRow("SSD", 1.0, None, "GB/s", nominal_high=3.0),
        NominalRow("SSD, operations", 1e5, None, "1/s"),
        NominalRow("disk", 0.1, None, "GB/s", nominal_high=0.2),
        NominalRow("disk, operations", 100.0, None, "1/s"),
    ]


def sheet_of(platform: Platform) -> GpuSheet | None:
    """The vendor's sheet for the first GPU of `platform`, if it is known.

    Example:
        >>> sheet = sheet_of(Platform.load("h200-x1"))
        >>> sheet and sheet.nvlink_gb_per_s
        450.0
    """
    gpu = _first_gpu(platform)
    return next((sheet for name, sheet in SHEETS.items() if gpu is not None and name in gpu.model), None)


def _first_gpu(platform: Platform) -> Device | None:
    return next((d for d in platform.devices if d.kind == "cuda"), None)


def _vendor_rows(platform: Platform) -> list[NominalRow]:
    gpu, sheet = _first_gpu(platform), sheet_of(platform)
    if gpu is None or sheet is None:
        return []
    into = _best_gb_per_s(platform, "pinned", into=True)
    return [
        NominalRow(f"{gpu.model}, PCIe", sheet.pcie_gb_per_s, into, "GB/s", SHEET),
        NominalRow(f"{gpu.model}, NVLink each way", sheet.nvlink_gb_per_s, _pair_gb_per_s(platform), "GB/s", SHEET),
        NominalRow(f"{gpu.model}, memory", sheet.memory_gb_per_s, gpu.bytes_per_s / 1e9, "GB/s", SHEET),
        NominalRow(f"{gpu.model}, fp32", sheet.tflop_per_s, gpu.flop_per_s / 1e12, "TFLOP/s", SHEET),
    ]


def _best_gb_per_s(platform: Platform, memory: str, *, into: bool) -> float | None:
    """Highest rate of links of this memory between the host and GPUs, in one direction."""
    ends = ("cpu", "cuda") if into else ("cuda", "cpu")
    rates = [
        k.bandwidth_bytes_per_s / 1e9
        for k in platform.links
        if k.memory == memory and (k.source.partition(":")[0], k.target.partition(":")[0]) == ends
    ]
    return max(rates, default=None)


def _least_us(platform: Platform, memory: str) -> float | None:
    found = [k.latency_s * 1e6 for k in platform.links if k.memory == memory and "cuda" in k.source + k.target]
    return min(found, default=None)


def _pair_gb_per_s(platform: Platform) -> float | None:
    rates = [k.bandwidth_bytes_per_s / 1e9 for k in platform.links if k.memory == "peer" and "cuda" in k.source]
    return max(rates, default=None)


def _host_copy_gb_per_s(platform: Platform) -> float | None:
    """Bytes read and written by copies within host memory."""
    rates = [
        2 * k.bandwidth_bytes_per_s / 1e9
        for k in platform.links
        if k.memory == "local" and (k.source, k.target) == ("cpu", "cpu")
    ]
    return max(rates, default=None)
