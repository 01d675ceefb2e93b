"""What the processes of `test_cases_on_ranks` do: the figures that a case of an experiment takes on all ranks."""

from __future__ import annotations

import os
import signal
from typing import Any

import graphsched as gs
from experiments.training.on_ranks import RankStep
from tests.executors.programs import machine
from tests.experiments.small import load

HERE = machine("worker:0", "worker:1")


def case_of(name: str, label: str, **params: Any) -> gs.Case:
    """The case of this label."""
    (case,) = [case for case in load(name).cases(HERE, **params) if case.label == label]
    return case


def plan_of(case: gs.Case, mode: str) -> gs.Plan:
    assert case.work is not None
    return gs.schedule(case.work, HERE, scheduler=case.scheduler, mode=mode)


def figures(rank: int, name: str, label: str, params: dict[str, Any], dies: int = 0) -> dict[str, float]:
    """Figures of a case in mode ``distributed``; rank 1 kills itself when a step is submitted for that time."""
    if dies and rank == 1:
        _die_in_step(dies)
    case = case_of(name, label, **params)
    assert case.on_ranks is not None
    return without_times(case.on_ranks(plan_of(case, "distributed")))


def without_times(found: Any) -> dict[str, float]:
    """What is the same in each run."""
    return {name: value for name, value in found.items() if name not in ("images_per_s", "epoch_s")}


def _die_in_step(number: int) -> None:
    submit, left = RankStep.submit, iter(range(number - 1, -1, -1))

    def dying(step: RankStep, **inputs: Any) -> Any:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return submit(step, **inputs)

    RankStep.submit = dying  # type: ignore[method-assign]
