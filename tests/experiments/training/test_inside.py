"""Where a step spends its time: stages of the thread, and what GPUs do by the stage in which it was launched."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

import experiments.resnet18_data_parallel as experiment
from experiments.training.baselines import Setting
from experiments.training.inside import STAGES, Staged, seconds_of, stages_of, watch, watched
from graphsched.charts.stages import Stage
from graphsched.errors import ExecutionError
from graphsched.formats.profiler_trace import DeviceWork, HostSpan, ProfilerTrace
from models.lenet import LeNet
from tests.experiments.small import hand_written

HOST = hand_written("worker", 2)
ON_CPUS = ["images", "forward", "loss", "backward", "update", "wait"]


def setting(make: type[nn.Module] = LeNet) -> Setting:
    return Setting(make, HOST, HOST.accelerators(1), 4, 0.2, steps=2, folder=None)


class Broken(nn.Module):
    """A network that cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no such network")


class Killing(nn.Module):
    """A network that takes its process with it."""

    def __init__(self) -> None:
        import os

        os._exit(3)


def span(name: str, start_s: float, end_s: float, thread: str = "1/1", correlation: int | None = None) -> HostSpan:
    return HostSpan(name, thread, start_s, end_s, correlation)


def test_what_a_gpu_does_counts_to_the_stage_that_launched_it() -> None:
    """::

    thread  ├ scatter ┤├──── backward ────┤ ├ wait ┤
    others      1          2 (autograd)    3            4: launched by nobody that was seen
    """
    trace = ProfilerTrace(
        work=(
            DeviceWork("copy", "copy", 1, 20, 11.5, 12.5, 1),
            DeviceWork("gemm", "kernel", 1, 7, 14.0, 19.0, 2),
            DeviceWork("gemm", "kernel", 0, 7, 15.0, 16.0, 3),
            DeviceWork("fill", "fill", 0, 7, 16.0, 17.0, 4),
        ),
        calls=(
            span("cudaMemcpyAsync", 11.0, 11.2, correlation=1),
            span("cudaLaunchKernel", 13.0, 13.1, "1/9", 2),
            span("cudaLaunchKernel", 16.2, 16.3, correlation=3),
        ),
        ranges=(
            span("scatter", 10.0, 12.0),
            span("other range", 10.5, 11.0),
            span("backward", 12.0, 16.0),
            span("wait", 16.5, 20.0),
        ),
    )
    assert stages_of(trace) == [
        Stage("thread", "scatter", 0.0, 2.0),
        Stage("thread", "backward", 2.0, 6.0),
        Stage("thread", "wait", 6.5, 10.0),
        Stage("GPU 0", "other", 5.0, 6.0),  # launched between two stages
        Stage("GPU 0", "other", 6.0, 7.0),
        Stage("GPU 1", "backward", 4.0, 9.0),
        Stage("GPU 1 copies", "scatter", 1.5, 2.5),
    ]


def test_a_trace_without_stages_is_refused() -> None:
    with pytest.raises(ExecutionError, match="no stage"):
        stages_of(ProfilerTrace(ranges=(span("something", 0.0, 1.0),)))


def test_figures_add_up_and_count_time_once() -> None:
    """Copies are not counted as computing; a stage that comes twice is added up."""
    step = [
        Stage("thread", "forward", 0.0, 1.0),
        Stage("thread", "wait", 1.0, 3.0),
        Stage("thread", "forward", 3.0, 4.0),
        Stage("GPU 0", "forward", 0.0, 2.0),
        Stage("GPU 0", "forward", 1.0, 1.5),
        Stage("GPU 1", "forward", 3.0, 4.0),
        Stage("GPU 1 copies", "forward", 0.0, 4.0),
    ]
    found = seconds_of(step)
    assert found == {
        "watched_forward_s": 2.0,
        "watched_wait_s": 2.0,
        "watched_step_s": 4.0,
        "watched_busy_share": pytest.approx((2.0 + 1.0) / 2 / 4.0),
    }


def test_a_step_on_the_cpu_is_seen_stage_by_stage() -> None:
    stages = watch(setting())
    assert [stage.name for stage in stages] == ON_CPUS
    assert stages[0].start_s == 0.0
    assert all(before.end_s <= after.start_s for before, after in pairwise(stages))
    found = seconds_of(stages)
    assert sum(found[f"watched_{name}_s"] for name in ON_CPUS) <= found["watched_step_s"] * (1 + 1e-9)


@pytest.mark.slow
def test_another_process_takes_the_step() -> None:
    assert [stage.name for stage in watched(setting())] == ON_CPUS


@pytest.mark.slow
@pytest.mark.parametrize(("make", "why"), [(Broken, "no such network"), (Killing, "BrokenProcessPool")])
def test_a_step_that_fails_there_is_told(make: type[nn.Module], why: str) -> None:
    with pytest.raises(ExecutionError, match=f"could not be watched: .*{why}"):
        watched(setting(make))


def test_the_picture_is_of_the_run_that_was_watched_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "_last", [])
    monkeypatch.setattr(experiment, "_inside", {})
    assert experiment.draw(HOST, tmp_path) == ()
    experiment._inside["a step"] = [Stage("thread", "forward", 0.0, 1.0)]
    (path,) = experiment.draw(HOST, tmp_path)
    assert path.name.endswith("-inside.png")
    assert path.stat().st_size > 1000


@pytest.mark.multigpu
def test_data_parallel_with_stages_computes_the_same_and_shows_them() -> None:
    host = hand_written("cuda", 2)
    of_two = Setting(LeNet, host, host.accelerators(2), 8, 0.2, steps=2, folder=None)
    x = of_two.batch()[0].to("cuda:0")
    net = of_two.network().to("cuda:0")
    devices = [torch.device(f"cuda:{k}") for k in range(2)]
    torch.testing.assert_close(Staged(net, devices)(x), nn.DataParallel(net, devices)(x), rtol=0, atol=0)
    stages = watch(of_two)
    assert [stage.name for stage in stages if stage.row == "thread"] == list(STAGES)
    assert {stage.row for stage in stages} >= {"thread", "GPU 0", "GPU 1"}
    assert {stage.name for stage in stages if stage.row == "GPU 1"} >= {"forward", "backward"}
    assert 0 < seconds_of(stages)["watched_busy_share"] <= 1
