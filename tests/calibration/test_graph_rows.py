"""Rows of an operation as plans: who is called how often, on which lanes, and what of a run is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_rows as module
from graphsched.calibration.graph_replays import Replay
from graphsched.calibration.graph_rows import (
    EVENTS,
    STAMPS,
    Launches,
    each_in_turns_s,
    paced_replays,
    replay_of,
    row_of,
    stamped_s,
    stamped_spans_s,
    timed_replay,
)
from graphsched.calibration.launch_pace import LaunchYardstick, launches_on
from graphsched.errors import ExecutionError, TaskFailedError
from graphsched.executors.stamp_kernel import Stamp
from graphsched.platform import Dispatch
from tests.executors.fake_cuda import Event, FakeCuda

RUNS_BEFORE = 2  # of a plan before it is captured


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda(1)
    fake.install(monkeypatch)
    return fake


def counted(log: list[str], name: str) -> Any:
    def call() -> torch.Tensor:
        log.append(name)
        return torch.zeros(2)

    return call


def test_a_row_is_a_plan_in_graph_mode(cuda: FakeCuda) -> None:
    """Five calls that go round two sets of inputs and two lanes."""
    log: list[str] = []
    with row_of([counted(log, "a"), counted(log, "b")], 5, 0, lanes=2) as row:
        assert log == ["a", "b", "a", "b", "a"] * (RUNS_BEFORE + 1)
        assert [row.plan.lanes[lane].name for lane in row.plan.lane_of] == [f"cuda:0/s{k}" for k in (0, 1, 0, 1, 0)]
        assert row.mode == "graph"
        assert cuda.woken == [0]  # behind the capture, before any replay
        found = replay_of(row)
    assert 0 < found.host_s < found.whole_s


def test_calls_wait_for_one_before_them(cuda: FakeCuda) -> None:
    """before ──▶ barrier ──▶ four calls on two lanes; what it returns is kept, so that no call gets its memory."""
    log: list[str] = []
    with row_of([counted(log, "a")], 4, 0, lanes=2, before=counted(log, "before")) as row:
        assert log == ["before", *"aaaa"] * (RUNS_BEFORE + 1)
        plan = row.plan
        assert plan.names == ["before", "all", "t0", "t1", "t2", "t3"]
        assert plan.kinds[1] == "wait"
        assert plan.waits[1] == (0,)
        assert [plan.lanes[lane].name for lane in plan.lane_of][2:] == ["cuda:0/s0", "cuda:0/s1"] * 2
        first = plan.work["before"].operation
        assert first is not None
        assert len(first.function.kept) == 1  # type: ignore[union-attr]


def test_what_calls_return_is_kept() -> None:
    step = module._Step([lambda: "a", lambda: "b"])
    for k in range(3):
        step(k)
    assert step.kept == {0: "a", 1: "b", 2: "a"}


def test_rows_of_other_calls_are_named_alike(cuda: FakeCuda) -> None:
    """Naming one would read through all that its calls hold."""
    signatures = []
    for size in (2, 3):
        with row_of([partial(torch.zeros, size)], 1, 0) as row:
            signatures.append(row.plan.work["t0"].signature)
    assert signatures[0] == signatures[1]


def test_what_cannot_be_captured_raises(cuda: FakeCuda) -> None:
    def fails() -> None:
        raise RuntimeError("no")

    with pytest.raises(TaskFailedError, match="no"):
        row_of([fails], 2, 0)


@pytest.mark.parametrize(("dispatch", "kind"), [(EVENTS, Event), (STAMPS, Stamp)])
def test_the_platform_says_what_times_a_row(cuda: FakeCuda, dispatch: Dispatch, kind: type) -> None:
    with row_of([lambda: None], 3, 0, dispatch=dispatch) as row:
        stamps = row.time_spans()[0]
    assert {type(mark) for both in stamps.events.values() for mark in both} == {kind}
    assert len(stamps.events) == 3


def test_a_row_runs_without_stamps_and_with_them(cuda: FakeCuda) -> None:
    plain_s, with_s = stamped_s(lambda: None, 4, 0)
    assert min(plain_s, with_s) > 0
    assert cuda.stamps == 2 * 4 * (module.RUNS + module.COLD_RUNS)


class Runs:
    """A program whose runs take so long, one after another."""

    def __init__(self, *seconds: float) -> None:
        self.left: Iterator[float] = iter(seconds)
        self.issue_s = 0.0

    def time_once(self) -> float:
        whole_s = next(self.left)
        self.issue_s = whole_s / 4
        return whole_s

    def time_spans(self) -> tuple[None, float, float]:
        whole_s = next(self.left)
        self.issue_s = whole_s / 2
        return None, 99.0, whole_s


def test_cold_runs_do_not_count() -> None:
    seconds = (100.0, 100.0, 4.0, 8.0, 6.0)
    assert replay_of(Runs(*seconds), 3) == Replay(1.5, 6.0)  # type: ignore[arg-type]
    assert timed_replay(Runs(*seconds), 3) == Replay(3.0, 6.0)  # type: ignore[arg-type]


def test_short_runs_are_many() -> None:
    """Of a millisecond as many as take 20, cold ones with them; of a microsecond no more than `MOST_RUNS`."""
    for seconds, runs in ((1e-3, 20), (1e-6, module.MOST_RUNS + module.COLD_RUNS)):
        played = Runs(*[seconds] * 100)
        assert replay_of(played).whole_s == seconds  # type: ignore[arg-type]
        assert 100 - len(list(played.left)) in (runs, runs + 1)


def test_one_slow_turn_of_a_row_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 more calls each takes 2 µs; in the second turn the short row takes 50 µs longer, in the third the long."""
    slower_s = iter([0.0, 0.0, 5e-5, 0.0, 0.0, 5e-5])
    monkeypatch.setattr(module, "replay_of", lambda row, at_most_s, behind: Replay(0.0, row + next(slower_s)))
    assert each_in_turns_s(1e-4, 1.2e-4, 10) == pytest.approx(2e-6)  # type: ignore[arg-type]
    assert next(slower_s, None) is None


def test_all_rows_follow_a_short_one() -> None:
    """A launch takes a tenth of the run before it longer: a call of 2 µs is told as 2 µs, and not as 2.2."""
    core: Any = SimpleNamespace(waited_s=0.0)

    def row(seconds: float) -> Any:
        def time_once() -> float:
            whole_s = seconds + core.waited_s / 10
            core.waited_s = seconds
            return whole_s

        return SimpleNamespace(issue_s=1e-6, time_once=time_once)

    assert each_in_turns_s(row(1e-4), row(1.2e-4), 10) == pytest.approx(2e-6)
    assert replay_of(row(1e-4)).whole_s == pytest.approx(1.1e-4)


class Thread:
    """Whose tiny call takes 6 µs, or 50 % longer while it is slow, as it is in every other turn of a row.

    A row is launched in as many microseconds as it has nodes, and runs for 20 µs more, whatever the thread's pace.
    """

    def __init__(self) -> None:
        self.samples = 0

    @property
    def pace(self) -> float:
        return 1.5 if self.samples % 4 in (1, 2) else 1.0

    def sample_s(self) -> float:
        self.samples += 1
        return 6e-6 * self.pace

    def row(self, nodes: int) -> Any:
        row = SimpleNamespace(issue_s=0.0)

        def time_once() -> float:
            row.issue_s = nodes * 1e-6 * self.pace
            return row.issue_s + 20e-6

        row.time_once = time_once
        return row


@pytest.mark.parametrize("call_s", [6e-6, 9e-6, 3e-6])
def test_launches_are_those_of_a_thread_of_the_pace_that_is_asked_for(call_s: float) -> None:
    thread: Any = Thread()
    found = paced_replays([thread.row(nodes) for nodes in (2, 8)], thread, Launches(call_s))
    for nodes, replay in zip((2, 8), found, strict=True):
        host_s = nodes * 1e-6 * call_s / 6e-6
        assert replay == Replay(pytest.approx(host_s), pytest.approx(host_s + 20e-6))
    short = paced_replays([thread.row(2)], thread, Launches(call_s, ((10, 1e-6), (30, 5e-6))))
    assert short[0].whole_s == pytest.approx(found[0].whole_s - 3e-6)  # it waits for 20 µs


def test_rows_are_made_as_asked_for_and_closed(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes in one lane, four in two, in turn; the yardstick is closed too."""
    log: list[str] = []
    yardstick = SimpleNamespace(sample_s=lambda: 6e-6, close=lambda: log.append("closed"))
    monkeypatch.setattr(module, "LaunchYardstick", lambda gpus: yardstick)
    monkeypatch.setattr(module, "_tiny_call", lambda device: counted(log, "call"))
    made: list[Any] = []
    monkeypatch.setattr(module, "row_of", lambda *row: made.append(row_of(*row)) or made[-1])
    found = module.tiny_replays(0, [(3, 1), (4, 2)], Launches(6e-6))
    assert [len(row.plan) for row in made] == [3, 4]
    assert [len({*row.plan.lane_of}) for row in made] == [1, 2]
    assert all(replay.whole_s >= replay.host_s > 0 for replay in found)
    assert log[-1] == "closed"
    for row in made:
        with pytest.raises(ExecutionError, match="closed"):
            row.run()


def test_launches_of_rows_with_events_are_those_of_the_pace_that_is_asked_for(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is twice as slow as that."""
    monkeypatch.setattr(module, "_tiny_call", lambda device: counted([], "call"))
    monkeypatch.setattr(module, "timed_replay", lambda row: Replay(len(row.plan) * 1e-6, 9e-6))
    samples = iter([10e-6, 14e-6])
    yardstick: Any = SimpleNamespace(sample_s=lambda: next(samples))
    found = module.tiny_timed(0, 40, 2, yardstick, Launches(6e-6))
    assert found == Replay(pytest.approx(20e-6), 9e-6)


class Read:
    """A memory of stamps."""

    def __init__(self, *ns: int) -> None:
        self.ns = ns

    def read(self) -> list[int]:
        return list(self.ns)


def test_spans_between_stamps_keep_their_nanoseconds() -> None:
    """Stamps are nanoseconds since 1970, of which a number of seconds has no digits left for 32 ns."""
    now = 1_764_000_000_123_456_789
    memory = Read(now, now + 32, now + 500, now + 1524)
    marks = {i: [SimpleNamespace(memory=memory, place=2 * i + k) for k in range(2)] for i in range(2)}
    program: Any = SimpleNamespace(time_spans=lambda: (SimpleNamespace(events=marks), 0.0, 0.0))
    assert [round(seconds * 1e9, 3) for seconds in stamped_spans_s(program, 3)] == [32.0, 1024.0]


@pytest.mark.gpu
def test_rows_on_this_gpu() -> None:
    few, many, lanes = module.tiny_replays(0, [(10, 1), (110, 1), (40, 2)], Launches(dict(launches_on([0]))[1]))
    assert 3e-7 < (many.whole_s - few.whole_s) / 100 < 1e-5
    with closing(LaunchYardstick([0])) as yardstick:
        timed = module.tiny_timed(0, 40, 2, yardstick, Launches(yardstick.sample_s()))
    assert timed.whole_s > lanes.whole_s
    assert timed.whole_s > timed.host_s > lanes.host_s
