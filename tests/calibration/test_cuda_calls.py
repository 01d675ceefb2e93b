"""Host time of calls, from plans that differ in one thing; on CUDA devices that are played, and on real ones."""

from __future__ import annotations

import contextlib

import pytest

from graphsched.calibration import cuda_calls as module
from graphsched.calibration import tiny_plans
from graphsched.calibration.cuda_calls import Taken, call_figures, tiny_call_s
from graphsched.calibration.tiny_plans import KINDS
from graphsched.platform import Dispatch
from graphsched.platform.parts import HOST_CALLS
from tests.executors.fake_cuda import FakeCuda

MICROSECOND = 1e-6
CALLS = {"call": 5.0, "switch": 1.0, "device switch": 2.0, "wait": 1.5, "far wait": 4.0, "record": 1.5, "change": 0.5}
COPIES = {"copies in": 7.0, "copies out": 9.0, "copies across": 12.0}


def played(gpus: int) -> Taken:
    """Seconds of an action of each plan, if every call took what `CALLS` and `COPIES` say."""
    c = CALLS
    plans = {"row": c["call"], "lanes": c["call"] + c["switch"], **dict.fromkeys(KINDS, 6.0)}
    plans |= {"mixed": 6.0 + c["change"], "to and fro": plans["lanes"] + c["wait"] + c["record"]} | COPIES
    if gpus > 1:
        task = c["call"] + c["device switch"] + c["far wait"] + c["record"] + c["change"]
        copy = COPIES["copies across"] + c["switch"] + c["device switch"] + c["wait"] + c["record"] + c["change"]
        plans |= {"gpus": c["call"] + c["device switch"], "between gpus": (task + copy) / 2}
    return Taken({name: MICROSECOND * us for name, us in plans.items()}, 30 * MICROSECOND, 4 * MICROSECOND)


def test_figures_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cost that the plans were played with is found again."""
    monkeypatch.setattr(module, "_in_turns", lambda plans: played(2))
    monkeypatch.setattr(module, "_long_waits", lambda gpu: 6e-6)
    monkeypatch.setattr(module, "_query_s", lambda gpu: 5e-7)
    found = {name: seconds / MICROSECOND for name, seconds in call_figures([0, 1]).items()}
    assert found == pytest.approx(
        {
            "call_s": 5, "start_s": 30, "timed_record_s": 2, "switch_s": 1, "record_s": 1.5, "wait_s": 1.5,
            "change_s": 0.5, "copy_s": 8, "cold_s": 6, "query_s": 0.5, "device_switch_s": 2, "peer_copy_s": 12,
            "device_wait_s": 4,
        }
    )  # fmt: skip


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


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_plans_can_be_run(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    monkeypatch.setattr(tiny_plans, "ACTIONS", 12)
    monkeypatch.setattr(module, "ROUNDS", 2)
    monkeypatch.setattr(tiny_plans, "WAITS", 3)
    played = FakeCuda(2)
    played.install(monkeypatch)
    monkeypatch.setattr(module, "new_stream", lambda gpu: played.pools[gpu][0])
    found = call_figures(range(gpus))
    Dispatch(**found)
    names = set(HOST_CALLS) - {"run_s", "handoff_s"} | {"call_s"}
    assert set(found) == (names if gpus > 1 else names - {"device_switch_s", "device_wait_s", "peer_copy_s"})
    assert found["call_s"] > 0


@pytest.mark.gpu
def test_the_yardstick_is_steady() -> None:
    first, second = tiny_call_s(), tiny_call_s()
    assert 1e-6 < first < 1e-4
    assert 0.3 < first / second < 3
