"""Links that something else used while they were measured.

Larger copies over one bus are no slower a byte than smaller ones: over the links of pinned memory and between GPUs that
were recorded while a host was quiet, rates fall by less than 3 % from a size to the next. Inside a device and within a
host's memory they do fall, where a cache no longer holds the copy, and over fresh or pageable memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphsched.platform.parts import HOST_MEMORY, Link
from graphsched.quantities import bytes_text

FALL = 0.03
RISING = ("pinned", "peer")  # memory of links whose rate does not fall, but for links within a host's memory


def falls(sizes_bytes: Sequence[int], seconds: Sequence[float]) -> tuple[int, ...]:
    """Places of the sizes that are slower, in bytes/s, than a smaller one by more than `FALL`.

    Example:
        >>> falls((1000, 2000, 4000, 8000), (1e-6, 2e-6, 6e-6, 8e-6))
        (2,)
    """
    found, best = [], 0.0
    for place, (nbytes, size_s) in enumerate(zip(sizes_bytes, seconds, strict=True)):
        rate = nbytes / size_s
        if rate < (1.0 - FALL) * best:
            found.append(place)
        best = max(best, rate)
    return tuple(found)


def disturbed(links: Iterable[Link]) -> tuple[str, ...]:
    """What to tell of links that were in use: one line each.

    Example:
        >>> print(*disturbed([Link("cuda:0", "cpu", "pinned", 1e-6, 5e9, (), False, (10**6, 10**9), (2e-5, 2.5e-2))]))
        cuda:0 to cpu (pinned): 40 GB/s at 1 GB, 50 GB/s at less: something else used it, measure again
    """
    lines = []
    for link in links:
        rising = link.memory in RISING and HOST_MEMORY not in link.crosses
        places = falls(link.sizes_bytes, link.seconds) if rising else ()
        if places:
            rates = [nbytes / size_s for nbytes, size_s in zip(link.sizes_bytes, link.seconds, strict=True)]
            worst = min(places, key=lambda place: rates[place] / max(rates[:place]))
            lines.append(
                f"{link.source} to {link.target} ({link.memory}): {bytes_text(rates[worst])}/s at "
                f"{bytes_text(link.sizes_bytes[worst])}, {bytes_text(max(rates[:worst]))}/s at less: something else "
                "used it, measure again"
            )
    return tuple(lines)
