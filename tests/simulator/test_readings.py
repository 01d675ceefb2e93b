"""How far calibrations differ: what counts as readings of the same thing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.platform import Device, Dispatch, Platform
from graphsched.platform.pace import POWER_ERROR, POWERS
from graphsched.records.store import find_runs, load_run
from tests.builders import FREE
from tests.records.examples import case_of, chain
from tests.simulator.readings import dispatch_figures, launches, operations, pooled, powers

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "results"
DEVICES = (Device("cpu", "cpu", "CPU"), Device("cuda:0", "cuda", "GPU"))


def with_costs(**device_s: float) -> Platform:
    """A host where operation ``a_gpu`` on a GPU, ``a_cpu`` on the CPU, took so long."""
    kept = {(name[0], name[2:].upper()): TaskCost(seconds, source="measured") for name, seconds in device_s.items()}
    return Platform("host", DEVICES, costs=Costs(kept))


def test_readings_are_pooled_about_their_own_means() -> None:
    assert pooled({"a": [1.0, 1.0], "b": [0.9, 1.1], "c": [7.0]}) == (0.1, 4, 2)
    assert pooled({"c": [7.0]}) == (0.0, 0, 0)


def test_operations_are_told_apart_by_device_and_short_ones_and_outliers_left_out() -> None:
    """a: twice on the GPU; b: too short; c: another kernel the second time; d: the same reading kept twice."""
    hosts = [
        with_costs(a_gpu=1.0, b_gpu=1e-6, c_gpu=1.0, d_gpu=1.0, a_cpu=5.0),
        with_costs(a_gpu=1.1, b_gpu=2e-6, c_gpu=2.0, d_gpu=1.0, a_cpu=6.0),
    ]
    assert operations(hosts, on_cpu=False) == {("a", "GPU"): [1.0, 1.1], ("d", "GPU"): [1.0]}
    assert operations(hosts, on_cpu=True) == {("a", "CPU"): [5.0, 6.0]}


def test_figures_that_were_not_measured_are_no_readings() -> None:
    known = [replace(FREE, graph_other_device_s=seconds) for seconds in (0.0, 2.0, 3.0, 2.0)]
    assert dispatch_figures(known, ["graph_other_device_s"]) == {"graph_other_device_s": [2.0, 3.0]}


def test_graphs_on_one_gpu_tell_nothing_of_launches_over_several() -> None:
    dispatches = [replace(FREE, graph_across_s=seconds) for seconds in (1.0, 2.0)]
    assert launches([case_of(chain(3), mode="graph")], dispatches) == pytest.approx([])


def test_powers_are_read_off_distinct_calibrations_that_have_both_figure_and_yardstick() -> None:
    """Ten hosts: launches go as the square of a yardstick of their own, which one lacks; events of nothing."""
    hosts = [
        Dispatch(call_s=1e-6, graph_launches=((1, 1.0 * k),) if k > 1 else (), graph_launch_s=1e-6 * k**2, record_s=0.0)
        for k in range(1, 11)
    ]
    found = powers([*hosts, *hosts])
    assert found["graph_launch_s"] == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-9), 9)
    assert "record_s" not in found


@pytest.mark.slow
def test_powers_that_the_pace_of_a_thread_has_are_those_of_recorded_calibrations() -> None:
    """To half a standard error, all that are known."""
    cases = [case for path in find_runs([RESULTS]) for case in load_run(path).cases]
    found = powers(case.setup.platform.dispatch for case in cases)
    known = {name: (power, error) for name, (power, error, _) in found.items() if error <= POWER_ERROR}
    assert set(POWERS) == set(known)
    for name, (power, error) in known.items():
        assert POWERS[name] == pytest.approx(power, abs=error / 2)
