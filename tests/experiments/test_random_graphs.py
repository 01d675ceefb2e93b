"""Random graphs of mixed kernels and copies: what they hold, and results equal to those of plain PyTorch."""

from __future__ import annotations

from collections import Counter

import pytest

from experiments._graphs import plain_values
from experiments._mixtures import mixture
from graphsched.plan import allowed_devices
from graphsched.workload import Workload
from tests.experiments.small import cases, hand_written, plan_of

DEVICES = ["worker:0", "worker:1"]


def operations(work: Workload) -> set[str]:
    """Names of the operations of a workload, and ``copy``."""
    return {task.operation.name if task.operation else task.kind for task in work.tasks}


def test_kernels_and_copies_are_mixed() -> None:
    work = mixture(DEVICES, 16, 20, 8, seed=1)
    names = {"mm", "lerp", "softmax", "nn.functional.layer_norm", "sum", "sub"}
    assert operations(work) == {f"torch.{name}" for name in names} | {"copy"}
    assert {value.spec.dtype for value in work.values.values() if value.spec} == {"float32", "bfloat16"}


def test_graphs_depend_on_the_seed_alone() -> None:
    digests = [mixture(DEVICES, 16, 6, 4, seed=seed).digest() for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_copies_go_to_pinned_memory_and_come_back() -> None:
    work = mixture(DEVICES, 16, 20, 8, seed=1)
    copies = [task for task in work.tasks if task.kind == "copy"]
    ends = Counter("cpu" if task.outputs[0].device == "cpu" else "device" for task in copies)
    assert ends["cpu"] == ends["device"] > 3
    assert {task.memory for task in copies} == {"pinned"}


def test_few_operations_are_to_be_measured() -> None:
    signatures = {task.signature for seed in range(8) for task in mixture(DEVICES, 16, 8, 8, seed=seed).tasks}
    assert len(signatures) <= 22


def test_light_tasks_may_run_on_the_cpu_where_that_is_asked_for() -> None:
    platform = hand_written("cuda", 2)
    for cpu in (False, True):
        work = mixture(["cuda:0", "cuda:1"], 16, 20, 8, seed=4, cpu=cpu)
        runs = [task for task in work.tasks if task.kind == "run"]
        light = [task for task in runs if "cpu" in allowed_devices(task, platform, work)]
        assert bool(light) == cpu
        assert all(not task.signature.startswith("torch.mm") for task in light)


def test_the_cpu_takes_part() -> None:
    platform = hand_written("cuda", 2)
    made = cases("random_graphs", platform, layers=10, width=8)
    plan = plan_of(made["random 4, round_robin, 1 lane each, CPU and 2 GPUs"], platform)
    assert "cpu" in {lane.device for lane in plan.lanes if lane.kind == "compute"}


@pytest.mark.parametrize("seed", range(3))
def test_values_stay_in_range_however_deep(seed: int) -> None:
    work = mixture(DEVICES, 16, 30, 6, seed=seed)
    assert all(float(v.abs().max()) < 1e6 for v in plain_values(work, dict(work.tensors)).values())


def test_every_schedule_returns_what_plain_pytorch_returns() -> None:
    made = cases("random_graphs", hand_written("worker", 2, lanes=4), seeds=(1,), devices=(2,))
    checked = [case for case in made.values() if case.metrics is not None]
    assert len(checked) == 5
    assert len(made) == 10  # those beside the CPU are not checked: it rounds otherwise
    for case in checked:
        assert case.metrics() == {"max_abs_difference": 0.0}, case.label  # type: ignore[misc]
