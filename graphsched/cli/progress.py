"""How much of a work in parts is done: a bar on a terminal, a line a part elsewhere; both on stderr.

A bar is drawn as a part begins and at no other time: a thread that keeps it moving would take the interpreter from what
is measured.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from graphsched.cli.output import say

if TYPE_CHECKING:
    from rich.progress import Progress


@contextlib.contextmanager
def progress(title: str, parts: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each part as it begins; other texts are remarks, and printed.

    Args:
        title: What is done.
        parts: Names of all parts in order.
    """
    with _bar(title, parts) if sys.stderr.isatty() else contextlib.nullcontext(_lines(parts)) as report:
        yield report


@contextlib.contextmanager
def counting(title: str) -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with the name of each part as it begins, its number from 1, and how many there are.

    A bar on a terminal, from the first part on; elsewhere a line that says how many there are.
    """
    if not sys.stderr.isatty():
        yield lambda _, number, parts: say(f"{title}: {parts}") if number == 1 else None
        return
    with _shown() as shown:
        task = shown.add_task(title, visible=False)

        def report(part: str, number: int, parts: int) -> None:
            shown.update(task, description=f"{title}: {part}", completed=number - 1, total=parts, visible=True)
            shown.refresh()

        yield report


def _lines(parts: Sequence[str]) -> Callable[[str], None]:
    left = list(parts)

    def report(text: str) -> None:
        if text not in left:
            say(text)
            return
        left.remove(text)
        say(f"[{len(parts) - len(left)}/{len(parts)}] {text}")

    return report


@contextlib.contextmanager
def _bar(title: str, parts: Sequence[str]) -> Iterator[Callable[[str], None]]:
    left = list(parts)
    with _shown() as shown:
        task = shown.add_task(title, total=len(parts))

        def report(text: str) -> None:
            if text not in left:
                shown.console.print(text, markup=False, highlight=False)
                return
            left.remove(text)
            shown.update(task, description=f"{title}: {text}", completed=len(parts) - len(left) - 1)
            shown.refresh()

        yield report
        shown.update(task, completed=len(parts))
        shown.refresh()


def _shown() -> Progress:
    """Bars on stderr, of a part's name and how many are done, that leave nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
