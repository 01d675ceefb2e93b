"""How many calls of other kinds lie between two of one kind.

A call that was made just before finds its code and the library's data in the processor's caches; one after
many others does not.
"""

from __future__ import annotations

from collections.abc import Sequence


def call_distances(kinds: Sequence[int], most: int) -> list[int]:
    """Of each call the number of other kinds that were called since the last one of its own, at most `most`.

    The sequence is taken to be repeated: before its first call comes its last.

    Example:
        >>> call_distances([0, 0, 1, 0, 2], most=9)
        [1, 0, 2, 1, 2]
        >>> call_distances([0, 1, 2], most=1)
        [1, 1, 1]
    """
    latest = list(dict.fromkeys(reversed(kinds)))[: most + 1]  # the last called first
    found = []
    for kind in kinds:
        place = latest.index(kind) if kind in latest else most
        found.append(min(place, most))
        if place < len(latest) and latest[place] == kind:
            del latest[place]
        latest.insert(0, kind)
        del latest[most + 1 :]
    return found
