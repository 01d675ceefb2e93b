"""Variables that CUDA and OpenMP read when they start; set on ``import graphsched`` if the user did not.

They are read once: OpenMP's when torch is imported, CUDA's when it is first used. What is set later has no effect.
"""

from __future__ import annotations

import os

WANTED = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",  # the default of 8 makes streams wait for each other
    "OMP_WAIT_POLICY": "passive",  # threads that spin for more work slow the dispatching thread on the core beside
}


def prepare() -> None:
    """Set what is not set."""
    for name, value in WANTED.items():
        os.environ.setdefault(name, value)
