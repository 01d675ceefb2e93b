"""Operations in graphs: rows of two lengths, what cannot be captured, and how graphs are timed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_operations as module
from graphsched.calibration import graph_replays, graph_rows
from graphsched.calibration.graph_operations import HELD, LOST, curve_in_graph, in_graph
from graphsched.calibration.graph_replays import Replay, captured, device_s, return_s

SHARED_S = {1: 5e-6, 2: 3e-6, 4: 2e-6, 8: 2e-6}  # of a call, by lanes
CACHE = 60 * 10**6


class Current:
    """A stream that can be made current."""

    def __enter__(self) -> None:
        """It is."""

    def __exit__(self, *_: object) -> None:
        """It was."""


class Row:
    """A program of so many calls."""

    def __init__(self, length: int, lanes: int, *, spills: bool) -> None:
        self.length, self.lanes, self.spills = length, lanes, spills

    def __enter__(self) -> Row:
        return self

    def __exit__(self, *_: object) -> None:
        """It is closed."""


class Played:
    """Calls are counted; a run takes 100 µs and 5 µs a call, less where lanes share it.

    With `cache` bytes, each call behind one that fills the cache takes `spilled_s` longer.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, *, fails_at: int = -1, cache: int = 0, spilled_s: float = 1e-6
    ) -> None:
        self.issued: list[int] = []
        self.rows: list[tuple[int, ...]] = []
        self.spilling: list[bool] = []
        self.fails_at, self.spilled_s = fails_at, spilled_s
        patch.setattr(module, "row_of", self._row)
        patch.setattr(graph_rows, "replay_of", self._replay)
        patch.setattr(module, "cache_bytes", lambda device: cache)

    def _replay(self, row: Row, at_most_s: float, behind: Row) -> Replay:
        assert behind.length <= row.length
        spilled_s = self.spilled_s if row.spills else 0.0
        return Replay(1e-6, 1e-4 + row.spills * 4e-5 + row.length * (SHARED_S[row.lanes] + spilled_s))

    def calls(self, number: int) -> list[Callable[[], int]]:
        return [lambda k=k: self._call(k) for k in range(number)]  # type: ignore[misc]

    def _call(self, k: int) -> int:
        self.issued.append(k)
        if len(self.issued) == self.fails_at:
            raise RuntimeError("operation not permitted when stream is capturing")
        return k

    def _row(self, calls: Any, length: int, device: int, lanes: int, before: Any) -> Row:
        self.rows.append((length, device) if lanes == 1 else (length, device, lanes))
        self.spilling.append(before is not None)
        calls[0]()
        return Row(length, lanes, spills=before is not None)


def test_the_difference_of_two_rows_is_one_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Played(monkeypatch)
    assert in_graph(cuda.calls(2), 3, 1e-4, 4) == ((0, pytest.approx(5e-6)),)
    assert cuda.rows == [(3, 3), (15, 3)]


def test_outputs_stay_in_the_cache_or_none_of_them_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a cache of 60 MB holds 15 outputs of 2 MB, so the other rows are as long as time allows: 60 of 25 µs."""
    cuda = Played(monkeypatch, cache=CACHE)
    assert in_graph(cuda.calls(2), 3, 2.5e-5, 2 * 10**6) == (
        (int(HELD * CACHE), pytest.approx(5e-6)),
        (int(LOST * CACHE), pytest.approx(6e-6)),
    )
    assert cuda.rows == [(3, 3), (15, 3), (15, 3), (60, 3)]
    assert cuda.spilling == [False, False, True, True]


def test_what_the_cache_cannot_hold_has_one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Played(monkeypatch, cache=CACHE)
    assert in_graph(cuda.calls(2), 3, 2.5e-5, CACHE // 10) == ((int(LOST * CACHE), pytest.approx(6e-6)),)
    assert cuda.spilling == [True, True]


def test_nothing_is_faster_out_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Played(monkeypatch, cache=CACHE, spilled_s=-1e-6)
    assert [seconds for _, seconds in in_graph(cuda.calls(2), 3, 1e-4, 4)] == pytest.approx([5e-6, 5e-6])


def test_a_row_that_cannot_fill_the_cache_leaves_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Played(monkeypatch, cache=CACHE, fails_at=3)
    assert in_graph(cuda.calls(2), 3, 1e-4, 4) == ((int(HELD * CACHE), pytest.approx(5e-6)),)


def test_lanes_of_it_are_compared_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of 5 µs in one lane, of 6, 8 and 16 µs in two, four and eight of as many calls each; 100 µs around them."""
    cuda = Played(monkeypatch)
    curve = curve_in_graph(cuda.calls(2), 3, 5e-6)
    assert cuda.rows == [(50, 3), (200, 3), *[(length, 3, lanes) for lanes in (2, 4, 8) for length in (64, 256)]]
    assert [k for k, _ in curve] == [1, 2, 4, 8]
    assert [slowdown for _, slowdown in curve] == pytest.approx([1.0, 1.2, 1.6, 3.2])
    assert curve_in_graph(Played(monkeypatch, fails_at=3).calls(1), 3, 5e-6) == ()


@pytest.mark.parametrize(
    ("nbytes", "cache", "spills"), [(CACHE // 1024, CACHE, False), (CACHE // 256, CACHE, True), (1000, 0, False)]
)
def test_rows_of_lanes_are_of_one_state_of_the_cache(
    monkeypatch: pytest.MonkeyPatch, nbytes: int, cache: int, *, spills: bool
) -> None:
    """The longest have 256 outputs; shorter ones would be held either way."""
    cuda = Played(monkeypatch, cache=cache)
    (call,) = cuda.calls(1)
    returned = torch.zeros(nbytes, dtype=torch.uint8)
    curve = curve_in_graph([lambda: (call(), returned)], 3, 5e-6)
    assert cuda.spilling == [spills] * 8
    assert curve[1][1] == pytest.approx(2 * 4e-6 / 6e-6 if spills else 1.2)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_what_cannot_be_captured_is_unknown(monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    cuda = Played(monkeypatch, fails_at=fails_at)
    assert in_graph(cuda.calls(1), 0, 1e-4, 4) == ()


def test_long_operations_are_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Played(monkeypatch)
    assert in_graph(cuda.calls(1), 0, 1e-3, 4) == ()
    assert in_graph(cuda.calls(1), 0, 1e-6, 2 * 10**8) == ()  # five of them fill the memory
    assert cuda.rows == []


# -- how graphs are captured and timed ----------------------------------------------------------------


class Clock:
    """Host and device time, in seconds: a launch takes 3 µs, then the device 40 µs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.time_s, self.end_s, self.log = 0.0, 0.0, []  # type: ignore[var-annotated]
        patch.setattr(torch.cuda, "stream", lambda stream: Current())
        patch.setattr(torch.cuda, "synchronize", lambda device: self._sync())
        patch.setattr(graph_replays, "new_event", lambda timing=False: self._event())
        patch.setattr(graph_replays, "elapsed_s", lambda start, end: end.at - start.at)
        patch.setattr(graph_replays, "poll_s", lambda done: self._sync())
        patch.setattr("time.perf_counter", lambda: self.time_s)

    def _event(self) -> Any:
        event = SimpleNamespace(at=0.0, synchronize=self._sync, query=lambda: True)
        event.record = lambda stream: self._recorded(event)
        return event

    def _recorded(self, event: Any) -> None:
        event.at = self.end_s = max(self.end_s, self.time_s + 2e-6)

    def _sync(self) -> float:
        self.time_s = max(self.time_s, self.end_s)
        return self.time_s

    def replay(self) -> None:
        self.time_s += 3e-6
        self.end_s = max(self.end_s, self.time_s) + 40e-6

    def spin(self, seconds: float) -> None:
        self.end_s = max(self.end_s, self.time_s) + seconds

    def query(self) -> bool:
        return True


def test_a_replay_behind_other_work_is_timed_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Any = Clock(monkeypatch)
    assert device_s(clock, clock, SimpleNamespace(device=0)) == pytest.approx(40e-6)


def test_a_return_is_half_of_what_an_event_takes_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    stream = SimpleNamespace(device=0, synchronize=clock._sync)
    assert return_s(stream) == pytest.approx(1e-6)


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens while three lanes are captured."""
    log: list[str] = []
    monkeypatch.setattr(graph_replays, "capturing", lambda graph, stream: Current())
    monkeypatch.setattr(graph_replays, "free_generators", lambda devices, stream: log.append(f"free {devices}"))
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: log.append(f"{stream.name} is current"))
    return log


def lanes_of(log: list[str]) -> list[Any]:
    lanes = [SimpleNamespace(name=name, device=SimpleNamespace(index=1)) for name in "abc"]
    for lane in lanes:
        lane.wait_stream = lambda other, lane=lane: log.append(f"{lane.name} waits {other.name}")
    return lanes


def test_the_first_lane_forks_to_the_others_and_joins_them(captures: list[str]) -> None:
    graph = object()
    assert captured(lanes_of(captures), lambda: captures.append("issue"), graph) is graph
    assert captures == ["b waits a", "c waits a", "issue", "a is current", "a waits b", "a waits c"]


def test_a_capture_that_fails_lets_the_generator_out(captures: list[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        captured(lanes_of(captures)[:1], lambda: 1 // 0, object())
    assert captures == ["a is current", "free [1]"]


# -- real GPUs ----------------------------------------------------------------------------------------


def one_of(call: Callable[..., Any], *tensors: torch.Tensor) -> list[Callable[[], Any]]:
    return [lambda: call(*tensors)]


@pytest.mark.gpu
def test_operations_on_this_gpu() -> None:
    x = torch.rand(512, 512, device="cuda:0")
    held, spilled = in_graph(one_of(torch.mm, x, x), 0, 1.4e-5, x.nbytes)
    assert held[0] < spilled[0]
    assert 3e-6 < held[1] <= spilled[1] < 3e-5


@pytest.mark.gpu
def test_what_this_gpu_cannot_capture_leaves_it_healthy() -> None:
    """A wait for the device in the middle of a capture, and random numbers before it."""
    x = torch.rand(512, device="cuda:0")

    def waits(given: torch.Tensor) -> torch.Tensor:
        return given + torch.rand_like(given) * float(given.sum().item() > 0)

    assert in_graph(one_of(waits, x), 0, 1e-5, x.nbytes) == ()
    torch.cuda.synchronize()
    assert torch.rand(8, device="cuda:0").sum().item() > 0  # the generator has left the capture
    assert torch.equal(x + x, 2 * x)
    assert in_graph(one_of(torch.rand_like, x), 0, 1e-5, x.nbytes)
    assert in_graph(one_of(torch.add, x, x), 0, 3e-6, x.nbytes)
