"""Traces as torch's profiler exports them, event by event, times in microseconds."""

from __future__ import annotations

from typing import Any

from graphsched.timeline import Timeline
from tests.timelines import handover, timeline

Event = dict[str, Any]

PROCESS, THREAD, OTHER_THREAD = 4000, 4000, 4007


def kernel(
    name: str, at: float, us: float, correlation: int, *, device: int = 0, stream: int = 7, node: int | None = None
) -> Event:
    """A kernel on a device; `node` within a graph."""
    sizes = {"registers per thread": 90, "shared memory": 49152, "grid": [32, 32, 1], "block": [128, 1, 1]}
    place = {"device": device, "context": 1, "stream": stream, "correlation": correlation}
    args = {"External id": 33, "queued": 0, **place, **sizes} | ({} if node is None else {"graph node id": node})
    return {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": stream, "ts": at, "dur": us, "args": args}


def memcpy(what: str, at: float, us: float, correlation: int, **more: Any) -> Event:
    """A copy, as in ``memcpy("HtoD (Pinned -> Device)", …)``."""
    return kernel(f"Memcpy {what}", at, us, correlation, **more) | {"cat": "gpu_memcpy"}


def peer(at: float, us: float, correlation: int, *, source: int = 0, target: int = 1, node: int | None = None) -> Event:
    """A copy between GPUs: its device is told by the row that it is on."""
    args: dict[str, Any] = {"fromDevice": source, "inDevice": source, "toDevice": target, "bytes": 4_000_000}
    args |= {"stream": 9, "correlation": correlation} | ({} if node is None else {"graph node id": node})
    event = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy PtoP (Device -> Device)", "pid": source, "tid": 9}
    return event | {"ts": at, "dur": us, "args": args}


def memset(at: float, us: float, correlation: int, **more: Any) -> Event:
    """A fill."""
    return kernel("Memset (Device)", at, us, correlation, **more) | {"cat": "gpu_memset"}


def call(name: str, at: float, us: float, correlation: int, *, thread: int = THREAD, driver: bool = False) -> Event:
    """A call of CUDA's runtime, or of its driver."""
    args = {"External id": 33, "cbid": 211, "correlation": correlation}
    category = "cuda_driver" if driver else "cuda_runtime"
    return {"ph": "X", "cat": category, "name": name, "pid": PROCESS, "tid": thread, "ts": at, "dur": us, "args": args}


def span(name: str, at: float, us: float, *, thread: int = THREAD) -> Event:
    """A range made by ``record_function``."""
    args = {"External id": 33, "Record function id": 0, "Ev Idx": 1}
    event = {"ph": "X", "cat": "user_annotation", "name": name, "pid": PROCESS, "tid": thread}
    return event | {"ts": at, "dur": us, "args": args}


def trace(*events: Event) -> Event:
    """The whole file, with what else stands in one."""
    named = {"name": "process_name", "ph": "M", "ts": 0, "pid": PROCESS, "tid": 0, "args": {"name": "python"}}
    operation = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": PROCESS, "tid": THREAD, "ts": 0, "dur": 1}
    arrow = {"ph": "s", "id": 5, "pid": PROCESS, "tid": THREAD, "ts": 1, "cat": "ac2g", "name": "ac2g"}
    window = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
    shown = span("graphsched/a", 2, 3) | {"cat": "gpu_user_annotation", "pid": 0, "tid": 7}
    rest = [named, operation | {"args": {}}, arrow, window | {"ts": 0, "dur": 9, "args": {"Op count": 0}}, shown]
    return {"schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": [*rest, *events]}


ISSUES = {"a": 0, "a>cuda:1": 20, "b": 40, "c": 60}  # when each is issued, in µs


def handed_over(source: str = "measured") -> Timeline:
    """a ─▶ a>cuda:1 ─▶ b, c on two lanes of the other GPU."""
    spans = [(9e-6, 31e-6), (31e-6, 61e-6), (62e-6, 83e-6), (62e-6, 94e-6), (70e-6, 95e-6)]
    return timeline(handover(), spans, source=source)


def eager(*left_out: str) -> list[Event]:
    """The run of `handed_over`: a makes a fill and a product; the copy's launch is not told."""
    events = [span(f"graphsched/{name}", at, 15) for name, at in ISSUES.items()]
    events += [call("cudaMemsetAsync", 2, 3, 11), memset(10, 2, 11)]
    events += [call("cudaLaunchKernel", 6, 3, 12), kernel("gemm", 15, 15, 12)]
    events += [call("cudaEventRecord", 10, 3, 13), peer(32, 28, 14)]
    events += [call("cudaLaunchKernel", 42, 3, 15), kernel("gemm", 63, 19, 15, device=1, stream=20)]
    events += [call("cudaLaunchKernelExC", 62, 3, 16), kernel("gemm", 64, 29, 16, device=1, stream=24)]
    return [event for event in events if event["name"] not in left_out]
