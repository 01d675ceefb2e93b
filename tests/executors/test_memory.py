"""Memory of programs: what a plan frees is gone during the run, the rest at its end."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from graphsched.errors import TaskFailedError
from graphsched.executors import Program
from graphsched.executors.memory import check_memory
from graphsched.plan import Plan
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import WORKERS, by_hand, machine

ONE = [TensorSpec((1,))]


class Maker:
    """Makes a new tensor, and notes which of those made before are still there."""

    def __init__(self) -> None:
        self.made: dict[str, weakref.ref[torch.Tensor]] = {}
        self.alive: dict[str, list[str]] = {}

    def task(self, work: Workload, name: str, *reads: Any) -> Any:
        """A task of this name that sums what it reads."""

        def make(*tensors: torch.Tensor) -> torch.Tensor:
            self.alive[name] = self.there()
            result = sum(tensors) + torch.ones(1)
            self.made[name] = weakref.ref(result)
            return result

        return work.task(make, *reads, name=name, outputs=ONE)

    def there(self) -> list[str]:
        return [name for name, made in self.made.items() if made() is not None]


def chain(maker: Maker, lanes: str) -> Plan:
    """x ──▶ a ──▶ b ──▶ c ──▶ d, on lanes of the cpu by their digits."""
    work = Workload()
    value: Any = work.input("x", torch.ones(1))
    for name in "abcd":
        value = maker.task(work, name, value)
    return by_hand(work, WORKERS, {name: f"cpu/w{lane}" for name, lane in zip("abcd", lanes, strict=True)})


def test_on_one_lane_each_tensor_goes_with_its_last_reader() -> None:
    """x ──▶ a ──▶ b ──▶ c ──▶ d."""
    maker = Maker()
    plan = chain(maker, "0000")
    assert plan.frees == {1: ("a",), 2: ("b",), 3: ("c",)}
    with Program(plan) as program:
        results = program.run()
        assert maker.alive == {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}
        assert maker.there() == ["d"]
        del results
        assert maker.there() == []


def test_what_its_lane_never_learns_of_stays_until_the_end() -> None:
    """x ──▶ a (w0) ──▶ b (w1) ──▶ c (w1) ──▶ d (w1): w0 is never past b."""
    maker = Maker()
    plan = chain(maker, "0111")
    assert plan.frees == {2: ("b",), 3: ("c",)}
    with Program(plan) as program:
        program.run()
        assert maker.alive["d"] == ["a", "c"]
        assert maker.there() == []


def test_a_lane_frees_what_a_wait_tells_it_is_past() -> None:
    """x ──▶ a (w0) ──▶ b (w1) ──▶ c (w0) ──▶ d (w0): w0 waits for b, so that a goes with c."""
    maker = Maker()
    plan = chain(maker, "0100")
    assert plan.frees[2] == ("a",)
    with Program(plan) as program:
        program.run()
    assert maker.alive == {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["b", "c"]}


def test_views_keep_the_memory_that_they_look_into() -> None:
    """x ──▶ a ──▶ view ──▶ b ──▶ c: a goes with the view's reader."""
    maker, work = Maker(), Workload()
    a = maker.task(work, "a", work.input("x", torch.ones(1)))
    view = work.task(torch.Tensor.view, a, 1, name="view")
    b = maker.task(work, "b", view)
    maker.task(work, "c", b)
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        program.run()
    assert maker.alive == {"a": [], "b": ["a"], "c": ["b"]}


def test_kept_values_stay() -> None:
    """x ──▶ a ──▶ b ──▶ c ──▶ d, b kept."""
    maker = Maker()
    plan = chain(maker, "0000")
    plan.work.keep(plan.work["b"].outputs[0])
    plan = by_hand(plan.work, WORKERS, "cpu/w0")
    with Program(plan) as program:
        results = program.run()
        assert maker.alive["d"] == ["b", "c"]
        assert list(results) == ["b", "d"]


def test_results_of_measuring_runs_go_with_the_next_run_and_at_the_end() -> None:
    """x ──▶ a ──▶ b ──▶ c ──▶ d, run without taking the results."""
    maker = Maker()
    program = Program(chain(maker, "0000"))
    program.time_once()
    assert maker.there() == ["d"]
    last = maker.made["d"]
    program.time_once()
    assert last() is None
    program.close()
    assert maker.there() == []


def test_a_failed_run_keeps_nothing() -> None:
    """x ──▶ a ──▶ b (raises), a kept."""
    maker, work = Maker(), Workload()
    a = maker.task(work, "a", work.input("x", torch.ones(1)))
    work.keep(a)
    work.task(lambda t: 1 / 0, a, name="b", outputs=ONE)
    with Program(by_hand(work, WORKERS, "cpu/w0")) as program:
        with pytest.raises(TaskFailedError):
            program.run()
        assert maker.there() == []


def test_inputs_states_and_host_buffers_are_given_back_at_the_end() -> None:
    """x ──▶ copy on the worker; w."""
    work = Workload()
    x, w = work.input("x", torch.ones(1)), work.state("w", torch.ones(1))
    work.copy(x, to="worker:0", name="there")
    work.task(torch.neg, w, name="y")
    program = Program(by_hand(work, WORKERS, "cpu/w0"))
    held = [weakref.ref(program.buffers.slots[program.buffers.slot_of[n]]) for n in ("x", "w")]
    held.append(weakref.ref(program.run()["there"]))
    assert all(ref() is not None for ref in held)
    program.close()
    assert all(ref() is None for ref in held)


def test_where_nothing_is_known_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row: tasks that read and return nothing, without costs; a plan with a value is asked for."""
    asked: list[str] = []

    def available_bytes(_: Plan, device: str) -> int:
        asked.append(device)
        return 0

    monkeypatch.setattr("graphsched.executors.memory.available_bytes", available_bytes)
    for outputs, devices in (([], []), ([TensorSpec((4,))], ["cuda:0"])):
        work = Workload()
        work.task(print, name="a", outputs=outputs, device="cuda:0")
        check_memory(by_hand(work, machine("cuda:0"), "cuda:0/s0"))
        assert sorted(set(asked)) == devices
