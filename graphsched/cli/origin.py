"""Where a platform's figures come from, as far as a reader of predictions must know."""

from __future__ import annotations

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
    for device in platform.devices:
        if device.kind != "cuda":
            continue
        number = device.name.rpartition(":")[2]
        if not number.isdigit() or int(number) >= len(here):
            raise PlatformError(
                f"platform {platform.name!r} has {device.name}, this host has {len(here)} GPU(s): "
                "predict instead of run, or leave out --platform"
            )
        if device.model and device.model != here[int(number)]:
            raise PlatformError(
                f"{device.name} of platform {platform.name!r} is {device.model!r}, this host's is "
                f"{here[int(number)]!r}: predict instead of run, or leave out --platform"
            )
