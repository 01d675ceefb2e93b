"""What a run depends on beside the platform: versions of software and driver."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from graphsched.environment import noted


def environment() -> dict[str, Any]:
    """Versions of graphsched, Python, torch, CUDA and its driver; None for what is not here."""
    import torch

    from graphsched.calibration.host import installed_driver

    return {
        "graphsched": sys.modules["graphsched"].__version__,  # also where it runs without being installed
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": _version("numpy"),
        "simpy": _version("simpy"),
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "cudnn": torch.backends.cudnn.version() if torch.cuda.is_available() else None,  # type: ignore[no-untyped-call]
        "driver": installed_driver(),
        "system": f"{platform.system()} {platform.machine()}",
        **noted(),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
