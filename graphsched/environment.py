"""Variables that CUDA and OpenMP read when they start; one is set on ``import graphsched`` if the user did not.

They are read once: OpenMP's when torch is imported, CUDA's when it is first used. What is set later has no effect.
"""

from __future__ import annotations

import os

WANTED = {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}  # the default of 8 makes streams wait for each other
NOTED = (*WANTED, "OMP_WAIT_POLICY")
"""What measured figures are recorded with. How OpenMP's threads wait is the user's to say: told to sleep at once
(``passive``) those of a CPU lane take two to eight times as long for small tasks (docs/readings.md)."""


def prepare() -> None:
    """Set what is not set."""
    for name, value in WANTED.items():
        os.environ.setdefault(name, value)


def noted() -> dict[str, str | None]:
    """The values of `NOTED`, by names in lower case; None: not set."""
    return {name.lower(): os.environ.get(name) for name in NOTED}
