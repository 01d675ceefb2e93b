"""A bar on a terminal for schedulers that search: how much of their budget is used up, and the best so far."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphsched.schedulers.asking.progress import Progress


@contextlib.contextmanager
def searches_shown(figure: Callable[[float], str]) -> Iterator[None]:
    """Show how far schedulers called inside have come; nothing where stderr is no terminal.

    Args:
        figure: Text of a makespan.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from graphsched.schedulers.asking.progress import reported_to

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=1.0)

    def show(found: Progress) -> None:
        text = f"{found.scheduler}: {figure(found.makespan_s)}, bound {figure(found.bound_s)}"
        bar.update(task, description=text, completed=found.done)
        bar.start()  # where it has not: schedulers that do not search show nothing

    try:
        with reported_to(show):
            yield
    finally:
        bar.stop()
