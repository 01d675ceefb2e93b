"""Memory of the C library, kept for the results of the next run.

glibc gives large blocks back to the system as they are freed, and gets others for the next run, whose pages the system
clears as they are first written: a CPU task that writes 16 MB waits longer for its pages than for its arithmetic, or
does not, as the blocks fall. torch takes the memory of CPU tensors from there and keeps none itself.

Programs and calibration have glibc keep what is freed, as torch does on GPUs, in one arena that all threads share; the
end of a program gives back what is free then. Both hold for the whole process. A user who has set glibc's own variables
(``GLIBC_TUNABLES`` with ``glibc.malloc``, ``MALLOC_ARENA_MAX`` and so on) decides.

Not modelled: other C libraries and allocators, which do as they do. Arenas of threads that began before: those that
share them keep blocks up to 64 MB.

Source: glibc's manual, "Malloc Tunable Parameters".
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from collections.abc import Mapping

VARIABLES = (
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
)
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX, ARENA_MAX = -1, -2, -4, -8  # numbers of parameters in malloc.h
SETTINGS = {
    ARENA_MAX: 1,  # else lanes take turns to write new pages of arenas of their own
    MMAP_MAX: 0,  # no block has a mapping of its own, which ends as it is freed
    TRIM_THRESHOLD: -1,  # what is free at the end of the heap stays
    TOP_PAD: 2**26,  # the last heap of an arena that began before stays
}


@functools.cache
def keep_memory() -> None:
    """Have the C library keep what is freed, from now on."""
    if memory_kept():
        library = ctypes.CDLL(None)
        for number, value in SETTINGS.items():
            library.mallopt(number, value)


def give_memory_back() -> None:
    """Give the system what is free now, where it is kept."""
    if memory_kept():
        ctypes.CDLL(None).malloc_trim(0)


@functools.cache
def memory_kept() -> bool:
    """Whether programs and calibration of this process keep what is freed."""
    return on_glibc() and not told_otherwise(os.environ)


def told_otherwise(environment: Mapping[str, str]) -> bool:
    """Whether the user has told glibc what to keep.

    Example:
        >>> told_otherwise({"MALLOC_ARENA_MAX": "2"}), told_otherwise({"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2"})
        (True, False)
    """
    return "glibc.malloc." in environment.get("GLIBC_TUNABLES", "") or any(name in environment for name in VARIABLES)


def on_glibc() -> bool:
    """Whether this process's C library is glibc."""
    return platform.libc_ver()[0] == "glibc"
