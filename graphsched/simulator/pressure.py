"""What kernels in flight on one GPU cost each other.

Not modelled: copies and collectives beside kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LEAST = 0.05  # no block goes faster than its time alone times this: a guard, chosen and not measured
ROUNDS = 8  # towards the fixed point, each half the way: chosen
PAIR = 2

Copies = Mapping[int, Sequence[float]]
"""Of a kind the contention less 1 beside itself, by how many of it are in flight; more than listed: as the last."""

NONE: Copies = {}

_Row = tuple[int, float, list[tuple[int, float, float, float]]]


def slower(
    kinds: Sequence[int],
    parts: Sequence[float],
    reliefs: Sequence[float],
    excess: Mapping[tuple[int, int], float],
    copies: Copies = NONE,
) -> list[float]:
    """How many times longer the blocks of each take than alone.

    Args:
        kinds: Kinds of those in flight.
        parts: Of each, its blocks in flight over those in flight when it is alone.
        reliefs: Of each, time of a block with next to none of its own in flight, over that with all of them there.
        excess: Contention less 1, by (kind, kind beside it).
        copies: Of kinds beside themselves, where three or more of one are in flight.

    Each adds to the others what it costs them as a pair, times its speed now over its speed as one of
    that pair: who is held up presses less.

    Example:
        >>> slower([0, 1], [1.0, 1.0], [0.5, 0.5], {(0, 1): 0.5, (1, 0): 1.0})
        [1.5, 2.0]
        >>> three = slower([0, 0, 0], [1.0] * 3, [0.5] * 3, {(0, 0): 1.0})  # not 3: each presses less than in a pair
        >>> [round(factor, 2) for factor in three]
        [2.56, 2.56, 2.56]
    """
    if len(kinds) == 1:
        return [max(reliefs[0], parts[0])]
    if len(kinds) != 2:
        return _several(kinds, parts, reliefs, excess, copies)
    (a, b), (part_a, part_b) = kinds, parts
    slower_a = max(reliefs[0], part_a) + part_b * excess.get((a, b), 0.0)
    slower_b = max(reliefs[1], part_b) + part_a * excess.get((b, a), 0.0)
    return [max(LEAST, slower_a), max(LEAST, slower_b)]


def _several(
    kinds: Sequence[int],
    parts: Sequence[float],
    reliefs: Sequence[float],
    excess: Mapping[tuple[int, int], float],
    copies: Copies,
) -> list[float]:
    rows = _rows(kinds, parts, reliefs, excess, _among_copies(kinds, copies))
    factors = [max(LEAST, own + sum([cost for _, cost, _, _ in row])) for _, own, row in rows]
    for _ in range(ROUNDS):
        pressed = factors.copy()
        for a, longer, row in rows:
            for b, cost, limit, product in row:
                factor = factors[b]
                longer += cost if factor <= limit else product / factor
            pressed[a] = (pressed[a] + (longer if longer > LEAST else LEAST)) / 2.0
        factors = pressed
    return factors


def _among_copies(kinds: Sequence[int], copies: Copies) -> dict[int, float]:
    """Contention less 1 beside itself, of each kind of which three or more are in flight and it is known."""
    found = {}
    for kind in copies:
        number = kinds.count(kind)
        if number > PAIR:
            found[kind] = copies[kind][min(number, len(copies[kind]) - 1)]
    return found


def _rows(
    kinds: Sequence[int],
    parts: Sequence[float],
    reliefs: Sequence[float],
    excess: Mapping[tuple[int, int], float],
    among: Mapping[int, float],
) -> list[_Row]:
    """Of each: its own factor, and of each that costs it something (place, cost, factor in that pair, product)."""
    own = [part if part > relief else relief for part, relief in zip(parts, reliefs, strict=True)]
    rows = []
    for a, kind in enumerate(kinds):
        row = []
        for b, other in enumerate(kinds):
            cost = excess.get((kind, other), 0.0)
            if kind == other:
                cost = among.get(kind, cost)
            if b != a and cost:
                cost *= parts[b]
                pair = own[b] + parts[a] * excess.get((other, kind), 0.0)
                if pair < LEAST:
                    pair = LEAST
                row.append((b, cost, pair, cost * pair))
        rows.append((a, own[a], row))
    return rows
