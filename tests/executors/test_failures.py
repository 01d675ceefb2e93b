"""Tasks that raise, runs that hang, Ctrl-C: each leaves a program that runs again."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from graphsched.errors import SignatureError, StuckError, TaskFailedError
from graphsched.executors import Program
from graphsched.executors import program as program_module
from graphsched.executors.failing import come_to_rest
from graphsched.executors.watch import Watch
from graphsched.plan import Plan
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import WORKERS, by_hand, step_

ONE = [TensorSpec((1,))]


class Switch:
    """A function of one tensor that does something else while it is on."""

    def __init__(self, on: Callable[[torch.Tensor], Any]) -> None:
        self.on: Callable[[torch.Tensor], Any] | None = on

    def __call__(self, x: torch.Tensor) -> Any:
        return x + 1 if self.on is None else self.on(x)


def chain(first: Any, *then: Any, lanes: str = "0") -> Plan:
    """x ──▶ t0 ──▶ t1 ──▶ …, on lanes of the cpu by their digits (the last one for the rest)."""
    work = Workload()
    value = work.input("x", torch.ones(1))
    place = {}
    for i, function in enumerate((first, *then)):
        value = work.task(function, value, name=f"t{i}", outputs=ONE)
        place[f"t{i}"] = f"cpu/w{lanes[min(i, len(lanes) - 1)]}"
    return by_hand(work, WORKERS, place)


# -- tasks that raise ------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", ["0", "01", "010"])
def test_a_failing_task_is_named_and_the_program_runs_again(lanes: str) -> None:
    """x ──▶ t0 ──▶ t1 (raises) ──▶ t2, on one lane and across lanes."""
    switch = Switch(lambda x: 1 / 0)
    plan = chain(torch.neg, switch, torch.neg, lanes=lanes)
    lane = plan.lanes[plan.lane_of[plan.index_of["t1"]]].name
    with Program(plan) as program:
        for _ in range(2):
            with pytest.raises(TaskFailedError) as caught:
                program.run()
            assert str(caught.value) == (
                f"'t1' failed on lane {lane} with inputs t0: float32[1]: ZeroDivisionError: division by zero"
            )
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
        switch.on = None
        assert program.run()["t2"].item() == 0.0
        assert program.run(x=torch.zeros(1))["t2"].item() == -1.0


class MuteError(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_error_without_a_text_ends_the_run() -> None:
    """x ──▶ t0 (raises)."""

    def fails(x: torch.Tensor) -> None:
        raise MuteError

    told = r"'t0' failed .*: MuteError: no message \(ValueError in its __str__\)$"
    with Program(chain(fails), timeout_s=5) as program, pytest.raises(TaskFailedError, match=told):
        program.run()


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_a_task_that_ends_the_script_has_failed(kind: type[BaseException]) -> None:
    """x ──▶ t0 (leaves)."""

    def leaves(x: torch.Tensor) -> None:
        raise kind(3)

    told = rf"'t0' failed on lane cpu/w0 with inputs x: float32\[1\]: .*it ends the script \({kind.__name__}: 3\)"
    with Program(chain(leaves)) as program, pytest.raises(TaskFailedError, match=told):
        program.run()


def test_nothing_that_needs_a_failed_task_runs() -> None:
    """x ──▶ t0 (raises) ──▶ t1 on another lane ──▶ t2."""
    calls: list[int] = []
    plan = chain(Switch(lambda x: 1 / 0), calls.append, calls.append, lanes="010")
    with Program(plan) as program, pytest.raises(TaskFailedError, match="'t0' failed on lane cpu/w0"):
        program.run()
    assert calls == []


def test_the_other_lanes_finish_what_they_are_at_before_the_error_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """t0 raises while t1 sleeps on another lane: no task runs on behind the user's back."""
    monkeypatch.setattr(program_module, "GRACE_S", 0.01)
    over: list[int] = []
    started = threading.Event()

    def slow(x: torch.Tensor) -> torch.Tensor:
        started.set()
        time.sleep(0.2)
        over.append(1)
        return x

    def failing(x: torch.Tensor) -> None:
        started.wait(10)
        raise ValueError("no")

    work = Workload()
    x = work.input("x", torch.ones(1))
    work.task(failing, x, name="t0", outputs=ONE)
    work.task(slow, x, name="t1", outputs=ONE)
    with Program(by_hand(work, WORKERS, {"t0": "cpu/w0", "t1": "cpu/w1"})) as program:
        with pytest.raises(TaskFailedError, match="ValueError: no"):
            program.run()
        assert over == [1]


def test_bytes_kept_for_a_gradient_are_as_many_as_the_operator_wants() -> None:
    """x ──▶ t ──▶ kept: declared as uint8[0], returned as seven."""
    work = Workload()
    x = work.input("x", torch.ones(1))
    kept = TensorSpec((0,), "uint8")
    work.task(lambda x: torch.zeros(7, dtype=torch.uint8), x, name="t", outputs=[kept])
    with Program(by_hand(work, WORKERS, "worker:0/w0")) as program:
        assert program.run()["t"].shape == (7,)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda x: torch.ones(2), r"declares t0: float32\[1\] and returned float32\[2\]"),
        (lambda x: x.double(), r"declares t0: float32\[1\] and returned float64\[1\]"),
        (lambda x: (x, x), "declares 1 outputs and returned 2"),
        (lambda x: None, "declares 1 outputs and returned 0"),
        (lambda x: 3.0, "returned a float, a task returns tensors only"),
        (lambda x: x.to("meta"), "ran on cpu and returned t0 on meta"),
        (lambda x: x.to_sparse(), r"returned t0 as torch.sparse_coo: return a dense tensor"),
    ],
)
def test_a_task_that_returns_something_else_than_declared(returned: Any, message: str) -> None:
    """x ──▶ t0, found in the first run; the next run is right."""
    switch = Switch(returned)
    with Program(chain(switch)) as program:
        with pytest.raises(TaskFailedError, match=rf"'t0' failed on lane cpu/w0 with inputs x: .*{message}") as caught:
            program.run()
        assert isinstance(caught.value.__cause__, SignatureError)
        switch.on = None
        assert program.run()["t0"].item() == 2.0


@pytest.mark.parametrize("by", [1, 0])
def test_a_task_that_keeps_a_tensor_of_the_call_that_inferred_its_outputs(by: int) -> None:
    """x ──▶ t ──▶ u: t's lazy cache has no data; it computes with that, or returns it."""
    kept: list[torch.Tensor] = []

    def lazy(x: torch.Tensor) -> torch.Tensor:
        kept[:] = kept or [torch.full_like(x, 3.0)]
        return kept[0] * x if by else kept[0]

    work = Workload()
    work.task(torch.neg, work.task(lazy, work.input("x", torch.ones(1)), name="t"), name="u")
    message = f"'t' .*{'computes with' if by else 'returned t as'} a tensor kept from the call, without data"
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program, pytest.raises(TaskFailedError, match=message):
        program.run()


def test_a_failed_run_keeps_the_updates_that_came_before() -> None:
    """step_(w) ──▶ t raises: w has moved, and can be set back."""
    work = Workload()
    x, w = work.input("x", torch.ones(1)), work.state("w", torch.zeros(1))
    work.task(step_, w, x, updates=w, name="step")
    work.task(lambda t: 1 / 0, w, name="t", outputs=ONE)
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        with pytest.raises(TaskFailedError):
            program.run()
        assert program.state()["w"].item() == 1.0
        program.reset()
        assert program.state()["w"].item() == 0.0


# -- runs that hang --------------------------------------------------------------------------------


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that hanging tasks wait for; set at the end of the test."""
    monkeypatch.setattr(program_module, "GRACE_S", 0.1)
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("lanes", ["0", "010"])
def test_a_run_that_hangs_is_ended_and_says_what_it_waits_for(release: threading.Event, lanes: str) -> None:
    """x ──▶ t0 ──▶ t1 (hangs) ──▶ t2."""
    switch = Switch(lambda x: release.wait(60) and x)
    plan = chain(torch.neg, switch, torch.neg, lanes=lanes)
    lane = plan.lanes[plan.lane_of[plan.index_of["t1"]]].name
    with Program(plan, timeout_s=0.2) as program:
        with pytest.raises(StuckError) as caught:
            program.run()
        assert "beyond 0.2 s" in str(caught.value)
        assert str(caught.value).endswith(f"not over: 't1' on lane {lane}")
        switch.on = None
        assert program.run()["t2"].item() == 0.0


def test_a_hanging_task_before_a_wait_of_the_thread(release: threading.Event) -> None:
    """x ──▶ t0 (hangs); barrier; t1: the thread hangs in the barrier, t1 is never issued."""
    work = Workload()
    x = work.input("x", torch.ones(1))
    work.task(lambda t: release.wait(60) and t, x, name="t0", outputs=ONE)
    work.barrier("gate")
    work.task(torch.neg, x, name="t1")
    with Program(by_hand(work, WORKERS, {"t0": "cpu/w0", "t1": "cpu/w1"}), timeout_s=0.2) as program:
        message = r"waited for 't0' \(in 'gate'\) on lane cpu/w0 .* not over: 't0' on lane cpu/w0$"
        with pytest.raises(StuckError, match=message):
            program.run()


def test_a_lost_task_that_ends_later_does_not_write_into_the_next_run(release: threading.Event) -> None:
    """x ──▶ t0 (hangs once) ──▶ t1 (lets the lost one go) ──▶ …;  t0 ──▶ t2, which must read the new t0."""
    went = threading.Event()

    def hang(x: torch.Tensor) -> torch.Tensor:
        release.wait(60)
        went.set()
        return x.clone()

    def let_go(x: torch.Tensor) -> torch.Tensor:
        release.set()
        assert went.wait(10)
        time.sleep(0.05)
        return x

    switch = Switch(hang)
    work = Workload()
    t0 = work.task(switch, work.input("x", torch.ones(1)), name="t0", outputs=ONE)
    t1 = work.task(let_go, t0, name="t1", outputs=ONE)
    work.task(torch.add, t0, t1, name="t2")
    with Program(by_hand(work, WORKERS, "cpu/w0"), timeout_s=0.2) as program:
        with pytest.raises(StuckError):
            program.run()
        switch.on, program._timeout_s = None, 20.0
        assert program.run(x=torch.full((1,), 4.0))["t2"].item() == 10.0


def test_states_and_loaded_inputs_outlive_a_stuck_run(release: threading.Event) -> None:
    """step_(w, x), then t (hangs)."""
    switch = Switch(lambda x: release.wait(60) and x)
    work = Workload()
    x, w = work.input("x", torch.ones(1)), work.state("w", torch.zeros(1))
    work.task(step_, w, x, updates=w, name="step")
    work.task(switch, w, name="t", outputs=ONE)
    with Program(by_hand(work, WORKERS, "cpu/w0"), timeout_s=0.2) as program:
        program.load({"x": torch.full((1,), 2.0)})
        with pytest.raises(StuckError):
            program.time_once()
        switch.on = None
        program.time_once()
        assert program.state()["w"].item() == 4.0
        program.reset()
        assert program.run()["t"].item() == 2.0


# -- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.fixture
def interrupt() -> Iterator[Callable[[float], None]]:
    """A function that sends this process what Ctrl-C sends, after some seconds."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    assert main is not None
    timers = []

    def after(seconds: float) -> None:
        timers.append(threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT)))
        timers[-1].start()

    yield after
    for timer in timers:
        timer.cancel()
        timer.join()
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_a_task_runs(interrupt: Callable[[float], None]) -> None:
    """x ──▶ t0 (sleeps) ──▶ t1: t0 ends within the grace, t1 is left out, and the program runs again."""
    calls: list[int] = []

    def last(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x

    switch = Switch(lambda x: time.sleep(0.3) or x)
    with Program(chain(switch, last)) as program:
        interrupt(0.1)
        with pytest.raises(KeyboardInterrupt):
            program.run()
        assert calls == []
        switch.on = None
        assert program.run()["t1"].item() == 2.0


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_while_a_task_hangs(
    interrupt: Callable[[float], None], release: threading.Event, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x ──▶ t0 (hangs), Ctrl-C once, or again while the lanes come to rest: the lost thread is left alone."""
    monkeypatch.setattr(program_module, "GRACE_S", 0.1 if times == 1 else 30.0)
    switch = Switch(lambda x: release.wait(60) and x)
    with Program(chain(switch, torch.neg, lanes="01")) as program:
        for k in range(times):
            interrupt(0.1 + 0.2 * k)
        with pytest.raises(KeyboardInterrupt):
            program.run()
        switch.on = None
        assert program.run()["t1"].item() == -2.0


def test_ctrl_c_is_not_hidden_by_a_failing_task(interrupt: Callable[[float], None]) -> None:
    """t0 sleeps on w0, which the thread waits for; t1 has failed on w1 when Ctrl-C comes."""
    started = threading.Event()

    def failing(x: torch.Tensor) -> None:
        assert started.wait(10)
        raise ValueError("early")

    def sleeping(x: torch.Tensor) -> torch.Tensor:
        started.set()
        time.sleep(0.8)
        return x

    work = Workload()
    x = work.input("x", torch.ones(1))
    work.task(sleeping, x, name="t0", outputs=ONE)
    work.task(failing, x, name="t1", outputs=ONE)
    with Program(by_hand(work, WORKERS, {"t0": "cpu/w0", "t1": "cpu/w1"})) as program:
        interrupt(0.3)
        with pytest.raises(KeyboardInterrupt):
            program.run()


@pytest.mark.parametrize("call", ["run", "submit"])
@pytest.mark.parametrize("when", ["begin", "wait"])
def test_a_lock_that_the_interrupted_thread_leaves_taken_stops_no_later_run(call: str, when: str) -> None:
    """x ──▶ t0: the thread takes the lock of what says that t0 is done, to clear it or to wait, and is interrupted."""
    with Program(chain(torch.neg)) as program:
        (done,) = program._compiler.done.values()

        def interrupted(*_: Any) -> None:
            if when == "wait":
                assert done.wait(10)
            done._cond.acquire()
            raise KeyboardInterrupt

        holder = program._compiler if when == "begin" else program.watch
        setattr(holder, {"begin": "begin", "wait": "spin"}[when], interrupted)
        with pytest.raises(KeyboardInterrupt):
            program.run() if call == "run" else program.submit().result()
        results: list[float] = []
        again = threading.Thread(target=lambda: results.append(program.run()["t0"].item()), daemon=True)
        again.start()
        again.join(10)
        assert results == [-1.0]


def test_what_is_used_again_after_an_interrupt() -> None:
    """All of a plan that has no CPU lanes, and with it the graphs that were captured; no lane of a CPU."""
    with Program(chain(torch.neg)) as program:
        for lanes, failure, again in (
            ({}, KeyboardInterrupt(), True),
            (program._cpu, KeyboardInterrupt(), False),
            (program._cpu, ValueError(), True),
        ):
            assert come_to_rest(failure, Watch(1.0), lanes, {}, 5.0) is again
