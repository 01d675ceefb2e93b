"""Checked cases made by hand, for the tests."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np

from graphsched.records.checked import Checked
from graphsched.workload import Workload
from tests.records.examples import case_of, two

NUMBERS = count()


def entry(
    predicted_s: float,
    measured_s: float,
    *,
    spread: float = 0.0,
    mode: str = "eager",
    work: Workload | None = None,
    label: str = "one GPU",
    group: str = "makespan",
    starts: tuple[float, ...] = (),
    ends: tuple[float, ...] = (),
    lane_ends: tuple[float, ...] = (),
    scheduler: str = "one_stream",
    interval_s: tuple[float, float] | None = None,
    plan: str | None = None,
    **options: object,
) -> Checked:
    """A case of given figures; cases of one workload and mode are of one place, and each is of another `plan`."""
    work = work or two()
    case = case_of(work, measured_s=measured_s, spread=spread, mode=mode, label=label, scheduler=scheduler, **options)
    case = replace(case, plan_text=f"{case.plan_text}  {plan or next(NUMBERS)}\n")
    return Checked(
        "exp",
        case,
        (work.digest(), "platform", mode),
        predicted_s,
        predicted_s / measured_s - 1,
        np.array(starts, dtype=float),
        np.array(ends, dtype=float),
        np.array(lane_ends, dtype=float),
        group,
        interval_s,
    )
