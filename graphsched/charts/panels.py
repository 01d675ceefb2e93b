"""What is drawn where: links of one kind make a series, series that compare make a panel."""

from __future__ import annotations

from dataclasses import dataclass

from graphsched.calibration.nominal import sheet_of
from graphsched.platform import Link, Platform

HOST, GPU = "host", "GPU"
TEXT_PCIE_BYTES_PER_S = 32e9  # d2l.ai 12.4, PCIe 4.0 x16


@dataclass(frozen=True)
class Series:
    """Links between two kinds of devices through one kind of memory."""

    label: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Panel:
    """Series that share axes, and the nominal rates to hold them against, in bytes/s by label."""

    title: str
    series: tuple[Series, ...]
    nominal: tuple[tuple[str, float], ...] = ()


def panels_of(platform: Platform) -> list[Panel]:
    """The panels that have something in them.

    Example:
        >>> [series.label for series in panels_of(Platform.load("h200-x1"))[0].series]
        ['host to GPU (1)', 'GPU to host (1)']
    """
    called = _called(platform)
    sheet = sheet_of(platform)
    pcie = (("PCIe, nominal", sheet.pcie_gb_per_s * 1e9 if sheet else TEXT_PCIE_BYTES_PER_S),)
    nvlink = (("NVLink, nominal", sheet.nvlink_gb_per_s * 1e9),) if sheet else ()
    memory = (("GPU memory, nominal (read and write)", sheet.memory_gb_per_s * 5e8),) if sheet else ()
    is_gpu_host = any(d.kind == "cuda" for d in platform.devices)
    found = [
        Panel(f"host and {called}s, pinned memory", _across(platform, "pinned"), pcie if is_gpu_host else ()),
        Panel(
            f"host and {called}s, pageable memory",
            _across(platform, "pageable", "used before") + _across(platform, "fresh", "new"),
        ),
        Panel(f"between {called}s", _between(platform), nvlink),
        Panel("within one memory", _within(platform), memory),
    ]
    return [panel for panel in found if panel.series]


def _called(platform: Platform) -> str:
    kinds = {platform.device(name).kind for name in platform.accelerators()}
    return GPU if kinds <= {"cuda"} else "worker" if kinds == {"worker"} else "accelerator"


def _across(platform: Platform, memory: str, word: str = "") -> tuple[Series, ...]:
    """Links with the host, each direction a series."""
    called, inside = _called(platform), f", {word}" if word else ""
    links = [k for k in platform.links if k.memory == memory and k.source != k.target]
    into = tuple(k for k in links if not platform.device(k.source).is_accelerator)
    out = tuple(k for k in links if platform.device(k.source).is_accelerator)
    return _series((f"{HOST} to {called}{inside}", into), (f"{called} to {HOST}{inside}", out))


def _between(platform: Platform) -> tuple[Series, ...]:
    peer = tuple(k for k in platform.links if k.memory == "peer" and k.source != k.target)
    staged = tuple(k for k in platform.links if k.memory == "staged")
    return _series(("directly", peer), ("staged through the host", staged))


def _within(platform: Platform) -> tuple[Series, ...]:
    same = [k for k in platform.links if k.source == k.target]
    gpu = tuple(k for k in same if platform.device(k.source).is_accelerator and k.memory == "local")
    warm = tuple(k for k in same if not platform.device(k.source).is_accelerator and k.memory == "local")
    fresh = tuple(k for k in same if not platform.device(k.source).is_accelerator and k.memory == "fresh")
    return _series((_called(platform), gpu), (HOST, warm), (f"{HOST}, new memory", fresh))


def _series(*named: tuple[str, tuple[Link, ...]]) -> tuple[Series, ...]:
    return tuple(Series(f"{label} ({len(links)})", links) for label, links in named if links)
