"""Given before measured before estimated."""

from __future__ import annotations

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.errors import CostError
from graphsched.estimates import DISPATCH_S, LAUNCH_S, task_cost
from graphsched.platform import Device
from graphsched.workload import Operation, Read, Task, Value

GPU = Device("cuda:0", "cuda", "GPU", flop_per_s=1e12, bytes_per_s=1e11)
MEASURED = Costs({("mm", "GPU"): TaskCost(3e-3, dispatch_s=7e-6)})


def _task(flops: int = 0, nbytes: int = 0, **more: object) -> Task:
    values = (Value("x", "input", nbytes // 2), Value("y", "output", nbytes // 2))
    operation = Operation("mm", None, flops=flops)
    return Task("t", reads=(Read(values[0]),), outputs=values[1:], operation=operation, signature="mm", **more)  # type: ignore[arg-type]


def test_measured() -> None:
    assert task_cost(_task(), GPU, MEASURED) is MEASURED["mm", "GPU"]


def test_given_goes_before_measured_and_keeps_its_dispatch() -> None:
    cost = task_cost(_task(duration_s=0.5), GPU, MEASURED)
    assert (cost.device_s, cost.dispatch_s, cost.source) == (0.5, 7e-6, "given")


def test_given_but_never_measured_is_dispatched_like_any_operation() -> None:
    assert task_cost(_task(duration_s=0.5), GPU, None).dispatch_s == DISPATCH_S["cuda"]


def test_a_model_only_task_has_no_call_to_dispatch() -> None:
    assert task_cost(Task("a", duration_s=0.5), GPU, None).dispatch_s == 0.0


@pytest.mark.parametrize(
    ("given", "seconds"), [({"cuda": 1, "cuda:0": 2}, 2), ({"cuda": 1}, 1), ({"cuda:1": 3, "cuda": 1}, 1), (0, 0)]
)
def test_given_by_name_before_kind(given: object, seconds: float) -> None:
    assert task_cost(_task(duration_s=given), GPU, None).device_s == seconds


def test_given_for_other_devices_only() -> None:
    with pytest.raises(CostError, match=r"task 't' has no duration on cuda:0: .*give one"):
        task_cost(_task(duration_s={"cpu": 1.0}), GPU, MEASURED)


def test_an_estimate_is_bound_by_arithmetic_or_by_memory() -> None:
    by_arithmetic = task_cost(_task(flops=10**9, nbytes=10**6), GPU, None)
    by_memory = task_cost(_task(flops=10**6, nbytes=10**9), GPU, None)
    assert by_arithmetic.device_s == pytest.approx(1e-3 + LAUNCH_S["cuda"])
    assert by_memory.device_s == pytest.approx(1e-2 + LAUNCH_S["cuda"])
    assert by_arithmetic.source == by_memory.source == "estimated"


def test_measured_on_another_model_is_an_estimate() -> None:
    other = Device("cuda:0", "cuda", "another GPU")
    assert task_cost(_task(), other, MEASURED).source == "estimated"
