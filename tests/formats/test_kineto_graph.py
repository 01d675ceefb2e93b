"""Traces of torch's profiler as graphs: streams, launches, events, waits of the host."""

from __future__ import annotations

import math
import warnings
from typing import Any

import networkx as nx
import pytest

from graphsched.errors import FileFormatError, GraphschedWarning
from graphsched.formats.graph_checks import check_graph
from graphsched.formats.kineto_graph import kineto_graph
from graphsched.formats.profiler_trace import read_trace
from tests.formats.traces import Event, call, eager, kernel, memcpy, span, trace


def sync(kind: str, correlation: int, *, device: int = 0, stream: int = -1, **waits: int) -> Event:
    """A record of synchronisation; `waits` are ``stream`` and ``record`` of an event."""
    names = {"on": "wait_on_stream", "record": "wait_on_cuda_event_record_corr_id"}
    args: dict[str, Any] = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": device}
    args |= {names[key]: value for key, value in waits.items()} | {"context": 1}
    event = {"ph": "X", "cat": "cuda_sync", "name": kind, "pid": device, "tid": stream, "ts": 0, "dur": 0}
    return event | {"args": args}


def launch(name: str, at: float, start: float, us: float, correlation: int, **more: Any) -> list[Event]:
    """A call of 2 µs and the kernel that it launches."""
    return [call("cudaLaunchKernel", at, 2, correlation), kernel(name, start, us, correlation, **more)]


def ends_us(graph: nx.DiGraph) -> dict[str, float]:
    """When each task ends if all begin as soon as they can."""
    ends: dict[str, float] = {}
    for node in nx.topological_sort(graph):
        before = max((ends[each] for each in graph.pred[node]), default=0.0)
        ends[node] = round(before + graph.nodes[node]["duration_s"] * 1e6, 3)
    return ends


def test_works_of_a_stream_follow_each_other_and_their_launches() -> None:
    """host: launch a, launch b; stream 7: a ─▶ b, b waits for a."""
    graph = kineto_graph(trace(*launch("a<int>", 0, 5, 20, 1), *launch("void ns::b(float)", 4, 25, 10, 2)))
    assert dict(graph.nodes(data="duration_s")) == {
        "cudaLaunchKernel.0": 2e-6,
        "cudaLaunchKernel.1": 4e-6,
        "a.2": 20e-6,
        "b.3": 10e-6,
    }
    assert sorted(graph.edges) == [
        ("a.2", "b.3"),
        ("cudaLaunchKernel.0", "a.2"),
        ("cudaLaunchKernel.0", "cudaLaunchKernel.1"),
        ("cudaLaunchKernel.1", "b.3"),
    ]
    assert graph.nodes["a.2"]["devices"] == ("cuda",)
    assert graph.nodes["cudaLaunchKernel.0"]["devices"] == ("cpu",)


def test_a_kernel_that_begins_before_its_call_returns_begins_when_it_did() -> None:
    graph = kineto_graph(trace(call("cudaLaunchKernel", 0, 9, 1), kernel("a", 4, 3, 1), *launch("b", 12, 15, 3, 2)))
    assert ends_us(graph)["a.1"] == 7
    assert ends_us(graph)["cudaLaunchKernel.2"] == 14  # what the host did from 4 on, up to the return


def test_a_stream_waits_for_the_work_before_an_event_on_another() -> None:
    """7: a ─record─ c; 8: b waits for a alone."""
    events = [*launch("a", 0, 5, 20, 1), call("cudaEventRecord", 3, 1, 2), *launch("c", 5, 25, 50, 3)]
    events += [call("cudaStreamWaitEvent", 8, 1, 4), sync("Stream Wait Event", 4, stream=8, on=7, record=2)]
    events += launch("b", 10, 26, 5, 5, stream=8)
    graph = kineto_graph(trace(*events))
    assert sorted(graph.pred["b.5"]) == ["a.2", "cudaLaunchKernel.3"]
    assert sorted(graph.pred["c.4"]) == ["a.2", "cudaLaunchKernel.1"]


def test_without_records_waits_of_streams_are_left_out_with_a_warning() -> None:
    events = [*launch("a", 0, 5, 20, 1), call("cudaStreamWaitEvent", 8, 1, 4), *launch("b", 10, 26, 5, 5, stream=8)]
    with pytest.warns(GraphschedWarning, match="1 waits of streams.*enable_cuda_sync_events"):
        graph = kineto_graph(trace(*events))
    assert list(graph.pred["b.3"]) == ["cudaLaunchKernel.1"]


def test_with_records_those_left_out_were_for_nothing() -> None:
    events = [*launch("a", 0, 5, 20, 1), call("cudaStreamWaitEvent", 8, 1, 4), *launch("b", 10, 26, 5, 5, stream=8)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = kineto_graph(trace(*events, sync("Context Sync", 99)))
    assert list(graph.pred["b.3"]) == ["cudaLaunchKernel.1"]


def waited_for(*events: Event) -> set[str]:
    """What the host had waited for when it launched the kernel ``late``."""
    graph = kineto_graph(trace(*events))
    (late,) = (node for node in graph if node.startswith("late"))
    (host,) = (node for node in graph.pred[late] if node.startswith("cuda"))
    return {node.partition(".")[0] for node in graph.pred[host] if not node.startswith("cuda")}


TWO = [*launch("a", 0, 5, 20, 1), *launch("b", 3, 6, 90, 2, stream=8)]


@pytest.mark.parametrize(
    ("name", "returns", "records", "waited"),
    [
        ("cudaDeviceSynchronize", 96, [], {"a", "b"}),
        ("cudaDeviceSynchronize", 96, [sync("Context Sync", 9)], {"a", "b"}),
        ("cudaDeviceSynchronize", 96, [sync("Context Sync", 9, device=1)], set()),
        ("cudaStreamSynchronize", 26, [], {"a"}),  # b was not over
        ("cudaStreamSynchronize", 97, [], {"b"}),  # over last
        ("cudaStreamSynchronize", 97, [sync("Stream Sync", 9, stream=7)], {"a"}),
        ("cudaEventSynchronize", 97, [sync("Event Sync", 9, on=8, record=8)], {"b"}),
        ("cudaEventSynchronize", 97, [sync("Event Sync", 9, on=7, record=8)], {"a"}),
        ("cudaEventSynchronize", 97, [sync("Event Sync", 9, on=-1, record=-1)], set()),
    ],
)
def test_the_host_waits_for(name: str, returns: float, records: list[Event], waited: set[str]) -> None:
    """a on stream 7 until 25, b on stream 8 until 96; the event was recorded after both were launched."""
    events = [*TWO, call("cudaEventRecord", 6, 1, 8), call(name, 8, returns - 8, 9), *records]
    assert waited_for(*events, *launch("late", returns + 3, returns + 9, 5, 10, stream=9)) == waited


def test_the_time_of_a_wait_is_nobodys_work() -> None:
    """a until 25, the wait from 4 to 27, then 3 µs to the next launch and 2 of it; late from 35 to 40."""
    events = [*launch("a", 0, 5, 20, 1), call("cudaDeviceSynchronize", 4, 23, 2), *launch("late", 30, 32, 5, 3)]
    graph = kineto_graph(trace(*events))
    assert dict(graph.nodes(data="duration_s")) == {
        "cudaLaunchKernel.0": 2e-6,
        "cudaDeviceSynchronize.1": 2e-6,
        "a.2": 20e-6,
        "cudaLaunchKernel.3": 7e-6,
        "late.4": 5e-6,
    }
    assert list(graph.pred["cudaLaunchKernel.3"]) == ["a.2", "cudaDeviceSynchronize.1"]


def test_a_copy_that_its_call_waits_for_holds_the_host() -> None:
    """A pageable copy runs within its call; a pinned one does not, and the host goes on."""
    held = [call("cudaMemcpyAsync", 0, 50, 1), memcpy("DtoH (Device -> Pageable)", 5, 40, 1)]
    free = [call("cudaMemcpyAsync", 0, 4, 1), memcpy("DtoH (Device -> Pinned)", 5, 40, 1)]
    assert waited_for(*held, *launch("late", 53, 60, 5, 2, stream=8)) == {"Memcpy_DtoH"}
    assert waited_for(*free, *launch("late", 53, 60, 5, 2, stream=8)) == set()


def test_a_graph_launch_begins_all_its_streams() -> None:
    events = [call("cudaGraphLaunch", 0, 6, 1), kernel("a", 8, 5, 1, node=1), kernel("b", 9, 5, 1, stream=8, node=2)]
    graph = kineto_graph(trace(*events))
    assert sorted(graph.edges) == [("cudaGraphLaunch.0", "a.1"), ("cudaGraphLaunch.0", "b.2")]


def test_processes_have_chains_of_their_own_and_threads_share_one() -> None:
    other = launch("c", 1, 9, 5, 3, stream=9)
    other[0]["pid"] = 5000
    thread = [call("cudaLaunchKernel", 4, 2, 2, thread=4007), kernel("b", 40, 5, 2, stream=8)]
    graph = kineto_graph(trace(*launch("a", 0, 5, 20, 1), *thread, *other))
    hosts = [edge for edge in graph.edges if all(node.startswith("cuda") for node in edge)]
    assert hosts == [("cudaLaunchKernel.0", "cudaLaunchKernel.2")]
    assert list(graph.pred["c.4"]) == ["cudaLaunchKernel.1"]


def test_works_that_overlap_on_a_stream_count_once() -> None:
    """b is launched while a runs, and begins 5 µs before a is over: 5 of its 10 µs are left."""
    graph = kineto_graph(trace(*launch("a", 0, 5, 20, 1), *launch("b", 3, 20, 10, 2)))
    assert graph.nodes["b.3"]["duration_s"] == 5e-6


def test_a_recorded_run_ends_when_it_did() -> None:
    """a ─▶ a>cuda:1 ─▶ b, c: each work ends as measured, less what events between streams took."""
    data = trace(*eager())
    ends = ends_us(kineto_graph(data))
    measured = {work.name: work.end_s * 1e6 for work in read_trace(data).work}
    assert max(ends.values()) == pytest.approx(max(measured.values()) - 2, abs=1)  # from the first launch, at 2 µs


def test_names_are_plain_enough_for_plans_and_all_differ() -> None:
    many = [event for k in range(5) for event in launch("void f<int, (x)1>(a b)", 10 * k, 10 * k + 3, 5, k + 1)]
    graph = kineto_graph(trace(*many))
    check_graph(graph)
    assert {node.partition(".")[0] for node in graph} == {"cudaLaunchKernel", "f"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (trace(call("cudaLaunchKernel", 0, 2, 1), span("step", 0, 9)), "no work of a GPU"),
        ({"traceEvents": 3}, "'traceEvents' of the trace of torch's profiler is 3"),
        ({}, "lacks 'traceEvents'"),
        (trace(*TWO, sync("Context Sync", 9) | {"args": {"device": 0}}), "no correlation"),
        (trace(*TWO, sync("Context Sync", 9) | {"args": {"correlation": "x"}}), "no numbers"),
        (trace(*TWO, sync("Context Sync", 9) | {"args": {"correlation": math.inf}}), "no numbers"),
    ],
)
def test_what_is_no_such_trace_is_refused(data: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        kineto_graph(data)
