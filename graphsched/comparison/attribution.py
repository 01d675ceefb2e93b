"""What an error comes from, class by class, so that the parts add up to it.

The plan is simulated again with the measured value of one class (compute times, transfer times, dispatch,
waits) in place of the modelled one. What that changes depends on what else has been replaced already: a
transfer's error is hidden while a longer kernel runs beside it. A class is therefore worth its Shapley
value, the mean change over all orders in which the classes can be replaced: the same for every numbering
of the classes, 0 for a class that never changes anything, and in all the whole change. Four classes make
16 simulations; plans of more than `LARGE` actions take the mean of one order and its reverse, 8 simulations.

The measured spans are of the run with timing events, so the classes explain the error of that run; what
the error of the makespan without events differs from that by is the part ``timing events``. What replacing
all classes leaves is ``rest``.

Not modelled: which of two classes is to blame where only their sum can be measured (see
`simulator.substitution`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import NamedTuple

from graphsched.comparison.details import largest
from graphsched.comparison.errors import relative_error
from graphsched.simulator.substitution import TERMS, Substitution, Term
from graphsched.timeline import Timeline

LARGE = 5_000  # actions from which on two orders must do
LARGEST = 200_000  # actions beyond which nothing is simulated again
SAME_S = 1e-9  # two simulations of one plan that are as near as that, relatively, are the same


class Part(NamedTuple):
    """Part of an error: `share` is signed, of the measured makespan; `detail` names what adds most to it."""

    name: str
    share: float
    detail: str = ""


@dataclass(frozen=True)
class Attribution:
    """The parts of an error.

    Attributes:
        parts: ``compute``, ``transfers``, ``dispatch``, ``waits``, ``timing events``, ``rest``.

    Example:
        >>> parts = Part("transfers", 0.036, "D2H cuda:1"), Part("compute", 0.004), Part("rest", 0.001)
        >>> print(Attribution(parts))
        error +4.10 %: transfers +3.60 (D2H cuda:1), compute +0.40, rest +0.10
    """

    parts: tuple[Part, ...]

    @property
    def error(self) -> float:
        """The sum of the parts: predicted / measured - 1 of the makespans without timing events."""
        return math.fsum(part.share for part in self.parts)

    def figures(self) -> dict[str, float]:
        """Share by part, for JSON."""
        return {part.name: part.share for part in self.parts}

    def __str__(self) -> str:
        shown = [part for part in self.parts if round(part.share * 100, 2)]
        ordered = sorted(shown, key=lambda part: (part.name in ("timing events", "rest"), -abs(part.share)))
        return f"error {_points(self.error)} %: {', '.join(map(_part_text, ordered)) or 'none'}"


def _part_text(part: Part) -> str:
    return f"{part.name} {_points(part.share)}" + (f" ({part.detail})" if part.detail else "")


def _points(share: float) -> str:
    return f"{round(share * 100, 2) or 0.0:+.2f}"


def attribute(predicted: Timeline, measured: Timeline) -> Attribution | None:
    """The parts of the error of `predicted` against `measured`, two timelines of one plan.

    Returns:
        None where the simulator, with all terms of its model, does not say what `predicted` says (it
        was made with terms switched off, for several steps, in another way), and for plans of more
        than `LARGEST` actions.

    Source: L. Shapley, A value for n-person games, 1953.
    """
    if not 0 < len(measured) <= LARGEST or not measured.timed_makespan_s or not measured.makespan_s:
        return None
    swap = Substitution(measured)
    modelled_s = swap.makespan_s(())
    if abs(modelled_s - predicted.timed_makespan_s) > SAME_S * modelled_s:
        return None
    whole_s = measured.timed_makespan_s
    values = shapley(TERMS, lambda terms: modelled_s - swap.makespan_s(terms) if terms else 0.0, _orders(len(measured)))
    named = largest(values, swap, predicted, measured)
    found = [Part(term, values[term] / whole_s, named[term]) for term in TERMS]
    error = relative_error(predicted.makespan_s, measured.makespan_s)
    timed = relative_error(predicted.timed_makespan_s, whole_s)
    found.append(Part("timing events", error - timed))
    return Attribution((*found, Part("rest", math.fsum([error, *(-part.share for part in found)]))))


def _orders(actions: int) -> Sequence[tuple[Term, ...]]:
    return (TERMS, TERMS[::-1]) if actions > LARGE else tuple(permutations(TERMS))


def shapley(
    players: Sequence[Term],
    worth: Callable[[tuple[Term, ...]], float],
    orders: Sequence[tuple[Term, ...]],
) -> dict[Term, float]:
    """What each of `players` adds to the worth of those before it, the mean over `orders`.

    Args:
        players: All of them.
        worth: What some of them, in the order of `players`, are worth together.
        orders: Of all players; all orders make the Shapley value.

    Example:
        >>> bonus = lambda terms: 1.0 * ("compute" in terms) + 2.0 * (len(terms) == 2)
        >>> two = ("compute", "waits")
        >>> shapley(two, bonus, (two, two[::-1]))
        {'compute': 2.0, 'waits': 1.0}
    """
    known = cache(worth)
    added: dict[Term, list[float]] = {player: [] for player in players}
    for order in orders:
        for k, player in enumerate(order):
            before, after = (tuple(p for p in players if p in order[:n]) for n in (k, k + 1))
            added[player].append(known(after) - known(before))
    return {player: math.fsum(values) / len(orders) for player, values in added.items()}
