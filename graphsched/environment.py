"""Variables that CUDA and OpenMP read once, when they start; set on ``import graphsched`` if the user did not.

They have no effect where torch was imported and used before.
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
