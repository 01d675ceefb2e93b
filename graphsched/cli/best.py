"""Which case of each group is the best, as predicted and as measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Best = Mapping[str, Any]
Figures = Mapping[str, Any]

MOST_NAMES = 3


def best_of_groups(cases: Iterable[tuple[str, Figures]]) -> list[Best]:
    """The fastest of each group.

    Args:
        cases: Group and figures of each case; cases of no group (an empty name) compete with none.

    Returns:
        For each group of several cases `group`, `predicted` and `measured`: labels of the fastest; `estimated`: whether
        that prediction rests on a cost that was neither measured nor given; `alike`: labels of the others that were
        measured to be as fast within noise (see `records.concordance.beyond_noise`); and `lost`: by how much longer the
        one predicted to be the fastest was measured to take, as a fraction of the fastest. None where nothing is known.

    Example:
        >>> figures = [{"label": "1 GPU", "predicted_s": 2.0, "measured_s": 2.2, "spread": 0.01},
        ...            {"label": "2 GPUs", "predicted_s": 1.9, "measured_s": 2.4, "spread": 0.01}]
        >>> for best in best_of_groups(("LeNet", figure) for figure in figures):
        ...     print(best["predicted"], "|", best["measured"], "|", best["alike"], "|", round(best["lost"], 3))
        2 GPUs | 1 GPU | [] | 0.091
    """
    groups: dict[str, list[Figures]] = {}
    for group, figures in cases:
        if group:
            groups.setdefault(group, []).append(figures)
    return [_best(group, competing) for group, competing in groups.items() if len(competing) > 1]


def _best(group: str, competing: Sequence[Figures]) -> Best:
    planned = [figures for figures in competing if figures["predicted_s"] is not None]
    predicted = _least(planned, "predicted_s")
    measured = _least(planned, "measured_s")
    lost = None
    if predicted and measured and predicted["measured_s"]:
        lost = predicted["measured_s"] / measured["measured_s"] - 1.0
    return {
        "group": group,
        "predicted": predicted["label"] if predicted else None,
        "measured": measured["label"] if measured else None,
        "estimated": bool(predicted and predicted.get("estimated")),
        "alike": [
            case["label"] for case in planned if measured and case is not measured and same_within_noise(case, measured)
        ],
        "lost": lost,
    }


def _least(figures: Sequence[Figures], key: str) -> Figures | None:
    known = [case for case in figures if case.get(key) is not None]
    return min(known, key=lambda case: float(case[key])) if known else None


def same_within_noise(one: Figures, other: Figures) -> bool:
    """Whether both cases were measured, and the times that they took differ by no more than noise.

    Example:
        >>> same_within_noise({"measured_s": 1.0, "spread": 0.02}, {"measured_s": 1.03, "spread": None})
        True
    """
    from graphsched.records.concordance import beyond_noise

    if one.get("measured_s") is None or other.get("measured_s") is None:
        return False
    spread = max(one.get("spread") or 0.0, other.get("spread") or 0.0)
    return not beyond_noise(one["measured_s"], other["measured_s"], spread)


def in_words(best: Best) -> str:
    """A line for people; what is lost within noise is not told.

    Example:
        >>> found = {"group": "LeNet", "predicted": "2 GPUs", "measured": "1 GPU", "alike": [], "lost": 0.0913}
        >>> found |= {"estimated": False}
        >>> in_words(found)
        'best of LeNet: 2 GPUs as predicted, 1 GPU as measured; 9.1 % lost'
        >>> in_words(found | {"alike": ["2 GPUs"], "lost": 0.02})
        'best of LeNet: 2 GPUs as predicted; 1 GPU and 2 GPUs are the same within noise as measured'
        >>> in_words(found | {"measured": None, "lost": None})
        'best of LeNet: 2 GPUs as predicted'
        >>> in_words(found | {"measured": None, "lost": None, "estimated": True})
        'best of LeNet: 2 GPUs as predicted (by estimates)'
    """
    predicted = "predicted (by estimates)" if best["estimated"] else "predicted"
    words = {"predicted": predicted, "measured": "measured"}
    found = [f"{best[how]} as {told}" for how, told in words.items() if best[how] is not None]
    if best["alike"]:
        same = [best["measured"], *best["alike"]]
        found = [*found[:-1], f"{listed(same)} are the same within noise as measured"]
        return f"best of {best['group']}: {'; '.join(found)}{'' if best['predicted'] in same else _lost(best)}"
    if best["predicted"] is not None and best["predicted"] == best["measured"]:
        found = [f"{best['predicted']}, as {predicted} and as measured"]
    return f"best of {best['group']}: {', '.join(found) or 'nothing known'}{_lost(best)}"


def _lost(best: Best) -> str:
    return f"; {100 * best['lost']:.1f} % lost" if best["lost"] else ""


def listed(names: Sequence[str]) -> str:
    """Some names as people list them.

    Example:
        >>> listed(["a", "b"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e"])
        ('a and b', 'a, b and c', 'a, b, c and 2 more')
        >>> listed(["a"])
        'a'
    """
    if len(names) == 1:
        return names[0]
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"
