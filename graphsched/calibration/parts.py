"""Names of the parts of a calibration, in order, so that a bar can show how much of it is done."""

from __future__ import annotations


def calibration_parts(gpus: int) -> list[str]:
    """What `measure_platform` reports on a host with so many GPUs.

    Example:
        >>> calibration_parts(0)
        ['memory copies', 'arithmetic', 'dispatch']
    """
    if not gpus:
        return ["memory copies", "arithmetic", "dispatch"]
    each = [f"host memory and cuda:{i}" for i in range(gpus)]
    beside = ["kernels beside copies", "tasks of the CPU beside copies", "copies of what the CPU has just written"]
    behind = ["host memory", "graphs behind tasks of the CPU", "shared capacities"]
    return ["dispatch", "arithmetic", "first use of every pair", *each, *behind, *beside]


def check_parts(gpus: int) -> list[str]:
    """What `check_platform` reports.

    Example:
        >>> check_parts(0)
        ['memory copies', 'arithmetic', 'host dispatch']
    """
    if not gpus:
        return ["memory copies", "arithmetic", "host dispatch"]
    return ["links", "transfers together", "arithmetic", "dispatch", "host dispatch"]
