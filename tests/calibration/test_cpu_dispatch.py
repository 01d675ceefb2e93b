"""How late the thread goes on that waits where CPU lanes compute."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from graphsched.calibration import cpu_dispatch as module
from graphsched.calibration.cpu_dispatch import waiting_figures
from graphsched.costs import TaskCost
from graphsched.executors.giving_way import APART_S
from graphsched.executors.spinning import spins
from graphsched.platform import Dispatch


def test_figures_are_fields_of_dispatch_and_leave_the_threads_as_they_were() -> None:
    threads, alive = torch.get_num_threads(), threading.active_count()
    found = waiting_figures(1, repeats=5)
    Dispatch(**found)
    assert set(found) == {"result_s", "look_s", *(["spun_s"] if spins() else [])}
    assert all(0.0 < seconds < 0.1 for seconds in found.values())
    assert (torch.get_num_threads(), threading.active_count()) <= (threads, alive + 1)


def test_a_yield_is_what_the_watch_does_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [5.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += 0.25

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert module._look_s() == 0.25
    assert slept == [APART_S]


def test_a_result_is_late_by_what_follows_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that does its job at once, and a clock that goes on by 1 s each time it is looked at."""
    clock, added = iter(range(100)), []
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    lane = type("Lane", (), {"put": staticmethod(lambda job: job())})()
    tensor = type("Tensor", (), {"add": staticmethod(added.append)})()
    waited: list[bool] = []
    assert module._return_s(lane, tensor, lambda done, what: waited.append(done.is_set())) == 1.0
    assert added == [1]
    assert waited == [True]


def test_without_a_way_to_stay_awake_there_is_no_figure_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "spins", lambda: False)
    assert set(module.returns_s(1, repeats=2)) == {"result_s"}


def test_a_job_is_what_a_task_of_a_chain_takes_beside_its_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of 20 and 120 tasks of 5 µs, whose operation alone takes 3; noise makes nothing negative."""
    monkeypatch.setattr(module, "chain_s", lambda tasks: 1e-4 + 5e-6 * tasks)
    for alone_s, found_s in ((3e-6, 2e-6), (6e-6, 0.0)):
        monkeypatch.setattr(
            "graphsched.calibration.cpu_operations.measure_on_cpu", lambda *_, alone_s=alone_s: TaskCost(alone_s)
        )
        assert module.job_s() == pytest.approx(found_s)


def test_a_chain_of_more_tasks_takes_longer() -> None:
    """t0 ──▶ t1 ──▶ …, on one lane of the CPU."""
    assert 0.0 < module.chain_s(10) < module.chain_s(2000)
