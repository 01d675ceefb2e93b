"""A trace of torch's profiler as a graph of tasks with measured durations.

Tasks are the works of GPUs (kernels, copies, fills) and, between the calls of the host that launch work or wait for
it, what the host did: all threads of a process are one chain, as one dispatching thread would be. A work comes after
the one before it on its stream, after the call that launched it, and after the events that its stream waited for; the
host goes on when what it waited for is over. The time that a call waits is nobody's work.

Not modelled: the time from a launch to the start on an idle GPU; dependencies within a CUDA graph beyond those of its
streams; two works of one stream side by side (the second counts from the end of the first); threads of one process
that launch at the same time; work on CPUs beside the calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx

from graphsched.errors import FileFormatError
from graphsched.formats.profiler_trace import RESOLUTION_S, DeviceWork, HostSpan, ProfilerTrace, read_trace
from graphsched.formats.trace_waits import Waits


@dataclass(frozen=True, slots=True)
class _Step:
    """What the host did up to a call: when, after which works, and which it then launched."""

    call: HostSpan
    start_s: float
    end_s: float
    after: tuple[int, ...]
    launches: tuple[int, ...]


def kineto_graph(data: Any) -> nx.DiGraph:
    """The graph of a trace; durations in seconds, nodes ``kernel.7`` and ``cudaLaunchKernel.6`` by start.

    Works may run on any GPU (``devices``), what the host did on its CPU.

    Raises:
        FileFormatError: It is no trace of torch's profiler, or has no work of a GPU.

    Warns:
        GraphschedWarning: Streams waited for events, and the trace does not tell for which.

    Example:
        >>> place = {"device": 0, "stream": 7, "correlation": 5}
        >>> kernel = {"ph": "X", "cat": "kernel", "name": "gemm<int>()", "pid": 0, "ts": 4, "dur": 9, "args": place}
        >>> launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 0,
        ...           "dur": 3, "args": {"correlation": 5}}
        >>> graph = kineto_graph({"traceEvents": [launch, kernel]})
        >>> [(node, data["devices"]) for node, data in graph.nodes(data=True)], list(graph.edges)
        ([('cudaLaunchKernel.0', ('cpu',)), ('gemm.1', ('cuda',))], [('cudaLaunchKernel.0', 'gemm.1')])
    """
    trace = read_trace(data)
    if not trace.work:
        raise FileFormatError(
            "the trace has no work of a GPU: record it with ProfilerActivity.CUDA; for work of CPUs a Chakra "
            "execution trace tells what depends on what"
        )
    waits = Waits(trace, data["traceEvents"])
    steps = list(_steps(trace, waits))
    works, calls = _names(trace.work, steps)
    graph = nx.DiGraph()
    for start_s, k, is_work in _in_time(trace.work, steps):
        if is_work:
            work = trace.work[k]
            graph.add_node(works[k], duration_s=_rounded(work.end_s - start_s), devices=("cuda",))
        else:
            graph.add_node(calls[k], duration_s=_rounded(steps[k].end_s - start_s), devices=("cpu",))
    graph.add_edges_from((works[j], works[k]) for j, k in _between_works(trace, waits))
    for k, step in enumerate(steps):
        graph.add_edges_from((works[j], calls[k]) for j in step.after)
        graph.add_edges_from((calls[k], works[j]) for j in step.launches)
    for process in _by_process(steps):
        graph.add_edges_from((calls[j], calls[k]) for j, k in pairwise(process))
    return graph


# -- the host --------------------------------------------------------------------------------


def _steps(trace: ProfilerTrace, waits: Waits) -> Iterator[_Step]:
    """What the host did, up to each call that launches work or waits for it."""
    launched: dict[int, list[int]] = {}
    for k, work in enumerate(trace.work):
        launched.setdefault(work.correlation, []).append(k)
    done_s: dict[str, float] = {}  # by process: until when its time is told
    pending: dict[str, tuple[int, ...]] = {}
    for call in trace.calls:
        works = launched.get(-1 if call.correlation is None else call.correlation, [])
        waiting = Waits.is_wait(call)
        if not works and not waiting:
            continue
        process = _process(call)
        begun_s = done_s.get(process, call.start_s)
        at_s = call.start_s if waiting else _issued_s(call, [trace.work[k] for k in works])
        yield _Step(call, begun_s, max(at_s, begun_s), pending.get(process, ()), tuple(works))
        held = waits.of_host(call) if waiting else [k for k in works if _holds(call, trace.work[k])]
        over_s = max([at_s, *(trace.work[k].end_s for k in held)])
        done_s[process] = max(begun_s, min(over_s, max(call.end_s, at_s)))
        pending[process] = tuple(held)


def _issued_s(call: HostSpan, works: Sequence[DeviceWork]) -> float:
    """When a launching call had launched: at its end, or before, when the work began."""
    return min(call.end_s, max(call.start_s, min(work.start_s for work in works)))


def _holds(call: HostSpan, work: DeviceWork) -> bool:
    """Whether a call returned only when the copy that it launched was over, as those of pageable memory do."""
    return work.kind == "copy" and "emcpy" in call.name and work.end_s <= call.end_s + RESOLUTION_S


def _process(call: HostSpan) -> str:
    return call.thread.partition("/")[0]


def _by_process(steps: Sequence[_Step]) -> list[list[int]]:
    found: dict[str, list[int]] = {}
    for k, step in enumerate(steps):
        found.setdefault(_process(step.call), []).append(k)
    return list(found.values())


# -- works -----------------------------------------------------------------------------------


def _between_works(trace: ProfilerTrace, waits: Waits) -> Iterator[tuple[int, int]]:
    """Which work another comes after: on its stream, or on one that its stream waited for."""
    last: dict[tuple[int, int], int] = {}
    for k, work in enumerate(trace.work):
        stream = work.device, work.stream
        if stream in last:
            yield last[stream], k
        last[stream] = k
        yield from ((j, k) for j in waits.of_work(k) if j != k)


def _in_time(work: Sequence[DeviceWork], steps: Sequence[_Step]) -> list[tuple[float, int, bool]]:
    """Starts of all tasks in order, each with its number; a work's is not before the end of the one before it."""
    over: dict[tuple[int, int], float] = {}
    found = [(step.start_s, k, False) for k, step in enumerate(steps)]
    for k, one in enumerate(work):
        stream = one.device, one.stream
        found.append((min(one.end_s, max(one.start_s, over.get(stream, -math.inf))), k, True))
        over[stream] = max(one.end_s, over.get(stream, -math.inf))
    return sorted(found)


def _names(work: Sequence[DeviceWork], steps: Sequence[_Step]) -> tuple[dict[int, str], dict[int, str]]:
    """Names of works and of the host's steps: what it is, and its place in the order of starts."""
    works, calls = {}, {}
    for number, (_, k, is_work) in enumerate(_in_time(work, steps)):
        if is_work:
            works[k] = f"{_short(work[k])}.{number}"
        else:
            calls[k] = f"{steps[k].call.name}.{number}"
    return works, calls


def _short(work: DeviceWork) -> str:
    """The name of a kernel's function without namespaces, template and arguments.

    Example:
        >>> kernel = "void at::native::fill<4, at::native::Functor<float> >(int, float)"
        >>> _short(DeviceWork(kernel, "kernel", 0, 7, 0.0, 1e-6, 5))
        'fill'
    """
    if work.kind != "kernel":
        return work.what.replace(" ", "_")
    words = work.name.partition("<")[0].partition("(")[0].split("::")[-1].split()
    return words[-1] if words else "kernel"


def _rounded(seconds: float) -> float:
    """To a tenth of a nanosecond, less than the profiler's own resolution: what subtraction left behind goes."""
    return round(max(0.0, seconds), 10)
