"""Pictures: a platform's bandwidths and pairs of devices; seconds of many calls; times of many cases; task graphs;
the course of a training; blocks on links; stages of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphsched.charts.platforms import draw_platform, plot_links, plot_pairs
from graphsched.charts.saving import picture_format, saved
from graphsched.errors import OutputError

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

    from graphsched.charts.blocks import Block
    from graphsched.charts.stages import Stage

__all__ = [
    "draw_platform",
    "plot_blocks",
    "plot_calls",
    "plot_graph",
    "plot_links",
    "plot_pairs",
    "plot_stages",
    "plot_training",
    "plot_ways",
]


def plot_blocks(
    panels: Mapping[str, Sequence[Block]], path: str | Path | None = None, *, title: str = "blocks on links over time"
) -> Figure:
    """Draw which block is on which link when, one panel above the other on one time axis.

    A block has its own colour, and its number where there is room.

    Args:
        panels: By title: copies of blocks (`charts.blocks.Block`); links from top to bottom as they come first.
        path: Where to write the picture; see `plot_links`.
        title: Above the picture.

    Raises:
        OutputError: A panel has no block or a block no time, the suffix of `path` is another one, or it cannot be
            written.

    Example:
        >>> from graphsched.charts.blocks import Block
        >>> figure = plot_blocks({"a ring": [Block("0>1", 0, 0.0, 1.0), Block("1>0", 1, 0.0, 1.0)]})
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0', '1']
    """
    suffix = picture_format(path) if path is not None else ""
    if not panels or not all(panels.values()):
        raise OutputError("nothing to draw: give at least one panel, and a block for each")
    for panel, blocks in panels.items():
        for block in blocks:
            _check_span(f"block {block.number} on {block.link!r} of panel {panel!r}", block)
    from graphsched.charts.blocks import draw_blocks

    return saved(draw_blocks(panels, title), path, suffix)


def plot_stages(
    panels: Mapping[str, Sequence[Stage]], path: str | Path | None = None, *, title: str = "stages over time"
) -> Figure:
    """Draw who works on what when: a row for each, a colour a stage, one panel above the other on one time axis.

    Args:
        panels: By title: stages (`charts.stages.Stage`); rows from top to bottom as they come first.
        path: Where to write the picture; see `plot_links`.
        title: Above the picture.

    Raises:
        OutputError: A panel has no stage or a stage no time, the suffix of `path` is another one, or it cannot be
            written.

    Example:
        >>> from graphsched.charts.stages import Stage
        >>> step = [Stage("thread", "forward", 0.0, 1.0), Stage("GPU 0", "forward", 0.5, 3.0)]
        >>> figure = plot_stages({"a step": step})
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['thread', 'GPU 0']
    """
    suffix = picture_format(path) if path is not None else ""
    if not panels or not all(panels.values()):
        raise OutputError("nothing to draw: give at least one panel, and a stage for each")
    for panel, stages in panels.items():
        for stage in stages:
            _check_span(f"stage {stage.name!r} of {stage.row!r} in panel {panel!r}", stage)
    from graphsched.charts.stages import draw_stages

    return saved(draw_stages(panels, title), path, suffix)


def _check_span(whose: str, span: Block | Stage) -> None:
    if not (math.isfinite(span.start_s) and math.isfinite(span.end_s)):
        raise OutputError(f"nothing to draw: {whose} is from {span.start_s} to {span.end_s} s; give finite times")


def plot_calls(
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    path: str | Path | None = None,
    *,
    title: str = "seconds of n calls in all",
    note: str = "",
) -> Figure:
    """Draw the seconds that 1, 2, 3, … calls take in all, on logarithmic axes: where curves cross, one way has paid.

    The legend gives the seconds of the first call, with what comes before it, and of all.

    Args:
        panels: By panel and way of calling: seconds from the beginning to the end of each call, in order.
        path: Where to write the picture; see `plot_links`.
        title: Above the picture.
        note: Below it.

    Raises:
        OutputError: A panel has no way or a way no call, a time is not finite and above 0, the suffix of `path` is
            another one, or it cannot be written.

    Example:
        >>> figure = plot_calls({"MLP": {"op by op": [1.0, 2.0], "compiled": [1.5, 1.6]}})
        >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        ['op by op: 1 s, 2 s', 'compiled: 1.5 s, 1.6 s']
    """
    suffix = picture_format(path) if path is not None else ""
    _check_calls(panels)
    from graphsched.charts.calls import draw_calls

    return saved(draw_calls(panels, title, note), path, suffix)


def _check_calls(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    if not panels:
        raise OutputError("nothing to draw: there are no panels")
    for panel, ways in panels.items():
        if not ways or not all(len(ends_s) for ends_s in ways.values()):
            raise OutputError(f"nothing to draw: panel {panel!r} needs ways of calling, with times above 0 s")
        for way, ends_s in ways.items():
            _check_times(f"way {way!r} of panel {panel!r}", ends_s)


def _check_times(whose: str, times: Iterable[float]) -> None:
    wrong = next((time for time in times if not (math.isfinite(time) and time > 0)), None)
    if wrong is not None:
        raise OutputError(f"nothing to draw: {whose} has a time of {wrong} s; give finite ones above 0 s")


def plot_ways(
    bars: Mapping[str, Mapping[str, tuple[float | None, float | None]]],
    path: str | Path | None = None,
    *,
    title: str = "ways to run a case",
) -> Figure:
    """Draw the times of cases in several ways of running them: a group of bars a case, a colour a way.

    Measured times are solid bars; predicted ones are hatched, each above its measured one. Where times differ by more
    than twenty times the axis is logarithmic.

    Args:
        bars: By case and way: predicted and measured seconds; None for what there is not.
        path: Where to write the picture; see `plot_links`.
        title: Above the picture.

    Raises:
        OutputError: There is no time, or one is not finite and above 0, the suffix of `path` is another one, or it
            cannot be written.

    Example:
        >>> figure = plot_ways({"LeNet": {"eager": (1.0, 1.1), "graph": (0.5, 0.4), "plain": (None, 1.2)}})
        >>> [float(bar.get_width()) for bar in figure.axes[0].patches]
        [1.0, 1.1, 0.5, 0.4, 1.2]
    """
    suffix = picture_format(path) if path is not None else ""
    if not any(time is not None for case in bars.values() for way in case.values() for time in way):
        raise OutputError("nothing to draw: cases are needed, with times above 0 s")
    for name, case in bars.items():
        for way, times in case.items():
            _check_times(f"way {way!r} of case {name!r}", (time for time in times if time is not None))
    from graphsched.charts.ways import draw_ways

    return saved(draw_ways(bars, title), path, suffix)


def plot_graph(
    graph: nx.DiGraph, path: str | Path | None = None, *, title: str = "task graph", note: str = ""
) -> Figure:
    """Draw a directed acyclic graph of tasks: a band for each device, the CPU's in the middle, depth to the right.

    Args:
        graph: Nodes with the attribute ``device``, and optionally ``label`` and ``kind`` (a ``copy`` is white, with its
            bytes). Edges with ``nbytes`` (0: it only orders, dotted) and optionally ``next_step`` (dashed, and no part
            of the order). That of a plan: `charts.graph_layout.graph_of`.
        path: Where to write the picture; see `plot_links`.
        title: Above the picture.
        note: Below it.

    Raises:
        OutputError: There is no node, or a cycle, the suffix of `path` is another one, or it cannot be written.

    Example:
        >>> import networkx as nx
        >>> graph = nx.DiGraph([("half 0", "sum"), ("half 1", "sum")])
        >>> nx.set_node_attributes(graph, {"half 0": "cuda:0", "sum": "cpu", "half 1": "cuda:1"}, "device")
        >>> [text.get_text() for text in plot_graph(graph).axes[0].texts]
        ['cuda:0', 'cpu', 'cuda:1', 'half 0', 'sum', 'half 1']
    """
    import networkx as nx

    from graphsched.charts.graph_layout import within_a_step

    suffix = picture_format(path) if path is not None else ""
    if not len(graph) or not nx.is_directed_acyclic_graph(within_a_step(graph)):
        raise OutputError(f"nothing to draw: the graph has {'a cycle' if len(graph) else 'no nodes'}")
    from graphsched.charts.graphs import draw_graph

    return saved(draw_graph(graph, title, note), path, suffix)


def plot_training(
    variants: Mapping[str, Mapping[str, Sequence[float]]],
    path: str | Path | None = None,
    *,
    title: str = "training",
    note: str = "",
) -> Figure:
    """Draw loss and accuracy by epoch, all variants in one picture; the first lines are wide, so that all can be seen.

    Args:
        variants: By name: ``loss`` and ``accuracy`` over each epoch's training, ``test_accuracy`` after it. Accuracies
            are from 0 to 1.
        path: Where to write the picture; see `plot_links`.
        title: Above the picture.
        note: Below it.

    Raises:
        OutputError: A variant has no loss, the suffix of `path` is another one, or it cannot be written.

    Example:
        >>> curves = {"loss": [2.0, 1.0], "accuracy": [0.3, 0.6], "test_accuracy": [0.5, 0.7]}
        >>> [len(axes.lines) for axes in plot_training({"1 GPU": curves, "2 GPUs": curves}).axes]
        [2, 4]
    """
    suffix = picture_format(path) if path is not None else ""
    for name, curves in variants.items():
        if not curves.get("loss"):
            raise OutputError(f"nothing to draw: {name!r} has no loss")
    if not variants:
        raise OutputError("nothing to draw: there are no variants")
    from graphsched.charts.training import draw_training

    return saved(draw_training(variants, title, note), path, suffix)
