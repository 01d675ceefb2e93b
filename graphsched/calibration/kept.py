"""This host's platform, measured once and kept until the host changes."""

from __future__ import annotations

import warnings
from pathlib import Path

from graphsched.calibration.cache import cache_folder, keep, load_kept
from graphsched.calibration.host import changes, host_facts
from graphsched.calibration.measuring import measure_platform
from graphsched.errors import CostError, FileFormatError, PlatformError, PlatformWarning
from graphsched.platform import Platform


def platform_path() -> Path:
    """The file that this host's platform is kept in."""
    return cache_folder() / "platform.json"


def local_platform(*, refresh: bool = False, quick: bool = False) -> Platform:
    """This host's platform: the one kept in the cache folder, else measured and kept.

    It is measured anew when it was measured quickly and `quick` is not set, and when the host has
    changed, with a `PlatformWarning` that says what did.

    Args:
        refresh: Measure in any case.
        quick: A quick measurement is enough.

    Raises:
        PlatformError: Copied data arrived changed.
    """
    kept: Platform | None = None if refresh else load_kept(platform_path(), _parse)
    if kept is not None and _still_valid(kept) and (quick or not kept.provenance.get("quick")):
        return kept
    measured = measure_platform(quick=quick)
    keep(platform_path(), measured.to_dict())
    return measured


def _parse(data: object) -> Platform:
    try:
        return Platform.from_dict(data)
    except (PlatformError, CostError) as error:
        raise FileFormatError(str(error)) from error


def _still_valid(kept: Platform) -> bool:
    changed = changes(kept.provenance.get("fingerprint", {}), host_facts().fingerprint())
    if changed:
        text = f"the host has changed since it was measured: {'; '.join(changed)}: it is measured anew"
        warnings.warn(text, PlatformWarning, stacklevel=3)
    return not changed
