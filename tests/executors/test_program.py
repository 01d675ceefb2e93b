"""Programs: inputs, states, what is returned, and the end of a program."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from graphsched.errors import ExecutionError, ScheduleError, WorkloadError
from graphsched.executors import Program, save_plan
from graphsched.executors.buffers import Buffers
from graphsched.plan import Plan
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import WORKERS, by_hand, machine, step_

with FakeTensorMode():
    FAKE = torch.ones(2)


def two(**extra: Any) -> Plan:
    """x, y ──▶ sum = x + y;  x has a default, y has none."""
    work = Workload()
    x, y = work.input("x", torch.ones(2)), work.input("y", TensorSpec((2,)))
    work.task(torch.add, x, y, name="sum")
    return by_hand(work, WORKERS, "worker:0/s0")


def adder() -> Plan:
    """w ◀── step_(w, x) ──▶ copy of w on the cpu."""
    work = Workload()
    x, w = work.input("x", torch.ones(2)), work.state("w", torch.zeros(2))
    work.task(step_, w, x, updates=w, name="step")
    work.copy(w, to="cpu", name="back")
    return by_hand(work, WORKERS, "worker:0/s0")


def lane_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("graphsched ")]


# -- inputs ----------------------------------------------------------------------------------------


def test_inputs_not_given_have_their_defaults_again() -> None:
    """x + y with x given once, then not."""
    y = torch.zeros(2)
    with Program(two()) as program:
        sums = [program.run(y=y)["sum"], program.run(x=y + 5, y=y)["sum"], program.run(y=y + 1)["sum"]]
    assert [s.tolist() for s in sums] == [[1.0, 1.0], [5.0, 5.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"'y' has no default: give it to run\(y=tensor\)"),
        ({"y": torch.ones(3)}, r"'y' must be float32\[2\], got float32\[3\]"),
        ({"y": torch.ones(2, dtype=torch.float64)}, r"must be float32\[2\], got float64\[2\]"),
        ({"y": [1.0, 2.0]}, "must be a tensor, got list"),
        (
            {"y": torch.ones(2, device="meta")},
            "'y' is on cpu, got a tensor on meta: give one there or on the host",
        ),
        ({"y": FAKE}, "input 'y' has no data, got a fake tensor: give one with elements"),
        ({"y": torch.ones(2), "z": torch.ones(2)}, "'z' is no input of this workload: it has x, y"),
        ({"y": torch.ones(2), "sum": torch.ones(2)}, "'sum' is no input"),
    ],
)
def test_wrong_inputs_are_refused_and_change_nothing(inputs: dict[str, Any], message: str) -> None:
    """The program runs as before afterwards."""
    with Program(two()) as program:
        with pytest.raises(WorkloadError, match=message):
            program.run(**inputs)
        assert program.run(y=torch.ones(2))["sum"].tolist() == [2.0, 2.0]


NOT_DENSE: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "sparse": (torch.Tensor.to_sparse, r"got a sparse_coo tensor: call .to_dense\(\) on it"),
    "mkldnn": (torch.Tensor.to_mkldnn, r"got a mkldnn tensor: call .to_dense\(\) on it"),
    "nested": (lambda t: torch.nested.nested_tensor([t, t]), r"got a nested tensor: call .to_padded_tensor\(0.0\)"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("form", NOT_DENSE)
def test_an_input_that_is_not_dense_is_refused_before_any_is_put_in_place(form: str) -> None:
    """x is given, and right, beside a wrong y."""
    make, words = NOT_DENSE[form]
    with Program(two()) as program:
        program.load({"x": torch.ones(2), "y": torch.ones(2)})
        with pytest.raises(WorkloadError, match=f"input 'y' must be dense, {words}"):
            program.run(x=torch.full((2,), 100.0), y=make(torch.ones(2)))
        assert program.buffers.slots[program.buffers.slot_of["x"]].tolist() == [1.0, 1.0]
        assert program.run(y=torch.ones(2))["sum"].tolist() == [2.0, 2.0]


def test_a_tensor_on_the_device_of_its_input_is_taken() -> None:
    """The input's memory is moved to another device than the host's by hand, and a tensor there is given."""
    memory = Buffers(two())
    memory.slots[memory.slot_of["y"]] = torch.empty(2, device="meta")
    memory.load({"y": torch.ones(2, device="meta")})
    assert memory.slots[memory.slot_of["y"]].is_meta


def test_an_input_without_default_is_asked_for_in_every_run() -> None:
    """y was given to the run before."""
    with Program(two()) as program:
        program.run(y=torch.ones(2))
        with pytest.raises(WorkloadError, match="'y' has no default"):
            program.run()


def test_an_input_on_meta_has_no_default() -> None:
    """x ──▶ y; such a tensor tells shape and type only."""
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(2, device="meta")), name="y")
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        with pytest.raises(WorkloadError, match=r"input 'x' has no default: give it to run\(x=tensor\)"):
            program.run()
        assert program.run(x=torch.ones(2))["y"].tolist() == [-1.0, -1.0]


def test_an_input_may_be_called_self() -> None:
    """self ──▶ y."""
    work = Workload()
    work.task(torch.neg, work.input("self", torch.ones(1)), name="y")
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        assert program.run(self=torch.ones(1))["y"].tolist() == [-1.0]


def test_loaded_inputs_stay_for_further_runs() -> None:
    """What `execute` does: load once, run often."""
    with Program(two()) as program:
        program.load({"y": torch.full((2,), 4.0)})
        program.time_once()
        program.time_once()
        assert program.buffers.results()["sum"].tolist() == [5.0, 5.0]


# -- states and the user's tensors -----------------------------------------------------------------


def test_the_users_tensors_never_change() -> None:
    """x and w are updated by nobody but the program, in its own memory."""
    plan = adder()
    given = torch.full((2,), 2.0)
    with Program(plan) as program:
        program.run(x=given)
        program.run()
        assert program.state()["w"].tolist() == [3.0, 3.0]
    assert plan.work.tensors["x"].tolist() == [1.0, 1.0]
    assert plan.work.tensors["w"].tolist() == [0.0, 0.0]
    assert given.tolist() == [2.0, 2.0]


def test_programs_of_one_plan_have_states_of_their_own() -> None:
    """Two programs, one run twice."""
    plan = adder()
    with Program(plan) as first, Program(plan) as second:
        first.run()
        first.run()
        second.run()
        assert first.state()["w"].tolist() == [2.0, 2.0]
        assert second.state()["w"].tolist() == [1.0, 1.0]


def test_states_can_be_read_and_set_back() -> None:
    """What `state` returns is a clone."""
    with Program(adder()) as program:
        program.run()
        kept = program.state()
        program.run()
        assert kept["w"].tolist() == [1.0, 1.0]
        program.reset(kept)
        assert program.run()["back"].tolist() == [2.0, 2.0]
        program.reset()
        assert program.state()["w"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"v": torch.zeros(2)}, "'v' is no state of this workload: it has w"),
        ({"w": torch.zeros(1)}, "must be float32"),
        ({"w": torch.zeros(2).to_sparse()}, "state 'w' must be dense, got a sparse_coo tensor"),
    ],
)
def test_wrong_states_are_refused(states: dict[str, torch.Tensor], message: str) -> None:
    """A tensor of one element is not spread over two."""
    with Program(adder()) as program, pytest.raises(WorkloadError, match=message):
        program.reset(states)


# -- results ---------------------------------------------------------------------------------------


def test_a_copy_on_the_host_stays_as_it_is_until_the_run_after_next() -> None:
    """w + x copied to the cpu into two buffers in turn."""
    with Program(adder()) as program:
        first = program.run()["back"]
        second = program.run()["back"]
        assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [2.0, 2.0])
        third = program.run()["back"]
        assert third.data_ptr() == first.data_ptr() != second.data_ptr()


def test_what_is_returned_does_not_lie_in_inputs_or_states() -> None:
    """x ──▶ view;  w ◀── step_(w, x), kept: the results of one run stay when the next writes x and w."""
    work = Workload()
    x, w = work.input("x", torch.ones(2)), work.state("w", torch.zeros(2))
    work.task(torch.t, x, name="view")
    work.task(lambda t: t, x, name="same", outputs=[TensorSpec((2,))])
    work.task(step_, w, x, updates=w, name="step")
    work.keep(w)
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        first = program.run()
        program.run(x=torch.full((2,), 3.0))
        assert [t.tolist() for t in first.values()] == [[1.0, 1.0]] * 3
        first["w"].zero_()
        assert program.state()["w"].tolist() == [4.0, 4.0]


def test_what_is_returned_does_not_lie_in_copies_that_nobody_asked_for() -> None:
    """x ──▶ a (worker:0) ──▶ b, a view of it (worker:1): each run's stays as it is."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(2, 2)), name="a")
    work.task(torch.t, a, name="b")
    with Program(by_hand(work, WORKERS, {"a": "worker:0/s0", "b": "worker:1/s0"})) as program:
        found = [program.run(x=torch.full((2, 2), float(k)))["b"] for k in range(5)]
    assert [t[0, 0].item() for t in found] == [0.0, -1.0, -2.0, -3.0, -4.0]


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("run", [True, False])
def test_in_inference_mode(made: bool, run: bool) -> None:
    """x ──▶ w ◀── step_(w, x) ──▶ y on another worker ──▶ z on the cpu: made or run so, and run otherwise."""
    work = Workload()
    x, w = work.input("x", torch.ones(2), device="worker:0"), work.state("w", torch.zeros(2), device="worker:0")
    work.task(step_, w, x, updates=w, name="step")
    y = work.task(torch.neg, w, name="y", device="worker:1")
    work.keep(work.copy(y, to="cpu", name="z"))
    plan = by_hand(work, WORKERS, {"step": "worker:0/s0", "y": "worker:1/s0"})
    with torch.inference_mode(made):
        program = Program(plan)
    found = []
    with program:
        for k in range(6):
            with torch.inference_mode(run == (k % 2 == 0)):
                step = program.run(x=torch.full((2,), 1.0)) if k < 3 else program.submit().result()
                found.append(step["z"][0].item())
        program.reset()
        assert program.state()["w"].tolist() == [0.0, 0.0]
    assert found == [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]


def test_values_that_tasks_read_are_returned_when_kept() -> None:
    """x ──▶ a ──▶ b, a kept: in the workload's order."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(1)), name="a")
    work.task(torch.neg, a, name="b")
    work.keep(a)
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        assert {n: t.item() for n, t in program.run().items()} == {"a": -1.0, "b": 1.0}


# -- making and ending -----------------------------------------------------------------------------


def test_closing_ends_the_threads_and_the_program() -> None:
    """A compute lane and copy lanes both ways."""
    before = set(lane_threads())
    with Program(adder()) as program:
        program.run()
        threads = set(lane_threads()) - before
        assert sorted(t.name for t in threads) == [f"graphsched worker:0/{lane}" for lane in ("d2h", "h2d", "s0")]
    assert not any(t.is_alive() for t in threads)
    for use in (program.run, program.state, program.reset, program.time_once, program.time_spans):
        with pytest.raises(ExecutionError, match="this program is closed: make a new one"):
            use()
    program.close()


def test_a_program_that_nobody_holds_ends_its_threads() -> None:
    """Never closed; the plan is still in use."""
    before, plan = set(lane_threads()), adder()
    program = Program(plan)
    program.run()
    threads = set(lane_threads()) - before
    assert len(threads) == 3
    del program
    gc.collect()
    assert not any(t.is_alive() for t in threads)
    assert len(plan) == 3


def test_a_program_is_closed_when_its_block_fails() -> None:
    """The error of the block comes through."""
    before = set(lane_threads())
    with pytest.raises(KeyError), Program(adder()) as program:
        raise KeyError(program.plan.scheduler)
    assert set(lane_threads()) == before


def test_many_programs_leave_no_threads() -> None:
    """Twenty programs of three lanes."""
    before = set(lane_threads())
    for _ in range(20):
        with Program(adder()) as program:
            program.run()
    assert set(lane_threads()) == before


def test_an_unknown_mode_is_refused() -> None:
    """There is only eager."""
    with pytest.raises(ScheduleError, match="mode 'eagre' cannot be run here: one of eager"):
        Program(adder(), mode="eagre")


@pytest.mark.parametrize("timeout_s", [0, -1.0, math.nan, math.inf, 1e300, "60", None, True])
def test_a_time_out_that_no_thread_can_wait_for_is_refused(timeout_s: Any) -> None:
    with pytest.raises(ScheduleError, match=r"timeout_s is .*: a number of seconds above 0 and up to 1e\+09 is needed"):
        Program(adder(), timeout_s=timeout_s)


def test_a_workload_is_no_plan(tmp_path: Path) -> None:
    for use in (Program, lambda work: save_plan(work, tmp_path / "plan")):
        with pytest.raises(ScheduleError, match=r"a Workload was given: a plan is needed, which gs.schedule makes"):
            use(two().work)


def test_a_workload_without_code_is_refused() -> None:
    """a, of 1 s."""
    work = Workload.from_dict(adder().work.to_dict())
    with pytest.raises(WorkloadError, match="tasks without code: it can be predicted, not run"):
        Program(by_hand(work, WORKERS, "worker:0/s0"))


@pytest.mark.parametrize("given", [TensorSpec((2,)), torch.ones(2, device="meta"), FAKE], ids=["shape", "meta", "fake"])
def test_a_state_without_a_tensor_is_refused_and_leaves_no_threads(given: Any) -> None:
    """w has only a shape."""
    work = Workload()
    w = work.state("w", given)
    work.task(torch.neg, w, name="y")
    before = set(lane_threads())
    with pytest.raises(WorkloadError, match=r"state 'w' has no data \(a TensorSpec, on meta, or fake\): give a tensor"):
        Program(by_hand(work, WORKERS, "cpu/w0"))
    assert set(lane_threads()) == before


@pytest.mark.parametrize("name", ["cuda:99", "cuda:x"])
def test_a_device_that_is_not_here_is_refused(name: str) -> None:
    """x ──▶ y on a GPU that no host has."""
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(1)), name="y")
    with pytest.raises(ExecutionError, match=rf"the plan runs on {name}, this host has \d+ CUDA devices"):
        Program(by_hand(work, machine(name), f"{name}/s0"))


def test_an_input_at_home_on_a_device_that_is_not_here_is_refused() -> None:
    """x lives on cuda:99 and nothing runs there."""
    work = Workload()
    work.input("x", torch.ones(1), device="cuda:99")
    with pytest.raises(ExecutionError, match="the plan runs on cuda:99"):
        Program(by_hand(work, machine("cuda:99"), {}))


def test_threads_of_a_lane_are_those_of_its_device_and_no_others() -> None:
    """One task on worker:0 (1 thread), one on worker:1 (2): each sees its own number, in any order of lanes."""
    work = Workload()
    for k in (0, 1):
        work.task(_threads, name=f"t{k}", outputs=[TensorSpec((), "int64")], device=f"worker:{k}")
    here = machine("worker:0", "worker:1", threads={"worker:0": 1, "worker:1": 2})
    for first, second in ((0, 1), (1, 0)):
        lanes = {f"t{k}": f"worker:{k}/s0" for k in (first, second)}
        before = torch.get_num_threads()
        with Program(by_hand(work, here, lanes)) as program:
            assert torch.get_num_threads() == before
            assert {n: int(t) for n, t in program.run().items()} == {"t0": 1, "t1": 2}
            assert in_new_thread(torch.get_num_threads) == before
        assert torch.get_num_threads() == before


def _threads() -> torch.Tensor:
    return torch.tensor(torch.get_num_threads())


def in_new_thread(function: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_one_thread_at_a_time() -> None:
    """The second thread is refused while the first one's task waits, and the first one ends as if alone."""
    begun, go = threading.Event(), threading.Event()

    def wait(x: torch.Tensor) -> torch.Tensor:
        begun.set()
        assert go.wait(20)
        return x + 1

    work = Workload()
    x = work.input("x", torch.zeros(2))
    work.task(wait, x, name="y", outputs=[TensorSpec((2,), "float32")])
    found: list[Any] = []
    with Program(by_hand(work, WORKERS, "worker:0/s0")) as program:
        first = threading.Thread(target=lambda: found.append(program.run(x=torch.ones(2))["y"]))
        first.start()
        try:
            assert begun.wait(20)
            for call in (program.run, program.submit, program.state, program.reset, program.wait, program.close):
                with pytest.raises(ExecutionError, match="another thread is using this program"):
                    call()
        finally:
            go.set()
            first.join()
        assert torch.equal(found[0], torch.full((2,), 2.0))
        assert torch.equal(program.run()["y"], torch.ones(2))
