"""What host this is: devices, versions, and what has changed since they were last looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphsched.executors.kept_memory import memory_kept
from graphsched.processes import cores


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host as far as measured figures depend on it.

    Attributes:
        processor: Name of the CPU.
        cores: Hardware threads that this process may use.
        torch, cuda, driver: Versions; None where there is no such thing.
        gpus: Names of the GPUs, in CUDA's order.
        gpu_count: Number of distinct GPUs by their unique ids.
        freed_memory: What becomes of the host's as tensors end: ``kept`` for others, or ``returned`` to the system.
        wait_policy: How OpenMP's threads wait for work, ``OMP_WAIT_POLICY``; ``default``: they look for a while.
    """

    processor: str
    cores: int
    torch: str
    cuda: str | None = None
    driver: str | None = None
    gpus: tuple[str, ...] = ()
    gpu_count: int = 0
    freed_memory: str = "kept"
    wait_policy: str = "default"

    def fingerprint(self) -> dict[str, Any]:
        """For JSON: what must be the same for a kept platform to be used again."""
        return asdict(self) | {"gpus": list(self.gpus)}


def host_facts() -> HostFacts:
    """The facts of this host."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    properties: list[Any] = [torch.cuda.get_device_properties(i) for i in range(count)]
    return HostFacts(
        processor=processor_name(_text("/proc/cpuinfo")),
        cores=cores(),
        torch=str(torch.__version__),
        cuda=torch.version.cuda if count else None,
        driver=installed_driver() if count else None,
        gpus=tuple(p.name for p in properties),
        gpu_count=len({str(getattr(p, "uuid", i)) for i, p in enumerate(properties)}),
        freed_memory=freed_memory(),
        wait_policy=wait_policy(),
    )


def freed_memory() -> str:
    """``kept`` or ``returned``: what becomes of freed memory in programs and calibration."""
    return "kept" if memory_kept() else "returned"


def wait_policy() -> str:
    """``OMP_WAIT_POLICY``, by which OpenMP's threads wait for work: ``default``, ``passive`` or ``active``."""
    return "_".join(os.environ.get("OMP_WAIT_POLICY", "").lower().split()) or "default"


def host_memory_bytes() -> int:
    """Size of the host's memory, 0 if the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def processor_name(cpuinfo: str) -> str:
    """Name of the processor in the text of ``/proc/cpuinfo``.

    Example:
        >>> processor_name("processor : 0\\nmodel name : AMD  EPYC 9654 ")
        'AMD EPYC 9654'
        >>> processor_name("")
        'CPU'
    """
    found = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return " ".join(found.group(1).split()) if found else "CPU"


def installed_driver() -> str | None:
    """Version of the NVIDIA driver of this host; None where there is none."""
    return driver_version(_text("/proc/driver/nvidia/version"))


def driver_version(text: str) -> str | None:
    """Version in the text of ``/proc/driver/nvidia/version``.

    Example:
        >>> driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23")
        '580.95.05'
    """
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found.group(1) if found else None


def cpu_model(processor: str, threads: int) -> str:
    """What costs on a CPU lane are filed under.

    Example:
        >>> cpu_model("AMD EPYC", 1)
        'AMD EPYC, 1 thread'
    """
    return f"{processor}, {threads} thread{'' if threads == 1 else 's'}"


def platform_name(facts: HostFacts) -> str:
    """A short name: GPUs and their number, or CPU and cores.

    Example:
        >>> platform_name(HostFacts("EPYC", 64, "2.11", gpus=("NVIDIA H200",) * 4))
        'h200-x4'
        >>> platform_name(HostFacts("EPYC", 2, "2.11"))
        'cpu-x2'
    """
    if not facts.gpus:
        return f"cpu-x{facts.cores}"
    stem = re.sub(r"^(NVIDIA|Tesla|GeForce|AMD)\s+", "", facts.gpus[0])
    return f"{re.sub(r'[^a-z0-9]+', '-', stem.lower()).strip('-')}-x{len(facts.gpus)}"


def changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, in words.

    Example:
        >>> changes({"cores": 4, "torch": "2.11"}, {"cores": 8, "torch": "2.11"})
        ['cores was 4, is 8']
    """
    keys = [*now, *(k for k in stored if k not in now)]
    return [f"{k} was {stored.get(k)}, is {now.get(k)}" for k in keys if stored.get(k) != now.get(k)]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
