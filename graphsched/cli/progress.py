"""How much of a work in parts is done: a bar on a terminal, a line a part elsewhere; both on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

from graphsched.cli.output import say


@contextlib.contextmanager
def progress(title: str, parts: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each part as it begins; other texts are remarks, and printed.

    Args:
        title: What is done.
        parts: Names of all parts in order.
    """
    with _bar(title, parts) if sys.stderr.isatty() else contextlib.nullcontext(_lines(parts)) as report:
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
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    left = list(parts)
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(title, total=len(parts))

        def report(text: str) -> None:
            if text not in left:
                shown.console.print(text, markup=False, highlight=False)
                return
            left.remove(text)
            shown.update(task, description=f"{title}: {text}", completed=len(parts) - len(left) - 1)

        yield report
        shown.update(task, completed=len(parts))
