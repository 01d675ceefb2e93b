"""The progress bar of a training run: loss, accuracy and images a second, on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping

Show = Callable[[int, int, Mapping[str, float]], None]
"""Called with the epochs that are over, the steps of the next one that are, and its means so far."""


@contextlib.contextmanager
def training_bar(title: str, epochs: int, steps: int, *, quiet: bool = False) -> Iterator[Show]:
    """A bar over `epochs` of `steps` each; none where `quiet`, or where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TextColumn("{task.fields[means]}")
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as shown:
        task = shown.add_task(escape(title), total=epochs * steps, means="")

        def show(epoch: int, step: int, means: Mapping[str, float]) -> None:
            words = f"{escape(title)}, epoch {epoch + 1}/{epochs}"
            shown.update(task, description=words, completed=epoch * steps + step, means=in_words(means))

        yield show


def in_words(means: Mapping[str, float]) -> str:
    """Figures of an epoch so far.

    Example:
        >>> in_words({"loss": 0.6931, "accuracy": 0.7512, "images": 512, "seconds": 0.02})
        'loss 0.693, accuracy 75.1 %, 25,600 images/s'
    """
    rate = means["images"] / means["seconds"] if means["seconds"] else 0.0
    return f"loss {means['loss']:.3f}, accuracy {means['accuracy']:.1%}, {rate:,.0f} images/s".replace("%", " %")
