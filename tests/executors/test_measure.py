"""Measured timelines: counts of runs, spans, waits obeyed, and what measuring leaves as it was."""

from __future__ import annotations

import dataclasses
import gc
import math
import statistics
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

from graphsched.errors import ObedienceError, ScheduleError, TaskFailedError, WorkloadError
from graphsched.executors import Program, execute, time_callable, timed_runs
from graphsched.executors import repeats as runs
from graphsched.executors.obedience import check_obedience
from graphsched.executors.timed_runs import MOST_TIMED_RUNS, TIMED_RUNS, TimedRuns
from graphsched.plan import Plan
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import WORKERS, by_hand, digits, machine, random_plan, random_workload, step_

ONE = [TensorSpec((1,))]


class Counter:
    """Counts its calls and returns its argument as a new tensor."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + 1


def single(function: Any, threads: int = 1) -> Plan:
    """x ──▶ y, on a lane of so many threads."""
    work = Workload()
    work.task(function, work.input("x", torch.ones(1)), name="y", outputs=ONE)
    return by_hand(work, machine("worker:0", "worker:1", threads={"cpu": threads}), "cpu/w0")


def crossing() -> Plan:
    """x ──▶ a (w0) ──▶ b (w1) ──▶ wait;  x ──▶ c (w0, after the wait)."""
    work = Workload()
    x = work.input("x", torch.ones(1))
    a = work.task(torch.neg, x, name="a")
    work.task(torch.neg, a, name="b")
    work.barrier("gate")
    work.task(torch.neg, x, name="c")
    return by_hand(work, WORKERS, {"a": "cpu/w0", "b": "cpu/w1", "c": "cpu/w0"})


# -- counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("repeats", "long_s", "settled_s", "threads", "seen"),
    [
        (1, 1.0, 1.0, 1, [0, 5]),
        (5, 1.0, 1.0, 1, [0, 6, 12, 17]),
        (5, 1.0, 0.0, 1, [0, 3, 6, 8]),
        (5, 0.0, 1.0, 1, [0, 6, 8, 9]),
        (5, 0.0, 0.0, 2, [0, 4, 8, 11]),
        (5, 0.0, 1.0, 2, [0, 23, 46, 68]),
        (20, 1.0, 1.0, 1, [*range(0, 60, 6), 60]),
    ],
)
def test_something_else_may_be_done_between_the_runs(
    monkeypatch: pytest.MonkeyPatch, repeats: int, long_s: float, settled_s: float, threads: int, seen: list[int]
) -> None:
    """Before the repeats, after every second and at the end; four short runs that do not count follow, or fewer that
    take long enough, and none that are long, but where lanes have several threads: 20 then, and a timed run each time.
    """
    monkeypatch.setattr(runs, "LONG_S", long_s)
    monkeypatch.setattr(runs, "SETTLED_S", settled_s)
    monkeypatch.setattr(runs, "SETTLED_ON_THREADS_S", settled_s)
    done: list[int] = []
    counter = Counter()
    plan = single(counter, threads=threads)
    line = execute(plan, repeats=repeats, warmup=0, between=lambda: done.append(counter.calls))
    assert [after - done[0] for after in done] == seen
    assert len(line.samples_s) == repeats


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"repeats": 0}, "repeats is 0: a whole number, 1 or more"),
        ({"repeats": 1.5}, r"repeats is 1\.5: "),
        ({"repeats": float("nan")}, "repeats is nan: "),
        ({"repeats": True}, "repeats is True: "),
        ({"repeats": "3"}, "repeats is '3': "),
        ({"warmup": -1}, "warmup is -1: a whole number, 0 or more"),
        ({"warmup": 1.5}, r"warmup is 1\.5: "),
    ],
)
def test_numbers_of_runs_are_whole(counts: dict[str, Any], message: str) -> None:
    count = Counter()
    with pytest.raises(ScheduleError, match=message):
        execute(single(count), **counts)
    assert count.calls == 0
    assert len(execute(single(count), repeats=np.int64(2)).samples_s) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(("timed_s", "timed"), [(0.0, TIMED_RUNS), (60.0, MOST_TIMED_RUNS)])
@pytest.mark.parametrize(("repeats", "warmup"), [(5, 2), (1, 1), (4, 0)])
def test_runs_are_counted_exactly(
    repeats: int, warmup: int, timed_s: float, timed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warm-up, repeats, the timed runs, as long as these take no time to speak of, and one of those to warm up."""
    monkeypatch.setattr(timed_runs, "TIMED_S", timed_s)
    count = Counter()
    timeline = execute(single(count), repeats=repeats, warmup=warmup)
    assert count.calls == warmup + repeats + bool(warmup) + timed
    assert len(timeline.samples_s) == repeats
    assert timeline.makespan_s == statistics.median(timeline.samples_s) > 0


def test_the_spans_are_those_of_the_run_of_the_median_makespan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nine timed runs four are held up: all of the first three, and the last."""
    made = execute(single(Counter()), repeats=1)
    makespans_s = [9.0, 8.0, 7.0, 1.0, 1.1, 1.2, 1.3, 1.4, 6.0]
    lines = iter([dataclasses.replace(made, makespan_s=seconds) for seconds in makespans_s])
    monkeypatch.setattr(timed_runs, "TIMED_S", 60.0)
    monkeypatch.setattr(timed_runs, "timed_run", lambda program, **_: next(lines))
    with Program(single(Counter())) as program:
        assert TimedRuns(program, warm=False).typical().makespan_s == 1.4


@pytest.mark.parametrize(("makespans_s", "typical_s"), [([4.0, 1.0, 3.0, 2.0], 2.0), ([3.0, 1.0, 2.0], 2.0)])
def test_of_an_even_number_the_shorter_in_the_middle_counts(
    monkeypatch: pytest.MonkeyPatch, makespans_s: list[float], typical_s: float
) -> None:
    made = execute(single(Counter()), repeats=1)
    lines = iter([dataclasses.replace(made, makespan_s=seconds) for seconds in makespans_s])
    monkeypatch.setattr(timed_runs, "timed_run", lambda program, **_: next(lines))
    with Program(single(Counter())) as program:
        timed = TimedRuns(program, warm=False)
        pause = timed.before(lambda: None)
        for _ in range(1 + len(makespans_s)):
            pause()
        assert timed.typical().makespan_s == typical_s


def test_a_slow_first_timed_run_leaves_time_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not count, nor does its time."""
    seen: list[float] = []
    real = Program.time_spans

    def slow_at_first(program: Program) -> object:
        seen.append(0.0)
        if len(seen) == 1:
            time.sleep(0.3)
        return real(program)

    monkeypatch.setattr(Program, "time_spans", slow_at_first)
    monkeypatch.setattr(timed_runs, "TIMED_S", 0.25)
    execute(single(Counter()), repeats=1)
    assert len(seen) == 1 + MOST_TIMED_RUNS


@pytest.mark.parametrize(
    ("threads", "repeats", "warmup", "between"),
    [(2, 5, 1, 3), (2, 5, 0, 3), (2, 1, 1, 1), (2, 30, 1, MOST_TIMED_RUNS), (1, 5, 1, 0)],
)
def test_beside_lanes_of_several_threads_runs_are_timed_in_between(
    monkeypatch: pytest.MonkeyPatch, threads: int, repeats: int, warmup: int, between: int
) -> None:
    """Before whatever is done between the others; behind them only where those are few, or lanes have one thread.

    In between the others there are no more than behind them.
    """
    order: list[str] = []
    real = timed_runs.timed_run
    monkeypatch.setattr(timed_runs, "TIMED_S", 0.0)
    monkeypatch.setattr(timed_runs, "timed_run", lambda program, **how: order.append("timed") or real(program, **how))
    plan = single(Counter(), threads=threads)
    line = execute(plan, repeats=repeats, warmup=warmup, between=lambda: order.append("between"))
    few = between < TIMED_RUNS
    calls = 1 + math.ceil(repeats / 2)
    pairs = ["timed", "between"] * between + ["between"] * (calls - 1 - between)
    assert order == ["between", *pairs] + ["timed"] * TIMED_RUNS * few
    assert len(line.samples_s) == repeats
    assert line.makespan_s == statistics.median(line.samples_s) != line.timed_makespan_s


@pytest.mark.parametrize(("threads", "warmup", "calls"), [(1, 1, 4), (2, 0, 3), (2, 1, 3 * 21 + 1)])
def test_runs_on_several_threads_settle_behind_the_clocks(
    monkeypatch: pytest.MonkeyPatch, threads: int, warmup: int, calls: int
) -> None:
    """x ──▶ y: twenty runs that do not count stand before each of three timed ones, in which the lane has not slept;
    one in all where it has one thread, and none without runs to warm up."""
    monkeypatch.setattr(timed_runs, "TIMED_S", 0.0)
    monkeypatch.setattr(runs, "SETTLED_ON_THREADS_S", 60.0)
    count = Counter()
    with Program(single(count, threads=threads)) as program:
        TimedRuns(program, warm=warmup > 0).typical()
    assert count.calls == calls


def test_long_runs_on_several_threads_need_not_settle_behind_the_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """x ──▶ y: one run to warm up, and the three that are timed; more before each would take as long again."""
    monkeypatch.setattr(timed_runs, "TIMED_S", 0.0)
    monkeypatch.setattr(runs, "LONG_ON_THREADS_S", 0.0)
    count = Counter()
    with Program(single(count, threads=2)) as program:
        TimedRuns(program, warm=True).typical()
    assert count.calls == 1 + TIMED_RUNS


def test_callables_are_timed_between_idle_devices() -> None:
    """Every call has its sample; those of the warm-up have none."""
    calls = []
    samples = time_callable(lambda: calls.append(time.sleep(2e-3)), repeats=4, warmup=2)
    assert len(calls) == 6
    assert len(samples) == 4
    assert min(samples) >= 2e-3


# -- spans -----------------------------------------------------------------------------------------


def assert_sane(timeline: Timeline) -> None:
    """Issued in plan order by one thread, run after being issued, all within the makespan."""
    plan = timeline.plan
    issued = np.stack((timeline.issue_start_s, timeline.issue_end_s), axis=1).ravel()
    assert (np.diff(issued) >= 0).all()
    assert timeline.issue_start_s[0] >= 0
    assert (timeline.start_s >= timeline.issue_start_s).all()
    assert (timeline.end_s >= timeline.start_s).all()
    assert timeline.end_s.max() <= timeline.timed_makespan_s
    for i, waits in enumerate(plan.waits):
        for j in waits:
            assert (timeline.end_s if plan.kinds[i] == "wait" else timeline.start_s)[i] >= timeline.end_s[j]


@pytest.mark.parametrize("seed", range(4))
def test_spans_of_random_plans(seed: int) -> None:
    """Random graphs on random lanes of two workers and the cpu."""
    work = random_workload(seed, ("worker:0", "worker:1", "cpu"))
    timeline = execute(random_plan(work, WORKERS, seed), repeats=2, warmup=1)
    assert timeline.source == "measured"
    assert timeline.clock_uncertainty_s == 0.0
    assert_sane(timeline)


def test_spans_of_lanes_and_of_the_thread() -> None:
    """Sleeps of 20 ms: a (w0) ──▶ b (w1) ──▶ wait of the thread; then c (w0)."""
    timeline = execute(crossing_of_sleeps(), repeats=1, warmup=0)
    assert_sane(timeline)
    spans = {s.action: s for s in timeline}
    for name in ("a", "b", "c"):
        assert spans[name].duration_s >= 0.02
        assert spans[name].issue_end_s - spans[name].issue_start_s < spans[name].duration_s
    gate = spans["gate"]
    assert (gate.lane, gate.issue_start_s, gate.issue_end_s) == ("host/py", gate.start_s, gate.end_s)
    assert gate.end_s >= spans["b"].end_s
    assert gate.duration_s >= 0.03
    assert spans["c"].issue_start_s >= gate.end_s


def crossing_of_sleeps() -> Plan:
    def sleep(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return x + 1

    work = Workload()
    x = work.input("x", torch.ones(1))
    a = work.task(sleep, x, name="a", outputs=ONE)
    work.task(sleep, a, name="b", outputs=ONE)
    work.barrier("gate")
    work.task(sleep, x, name="c", outputs=ONE)
    return by_hand(work, WORKERS, {"a": "cpu/w0", "b": "cpu/w1", "c": "cpu/w0"})


def test_tasks_on_two_lanes_run_at_once() -> None:
    """a (w0) and b (w1) meet, and sleep 30 ms."""
    meeting = threading.Barrier(2)

    def meet(x: torch.Tensor) -> torch.Tensor:
        meeting.wait(10)
        time.sleep(0.03)
        return x + 1

    work = Workload()
    x = work.input("x", torch.ones(1))
    for name in "ab":
        work.task(meet, x, name=name, outputs=ONE)
    timeline = execute(by_hand(work, WORKERS, {"a": "worker:0/s0", "b": "worker:1/s0"}), repeats=1, warmup=0)
    assert timeline.overlap_s(["worker:0/s0"], ["worker:1/s0"]) >= 0.02


# -- obedience -------------------------------------------------------------------------------------


def made(**columns: float) -> Timeline:
    """Spans of `crossing` by hand (a 0–1, b 1–2, gate 0–2, c 2–3 s), some moved: ``a_end=1.5``."""
    plan = crossing()
    times = {"a": [0.0, 1.0], "b": [1.0, 2.0], "gate": [0.0, 2.0], "c": [2.0, 3.0]}
    for key, seconds in columns.items():
        name, _, end = key.rpartition("_")
        times[name][end == "end"] = seconds
    start, end = (np.array([times[n][k] for n in ("a", "b", "gate", "c")]) for k in (0, 1))
    assert list(plan.names) == ["a", "b", "gate", "c"]
    return Timeline(plan, "measured", np.zeros(4), np.zeros(4), start, end, 3.0, 3.0)


def test_spans_that_keep_the_plan_pass() -> None:
    """As planned, and off by less than the resolution of events."""
    check_obedience(made())
    check_obedience(made(a_end=1.0 + 1e-6))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"b_start": 0.5}, "'b' started 500000.0 µs before 'a' was over, which it waits for"),
        ({"gate_end": 1.5}, "'gate' started 500000.0 µs before 'b' was over"),
        ({"c_start": 0.5}, "'c' started .* before 'a' was over"),
        ({"c_start": 1.5}, "'c' started 500000.0 µs before 'gate' was over"),
        ({"a_end": 1.00001}, "'b' started 10.0 µs before 'a' was over"),
    ],
)
def test_spans_that_contradict_the_plan(columns: dict[str, float], message: str) -> None:
    """A wait on another lane, the thread's wait, the order of a lane, an action after the thread's wait."""
    with pytest.raises(ObedienceError, match=message):
        check_obedience(made(**columns))


def test_the_clocks_of_two_devices_may_be_off_by_their_uncertainty() -> None:
    """a (cuda:0, 0–1 s) ──▶ copy (1–2) ──▶ b (cuda:1, 1.9–3): the copy's clock is that of a."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(1), device="cuda:0"), name="a")
    work.task(torch.neg, a, name="b")
    plan = by_hand(work, machine("cuda:0", "cuda:1"), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    none, end = np.zeros(3), np.array([1.0, 2.0, 3.0])
    timeline = Timeline(plan, "measured", none, none, np.array([0.0, 1.0, 1.9]), end, 3.0, 3.0)
    check_obedience(dataclasses.replace(timeline, clock_uncertainty_s=0.06))
    with pytest.raises(ObedienceError, match=r"'b' started 100000\.0 µs before 'a>cuda:1' was over"):
        check_obedience(dataclasses.replace(timeline, clock_uncertainty_s=0.04))
    early = dataclasses.replace(timeline, start_s=np.array([0.0, 0.9, 1.9]), clock_uncertainty_s=1.0)
    with pytest.raises(ObedienceError, match=r"'a>cuda:1' started 100000\.0 µs before 'a' was over"):
        check_obedience(early)


# -- what stays as it was --------------------------------------------------------------------------


def test_measuring_keeps_states_random_numbers_and_the_collector() -> None:
    """step_(w, dropout(x)): w is the user's, the generator torch's."""
    work = Workload()
    x, w = work.input("x", digits(1)), work.state("w", digits(2))
    noise = work.task(torch.nn.functional.dropout, x, name="noise")
    work.task(step_, w, noise, updates=w, name="step")
    plan = by_hand(work, WORKERS, "cpu/w0")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    execute(plan, repeats=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(work.tensors["w"], digits(2))
    assert gc.isenabled()


def test_a_failure_leaves_random_numbers_and_the_collector_as_they_were() -> None:
    """x ──▶ y draws a number, then raises."""

    def failing(x: torch.Tensor) -> None:
        torch.rand(1)
        raise ValueError("no")

    before = torch.get_rng_state()
    with pytest.raises(TaskFailedError):
        execute(single(failing))
    assert torch.equal(torch.get_rng_state(), before)
    assert gc.isenabled()


def test_inputs_can_be_given() -> None:
    """x has no default."""
    seen: list[float] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.item())
        return x + 1

    work = Workload()
    work.task(look, work.input("x", TensorSpec((1,))), name="y", outputs=ONE)
    plan = by_hand(work, WORKERS, "cpu/w0")
    execute(plan, repeats=1, warmup=0, inputs={"x": torch.full((1,), 7.0)})
    assert set(seen) == {7.0}
    with pytest.raises(WorkloadError, match="no default"):
        execute(plan)
