"""Row 11: what the hardware is said to do, and what it does."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

import graphsched as gs
from experiments._shared import SEED, called, check_sizes
from graphsched.calibration.nominal import sheet_of
from graphsched.charts import draw_platform

PCIE_BYTES_PER_S, PCIE_LATENCY_S = 32e9, 5e-6
NVLINK_BYTES_PER_S = 6 * 300e9 / 8  # six links of 300 Gbit/s
LARGE_BYTES = 2**20  # below it a latency counts, and the text gives none for NVLink
WORDS = {"pinned": "pinned memory", "pageable": "pageable memory", "fresh": "new memory", "staged": "via the host"}


@gs.experiment(source="d2l.ai 12.4", pictures=draw_platform)
def hardware(
    platform: gs.Platform, sizes: tuple[int, ...] = (4096, 2**20, 2**26), devices: int = 0
) -> Iterator[gs.Case]:
    """Time a transfer of every size over every link, beside what the text and the vendor say.

    From and to pinned memory for each accelerator, between each two of them, and for the first also with pageable
    memory (used before and new; to a GPU only what came from one lies there, so it goes there and back). The
    prediction is the platform's; ``latency_s`` and ``rate_bytes_per_s`` are the link's as calibrated, beside the
    text's (``text_…``) and the vendor's (``vendor_…``). ``graphsched measure`` prints the whole table, launches and
    waits included, and a run draws every link's bandwidth against size and a map of device pairs.

    Source: d2l.ai 12.4 gives 32 GB/s and 5 µs for PCIe 4.0 ×16, and six links of 300 Gbit/s for the NVLink of a
    V100; a case's figure is what these make of its size (NVLink: from 1 MiB on, without a latency). Its Ethernet,
    disks and SSDs are in no plan.
    """
    check_sizes(sizes=sizes)
    names = platform.accelerators(devices or None)
    first, others = names[0], [(a, b) for a in names for b in names if a != b]
    for nbytes in sizes:
        for name in names:
            yield _transfer(platform, "cpu", name, "pinned", nbytes)
            yield _transfer(platform, name, "cpu", "pinned", nbytes)
        for memory in ("pageable", "fresh"):
            yield _transfer(platform, first, "cpu", memory, nbytes)
        yield _there_and_back(first, nbytes)
        for source, target in others:
            yield _transfer(platform, source, target, "peer", nbytes)


def _transfer(platform: gs.Platform, source: str, target: str, memory: str, nbytes: int) -> gs.Case:
    """One copy, timed alone; without peer access it goes through the host, as the platform says."""
    link = platform.link(source, target, memory)
    work = gs.Workload("hardware")
    value = work.input("x", _random_bytes(nbytes), device=source)
    work.copy(value, to=target, name="copy", pinned=memory in ("pinned", "peer"), fresh=memory == "fresh")
    kind = memory if "cpu" in (source, target) else link.memory
    where = ", ".join([f"{called(source)} to {called(target)}", *([WORDS[kind]] if kind in WORDS else [])])
    label = f"{where}, {_size(nbytes)}"
    metrics = functools.partial(_figures, platform, link)
    return gs.Case(label, work, scheduler="one_stream", reported_s=_text_s(link, nbytes), metrics=metrics)


def _there_and_back(device: str, nbytes: int) -> gs.Case:
    """x ──▶ host, pageable ──▶ back"""
    work = gs.Workload("hardware")
    value = work.input("x", _random_bytes(nbytes), device=device)
    there = work.copy(value, to="cpu", name="out")
    work.copy(there, to=device, name="back")
    label = f"{called(device)} to CPU and back, {WORDS['pageable']}, {_size(nbytes)}"
    return gs.Case(label, work, scheduler="one_stream")


def _text_s(link: gs.Link, nbytes: int) -> float | None:
    """What the text's figures make of a transfer; None for what it gives none for."""
    if "cuda" not in link.source + link.target:
        return None
    if link.memory == "peer":
        return nbytes / NVLINK_BYTES_PER_S if nbytes >= LARGE_BYTES else None
    return PCIE_LATENCY_S + nbytes / PCIE_BYTES_PER_S if link.memory == "pinned" else None


def _figures(platform: gs.Platform, link: gs.Link) -> dict[str, float]:
    """Latency and rate of `link` as calibrated, beside nominal ones."""
    found = {"latency_s": link.latency_s, "rate_bytes_per_s": link.bandwidth_bytes_per_s}
    sheet = sheet_of(platform)
    if sheet is None:
        return found
    if link.memory == "peer":
        rates = {"text_bytes_per_s": NVLINK_BYTES_PER_S, "vendor_bytes_per_s": sheet.nvlink_gb_per_s * 1e9}
        return found | rates
    rates = {"text_bytes_per_s": PCIE_BYTES_PER_S, "vendor_bytes_per_s": sheet.pcie_gb_per_s * 1e9}
    return found | {"text_latency_s": PCIE_LATENCY_S} | rates


@functools.cache
def _random_bytes(nbytes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(0, 256, (nbytes,), dtype=torch.uint8, generator=generator)


def _size(nbytes: int) -> str:
    """A size for labels.

    Example:
        >>> _size(4096), _size(2**26), _size(1000)
        ('4 KiB', '64 MiB', '1000 bytes')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes % size == 0:
            return f"{nbytes // size} {unit}"
    return f"{nbytes} byte{'s' if nbytes > 1 else ''}"
