"""The OpenMP team of a thread that hands tasks to CPU lanes: ended, so that the lanes' teams have the cores.

A thread that has computed in parallel keeps its team, asleep. GNU's OpenMP library counts the threads of all teams:
where there are more than cores, none looks for work between two parallel parts, the system has to wake each of them. So
a lane of 16 threads on 16 cores takes up to 5 times as long for a small task, only because the thread that dispatches
has computed something before (docs/cpu-lanes.md).

Not modelled: other threads of the user's that keep teams, lanes of other programs that are open, and libraries other
than GNU's.

Source: OpenMP API 5.0, 3.2.44 (``omp_pause_resource_all``).
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path

MAPS = Path("/proc/self/maps")  # Linux: the sixth field is a file's path, as the system has it, with its spaces
SOFT = 1  # omp_pause_soft: settings stay as they are


def end_own_team() -> None:
    """End the team of the calling thread, if it has one; its next parallel operation makes another.

    Takes some µs where there is none. Without effect where there is no such library.
    """
    pause = _pause()
    if pause is not None:
        pause(SOFT)


@functools.cache
def _pause() -> Callable[[int], int] | None:
    """GNU's function, where torch has loaded that library."""
    import torch  # noqa: F401

    try:
        paths = [os.fsdecode(line.split(maxsplit=5)[-1]) for line in MAPS.read_bytes().splitlines()]
        path = next(path for path in paths if "libgomp" in Path(path).name)
        return ctypes.CDLL(path).omp_pause_resource_all
    except (StopIteration, AttributeError, OSError):  # another library, an older one, no such file
        return None
