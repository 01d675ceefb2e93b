"""What every split needs: a traced workload, and devices each named once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphsched.errors import WorkloadError
from graphsched.workload import Workload


def check_request(work: Workload, devices: Sequence[str], *, least: Literal[1, 2] = 1) -> None:
    """Make sure that `work` was traced, and that `devices` are a list of at least so many, each once.

    Raises:
        WorkloadError: One is not so.
    """
    if not isinstance(work, Workload):
        raise WorkloadError(
            f"a {type(work).__name__} was given: a workload is needed, which gs.trace makes of a module"
        )
    if work.source is None:
        raise WorkloadError(
            f"workload {work.name!r} was built by hand, it was not traced: only what gs.trace has made can be split"
        )
    if isinstance(devices, str) or len(devices) < least or len(set(devices)) < len(devices):
        number = "one device" if least == 1 else "two"
        raise WorkloadError(f"devices are {devices!r}: name {number} or more, different devices, each once")
