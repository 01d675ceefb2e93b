"""Seconds as units, and limits of the solver."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import ScheduleError
from graphsched.schedulers.proving.solver import Grid, Limits

SECONDS = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=20)


def test_whole_seconds_and_their_parts_are_exact() -> None:
    assert Grid.of([1.0, 20.0], 50.0) == Grid(1, True)
    assert Grid.of([0.1, 0.25], 50.0) == Grid(100, True)
    assert not Grid.of([0.1, 1 / 3], 50.0).exact
    assert not Grid.of([1e-9], 1.0).exact
    assert Grid.of([], 0.0) == Grid(1, True)


def test_bounds_in_units() -> None:
    """A schedule of 2.5 s or more takes 3 units of a second; better than 5 s is 4."""
    grid = Grid(1, True)
    assert (grid.least(2.5), grid.least(3.0), grid.better(5.0)) == (3, 3, 4)
    assert Grid(10, True).least(0.1 + 0.2) == 3


@given(seconds=SECONDS)
def test_units_never_say_more_than_seconds(seconds: list[float]) -> None:
    """A chain in units is no longer than the chain in seconds, and by little shorter."""
    whole = sum(seconds)
    grid = Grid.of(seconds, whole)
    units = sum(map(grid.units, seconds))
    assert grid.seconds(units) <= whole * (1 + 1e-9)
    assert grid.seconds(units) >= whole * (1 - 1e-5)
    assert grid.better(whole) < whole * grid.per_s


@pytest.mark.parametrize(
    "wrong",
    [
        *({"seconds": -1.0}, {"seconds": float("nan")}, {"effort": -1.0}),
        *({"workers": 0}, {"workers": 10_001}, {"seed": 2**31}, {"seed": -(2**31)}),
    ],
)
def test_limits_out_of_range(wrong: dict[str, float]) -> None:
    """Also what the solver itself does not take."""
    with pytest.raises(ScheduleError, match=next(iter(wrong))):
        Limits(**({"end_s": 0.0, "seconds": 1.0, "effort": None, "workers": 1, "seed": 0} | wrong))  # type: ignore[arg-type]


SEARCH = """
import threading, time, os, signal
from graphsched.schedulers.proving.solver import Limits, solve
from ortools.sat.python import cp_model

def crossing(tasks):
    model = cp_model.CpModel()
    starts = [model.new_int_var(0, 10**6, "") for _ in range(tasks)]
    spans = [model.new_fixed_size_interval_var(s, 1000 + 37 * i * i % 911, "") for i, s in enumerate(starts)]
    model.add_cumulative(spans, [1 + i % 7 for i in range(tasks)], 11)
    end = model.new_int_var(0, 10**7, "")
    model.add_max_equality(end, [span.end_expr() for span in spans])
    model.minimize(end)
    return model, {"start": starts}

def limits(seconds):
    return Limits(time.perf_counter() + seconds, seconds, None, 1, 0)

solve(*crossing(3), limits(10.0))
"""
INTERRUPTED = """
try:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.perf_counter()
    solve(*crossing(200), limits(60.0))
except KeyboardInterrupt:
    print("raised", time.perf_counter() - began < 20)
"""
AFTERWARDS = """
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    print("raised True")
"""


@pytest.mark.parametrize("then", [INTERRUPTED, AFTERWARDS])
def test_ctrl_c_is_raised_while_the_solver_runs_and_afterwards(then: str) -> None:
    """The solver's own handler would hide it, and its end would leave the process to be killed by the next."""
    pytest.importorskip("ortools")
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{SEARCH}{then}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert (found.stdout, found.stderr) == ("raised True\n", "")
