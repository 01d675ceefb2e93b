"""Steps that overlap: on CPU lanes, played on GPUs, and on real ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.errors import ExecutionError, StuckError, TaskFailedError, WorkloadError
from graphsched.executors import Program, eager, execute, segments, timed_runs
from graphsched.executors import program as program_module
from graphsched.executors.buffers import Buffers
from graphsched.executors.flights import Submitted
from graphsched.executors.submitting import Steps
from graphsched.plan import Plan
from graphsched.plan.steps import carried, carried_waits
from graphsched.workload import TensorSpec, Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import (
    WORKERS,
    Plain,
    assert_same,
    by_hand,
    digits,
    machine,
    random_plan,
    random_workload,
    slow,
    step_,
)

CPUS = ("worker:0", "worker:1", "cpu")
ONE = [TensorSpec((1,))]


def rest(*views: torch.Tensor) -> torch.Tensor:
    return torch.stack([view.sum().cpu() for view in views]).sum() % 7


def overlapping(work: Workload) -> Workload:
    """`work`, which returns no state and no view of one."""
    of_states = [v for v in work.values.values() if work.values[v.root].kind == "state"]
    work.kept -= {v.name for v in of_states}
    returned = {v.name for v in work.returned()}
    views = [v for v in of_states if v.name in returned]
    if views:
        work.task(rest, *views, name="rest", device="cpu", outputs=[TensorSpec((), "float64")])
    return work


def assert_steps_like_runs(plan: Plan, *, mode: str = "eager", device: str = "cpu", steps: int = 5) -> None:
    """Steps on inputs of their own, results asked for at the end, against the loop over the workload's tasks."""
    plain = Plain(plan.work, device)
    with Program(plan, mode=mode) as program:
        mine, handles, expected = digits(0), [], []
        for step in range(steps):
            mine.copy_(digits(100 + step))
            handles.append(program.submit(x=mine))
            mine.fill_(torch.nan)
            expected.append(plain.run(x=digits(100 + step)))
        for handle, wanted in zip(handles, expected, strict=True):
            assert_same(handle.result(), wanted)
        assert_same(program.state(), plain.states)
        assert_same(program.run(x=digits(1)), plain.run(x=digits(1)))
        assert_same(program.submit(x=digits(2)).result(), plain.run(x=digits(2)))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), overlap=st.booleans())
def test_steps_give_what_runs_give(seed: int, overlap: bool) -> None:
    """Random graphs on random lanes, states updated in place; some return a state."""
    work = random_workload(seed, CPUS)
    assert_steps_like_runs(random_plan(overlapping(work) if overlap else work, WORKERS, seed))


# -- overlap, and its end ------------------------------------------------------------------------------


class Gates:
    """An event for each call of a task, by the values that it is called with."""

    def __init__(self) -> None:
        self.began = [threading.Event() for _ in range(4)]
        self.free = [threading.Event() for _ in range(4)]

    def begin(self, x: torch.Tensor) -> torch.Tensor:
        self.began[int(x)].set()
        return x + 0

    def hold(self, x: torch.Tensor) -> torch.Tensor:
        assert self.free[int(x)].wait(20)
        return x * 10


@pytest.fixture
def gates() -> Iterator[Gates]:
    made = Gates()
    yield made
    for event in made.free:
        event.set()


def pipeline(gates: Gates, *, keeps_state: bool = False) -> Plan:
    """x ──▶ a (w0, says that it began) ──▶ b (w1, waits to be let go);  s is a state."""
    work = Workload()
    x, s = work.input("x", TensorSpec((1,))), work.state("s", torch.ones(1))
    a = work.task(gates.begin, x, name="a", outputs=ONE)
    work.task(gates.hold, a, name="b", outputs=ONE)
    if keeps_state:
        work.keep(s)
    return by_hand(work, WORKERS, {"a": "cpu/w0", "b": "cpu/w1"})


def number(k: int) -> torch.Tensor:
    return torch.tensor([float(k)])


def test_a_step_begins_before_the_one_before_is_over(gates: Gates) -> None:
    """b of step 1 ends only after a of step 2 has begun."""
    with Program(pipeline(gates)) as program:
        gates.free[0].set()
        program.submit(x=number(0))  # the second side is made when this is over
        program.submit(x=number(1))
        program.submit(x=number(2))
        assert gates.began[2].wait(20)
        for k in (1, 2):
            gates.free[k].set()
        program.wait()


def test_a_third_step_waits_for_the_first(gates: Gates) -> None:
    """Step 0 cannot end: the thread that submits step 2 stands still until it can."""
    with Program(pipeline(gates)) as program:
        program._ready_steps()._make_second()
        first, second = program.submit(x=number(0)), program.submit(x=number(1))
        assert gates.began[1].wait(20)
        third: list[Any] = []
        thread = threading.Thread(target=lambda: third.append(program.submit(x=number(2))))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert not gates.began[2].is_set()
        assert not first.done()
        gates.free[0].set()
        thread.join(20)
        assert first.done()
        assert not second.done()
        for event in gates.free:
            event.set()
        assert [h.result()["b"].item() for h in (first, second, *third)] == [0.0, 10.0, 20.0]


def test_a_plan_that_returns_a_state_has_its_steps_one_after_another(gates: Gates) -> None:
    """A second step that began before the first is over would change what that returns."""
    with Program(pipeline(gates, keeps_state=True)) as program:
        first = program.submit(x=number(0))
        threading.Timer(0.2, gates.free[0].set).start()
        program.submit(x=number(1))
        assert first.done()
        gates.free[1].set()
        assert first.result()["s"].item() == 1.0


def test_whatever_else_a_program_does_comes_after_its_steps(gates: Gates) -> None:
    """A run, a look at states, and the end; a step that somebody holds keeps its result."""
    with Program(pipeline(gates)) as program:
        for k, look in enumerate((program.state, lambda: program.run(x=number(0)), program.reset)):
            step = program.submit(x=number(k))
            threading.Timer(0.1, gates.free[k].set).start()
            look()
            assert step.done()
        last = program.submit(x=number(2))
    assert last.result()["b"].item() == 20.0
    assert last.result() is last.result()
    with pytest.raises(ExecutionError, match="this program is closed"):
        program.submit(x=number(0))


# -- results ---------------------------------------------------------------------------------------------


def host_copy() -> Plan:
    """x ──▶ y (worker:0) ──▶ back on the cpu."""
    work = Workload()
    y = work.task(torch.neg, work.input("x", TensorSpec((1,))), name="y")
    work.copy(y, to="cpu", name="back")
    return by_hand(work, WORKERS, "worker:0/s0")


def test_a_copy_on_the_host_is_the_buffer_only_where_it_is_asked_for_in_time() -> None:
    """Eight steps, held and asked for at the end; then one asked for at once."""
    with Program(host_copy()) as program:
        steps = [program.submit(x=number(k)) for k in range(8)]
        assert [s.result()["back"].item() for s in steps] == [0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0]
        tensors = [program.submit(x=number(k)).result()["back"] for k in range(3)]
        assert tensors[0].data_ptr() == tensors[2].data_ptr() != tensors[1].data_ptr()


def test_results_of_steps_that_nobody_holds_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    real = Buffers.results
    monkeypatch.setattr(Buffers, "results", lambda made: fetched.append(1) or real(made))
    with Program(host_copy()) as program:
        for k in range(5):
            program.submit(x=number(k))
        program.wait()
        assert fetched == []
        assert program.submit(x=number(1)).result()["back"].item() == -1.0


def test_inputs_not_given_have_their_defaults_on_both_sides() -> None:
    """x + y, x with a default."""
    work = Workload()
    work.task(torch.add, work.input("x", torch.ones(1)), work.input("y", TensorSpec((1,))), name="sum")
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        given_x = [program.submit(x=number(5), y=number(k)) for k in range(4)]
        default = [program.submit(y=number(k)) for k in range(4)]
        assert [s.result()["sum"].item() for s in (*given_x, *default)] == [5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0]


def test_defaults_are_what_they_were_when_the_program_was_made() -> None:
    """10 x: the user's tensor changes; in runs, on both sides of steps, behind a given input, after a lost task."""
    mine, work = torch.ones(1), Workload()
    work.task(torch.mul, work.input("x", mine), 10, name="y")
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        mine.fill_(5.0)
        steps = [program.submit(), program.submit(x=number(3)), *(program.submit() for _ in range(3))]
        assert [step.result()["y"].item() for step in steps] == [10.0, 30.0, 10.0, 10.0, 10.0]
        assert program.run(x=number(2))["y"].item() == 20.0
        mine.fill_(7.0)
        assert program.run()["y"].item() == 10.0
        program.buffers = program.buffers.renewed()
        program.buffers.load({"x": number(4)})
        program.buffers.load({})
        assert program.buffers.slots[program.buffers.slot("x")].item() == 1.0


def test_the_result_of_a_step_while_another_thread_uses_the_program() -> None:
    """It is refused until that thread is done; whether the step is over any thread may ask."""
    go, told = threading.Event(), list[bool]()

    def wait(x: torch.Tensor) -> torch.Tensor:
        assert go.wait(20)
        return x + 1

    work = Workload()
    work.task(wait, work.input("x", torch.zeros(1)), name="y", outputs=[TensorSpec((1,))])
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        step = program.submit(x=number(1))

        def ask() -> None:
            with pytest.raises(ExecutionError, match="another thread is using this program"):
                step.result()
            told.append(step.done())

        other = threading.Thread(target=ask)
        with program.turn:
            other.start()
            other.join(2)  # without a refusal it waits
            go.set()
            other.join()
        assert told == [False]
        assert step.result()["y"].item() == 2.0


# -- failures --------------------------------------------------------------------------------------------


class Fails:
    """Adds one to a state; fails for an input of this value, once it may."""

    def __init__(self, value: float) -> None:
        self.value, self.may = value, threading.Event()

    def __call__(self, w: torch.Tensor, x: torch.Tensor) -> None:
        if x.item() == self.value:
            assert self.may.wait(20)
            raise ValueError("no such number")
        w.add_(1)


def counting(change: Callable[..., Any]) -> Plan:
    """x ──▶ y (w0);  w ◀── change(w, x) (w1)."""
    work = Workload()
    x, w = work.input("x", TensorSpec((1,))), work.state("w", torch.zeros(1))
    work.task(torch.neg, x, name="y")
    work.task(change, w, x, updates=w, name="change", outputs=[])
    return by_hand(work, WORKERS, {"y": "cpu/w0", "change": "cpu/w1"})


@pytest.mark.parametrize("by", ["result", "wait", "submit", "run", "state"])
def test_a_failing_step_is_told_and_the_program_runs_again(by: str) -> None:
    """Step 1 fails while step 2 is under way, which fails with it; step 0 was over before."""
    fails = Fails(1.0)
    with Program(counting(fails)) as program:
        program._ready_steps()._make_second()
        before = program.submit(x=number(0))
        assert before.result()["y"].item() == 0.0
        steps = [program.submit(x=number(1)), program.submit(x=number(2))]
        fails.may.set()
        acts = {
            "result": steps[1].result,
            "wait": program.wait,
            "submit": lambda: program.submit(x=number(3)),
            "run": lambda: program.run(x=number(3)),
            "state": program.state,
        }
        with pytest.raises(TaskFailedError, match=r"'change' failed on lane cpu/w1 with inputs .*no such number"):
            acts[by]()
        assert program._steps is None  # what the next steps carry begins anew
        for step in steps:
            assert step.done()
            with pytest.raises(TaskFailedError, match="'change' failed"):
                step.result()
        assert before.result()["y"].item() == 0.0
        assert program.state()["w"].item() == 1.0
        again = [program.submit(x=number(k)) for k in (2, 3, 4)]
        assert [s.result()["y"].item() for s in again] == [-2.0, -3.0, -4.0]
        assert program.state()["w"].item() == 4.0


@pytest.mark.parametrize("held", [True, False])
def test_the_end_says_what_failed_and_nobody_has_been_told(held: bool) -> None:
    """By close and by a with block; one that raises says its own error, and what was told is not said again."""
    fails = Fails(1.0)
    fails.may.set()

    def failed() -> Program:
        program = Program(counting(fails))
        step = program.submit(x=number(1))
        if held:
            steps.append(step)
        return program

    steps: list[Submitted] = []
    told = r"'change' failed on lane cpu/w1 with inputs .*no such number"
    with pytest.raises(TaskFailedError, match=told), failed():
        pass
    with pytest.raises(KeyError, match="another"), failed():
        raise KeyError("another")
    program = failed()
    with pytest.raises(TaskFailedError, match=told):
        program.close()
    program.close()
    with pytest.raises(ExecutionError, match="this program is closed"):
        program.run(x=number(0))
    for step in steps:
        with pytest.raises(TaskFailedError, match=told):
            step.result()
    with failed() as program, pytest.raises(TaskFailedError, match=told):
        program.wait()


def test_a_step_that_hangs_is_ended_and_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, gates: Gates) -> None:
    """The lanes of the stuck steps are left to themselves; new ones go on."""
    monkeypatch.setattr(program_module, "GRACE_S", 0.1)
    with Program(pipeline(gates), timeout_s=0.2) as program:
        program._ready_steps()._make_second()
        steps = [program.submit(x=number(0)), program.submit(x=number(1))]
        with pytest.raises(StuckError, match=r"waited for 'b' on lane cpu/w1 beyond 0.2 s.* not over: 'b' on lane"):
            program.submit(x=number(2))
        with pytest.raises(StuckError):
            steps[1].result()
        for k in (2, 3):
            gates.free[k].set()
        assert [program.submit(x=number(k)).result()["b"].item() for k in (2, 3)] == [20.0, 30.0]


@pytest.mark.parametrize("when", ["waiting", "coming to rest"])
def test_steps_that_are_interrupted(monkeypatch: pytest.MonkeyPatch, gates: Gates, when: str) -> None:
    """They are lost, and the program goes on, on new lanes if those of the lost ones do not come to rest."""
    monkeypatch.setattr(program_module, "GRACE_S", 0.1)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Program(pipeline(gates)) as program:
        step = program.submit(x=number(0))
        with monkeypatch.context() as patch:
            patch.setattr(type(program.watch), "wait", interrupt)
            if when == "coming to rest":
                patch.setattr(program_module, "come_to_rest", interrupt)
            with pytest.raises(KeyboardInterrupt):
                step.result()
        assert step.done()
        with pytest.raises(ExecutionError, match="the step was interrupted: submit it again"):
            step.result()
        gates.free[1].set()
        assert program.submit(x=number(1)).result()["b"].item() == 10.0


def test_wrong_inputs_are_refused_and_steps_go_on() -> None:
    with Program(host_copy()) as program:
        step = program.submit(x=number(1))
        with pytest.raises(WorkloadError, match=r"'x' must be float32\[1\]"):
            program.submit(x=torch.ones(2))
        assert step.result()["back"].item() == -1.0
        assert program.submit(x=number(2)).result()["back"].item() == -2.0


# -- measured ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_state", [False, True])
def test_steps_are_measured(gates: Gates, keeps_state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three warm-ups and four samples of three steps each, and the timed runs; inputs are those given."""
    monkeypatch.setattr(timed_runs, "TIMED_S", 0.0)
    calls: list[float] = []
    for event in gates.free:
        event.set()
    plan = pipeline(gates, keeps_state=keeps_state)
    held = gates.hold

    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.item())
        return held(x)

    gates.hold = counted  # type: ignore[method-assign]
    timeline = execute(pipeline(gates, keeps_state=keeps_state), steps=3, repeats=4, inputs={"x": number(2)})
    assert len(plan) == len(timeline)
    assert len(timeline.samples_s) == 4
    assert calls == [2.0] * (3 * (3 + 4) + 1 + 3)
    assert min(timeline.samples_s) > 0


@pytest.mark.parametrize("steps", [0, 1.5, True])
def test_a_number_of_steps_is_needed(steps: Any) -> None:
    with pytest.raises(Exception, match=f"steps is {steps!r}: a whole number above 0 is needed"):
        execute(host_copy(), steps=steps, inputs={"x": number(1)})


# -- played ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_steps_on_gpus_use_no_memory_out_of_order(
    cuda: Callable[[int], FakeCuda], seed: int, mode: str, busy: bool
) -> None:
    """Random graphs on lanes of GPUs and the CPU; with `busy`, the caller's streams are never idle."""
    names = tuple(f"cuda:{k}" for k in range(1 + seed % 2))
    fake = cuda(len(names))
    fake.busy = busy
    gpu_only = seed % 4 > 1
    work = random_workload(seed, names if gpu_only else (*names, "cpu"), tasks=25, pinned=gpu_only)
    where = machine(*names, between="peer" if seed % 3 else "staged")
    plan = random_plan(overlapping(work), where, seed, 1 + seed % 3, waits=seed % 4 == 0)
    assert_steps_like_runs(plan, mode=mode)
    assert fake.device == 0
    assert fake.current == fake.defaults


def trained(second: str = "cuda:0/s1") -> Plan:
    """use(w, x) (s0);  w ◀── change(w, x) (s1)."""
    work = Workload()
    home = second.partition("/")[0]
    x, w = work.input("x", torch.ones(2), device="cuda:0"), work.state("w", torch.ones(2), device=home)
    work.task(torch.add, w, x, name="use")
    work.task(step_, w, x, updates=w, name="change", outputs=[])
    return by_hand(work, machine("cuda:0"), {"use": "cuda:0/s0", "change": second})


@pytest.mark.parametrize(
    ("mode", "second", "module", "name"),
    [
        ("eager", "cuda:0/s1", eager, "carried_waits"),
        ("eager", "cpu/w0", eager, "carried_waits"),
        ("graph", "cpu/w0", segments, "carried"),
    ],
)
def test_without_carried_waits_a_race_is_found(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch, mode: str, second: str, module: Any, name: str
) -> None:
    """On two streams of a GPU, and on a lane of the CPU that a graph reads from."""
    cuda(1)
    plan = trained(second)
    assert_steps_of(plan, mode)
    monkeypatch.setattr(module, name, lambda plan: {})
    with pytest.raises(TaskFailedError, match=r"not yet written by|still read by|writes beside"):
        assert_steps_of(plan, mode)


def assert_steps_of(plan: Plan, mode: str) -> None:
    plain = Plain(plan.work)
    with Program(plan, mode=mode) as program:
        for k in range(4):
            found = program.submit(x=torch.full((2,), float(k)))
            wanted = plain.run(x=torch.full((2,), float(k)))
        assert_same(found.result(), wanted)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_lanes_begin_after_the_callers_streams(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Which copy the inputs, and results of the same side; not to wait for them is a race."""
    fake = cuda(1)
    fake.busy = True
    assert_steps_of(trained(), mode)
    monkeypatch.setattr(Steps, "_follow_caller", lambda steps, devices, current: None)
    with pytest.raises(TaskFailedError, match="not yet written by"):
        assert_steps_of(trained(), mode)


def test_a_step_in_graph_mode_begins_after_clones_of_states(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step, the state w is cloned by the caller's stream, a step changes it: a race if no stream is followed."""
    cuda(1).busy = True

    def look_between() -> None:
        with Program(trained(), mode="graph") as program:
            program.submit()
            assert program.state()["w"].tolist() == [2.0, 2.0]
            program.submit()
            program.wait()

    look_between()
    monkeypatch.setattr(Steps, "_read_and_written", lambda steps, loading: loading)
    with pytest.raises(TaskFailedError, match="still read by"):
        look_between()


def test_a_step_in_graph_mode_begins_after_clones_of_results(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that are held: the third writes where the first's results are still cloned from."""
    cuda(1)

    def hold() -> None:
        with Program(trained(), mode="graph") as program:
            held = [program.submit() for _ in range(4)]
            program.wait()
            assert [step.result()["use"].tolist() for step in held] == [[k + 2.0] * 2 for k in range(4)]

    hold()
    monkeypatch.setattr(Buffers, "gpus", lambda buffers, names: set())
    with pytest.raises(TaskFailedError, match="still read by"):
        hold()


def test_a_step_in_graph_mode_asks_only_for_streams_that_matter(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """x on the host; y (cuda:0), z (cuda:1): while steps are under way the caller's streams have no part in them."""
    fake = cuda(2)
    work = Workload()
    for device in ("cuda:0", "cuda:1"):
        work.task(torch.neg, work.input(f"x{device[-1]}", torch.ones(2), device=device), name=f"y{device[-1]}")
    plan = by_hand(work, machine("cuda:0", "cuda:1"), {"y0": "cuda:0/s0", "y1": "cuda:1/s0"})
    asked: list[int] = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: asked.append(device) or fake.current[device])
    with Program(plan, mode="graph") as program:
        for _ in range(3):
            program.submit()
        asked.clear()
        program.submit()
        without, _ = list(asked), asked.clear()
        program.submit(x1=torch.zeros(2))
        assert (without, asked) == ([0], [0, 1])  # that which graphs are launched on; and that of the input


def test_a_step_waits_first_and_tells_last(cuda: Callable[[int], FakeCuda]) -> None:
    """use (s0) waits for change (s1) of the step before; change for use of its own step; runs stay as they are."""
    cuda(1)
    plan = trained()
    assert carried_waits(plan) == {0: (1,)}
    with Program(plan) as program:
        before = list(program._calls.owner)
        steps = program._ready_steps()
        names = [plan.names[i] for i in steps._first.calls.owner]
        assert program._calls.owner == before
    # run: switch, call, record; switch, wait, call
    assert [plan.names[i] for i in before] == ["use"] * 3 + ["change"] * 3
    assert names == ["use"] * 4 + ["change"] * 4  # and a wait, a record


def test_a_plan_without_carried_waits_has_the_calls_of_a_run(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="y")
    plan = by_hand(work, machine("cuda:0"), "cuda:0/s0")
    with Program(plan) as program:
        assert program._ready_steps()._first.calls is program._calls


def test_graphs_carry_only_between_them_and_what_is_outside(cuda: Callable[[int], FakeCuda]) -> None:
    """w on the CPU: its copy to the GPU, in a graph, waits for the change outside. w on the GPU: nothing is carried."""
    cuda(1)
    plan = trained("cpu/w0")
    change = plan.index_of["change"]
    with Program(plan, mode="graph") as program:
        carry = program._compiler.carry()
    assert len(carry.by_stream(("graph", 0), None, program.watch)) == 1
    assert len(carry.said(change)) == 1
    assert carried(trained())
    with Program(trained(), mode="graph") as program:
        assert not program._compiler.carry()


def test_steps_wait_for_each_other_where_graphs_draw_on_another_gpu(cuda: Callable[[int], FakeCuda]) -> None:
    """A launch writes where its numbers begin, beside what still runs there."""
    cuda(1)
    with Program(trained(), mode="graph") as program:
        program._compiler.inner.draws_elsewhere = True
        steps = [program.submit(x=torch.zeros(2)) for _ in range(3)]
        assert [step.is_open for step in steps] == [False, False, True]


# -- on real GPUs --------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("seed", range(6))
def test_steps_on_a_gpu(seed: int, mode: str) -> None:
    """Streams that get far behind, memory that is given out again at once, tasks on the CPU."""
    names = ("cuda:0",) if seed % 2 else ("cuda:0", "cpu")
    work = overlapping(random_workload(seed, names, tasks=25, pinned=len(names) == 1))
    plan = random_plan(work, machine("cuda:0"), seed, 1 + seed % 4, on=names, waits=False)
    assert_steps_like_runs(plan, mode=mode, device="cuda:0", steps=8)


@pytest.mark.multigpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("seed", range(6))
def test_steps_on_two_gpus(seed: int, mode: str) -> None:
    names = ("cuda:0", "cuda:1")
    work = overlapping(random_workload(seed, names, tasks=25, pinned=True))
    plan = random_plan(work, machine(*names), seed, 1 + seed % 4, on=names, waits=False)
    assert_steps_like_runs(plan, mode=mode, device="cuda:0", steps=8)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_an_input_on_the_gpu_may_change_as_soon_as_it_is_submitted(mode: str) -> None:
    """On the caller's stream, which is behind: x on cuda:0 is filled late, submitted, and filled with NaN."""
    work = Workload()
    x = work.input("x", digits(0).cuda(), device="cuda:0")
    y = work.task(slow, x, name="y")
    work.task(torch.neg, y, name="z")
    plan = by_hand(work, machine("cuda:0"), {"y": "cuda:0/s0", "z": "cuda:0/s1"})
    mine, steps = torch.empty(8, 8, dtype=torch.float64, device="cuda:0"), []
    with Program(plan, mode=mode) as program:
        for k in range(6):
            torch.cuda._sleep(1_000_000)
            mine.copy_(digits(k))
            steps.append(program.submit(x=mine))
            mine.fill_(torch.nan)
        for k, step in enumerate(steps):
            assert torch.equal(step.result()["z"].cpu(), -((digits(k) * 5) % 7))


@pytest.mark.gpu
def test_a_copy_overlaps_the_next_step_on_a_gpu() -> None:
    """x ──▶ y (20 ms on s0) ──▶ copy to the host (about as long): ten steps take much less than ten runs."""
    work = Workload()
    x = work.input("x", torch.zeros(1 << 27), device="cuda:0")  # 0.5 GB
    y = work.task(late, x, name="y", outputs=[TensorSpec((1 << 27,))])
    work.copy(y, to="cpu", pinned=True, name="back")
    plan = by_hand(work, machine("cuda:0"), "cuda:0/s0")
    one = execute(plan, repeats=5).makespan_s
    ten = execute(plan, steps=10, repeats=3).makespan_s
    assert ten < 0.8 * 10 * one


def late(x: torch.Tensor) -> torch.Tensor:
    torch.cuda._sleep(20_000_000)
    return x + 1
