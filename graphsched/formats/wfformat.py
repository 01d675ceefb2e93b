"""WfCommons' WfFormat: workflows of recorded runs, with runtimes and files, as JSON.

Read are the versions 1.4 to 1.6, where ``workflow.specification`` holds tasks and files and ``workflow.execution`` the
runtimes, and the flat ones before, where each task holds its own files. Written is 1.5. Seconds and bytes.

Source: T. Coleman, H. Casanova, L. Pottier, M. Kaushik, E. Deelman, R. Ferreira da Silva: WfCommons: a framework for
enabling scientific workflow research and development. FGCS 128, 2022; github.com/wfcommons/WfFormat.

Not modelled: cores that a task needs, machines that it ran on, memory and energy; a file that a task reads and
writes again is another file afterwards.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import networkx as nx

from graphsched.errors import FileFormatError
from graphsched.formats.entries import entry, listed, texts, whole_bytes
from graphsched.formats.graph_checks import check_one_duration
from graphsched.formats.plain_graphs import graph_of, passes
from graphsched.workload import Workload

VERSION = "1.5"
UNKNOWN_TIME = "1970-01-01T00:00:00+00:00"  # the format demands a date, and graphs have none
_NO_ID = re.compile(r"[^0-9a-zA-Z_.-]")
_SECONDS = ("runtimeInSeconds", "runtime")
_BYTES = ("sizeInBytes", "size")

Key = TypeVar("Key", bound=Hashable)
_File = tuple[str | None, str]  # the task that makes it, if any, and its name


@dataclass
class _Row:
    """A task as the file has it; files by id, with bytes."""

    task: str
    names: tuple[str, ...]
    seconds: Any
    before: list[str]
    after: list[str]
    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)


def wfformat_graph(data: Any) -> nx.DiGraph:
    """The graph of a WfFormat file's object: nodes are the ids of tasks; see `plain_graphs`.

    A file that a task reads and one that it comes after writes is passed between them; one that another task writes
    makes an edge of its own; one that no task writes, or only the reader or one that comes after it, is an input.

    Raises:
        FileFormatError: It is no WfFormat, a task has no runtime, or names another task or file that is not there.

    Example:
        >>> tasks = [{"id": "a", "name": "a", "parents": [], "children": ["b"], "outputFiles": ["f"]},
        ...          {"id": "b", "name": "b", "parents": ["a"], "children": [], "inputFiles": ["f"]}]
        >>> runs = [{"id": "a", "runtimeInSeconds": 2}, {"id": "b", "runtimeInSeconds": 1.5}]
        >>> flow = {"specification": {"tasks": tasks, "files": [{"id": "f", "sizeInBytes": 64}]},
        ...         "execution": {"tasks": runs}}
        >>> graph = wfformat_graph({"workflow": flow})
        >>> list(graph.nodes(data=True)), list(graph.edges(data=True))
        ([('a', {'duration_s': 2}), ('b', {'duration_s': 1.5})], [('a', 'b', {'values': {'f': 64}, 'nbytes': 64})])
    """
    flow = entry(data, "workflow", dict, "the file")
    rows = list(_nested(flow) if "specification" in flow else _flat(flow))
    graph = nx.DiGraph()
    for row in rows:
        if row.task in graph:
            raise FileFormatError(f"there are two tasks of id {row.task!r}: rename one")
        graph.add_node(row.task, duration_s=row.seconds)
    _add_order(graph, rows)
    _add_files(graph, rows)
    return graph


# -- reading ---------------------------------------------------------------------------------


def _nested(flow: Mapping[str, Any]) -> Iterator[_Row]:
    """Tasks of versions 1.4 and later."""
    specification = entry(flow, "specification", dict, "workflow")
    execution = entry(flow, "execution", dict, "workflow")  # without it there are no runtimes
    sizes: dict[str, int] = {}
    for i, row in enumerate(listed(specification, "files", "specification", needed=False)):
        where = f"specification.files[{i}]"
        name, nbytes = entry(row, "id", str, where), whole_bytes(row, _BYTES, where)
        if sizes.setdefault(name, nbytes) != nbytes:
            raise FileFormatError(f"{where}: file {name!r} has {nbytes} bytes here, {sizes[name]} above: correct one")
    runs = listed(execution, "tasks", "execution")
    seconds = {entry(row, "id", str, f"execution.tasks[{i}]"): row for i, row in enumerate(runs)}
    tasks = listed(specification, "tasks", "specification")
    if len(seconds) != len(runs) or len(runs) != len(tasks):
        raise FileFormatError(
            f"specification has {len(tasks)} tasks, execution {len(runs)} of {len(seconds)} ids: each task needs one "
            "entry in both"
        )
    for i, row in enumerate(tasks):
        task = entry(row, "id", str, f"specification.tasks[{i}]")
        where = f"task {task!r}"
        if task not in seconds:
            raise FileFormatError(f"{where} has no entry in execution.tasks, so no runtime: add one")
        before, after = texts(row, "parents", where), texts(row, "children", where)
        made = _Row(task, (task,), seconds[task].get("runtimeInSeconds"), before, after)
        for key, files in (("inputFiles", made.reads), ("outputFiles", made.writes)):
            for name in texts(row, key, where):
                if name not in sizes:
                    raise FileFormatError(f"{where}: {key} has {name!r}, which specification.files does not list")
                files[name] = sizes[name]
        yield made


def _flat(flow: Mapping[str, Any]) -> Iterator[_Row]:
    """Tasks of versions up to 1.3, and of the flat 1.4: they refer to each other by name."""
    key = "jobs" if "jobs" in flow else "tasks"
    for i, row in enumerate(listed(flow, key, "workflow")):
        where = f"workflow.{key}[{i}]"
        name = entry(row, "name", str, where)
        seconds = next((row[key] for key in _SECONDS if key in row), None)
        names = tuple(str(row[key]) for key in ("name", "id") if key in row)
        made = _Row(name, names, seconds, texts(row, "parents", where), texts(row, "children", where))
        for j, part in enumerate(listed(row, "files", where, needed=False)):
            place = f"{where}.files[{j}]"
            link = entry(part, "link", str, place)
            if link.lower() not in ("input", "output"):
                raise FileFormatError(f"'link' of {place} is {reprlib.repr(link)}: 'input' or 'output' is needed")
            files = made.reads if link.lower() == "input" else made.writes
            files[str(part.get("path", "")) + entry(part, "name", str, place)] = whole_bytes(part, _BYTES, place)
        yield made


def _add_order(graph: nx.DiGraph, rows: list[_Row]) -> None:
    """Edges for parents and children; either side may name the other."""
    ids = {name: row.task for row in rows for name in row.names} | {row.task: row.task for row in rows}
    for row in rows:
        for kind, others in (("parents", row.before), ("children", row.after)):
            for other in others:
                if other not in ids:
                    raise FileFormatError(
                        f"task {row.task!r} has {other!r} among its {kind}, and there is no such task"
                    )
                ends = (ids[other], row.task) if kind == "parents" else (row.task, ids[other])
                graph.add_edge(*ends)


def _add_files(graph: nx.DiGraph, rows: list[_Row]) -> None:
    """What is passed on edges, and what is there at the beginning."""
    if not nx.is_directed_acyclic_graph(graph):
        return  # that is told of the tasks, whatever their files
    order = graph.copy()
    place = {task: k for k, task in enumerate(nx.topological_sort(order))}
    writers: dict[str, list[str]] = {}
    for row in rows:
        for name in row.writes:
            writers.setdefault(name, []).append(row.task)

    def made_before(reader: str, writers: list[str]) -> list[str]:
        if all(place[task] < place[reader] for task in writers):
            return writers
        later = nx.descendants(order, reader) | {reader}
        return [task for task in writers if task not in later]

    def overwritten(task: str, writers: list[str]) -> bool:
        return any(task != other and nx.has_path(order, task, other) for other in writers)

    for row in rows:
        inputs = {}
        for name, nbytes in row.reads.items():
            made = made_before(row.task, writers.get(name, []))
            sources = [task for task in made if graph.has_edge(task, row.task)]
            for source in sources or [task for task in made if not overwritten(task, made)]:
                graph.add_edge(source, row.task)
                graph.edges[source, row.task].setdefault("values", {})[name] = nbytes
            if not made:
                inputs[name] = nbytes
        if inputs:
            graph.nodes[row.task]["inputs"] = inputs
    for _, _, data in graph.edges(data=True):
        if "values" in data:
            data["nbytes"] = sum(data["values"].values())


# -- writing ---------------------------------------------------------------------------------


def wfformat_text(work: Workload) -> str:
    """`work` as a WfFormat file: ids are names without the characters that the format forbids.

    The makespan that the format demands is that of the longest path, on processors without number.

    Raises:
        CostError: A task has no duration, or one by device.
    """
    graph = graph_of(work)
    check_one_duration(graph, "WfFormat")
    tasks = _ids({node: node for node in graph})
    files: dict[_File, int] = {}
    for source, target in graph.edges:
        files |= {(source, key): n for key, n in passes(graph, source, target).items()}
    for _, given in graph.nodes(data="inputs", default=None):
        files |= {(None, name): n for name, n in (given or {}).items()}
    file_ids = _ids({key: key[1] for key in files})
    specified = [_specified(graph, node, tasks, file_ids) for node in graph]
    return _dump(work.name, specified, {file_ids[key]: n for key, n in files.items()}, graph, tasks)


def _ids(names: Mapping[Key, str]) -> dict[Key, str]:
    """Distinct ids like `names`, of the characters that the format allows."""
    found: dict[Key, str] = {}
    count: Counter[str] = Counter()
    taken: set[str] = set()
    for key, name in names.items():
        made = stem = _NO_ID.sub("_", name)
        while made in taken:
            count[stem] += 1
            made = f"{stem}_{count[stem]}"
        taken.add(made)
        found[key] = made
    return found


def _specified(graph: nx.DiGraph, node: str, tasks: Mapping[str, str], file_ids: Mapping[_File, str]) -> dict[str, Any]:
    reads: list[_File] = [(None, name) for name in graph.nodes[node].get("inputs", {})]
    reads += [(before, key) for before in graph.pred[node] for key in passes(graph, before, node)]
    writes = {(node, key): None for after in graph.succ[node] for key in passes(graph, node, after)}
    return {
        "name": node,
        "id": tasks[node],
        "parents": [tasks[before] for before in graph.pred[node]],
        "children": [tasks[after] for after in graph.succ[node]],
        "inputFiles": [file_ids[key] for key in reads],
        "outputFiles": [file_ids[key] for key in writes],
    }


def _dump(
    name: str, specified: list[dict[str, Any]], files: Mapping[str, int], graph: nx.DiGraph, tasks: Mapping[str, str]
) -> str:
    ends: dict[str, float] = {}
    for node in nx.topological_sort(graph):
        ends[node] = max((ends[b] for b in graph.pred[node]), default=0.0) + graph.nodes[node]["duration_s"]
    execution = {
        "makespanInSeconds": max(ends.values(), default=0.0),
        "executedAt": UNKNOWN_TIME,
        "tasks": [{"id": tasks[n], "runtimeInSeconds": seconds} for n, seconds in graph.nodes(data="duration_s")],
    }
    specification = {"tasks": specified, "files": [{"id": key, "sizeInBytes": n} for key, n in files.items()]}
    flow = {"specification": specification, "execution": execution}
    return json.dumps({"name": name, "schemaVersion": VERSION, "workflow": flow}, indent=1, ensure_ascii=False) + "\n"
