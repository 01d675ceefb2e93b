"""Where a platform's figures come from, as far as a reader of predictions must know."""

from __future__ import annotations

import os
from collections.abc import Mapping

from graphsched.errors import PlatformError
from graphsched.platform import Platform


def platform_notes(platform: Platform) -> tuple[str, ...]:
    """That a platform is derived, and how; that it is another host's, and what differs from this one."""
    from graphsched.calibration.host import changes, host_facts

    stored = platform.provenance.get("fingerprint")
    if not isinstance(stored, Mapping):
        return platform.notes
    changed = changes(stored, host_facts().fingerprint())
    return (*platform.notes, *([f"figures of another host: {'; '.join(changed)}"] if changed else []))


def check_gpus_here(platform: Platform) -> None:
    """Make sure that every GPU of `platform` is in this host, and of the same model.

    Raises:
        PlatformError: One is not.
    """
    from graphsched.calibration.host import host_facts

    here = host_facts().gpus
    numbers = {d.name: d.name.rpartition(":")[2] for d in platform.devices if d.kind == "cuda"}
    missing = [name for name, number in numbers.items() if not number.isdigit() or int(number) >= len(here)]
    if missing:
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise PlatformError(
            f"platform {platform.name!r} has {', '.join(missing)}, this host has {len(here)} GPU(s), "
            f"CUDA_VISIBLE_DEVICES is {'not set' if shown is None else repr(shown)}: predict instead of run, or leave "
            "out --platform"
        )
    for device in platform.devices:
        if device.kind == "cuda" and device.model and device.model != here[int(numbers[device.name])]:
            raise PlatformError(
                f"{device.name} of platform {platform.name!r} is {device.model!r}, this host's is "
                f"{here[int(numbers[device.name])]!r}: predict instead of run, or leave out --platform"
            )
