"""An error in what a collective takes is one of compute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.comparison import compare
from graphsched.plan import Plan
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import by_hand, machine

WORKERS = ("worker:0", "worker:1")


def summed(seconds: float) -> Plan:
    """x0, x1 ──▶ sum ──▶ y."""
    work = Workload()
    values = [work.input(f"x{k}", TensorSpec((4,)), device=device) for k, device in enumerate(WORKERS)]
    first, _ = work.collective("all_reduce", values, devices=WORKERS, name="sum", duration_s=seconds)
    work.task(abs, first, name="y", device=WORKERS[0], outputs=[], duration_s=1.0)
    return by_hand(work, machine(*WORKERS), "worker:0/w0")


def test_a_longer_collective_is_compute() -> None:
    """Predicted 2 + 1 s, measured 3 + 1 s."""
    plan = summed(2.0)
    compared = compare(predict(plan), replace(predict(summed(3.0)), source="measured", plan=plan))
    found = compared.attribution
    assert found is not None
    shares = found.figures()
    assert shares["compute"] == pytest.approx(compared.makespan_error, rel=1e-6)
    assert compared.makespan_error == pytest.approx(-0.25, rel=1e-3)
    assert "all_reduce on worker:0" in str(found)
