"""Waiting without sleep: what ends it, what it leaves to others, and what it does where the system cannot."""

from __future__ import annotations

import ctypes
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from graphsched.errors import StuckError
from graphsched.executors import spinning as module
from graphsched.executors import watch as watching
from graphsched.executors.spinning import LINE_BYTES, Done, Question, question_about, spin_on, spins
from graphsched.executors.watch import Watch

needs_library = pytest.mark.skipif(not spins(), reason="the C library has no lfind or strcmp")


def test_it_is_an_event_like_any_other() -> None:
    done = Done()
    assert (done.is_set(), done.wait(0.0), done.spin(tries=3)) == (False, False, False)
    for _ in range(2):
        done.set()
        assert (done.is_set(), done.wait(0.0), done.spin()) == (True, True, True)
    done.clear()
    assert (done.is_set(), done.spin(tries=3)) == (False, False)


@needs_library
def test_a_thread_that_spins_sees_the_end_and_holds_no_lock_until_then() -> None:
    """The other thread counts, for which it needs the interpreter's lock, and then says that it is done.

    The lock is handed over against one's will after 5 ms: a round of that many tries lasts longer.
    """
    done, counted = Done(), [0]

    def count() -> None:
        until_s = time.perf_counter() + 0.05
        while time.perf_counter() < until_s:
            counted[0] += 1
        done.set()

    thread = threading.Thread(target=count)
    began_s = time.perf_counter()
    thread.start()
    rounds = 0
    while not done.spin(tries=2**26):
        rounds += 1
        assert rounds < 100
    assert counted[0] > 1000
    assert time.perf_counter() - began_s >= 0.05
    thread.join()


class HeldUp:
    """Bytes that a thread is kept from writing until it may go on."""

    def __init__(self, text: Any) -> None:
        self.text, self.go_on = text, threading.Event()

    def __getitem__(self, at: int) -> int:
        return int(self.text[at])

    def __setitem__(self, at: int, value: int) -> None:
        assert self.go_on.wait(10.0)
        self.text[at] = value


def test_who_has_seen_it_may_clear_it_at_once() -> None:
    """A lane is held up within `set`; the thread that waits sees it behind that, and the next run none of it.

    ::

        lane     set: event ─── held up ─── byte
        thread                  spin: no         spin: yes, clear, spin: no
    """
    done = Done()
    held = done._text = HeldUp(done._text)  # type: ignore[assignment]
    lane = threading.Thread(target=done.set)
    lane.start()
    assert done.wait(10.0)
    assert not done.spin(tries=3)
    held.go_on.set()
    while not done.spin(tries=3):
        pass
    done.clear()
    lane.join()
    assert not done.spin(tries=3)


@needs_library
def test_what_is_looked_at_lies_alone_in_its_line() -> None:
    for done in [Done() for _ in range(20)]:
        assert done._address % LINE_BYTES == 0
        assert done._at + LINE_BYTES <= len(done._text)
        done.set()
        assert ctypes.string_at(done._address) == b"\1"


def test_without_such_a_library_nothing_spins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_library", lambda: None)
    done = Done()
    assert not spins()
    assert not done.spin()
    done.set()
    assert done.spin()


@needs_library
@pytest.mark.parametrize("looks", [True, False])
def test_a_library_that_looks_at_no_elements_without_size_does_not_spin(
    monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    """Those of BSD and macOS go from the address of the first element to the end, which is the same."""
    real = ctypes.CDLL(None)
    library = SimpleNamespace(lfind=real.lfind if looks else lambda *_: None, strcmp=real.strcmp)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    assert (module._library.__wrapped__() is not None) is looks


@needs_library
def test_a_question_is_asked_until_its_answer_is_0() -> None:
    asked: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def function(argument: int) -> int:
        asked.append(argument)
        return 600 if len(asked) < 4 else 0

    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    question = Question(address, 77)
    assert not spin_on(question, tries=3)
    assert spin_on(question, tries=3)
    assert asked == [77] * 4


def test_events_and_streams_have_questions_where_there_is_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    event, stream = SimpleNamespace(cuda_event=5), SimpleNamespace(cuda_stream=6)
    monkeypatch.setattr(module, "_driver", lambda: (100, 200))
    assert (question_about(event), question_about(stream)) == (Question(100, 5), Question(200, 6))
    monkeypatch.setattr(module, "_driver", lambda: None)
    assert question_about(event) is None


@pytest.mark.gpu
def test_a_gpu_is_asked_by_its_events_and_streams() -> None:
    """A spinning stream ──▶ event: neither is over at first, and both are once the thread has seen the event's end."""
    import torch

    from graphsched.calibration.cuda_clock import Spinner

    stream: Any = torch.cuda.Stream()
    event: Any = torch.cuda.Event()
    spinner = Spinner(0)
    with torch.cuda.stream(stream):
        spinner.spin(0.2)
        event.record()
    questions = [question_about(event), question_about(stream)]
    assert all(question is not None and not spin_on(question, tries=5) for question in questions)
    watch = Watch(20.0, lanes=[SimpleNamespace(at_work=True)], spins=True)  # type: ignore[list-item]
    watch.begin()
    watch.see(event, "the event")
    assert event.query()
    watch.see(stream, "the stream")
    assert all(question is not None and spin_on(question, tries=1) for question in questions)


# -- the watch ---------------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize("awake", [True, False])
def test_a_watch_waits_for_a_lane_asleep_or_awake(monkeypatch: pytest.MonkeyPatch, awake: bool) -> None:
    ways: list[str] = []
    monkeypatch.setattr(Done, "wait", lambda *_: ways.append("asleep") or True)
    monkeypatch.setattr(Done, "spin", lambda *_: ways.append("awake") or len(ways) == 3)
    watch = Watch(60.0, spins=awake)
    watch.begin()
    watch.spin(Done(), "a task")
    assert ways == (["awake"] * 3 if awake else ["asleep"])


@needs_library
@pytest.mark.parametrize("awake", [True, False])
def test_a_wait_for_a_lane_ends_at_the_deadline_and_with_what_failed(awake: bool) -> None:
    watch, done = Watch(0.01, spins=awake), Done()
    watch.begin()
    with pytest.raises(StuckError, match="a task"):
        watch.spin(done, "a task")
    watch.begin()
    watch.fail(ValueError("broken"))
    done.set()
    with pytest.raises(ValueError, match="broken"):
        watch.spin(done, "a task")


@needs_library
def test_a_wait_awake_ends_with_a_failure_of_another_lane() -> None:
    """Which does not say that this task is done."""
    watch = Watch(60.0, spins=True)
    watch.begin()
    thread = threading.Timer(0.02, watch.fail, [ValueError("broken")])
    thread.start()
    with pytest.raises(ValueError, match="broken"):
        watch.spin(Done(), "a task")
    thread.join()


class Work:
    """A GPU's, which is over when torch is asked for the so-many-eth time."""

    def __init__(self, after: int) -> None:
        self.left = after

    def query(self) -> bool:
        self.left -= 1
        return self.left <= 0


@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_watch_that_stays_awake_has_the_driver_asked_between_two_looks(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    asked: list[Question] = []
    question = Question(1, 2)
    monkeypatch.setattr(watching, "question_about", lambda work: question)
    monkeypatch.setattr(watching, "spin_on", asked.append)
    monkeypatch.setattr(watching, "give_way", lambda: pytest.fail("it gave way"))
    watch = Watch(60.0, lanes=[SimpleNamespace(at_work=True)], spins=True)  # type: ignore[list-item]
    watch.begin()
    watch.see(Work(after), "a device")
    assert asked == [question] * (after - 1)


def test_it_asks_in_python_where_there_is_no_driver_or_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    gave: list[bool] = []
    lanes: Any = [SimpleNamespace(at_work=True)]
    monkeypatch.setattr(watching, "give_way", lambda: gave.append(True))
    for awake, driver in ((True, None), (False, Question(1, 2))):
        monkeypatch.setattr(watching, "question_about", lambda work, driver=driver: driver)
        watch = Watch(60.0, lanes=lanes, spins=awake)
        watch.begin()
        watch.see(Work(4), "a device")
    assert len(gave) == 6
    watch.deadline = 0.0
    with pytest.raises(StuckError, match="a device"):
        watch.see(Work(100), "a device")
    watch = Watch(60.0, lanes=lanes, spins=True)
    monkeypatch.setattr(watching, "question_about", lambda work: Question(1, 2))
    monkeypatch.setattr(watching, "spin_on", lambda question: None)
    with pytest.raises(StuckError, match="a device"):  # not begun: its deadline is past
        watch.see(Work(100), "a device")
