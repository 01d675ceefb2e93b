"""Host time of calls, from plans that differ in one thing; on CUDA devices that are played, and on real ones."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from graphsched.calibration import cuda_calls as module
from graphsched.calibration import tiny_plans
from graphsched.calibration.cold_calls import ColdSample
from graphsched.calibration.cuda_calls import Taken, call_figures, mixed_calls, tiny_call_s
from graphsched.calibration.tiny_plans import company_actions, company_order, plans_on, program_of
from graphsched.calibration.tiny_tasks import KINDS
from graphsched.platform import Dispatch
from graphsched.platform.dispatch import BLOCKING_BYTES
from graphsched.platform.pace import HOST_CALLS
from tests.executors.fake_cuda import FakeCuda

MICROSECOND = 1e-6
CALLS = {"call": 5.0, "switch": 1.0, "device switch": 2.0, "wait": 1.5, "far wait": 4.0, "record": 1.5, "free": 0.75}
COPIES = {"copies in": 7.0, "copies out": 9.0, "copies across": 12.0}
BLOCKING = {"blocking in": 20.0, "blocking out": 14.0, "fresh out": 17.0}
CHANGES = {1: 0.5, 5: 1.5, 11: 2.0}
COPY_COMPANY = {"copy_company_s": 0.6, "copy_out_company_s": 0.8, "peer_company_s": 7.2}  # of the calls of "row"
COMPANY = 4.0


def played(gpus: int, copy_more: float = 7.2 * 5.0 / 6) -> Taken:
    """Seconds of an action of each plan, if every call took what `CALLS`, `COPIES` and `CHANGES` say.

    A copy between GPUs takes `copy_more` µs longer after two other kinds, of twelve.
    """
    c = CALLS
    plans = {"row": c["call"], "lanes": c["call"] + c["switch"], "chain": c["call"] + c["free"]}
    plans |= (
        dict.fromkeys(KINDS, 6.0)
        | COPIES
        | BLOCKING
        | {f"{others + 1} kinds": 6.0 + us for others, us in CHANGES.items()}
    )
    plans |= {"to and fro": plans["lanes"] + c["wait"] + c["record"] + c["free"], "company": in_company(gpus)}
    if gpus > 1:
        task = c["call"] + c["device switch"] + c["far wait"] + c["record"] + CHANGES[1]
        copy = COPIES["copies across"] + c["switch"] + c["device switch"] + c["wait"] + c["record"] + copy_more
        plans |= {"gpus": c["call"] + c["device switch"], "between gpus": (task + copy) / 2 + c["free"]}
    return Taken({name: MICROSECOND * us for name, us in plans.items()}, 30 * MICROSECOND, 4 * MICROSECOND)


def in_company(gpus: int) -> float:
    """Of all kinds in turn, action by action, as the executor makes them: streams change, GPUs change."""
    order, total, before = company_order(gpus), 0.0, ""
    for i in range(company_actions(gpus)):
        kind, gpu, other = order[i % len(order)]
        lane = f"{gpu} {kind if kind in COPIES else 'tasks'} {other}"
        total += COPIES.get(kind, 6.0) + COMPANY
        if gpu != other:
            total += CALLS["switch"] + CALLS["device switch"]
        elif lane != before:
            total += CALLS["device switch"] if before and before[0] != lane[0] else CALLS["switch"]
        before = lane
    return total / company_actions(gpus)


def test_figures_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cost that the plans were played with is found again."""
    monkeypatch.setattr(module, "_in_turns", lambda plans: played(2))
    monkeypatch.setattr(module, "mixed_calls", lambda gpu: 1.25)
    monkeypatch.setattr(module, "colds_on", lambda gpu: ((20, 1e-6), (200, 6e-6)))
    monkeypatch.setattr(module, "_query_s", lambda gpu: 5e-7)
    monkeypatch.setattr(module, "_asked_s", lambda gpu: 9e-7)
    found = call_figures([0, 1], COPY_COMPANY)
    assert found.pop("mixed_calls") == 1.25
    changes = [(others, seconds / MICROSECOND) for others, seconds in found.pop("changes")]
    assert found.pop("colds") == ((20, 1e-6), (200, 6e-6))
    assert changes == [(1, pytest.approx(0.5)), (5, pytest.approx(1.5)), (11, pytest.approx(2)), (29, pytest.approx(4))]
    assert {name: seconds / MICROSECOND for name, seconds in found.items()} == pytest.approx(
        {
            "call_s": 5, "start_s": 30, "timed_record_s": 2, "switch_s": 1, "record_s": 1.5, "wait_s": 1.5,
            "change_s": 0.5, "free_s": 0.75, "copy_s": 7, "copy_out_s": 9, "query_s": 0.5,
            "device_switch_s": 2, "peer_copy_s": 12, "device_wait_s": 4, "asked_s": 0.9,
            "blocking_in_s": 20, "blocking_out_s": 14, "fresh_out_s": 17,
            "copy_company_s": 3, "copy_out_company_s": 4, "peer_company_s": 36,
        }
    )  # fmt: skip


def test_copies_that_lose_nothing_measured_to_company_take_longer_as_tiny_tasks_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the simulator takes them to do where `peer_company_s` is 0: 0.75 µs after two other kinds."""
    monkeypatch.setattr(module, "_in_turns", lambda plans: played(2, copy_more=0.75))
    for name in ("mixed_calls", "colds_on", "_query_s", "_asked_s"):
        monkeypatch.setattr(module, name, lambda gpu: 0.0)
    found = call_figures([0, 1], dict.fromkeys(COPY_COMPANY, 0.0))
    assert found["device_wait_s"] / MICROSECOND == pytest.approx(4)


def test_calls_of_several_kinds_are_told_by_what_they_take_while_others_leave_the_core_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quarter of the samples and one more are of a quiet core; what was measured of it does not scatter."""
    quiet, disturbed = (6.5e-6, 8.45e-6), (9.3e-6, 15.1e-6)
    samples = iter([disturbed] * 12 + [quiet] * 7 + [disturbed] * 6)
    now = [0.0, 0.0]

    class Calls:
        def __init__(self, gpu: int) -> None: ...

        def sample(self, waits_us: tuple[int, ...]) -> ColdSample:
            assert waits_us == ()
            now[:] = next(samples)
            return ColdSample(now[1], ())

        def sample_s(self) -> float:
            return now[0]

        def close(self) -> None: ...

    monkeypatch.setattr(module, "ColdCalls", Calls)
    monkeypatch.setattr(module, "Yardstick", Calls)
    assert mixed_calls(0) == pytest.approx(1.3)


@pytest.mark.gpu
def test_calls_of_several_kinds_on_a_gpu() -> None:
    found = mixed_calls(0)
    print(f"\nsix kinds in turn take {found:.2f} times as long a call as one in a row")
    assert 1.0 < found < 2.5


def test_more_kinds_never_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that is lower than after fewer kinds is noise."""
    low = played(1)
    low.seconds["12 kinds"] = low.seconds["6 kinds"] - MICROSECOND  # type: ignore[index]
    monkeypatch.setattr(module, "_in_turns", lambda plans: low)
    monkeypatch.setattr(module, "mixed_calls", lambda gpu: 1.25)
    monkeypatch.setattr(module, "colds_on", lambda gpu: ())
    monkeypatch.setattr(module, "_query_s", lambda gpu: 0.0)
    monkeypatch.setattr(module, "_asked_s", lambda gpu: 0.0)
    changes = call_figures([0], {})["changes"]
    assert [others for others, _ in changes] == [1, 5, 11, 13]
    assert [seconds / MICROSECOND for _, seconds in changes] == pytest.approx([0.5, 1.5, 1.5, 4.0])


def test_plans_are_measured_in_units_of_the_plainest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that is at half its speed every other round: ratios stay, and so does what is found."""
    pace = iter([1.0, 1.0] + [1.0, 2.0] * 100)  # two rounds first that do not count
    now = [1.0]

    def issue_s(program: str) -> float:
        if program == "plain" and turn.pop():
            now[0] = next(pace)
        return {"plain": 5.0, "other": 8.0}[program] * now[0]

    turn = [False, True] * 200
    monkeypatch.setattr(module, "program_of", lambda build, gpus: contextlib.nullcontext(build))
    monkeypatch.setattr(module, "_issue_s", issue_s)
    monkeypatch.setattr(module, "_timed_issue_s", lambda program: [(5.0 + 1.0) * now[0]] * tiny_plans.ACTIONS)
    taken = module._in_turns({"plain": ("plain", ()), "other": ("other", ())})  # type: ignore[dict-item]
    assert taken.seconds["other"] / taken.seconds["plain"] == pytest.approx(8 / 5)
    assert taken.timed_s / taken.seconds["plain"] == pytest.approx(1 / 5)
    assert taken.start_s == 0


def test_the_second_of_two_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run after others finds the caches cold: 9 s, where the next takes 4."""
    seconds = itertools.cycle([9.0, 4.0])

    class Row:
        plan, issue_s = "ab", 0.0

        def time_once(self) -> None:
            self.issue_s = next(seconds)

        def close(self) -> None: ...

    monkeypatch.setattr(module, "program_of", lambda build, gpus: Row())
    assert [tiny_call_s(samples=count) for count in (1, 4)] == [2.0, 2.0]
    assert module._issue_s(Row()) == 2.0  # type: ignore[arg-type]


@pytest.mark.parametrize(("query_s", "poll_s"), [(2.0, 0.5), (0.0, 0.25)])
def test_asking_for_what_is_over_is_a_question_and_the_loop_around_it(
    monkeypatch: pytest.MonkeyPatch, query_s: float, poll_s: float
) -> None:
    """A stream that answers in 2 s, asked by a loop that takes 0.5 s more."""
    now = [0.0]

    class Done:
        def query(self) -> bool:
            now[0] += query_s
            return True

    class Loop(module.Watch):
        def poll(self, done: Callable[[], bool], what: str) -> None:
            now[0] += poll_s
            super().poll(done, what)

    monkeypatch.setattr(module, "new_stream", lambda gpu: Done())
    monkeypatch.setattr(module, "Watch", Loop)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    assert module._query_s(0) == query_s
    assert module._asked_s(0) == query_s + poll_s


def test_copies_that_block_are_of_the_size_that_the_model_takes_them_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """x -> host -> 240 times back; x -> 240 times to the host, into memory of the plan's or of the copy's own."""
    monkeypatch.setattr(tiny_plans, "Program", lambda plan, mode: plan)
    for name, memory in (("blocking in", "pageable"), ("blocking out", "pageable"), ("fresh out", "fresh")):
        plan: Any = program_of(*plans_on((0,))[name])
        copies = [copy for i, copy in plan.copies.items() if plan.names[i] != "out"]
        assert len(copies) == tiny_plans.ACTIONS
        assert {(copy.memory, copy.read.value.nbytes) for copy in copies} == {(memory, BLOCKING_BYTES)}
        assert {copy.target == "cpu" for copy in copies} == {name != "blocking in"}


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_plans_can_be_run(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    monkeypatch.setattr(tiny_plans, "ACTIONS", 12)
    monkeypatch.setattr(module, "ROUNDS", 2)
    monkeypatch.setattr(module, "mixed_calls", lambda gpu: 1.25)
    monkeypatch.setattr(module, "colds_on", lambda gpu: ((20, 1e-6),))
    played = FakeCuda(2)
    played.install(monkeypatch)
    monkeypatch.setattr(module, "new_stream", lambda gpu: played.pools[gpu][0])
    company = COPY_COMPANY if gpus > 1 else dict(itertools.islice(COPY_COMPANY.items(), 2))
    found = call_figures(range(gpus), company)
    Dispatch(**found)
    elsewhere = ("first", "step", "message")
    names = {name for name in HOST_CALLS if not name.startswith(elsewhere)} - {"run_s", "handoff_s", "cold_s", "put_s"}
    names |= {"call_s", "changes", "colds", "mixed_calls"}
    assert set(found) == (
        names if gpus > 1 else names - {"device_switch_s", "device_wait_s", "peer_copy_s", "peer_company_s"}
    )
    assert found["call_s"] > 0


@pytest.mark.gpu
def test_the_yardstick_is_steady() -> None:
    first, second = tiny_call_s(), tiny_call_s()
    assert 1e-6 < first < 1e-4
    assert 0.3 < first / second < 3
