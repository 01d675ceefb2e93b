"""How many bytes were used since a value was used last, each value counted once: reuse distances.

Sums over times of use are kept in a Fenwick tree, so that a use or a distance costs the logarithm of all uses.

Source: Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 9 (1970); Fenwick, A new data
structure for cumulative frequency tables, Software: Practice and Experience 24 (1994).
"""

from __future__ import annotations

from math import inf


class Recency:
    """Values by when they were used last.

    Example:
        >>> recency = Recency()
        >>> for name, nbytes in (("a", 4), ("b", 10), ("b", 10), ("c", 1)):
        ...     recency.use(name, nbytes)
        >>> [recency.distance(name) for name in "abcd"]  # its own bytes, and those of what was used since
        [15, 11, 1, inf]
    """

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        self._nbytes: dict[str, int] = {}
        self._all = 0
        self._sums = [0]  # of the bytes that were used last at each place, as the tree keeps them

    def use(self, name: str, nbytes: int) -> None:
        """Use `nbytes` of a value: it is the latest from now on."""
        place = self._place.get(name)
        if place is not None:
            self._add(place, -self._nbytes[name])
        self._append(nbytes)
        self._place[name], self._nbytes[name] = len(self._sums) - 1, nbytes

    def distance(self, name: str) -> float:
        """Bytes that were used since each byte of a value was, this one included; inf if it never was."""
        place = self._place.get(name)
        return inf if place is None else self._all - self._before(place)

    def _append(self, nbytes: int) -> None:
        place, low = len(self._sums), len(self._sums) - 1
        total = nbytes
        while low > place - (place & -place):
            total += self._sums[low]
            low -= low & -low
        self._sums.append(total)
        self._all += nbytes

    def _add(self, place: int, nbytes: int) -> None:
        self._all += nbytes
        while place < len(self._sums):
            self._sums[place] += nbytes
            place += place & -place

    def _before(self, place: int) -> int:
        found, place = 0, place - 1
        while place:
            found += self._sums[place]
            place -= place & -place
        return found
