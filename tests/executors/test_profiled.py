"""Runs under torch's profiler: on threads here, on GPUs where there are any."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.cli.verifying import agreement_of
from graphsched.comparison.profiler import TOLERANCE_S, Agreement
from graphsched.errors import ExecutionError
from graphsched.executors import execute
from graphsched.executors.profiled import CLOCK_READINGS, ProfiledRun, run_profiled
from graphsched.formats.kernel_matching import AMBIGUOUS
from graphsched.formats.profiler_trace import align, read_trace
from graphsched.plan import Plan
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import WORKERS, add7, by_hand, digits, machine, mm7
from tests.timelines import simple_run


def product(a: Any, b: Any) -> Any:
    """Some hundred microseconds on a GPU, a few on a thread."""
    for _ in range(3):
        a = (a @ b).remainder(7)
    return a


def other(a: Any, b: Any) -> Any:
    """Some tens of microseconds on a GPU, in other kernels than `product` has."""
    for _ in range(10):
        a = (a * b).fmod(7)
    return a


def two_rows(size: int, *devices: str, second: Callable[..., Any] = product) -> Workload:
    """a0 ─▶ a1 ─▶ a2 on the first device, b0 ─▶ b1 ─▶ b2 on the second, and a copy of a2 to it."""
    work = Workload("rows")
    for row, device in zip("ab", devices, strict=True):
        value = work.input(row, digits(1, size, size).float(), device=device)
        for k in range(3):
            value = work.task(
                product if row == "a" else second, value, value, name=f"{row}{k}", device=device, outputs=[value.spec]
            )
        if row == "a":
            first = value
    work.task(torch.add, first, value, name="sum", device=devices[1], outputs=[value.spec])
    return work


def measured(plan: Plan) -> Timeline:
    return execute(plan, repeats=3, warmup=1)


def test_runs_of_threads_are_matched_by_their_ranges() -> None:
    """Two plans in one session; the clocks agree to what the readings leave open."""
    lanes = {f"{row}{k}": f"worker:{n}/w0" for n, row in enumerate("ab") for k in range(3)} | {"sum": "worker:1/w0"}
    plan = by_hand(two_rows(64, "worker:0", "worker:1"), WORKERS, lanes)
    runs, data = run_profiled([measured(plan), measured(plan)])
    trace = read_trace(data)
    for run in runs:
        assert isinstance(run, ProfiledRun)
        assert run.timeline.plan is plan
        assert len(run.readings) == 2 * CLOCK_READINGS
        clock = align([span for span in trace.ranges if span.name == run.clock], run.readings)
        assert clock.uncertainty_s < 1e-3
        found = agreement_of(run, trace)
        assert len(found.differences) == len([kind for kind in plan.kinds if kind != "wait"])
        assert (found.matching.missing, found.matching.strays) == ({}, ())
        slack = found.uncertainty_s + 1e-7
        assert all(d.before_s >= -slack and d.after_s >= -slack for d in found.differences)


def test_a_graph_comes_with_a_run_in_eager_mode(cuda: Callable[[int], FakeCuda]) -> None:
    """Played: no kernels, and replays make the calls of their capture again."""
    cuda(1)
    work = Workload("row")
    x = work.input("x", digits(0), device="cuda:0")
    y = work.task(add7, x, x, name="y", outputs=[x.spec])
    work.task(mm7, y, y, name="z", outputs=[x.spec])
    plan = replace(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode="graph")
    (run,), data = run_profiled([simple_run(plan, lambda i: 1e-5, samples_s=(3.0,))])
    assert isinstance(run, ProfiledRun)
    assert run.eager is not None
    assert run.timeline.makespan_s == 3.0
    assert run.timeline.issue_start_s[0] == run.timeline.issue_start_s[1]  # one launch
    assert run.eager.timeline.issue_start_s[0] < run.eager.timeline.issue_start_s[1]
    trace = read_trace(data)
    assert [span.name for span in trace.during(run.eager.name).ranges] == ["graphsched/y", "graphsched/z"]
    assert all(len(one.readings) == 2 * CLOCK_READINGS for one in (run, run.eager))
    found = agreement_of(run, trace)
    assert (found.matching.empty, found.matching.ranges) == ((0, 1), {})
    assert (found.differences, found.within) == ((), None)


def test_a_run_that_fails_leaves_the_others() -> None:
    failing = [False]

    def moody(a: Any, b: Any) -> Any:
        if failing[0]:
            raise RuntimeError("out of luck")
        return add7(a, b)

    plans = []
    for function in (moody, mm7):
        work = Workload("one")
        x = work.input("x", digits(0))
        work.task(function, x, x, name="t", outputs=[x.spec])
        plans.append(by_hand(work, WORKERS, "worker:0/w0"))
    lines = [measured(plan) for plan in plans]
    failing[0] = True
    (first, second), data = run_profiled(lines)
    assert isinstance(first, ExecutionError)
    assert "out of luck" in str(first)
    assert isinstance(second, ProfiledRun)
    assert len(agreement_of(second, read_trace(data)).differences) == len(plans[1])


def test_a_profiler_that_cannot_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no tracing here")

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", broken)
    with pytest.raises(ExecutionError, match="torch's profiler failed: RuntimeError: no tracing here"):
        run_profiled([])


# -- GPUs ----------------------------------------------------------------------------------------------


def gpu_agreements(work: Workload, names: tuple[str, ...], lanes: dict[str, str], modes: tuple[str, ...]) -> Any:
    """Agreements of the plan in each mode, all in one session of the profiler."""
    plan = by_hand(work, machine(*names), lanes)
    runs, data = run_profiled([measured(replace(plan, mode=mode)) for mode in modes])
    assert all(isinstance(run, ProfiledRun) for run in runs), runs
    trace = read_trace(data)
    return [agreement_of(run, trace) for run in runs if isinstance(run, ProfiledRun)]


def assert_matched(found: Agreement) -> None:
    shown = found.figures()
    assert shown["unmatched"] == {}, shown
    assert shown["matched"] == shown["actions"] > 0, shown


def assert_close(found: Agreement) -> None:
    """What spans have before and after their work is microseconds, where that is judged.

    A single start may be more: another lane's kernel may leave the GPU just before.
    """
    shown = found.figures()
    assert found.clocks_agree, shown
    assert all(-3e-6 < seconds < 2e-5 for seconds in found.ends_s), shown
    assert all(seconds > -3e-6 for seconds in found.starts_s), shown
    assert not found.starts_s or statistics.median(found.starts_s) < TOLERANCE_S, shown


ONE_GPU = {f"{row}{k}": f"cuda:0/s{n}" for n, row in enumerate("ab") for k in range(3)} | {"sum": "cuda:0/s1"}


@pytest.mark.gpu
def test_spans_of_one_gpu_agree_with_the_profiler() -> None:
    """Two lanes of different kernels: names and order tell all of a graph's, whether or not it numbers its nodes."""
    work = two_rows(1024, "cuda:0", "cuda:0", second=other)
    eager, graph = gpu_agreements(work, ("cuda:0",), ONE_GPU, ("eager", "graph"))
    for found in (eager, graph):
        assert_matched(found)
        assert_close(found)
    assert eager.matching.method == "launches"
    first = eager.measured.plan.index_of["a0"]
    assert len(eager.matching.work[first]) >= 6  # three products, three remainders
    assert len(graph.matching.work[first]) == len(eager.matching.work[first])
    assert graph.ends_s, graph.figures()
    assert "launch" in graph.apart_s


@pytest.mark.gpu
def test_lanes_of_equal_kernels_are_matched_or_said_to_be_ambiguous() -> None:
    """Two lanes run the same at the same time: without numbers of nodes nothing may tell which kernel is whose."""
    (graph,) = gpu_agreements(two_rows(1024, "cuda:0", "cuda:0"), ("cuda:0",), ONE_GPU, ("graph",))
    shown = graph.figures()
    assert set(shown["unmatched"].values()) <= {AMBIGUOUS}, shown
    assert graph.measured.plan.index_of["sum"] in graph.matching.work, shown
    assert_close(graph)


@pytest.mark.multigpu
def test_spans_of_two_gpus_and_the_copy_between_them_agree_with_the_profiler() -> None:
    lanes = {f"{row}{k}": f"cuda:{n}/s0" for n, row in enumerate("ab") for k in range(3)} | {"sum": "cuda:1/s0"}
    eager, graph = gpu_agreements(two_rows(2048, "cuda:0", "cuda:1"), ("cuda:0", "cuda:1"), lanes, ("eager", "graph"))
    for found in (eager, graph):
        assert_matched(found)
        assert_close(found)
        assert sorted(found.shifts_s) == ["cuda:0", "cuda:1"]
