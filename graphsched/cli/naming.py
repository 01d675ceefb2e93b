"""Names, titles and files of the pictures and traces of cases; those of eager mode do not name their mode."""

from __future__ import annotations

import re
from pathlib import Path

from graphsched.timeline import Timeline

PLAIN_MODES = ("eager", "baseline", None)


def stem(experiment: str, number: int, label: str, mode: str | None = None) -> str:
    """Start of the names of a case's files; those of another mode than eager end in it, so that both can lie together.

    Example:
        >>> stem("overlap", 2, "copy while computing, 1 GPU")
        'overlap-2-copy-while-computing-1-gpu'
        >>> stem("overlap", 2, "copy while computing, 1 GPU", "graph")
        'overlap-2-copy-while-computing-1-gpu-graph'
    """
    slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:60].strip("-")
    return f"{experiment}-{number}-{slug or 'case'}" + ("" if mode in PLAIN_MODES else f"-{mode}")


def title_of(label: str, mode: str | None) -> str:
    """What stands above a picture of a case.

    Example:
        >>> title_of("copy while computing, 1 GPU", "graph"), title_of("LeNet, graph mode", "graph")
        ('copy while computing, 1 GPU, graph mode', 'LeNet, graph mode')
    """
    return label if mode in PLAIN_MODES or f"{mode} mode" in label else f"{label}, {mode} mode"


def draw(
    folder: Path, name: str, title: str, predicted: Timeline | None, measured: Timeline | None
) -> tuple[Path, Path]:
    """Write a Gantt chart and a trace for Perfetto; returns their paths."""
    from graphsched.formats.perfetto import write_perfetto
    from graphsched.gantt import plot_gantt

    picture, trace = folder / f"{name}.png", folder / f"{name}.perfetto.json"
    plot_gantt(predicted, measured, path=picture, title=title)
    write_perfetto(trace, predicted, measured, title=title)
    return picture, trace
