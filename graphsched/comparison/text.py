"""A comparison as a plain table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphsched.comparison.errors import NOISY_SPREAD
from graphsched.quantities import percent_text, seconds_text

if TYPE_CHECKING:
    from graphsched.comparison.model import Comparison

NAMED = 3  # estimates that the notes list by name


def comparison_text(c: Comparison) -> str:
    """Makespans with their error, spread and interval, what the error comes from, errors of actions, notes."""
    return "\n".join([*_makespan_lines(c), *_cause_lines(c), *_error_lines(c), *_worst_lines(c), *_note_lines(c)])


def _makespan_lines(c: Comparison) -> list[str]:
    spread = "" if c.spread is None else f"±{c.spread:.2%}".replace("%", " %")
    error = percent_text(c.makespan_error)
    head = f"{'':<12}{'predicted':>12}{'measured':>12}{'error':>11}{'spread':>11}"
    figures = f"{seconds_text(c.predicted.makespan_s):>12}{seconds_text(c.measured.makespan_s):>12}"
    flag = f"  noisy: over {NOISY_SPREAD:.0%}".replace("%", " %") if c.noisy else ""
    lines = [head.rstrip(), f"{'makespan':<12}{figures}{error:>11}{spread:>11}".rstrip() + flag]
    if c.predicted.interval_s is not None:
        low, high = (seconds_text(end) for end in c.predicted.interval_s)
        lines.append(f"{'90 %':<12}{low:>12} to {high}; measured {'inside' if c.inside else 'outside'}")
    if c.lower_bound_s is not None:
        lines.append(f"{'lower bound':<12}{seconds_text(c.lower_bound_s):>12}")
    return lines


def _cause_lines(c: Comparison) -> list[str]:
    return [] if c.attribution is None else ["", str(c.attribution)]


def _error_lines(c: Comparison) -> list[str]:
    whole = seconds_text(c.measured.timed_makespan_s)
    lines = ["", f"{'error of':<12}{'median':>12}{'p95':>12}{'max':>11}   shares of {whole}, the timed makespan"]
    for name, figures in (("starts", c.task_start_error), ("ends", c.task_end_error)):
        median, p95, worst = (f"{share * 100:.2f} %" for share in figures.values())
        lines.append(f"{name:<12}{median:>12}{p95:>12}{worst:>11}")
    return lines


def _worst_lines(c: Comparison) -> list[str]:
    rows = c.worst()
    if not rows:
        return []
    names = max(len("worst action"), *(len(row.action) for row in rows))
    lanes = max(len("lane"), *(len(row.lane) for row in rows))
    lines = ["", f"{'worst action':<{names}}  {'lane':<{lanes}}{'start':>11}{'end':>11}"]
    for row in rows:
        errors = f"{percent_text(row.start_error):>11}{percent_text(row.end_error):>11}"
        lines.append(f"{row.action:<{names}}  {row.lane:<{lanes}}{errors}")
    return lines


def _note_lines(c: Comparison) -> list[str]:
    return ["", *(f"note: {note}" for note in c.notes)] if c.notes else []


def estimates_note(names: tuple[str, ...]) -> str:
    """The note that names tasks whose costs are estimates.

    Example:
        >>> estimates_note(("a", "b", "c", "d"))
        'the costs of 4 tasks are estimates: a, b, c and 1 more'
    """
    listed = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = "the cost of 1 task is an estimate" if len(names) == 1 else f"the costs of {len(names)} tasks are estimates"
    return f"{what}: {listed}{more}"
