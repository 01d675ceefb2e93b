"""The formulas of `async_frontend`, and what it measures of a front end."""

from __future__ import annotations

import pytest

import experiments.async_frontend as module
from experiments._front_end import Loop, measure_stages, queue_nbytes
from tests.experiments.small import cases, hand_written


def test_the_formulas_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_stages", lambda *_: (1.0, 4.0, 2.0))
    assert module.formulas("worker:0", 2, 10, waits=10)["formula_s"] == 10 * (1 + 4 + 2)
    assert module.formulas("worker:0", 2, 10, waits=1)["formula_s"] == 1 + 10 * 4 + 2
    assert module.formulas("worker:0", 2, 10, waits=1)["slower_stage_formula_s"] == 1 + 10 * 4 + 2


def test_a_front_end_slower_than_the_device_sets_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_stages", lambda *_: (4.0, 1.0, 2.0))
    figures = module.formulas("worker:0", 2, 10, waits=1)
    assert figures == {"t1_s": 4, "t2_s": 1, "t3_s": 2, "formula_s": 16, "slower_stage_formula_s": 10 * 4 + 1 + 2}


def test_stages_are_measured_once_and_are_not_negative() -> None:
    t1, t2, t3 = measure_stages("worker:0", 2)
    assert t1 > 0
    assert t2 > 0
    assert t3 >= 0
    assert measure_stages("worker:0", 2) is measure_stages("worker:0", 2)


def test_a_queue_that_is_never_waited_for_holds_all_of_it() -> None:
    """400 operations in one go, and in minibatches of 20."""
    assert queue_nbytes("worker:0", 400, 400) > 5 * queue_nbytes("worker:0", 400, 20)


@pytest.mark.gpu
def test_results_that_are_still_read_pile_up_on_a_gpu() -> None:
    assert queue_nbytes("cuda:0", 400, 400) > 5 * queue_nbytes("cuda:0", 400, 20)


@pytest.mark.gpu
def test_stages_of_a_gpu() -> None:
    t1, t2, t3 = measure_stages("cuda:0", 2)
    assert 0 < t2 < t1 < 1e-3
    assert 0 <= t3 < 1e-3


def test_loops_add_one_n_times() -> None:
    assert Loop("worker:0", 2, 7, wait_every=3)().tolist() == [7.0, 7.0]


def test_cases_carry_the_figures_of_their_n() -> None:
    made = cases("async_frontend", hand_written("worker", 1))
    names = {label: sorted(case.metrics()) for label, case in made.items() if case.metrics and "n=10," in label}
    stages = ["formula_s", "t1_s", "t2_s", "t3_s"]
    assert names == {
        "a wait each, n=10, 1 worker": stages,
        "one wait at the end, n=10, 1 worker": sorted([*stages, "slower_stage_formula_s"]),
        "plain PyTorch, a wait each, n=10, 1 worker": ["queue_nbytes"],
        "plain PyTorch, one wait at the end, n=10, 1 worker": ["queue_nbytes"],
    }
