"""Which case of each group is the best, as predicted and as measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Best = Mapping[str, Any]


def best_of_groups(cases: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Best]:
    """The fastest of each group.

    Args:
        cases: Group and figures of each case; cases of no group (an empty name) compete with none.

    Returns:
        For each group of several cases `group`, `predicted` and `measured`: labels of the fastest; and `lost`: by how
        much longer the one predicted to be the fastest was measured to take, as a fraction of the fastest. None where
        nothing is known.

    Example:
        >>> figures = [{"label": "1 GPU", "predicted_s": 2.0, "measured_s": 2.2},
        ...            {"label": "2 GPUs", "predicted_s": 1.9, "measured_s": 2.4}]
        >>> for best in best_of_groups(("LeNet", figure) for figure in figures):
        ...     print(best["predicted"], "|", best["measured"], "|", round(best["lost"], 3))
        2 GPUs | 1 GPU | 0.091
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for group, figures in cases:
        if group:
            groups.setdefault(group, []).append(figures)
    return [_best(group, competing) for group, competing in groups.items() if len(competing) > 1]


def _best(group: str, competing: Sequence[Mapping[str, Any]]) -> Best:
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
        "lost": lost,
    }


def _least(figures: Sequence[Mapping[str, Any]], key: str) -> Mapping[str, Any] | None:
    known = [case for case in figures if case.get(key) is not None]
    return min(known, key=lambda case: float(case[key])) if known else None


def in_words(best: Best) -> str:
    """A line for people.

    Example:
        >>> in_words({"group": "LeNet", "predicted": "2 GPUs", "measured": "1 GPU", "lost": 0.0913})
        'best of LeNet: 2 GPUs as predicted, 1 GPU as measured; 9.1 % lost'
        >>> in_words({"group": "LeNet", "predicted": "2 GPUs", "measured": None, "lost": None})
        'best of LeNet: 2 GPUs as predicted'
    """
    found = [f"{best[how]} as {how}" for how in ("predicted", "measured") if best[how] is not None]
    if best["predicted"] is not None and best["predicted"] == best["measured"]:
        found = [f"{best['predicted']}, as predicted and as measured"]
    lost = f"; {100 * best['lost']:.1f} % lost" if best["lost"] else ""
    return f"best of {best['group']}: {', '.join(found) or 'nothing known'}{lost}"
