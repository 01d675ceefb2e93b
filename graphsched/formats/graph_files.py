"""Task graphs in files of many formats, told apart by suffix and content.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile("w", suffix=".dot") as file:
...     print("digraph { a [duration=2]; b [duration=1]; a -> b }", file=file, flush=True)
...     print(read_graph(file.name).nodes(data="duration_s"), read_workload(file.name).tasks)
[('a', 2.0), ('b', 1.0)] [Task(a: run given a), Task(b: run given b)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import networkx as nx

from graphsched.errors import FileFormatError, GraphschedError, OutputError
from graphsched.files import write_text
from graphsched.formats.chakra import chakra_graph
from graphsched.formats.contents import json_kind, read_contents, suffix_of
from graphsched.formats.dot import to_dot
from graphsched.formats.dot_graph import dot_graph
from graphsched.formats.graph_checks import check_graph, check_one_duration
from graphsched.formats.kineto_graph import kineto_graph
from graphsched.formats.node_link import node_link_graph, node_link_text
from graphsched.formats.own_json import own_text, own_workload
from graphsched.formats.plain_graphs import graph_of, workload_of
from graphsched.formats.stg import read_stg, write_stg
from graphsched.formats.wfformat import wfformat_graph, wfformat_text
from graphsched.workload import Workload


@dataclass(frozen=True)
class Format:
    """A format of graph files.

    Attributes:
        title: What it is, in a few words.
        holds: What `read` takes: the ``path``, the ``text``, or the object of ``json``.
        suffixes: Of files that are taken to be of it.
        read: A plain graph, or a workload.
        write: Writes a workload to a path; None: it is only read.
        unit: Of its times: seconds, or empty where the file has a unit of its own.
    """

    title: str
    holds: Literal["path", "text", "json"]
    suffixes: tuple[str, ...]
    read: Callable[[Any], nx.DiGraph | Workload]
    write: Callable[[Workload, Path], None] | None = None
    unit: str = "s"


def _writer(text: Callable[[Workload], str]) -> Callable[[Workload, Path], None]:
    return lambda work, path: write_text(path, text(work))


def _dot_text(work: Workload) -> str:
    graph = graph_of(work)
    check_one_duration(graph, "DOT")
    return to_dot(workload_of(graph, work.name))  # in which copies and barriers have times too


def _write_stg(work: Workload, path: Path) -> None:
    write_stg(graph_of(work), path)


_JSON = (".json",)

FORMATS: Mapping[str, Format] = {
    "stg": Format("Standard Task Graph Set", "path", (".stg",), read_stg, _write_stg, unit=""),
    "dot": Format("Graphviz", "text", (".dot", ".gv"), dot_graph, _writer(_dot_text), unit=""),
    "json": Format("a workload of graphsched", "json", _JSON, own_workload, _writer(own_text)),
    "wfformat": Format("WfCommons' WfFormat", "json", _JSON, wfformat_graph, _writer(wfformat_text)),
    "node-link": Format("networkx's node-link data", "json", _JSON, node_link_graph, _writer(node_link_text)),
    "chakra": Format("Chakra execution trace", "json", _JSON, chakra_graph),
    "kineto": Format("trace of torch's profiler", "json", _JSON, kineto_graph),
}


@dataclass(frozen=True, eq=False)
class GraphFile:
    """What a file holds, made sure that it can be scheduled.

    Attributes:
        path, format: Where it was read, and as what.
        content: A plain graph, or a workload.
    """

    path: Path
    format: Format
    content: nx.DiGraph | Workload

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The plain graph; see `plain_graphs` for its attributes.

        Raises:
            CostError: A task of a workload has no duration; names the file.
        """
        with _named_in_errors(self.path):
            return graph_of(self.content) if isinstance(self.content, Workload) else self.content

    @cached_property
    def work(self) -> Workload:
        """The workload, without code.

        Raises:
            WorkloadError: A value has two sizes, or one too large to count with; names the file.
        """
        name = self.path.name.partition(".")[0] or "graph"
        with _named_in_errors(self.path):
            return self.content if isinstance(self.content, Workload) else workload_of(self.content, name)


def open_graph(path: str | Path, format: str | None = None) -> GraphFile:
    """Read a file of any of `FORMATS`.

    Args:
        path: The file; JSON and text may be compressed (``.gz``).
        format: Name of its format; default by suffix and, of JSON, content.

    Raises:
        FileFormatError: There is no such format, or the file cannot be read; names the file.
        GraphschedError: The graph has no task, a circle, a missing or negative duration, or durations that are too long
            to be added up; names the file.
    """
    path = Path(path)
    name = _named(path, format)
    data = path if name == "stg" else read_contents(path, "text" if name == "dot" else "json")
    with _named_in_errors(path):
        found = FORMATS[name or json_kind(data)]
        content = found.read(data)
        if isinstance(content, nx.DiGraph):
            check_graph(content)
        elif not len(content):
            raise FileFormatError("the workload has 0 tasks: there is nothing to schedule")
    return GraphFile(path, found, content)


@contextmanager
def _named_in_errors(path: Path) -> Iterator[None]:
    """Errors of what is within name the file, once."""
    try:
        yield
    except GraphschedError as error:
        if str(error).startswith((str(path), f"cannot read {path}")):
            raise
        raise type(error)(f"{path}: {error}") from error


def _named(path: Path, format: str | None) -> str | None:
    """The name of the format that is asked for, or that the suffix tells; None: JSON, which its content tells."""
    if format is not None:
        if format not in FORMATS:
            raise FileFormatError(f"no format {format!r} of graphs: one of {', '.join(FORMATS)}")
        return format
    suffix = suffix_of(path)
    found = [name for name, one in FORMATS.items() if suffix in one.suffixes]
    if not found:
        known = ", ".join(dict.fromkeys(each for one in FORMATS.values() for each in one.suffixes))
        raise FileFormatError(
            f"{path}: the suffix {suffix!r} tells no format: {known} do, or name one of {', '.join(FORMATS)}"
        )
    return found[0] if len(found) == 1 else None


def read_graph(path: str | Path, format: str | None = None) -> nx.DiGraph:
    """The plain graph in a file, times in the file's unit; see `open_graph`, and `plain_graphs` for its attributes."""
    return open_graph(path, format).graph


def read_workload(path: str | Path, format: str | None = None) -> Workload:
    """The workload in a file: it can be scheduled and predicted, not run. See `open_graph`."""
    return open_graph(path, format).work


def write_graph(graph: nx.DiGraph | Workload, path: str | Path, format: str | None = None) -> None:
    """Write a plain graph or a workload, whole or not at all.

    Args:
        graph: What to write; only the format ``json`` holds all of a workload (states, copies, memory).
        path: Where to.
        format: Name of one of `FORMATS`; default by suffix, ``json`` for JSON files.

    Raises:
        OutputError: The format is none that can be written, or the file cannot be.
        GraphschedError: The graph is none of tasks, or the format cannot hold it (a duration by device).

    Example:
        >>> import tempfile
        >>> graph = nx.DiGraph([("a", "b")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_graph(graph, f"{folder}/g.json", "wfformat")
        ...     list(read_graph(f"{folder}/g.json").edges)
        [('a', 'b')]
    """
    write = FORMATS[format_to_write(path, format)].write
    assert write is not None
    write(graph if isinstance(graph, Workload) else workload_of(graph), Path(path))


def format_to_write(path: str | Path, format: str | None = None) -> str:
    """The name of the format that a file is to be written in.

    Raises:
        OutputError: There is none of this name or suffix, it is only read, or the file was to be compressed.

    Example:
        >>> format_to_write("g.dot"), format_to_write("g.json"), format_to_write("g.json", "wfformat")
        ('dot', 'json', 'wfformat')
    """
    written = written_formats()
    suffix = Path(path).suffix.lower()
    name = format or next((name for name in written if suffix in FORMATS[name].suffixes), None)
    if name not in written:
        what = f"format {format!r}" if format else f"suffix {suffix!r}"
        raise OutputError(f"{path}: no graph can be written in {what}: name one of {', '.join(written)}")
    if suffix == ".gz":
        raise OutputError(f"{path}: graphs are written as they are, not compressed: leave out .gz")
    return name


def written_formats() -> tuple[str, ...]:
    """Names of the formats that can be written."""
    return tuple(name for name, one in FORMATS.items() if one.write is not None)
