"""The speed of the dispatching thread at present."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.calibration import (
    PaceMeter,
    cold_calls,
    cold_launches,
    cuda_calls,
    lane_pace,
    launch_pace,
    present_call_s,
)
from graphsched.platform import Device, Dispatch, Pace, Platform
from graphsched.platform.pace import LANES
from graphsched.workload import TensorSpec, Workload
from tests.builders import planned, platform, workload

MEASURED = Dispatch(call_s=5e-6, record_s=2e-6, sync_s=1e-5, launch_s=3e-6, wake_s=1e-5)
HERE = Platform("here", (Device("cpu", "cpu"), Device("cuda:1", "cuda")), dispatch=MEASURED)


def test_a_slower_thread_has_dearer_calls_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(cuda_calls, "tiny_call_s", lambda gpu: asked.append(gpu) or 1e-5)
    now = HERE.at(Pace(present_call_s(HERE))).dispatch
    assert asked == [1]
    assert (now.call_s, now.run_s, now.device_wait_s) == (1e-5, 2 * MEASURED.run_s, 2 * MEASURED.device_wait_s)
    assert now.record_s == pytest.approx(5.7e-6, rel=0.01)  # events slow down by more
    assert (now.sync_s, now.launch_s, now.wake_s, now.queue_depth) == (1e-5, 3e-6, 1e-5, 1024)
    assert now.at(Pace(5e-6)).record_s == pytest.approx(2e-6)


def test_without_a_yardstick_or_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_calls, "tiny_call_s", lambda gpu: pytest.fail("measured"))
    unknown = replace(HERE, dispatch=replace(MEASURED, call_s=0.0))
    bare = replace(HERE, devices=HERE.devices[:1])
    assert (present_call_s(unknown), present_call_s(bare)) == (0, 0)
    assert HERE.at(Pace()) == HERE
    assert unknown.at(Pace(1e-5)) == unknown


def test_calls_after_waits_are_those_measured_now() -> None:
    now = HERE.at(Pace(1e-5, colds=((20, 1e-6), (200, 9e-6)))).dispatch
    assert (now.colds, now.run_s) == (((20, 1e-6), (200, 9e-6)), 2 * MEASURED.run_s)
    assert HERE.at(Pace(1e-5)).dispatch.colds == ()


def test_a_meter_takes_the_yardstick_and_calls_after_waits_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that slows down while something runs: the middle of what was seen counts."""
    seen = iter([1.0, 4.0, 2.0])
    colder = iter([(1.0, 8.0, 9.0), (3.0, 5.0, 6.0), (2.0, 7.0, 8.0)])
    closed: list[int] = []
    asked: list[int] = []

    class Cold:
        def __init__(self, gpu: int) -> None:
            asked.append(gpu)

        def sample(self) -> cold_calls.ColdSample:
            return cold_calls.ColdSample(9.0, next(colder))

    class Played:
        def __init__(self, gpu: int) -> None:
            self.gpu = gpu

        def sample_s(self) -> float:
            return next(seen)

        def close(self) -> None:
            closed.append(self.gpu)

    monkeypatch.setattr(cuda_calls, "Yardstick", Played)
    monkeypatch.setattr(cold_calls, "ColdCalls", Cold)
    meter = PaceMeter(HERE)
    for _ in range(3):
        meter.take()
    meter.close()
    assert (meter.pace.call_s, closed) == (2.0, [1])
    assert (meter.pace.colds, asked) == (((20, 2.0), (200, 7.0), (1000, 8.0)), [1])


class Taken:
    """A yardstick that always says the same."""

    def __init__(self, found: Any) -> None:
        self.sample = self.sample_s = lambda: found

    def close(self) -> None:
        pass


MIXED_S = 13e-6


@pytest.mark.parametrize(
    ("kinds", "mode", "mixed_calls", "call_s"),
    [
        ("nn", "eager", 1.3, 7e-6),
        ("na", "eager", 1.3, 7e-6),
        ("nae", "eager", 1.3, 1e-5),
        ("naenae", "eager", 1.3, 1e-5),
        ("nae", "eager", 2.0, 7e-6),
        ("nae", "eager", 0.0, 7e-6),
        ("nae", "graph", 1.3, 7e-6),
    ],
)
def test_a_disturbed_thread_slows_down_calls_of_many_kinds_by_more(
    kinds: str, mode: str, mixed_calls: float, call_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """neg, abs, exp in turn: a row of one kind takes 7 µs a call, of several 13, which is 1.3 times on a quiet thread.

    What the thread calls in a run counts; a graph it launches as a whole. Where 13 is less than on a quiet thread, or
    that is unknown, the row of one kind is the yardstick.
    """
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for k, kind in enumerate(kinds):
        work.task({"n": torch.neg, "a": torch.abs, "e": torch.exp}[kind], x, name=f"{kind}{k}", device="cuda:0")
    here = platform(gpus=1, dispatch=replace(MEASURED, mixed_calls=mixed_calls))
    plan = planned(work, here, {task.name: "cuda:0/s0" for task in work.tasks}, wait_after=[f"{kinds[0]}0"])
    monkeypatch.setattr(cuda_calls, "Yardstick", lambda gpu: Taken(7e-6))
    monkeypatch.setattr(cold_calls, "ColdCalls", lambda gpu: Taken(cold_calls.ColdSample(MIXED_S, (0.0, 0.0, 0.0))))
    meter = PaceMeter(here, replace(plan, mode=mode), 0.01)
    meter.take()
    meter.close()
    assert meter.pace.call_s == pytest.approx(call_s)


def test_without_a_gpu_or_a_yardstick_there_is_no_pace() -> None:
    for bare in (
        Platform("bare", (Device("cpu", "cpu"),)),
        replace(HERE, dispatch=replace(HERE.dispatch, call_s=0.0)),
    ):
        meter = PaceMeter(bare)
        meter.take()
        meter.close()
        assert meter.pace == Pace()


def test_lanes_have_a_yardstick_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """a on a worker: the middle of what was seen while it ran counts, and changes no other cost of dispatch."""
    seen = iter([(3e-4, 2e-3, 4e-4, 6e-4), (9e-4, 1e-3, 1e-4, 5e-4), (5e-4, 7e-3, 2e-4, 9e-4)])
    here = replace(platform(gpus=0, workers=1), dispatch=MEASURED)
    plan = planned(workload({"a": 1.0}), here, {"a": "worker:0/w0"})
    monkeypatch.setattr(lane_pace.LaneYardstick, "sample", lambda self: next(seen))
    meter = PaceMeter(here, plan, 0.01)
    for _ in range(3):
        meter.take()
    meter.close()
    middles: dict[str, float] = {"product_s": 5e-4, "sweep_s": 2e-3, "fetch_s": 2e-4, "pinned_s": 6e-4}
    assert meter.pace == Pace(**middles)  # type: ignore[arg-type]
    assert here.at(meter.pace).dispatch == replace(MEASURED, **middles)  # type: ignore[arg-type]
    assert here.at(Pace(1e-5, 5e-4, sweep_s=2e-3)).dispatch == replace(
        MEASURED.at(Pace(1e-5)), product_s=5e-4, sweep_s=2e-3
    )


def test_the_pace_of_costs_holds_what_lanes_are_measured_by() -> None:
    lanes: dict[str, float] = {"product_s": 5e-4, "sweep_s": 2e-3, "fetch_s": 2e-4, "pinned_s": 6e-4}
    assert set(lanes) == set(LANES)
    assert Pace.of(Dispatch(**lanes), graphs=False) == Pace(**lanes)  # type: ignore[arg-type]


def test_launches_of_graphs_go_with_yardsticks_of_their_own() -> None:
    """On one GPU thrice, over two twice as slow, while calls are half as slow again; what was not measured goes on."""
    costs = Dispatch(
        call_s=5e-6, graph_launches=((1, 1e-5), (2, 4e-5)), graph_launch_s=6e-6, graph_launch_node_s=1e-8,
        graph_starts=((1, 1e-5),), graph_across_more_s=2e-6, graph_step_s=1e-6, run_s=2e-6,
    )  # fmt: skip
    here = replace(HERE, dispatch=costs)
    now = here.at(Pace(7.5e-6, launches=((1, 3e-5), (2, 8e-5)))).dispatch
    assert (now.graph_launch_s, now.graph_launch_node_s) == (pytest.approx(1.761e-5, rel=1e-3), pytest.approx(3e-8))
    assert now.graph_start_s(1) == pytest.approx(1e-5 + 2 * 6.01e-6)
    assert (now.graph_across_more_s, now.graph_step_s) == (pytest.approx(4e-6), pytest.approx(1.65e-6, rel=3e-3))
    assert (now.run_s, now.graph_launches) == (pytest.approx(3e-6), ((1, 3e-5), (2, 8e-5)))
    alone = here.at(Pace(7.5e-6, launches=((1, 3e-5),))).dispatch
    assert (alone.graph_launch_s, alone.graph_across_more_s) == (pytest.approx(1.761e-5, rel=1e-3), pytest.approx(3e-6))
    plain = here.at(Pace(7.5e-6)).dispatch
    assert (plain.graph_launch_s, plain.graph_across_more_s) == (pytest.approx(8.928e-6, rel=1e-3), pytest.approx(3e-6))
    assert plain.graph_launches == ((1, pytest.approx(1.5e-5)), (2, pytest.approx(6e-5)))
    assert plain.at(Pace(5e-6)).graph_launch_s == pytest.approx(6e-6)


@pytest.mark.parametrize(("mode", "gpus", "taken"), [("graph", 1, (1,)), ("graph", 3, (1, 2)), ("eager", 3, ())])
def test_a_meter_takes_launches_of_a_plan_in_graph_mode(
    mode: str, gpus: int, taken: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task on each of so many GPUs: yardsticks of one GPU, and of two where the plan is on several."""
    made: list[list[int]] = []
    closed: list[list[int]] = []

    class Played:
        def __init__(self, on: object) -> None:
            self.on, self.samples = on, iter([1.0, 7.0, 2.0])
            if isinstance(on, list):
                made.append(on)

        def sample_s(self) -> float:
            return next(self.samples) * (len(self.on) if isinstance(self.on, list) else 1)

        def close(self) -> None:
            if isinstance(self.on, list):
                closed.append(self.on)

    class Cold(Played):
        def sample_s(self) -> tuple[float, ...]:  # type: ignore[override]
            return 1.0, 2.0, 3.0

        def sample(self) -> cold_calls.ColdSample:
            return cold_calls.ColdSample(9.0, self.sample_s())

    monkeypatch.setattr(cuda_calls, "Yardstick", Played)
    monkeypatch.setattr(cold_calls, "ColdCalls", Cold)
    monkeypatch.setattr(launch_pace, "LaunchYardstick", Played)
    monkeypatch.setattr(cold_launches, "ColdLaunches", Cold)
    costs = Dispatch(call_s=5e-6, graph_launches=((1, 1e-5), (2, 4e-5)))
    here = platform(gpus=3, dispatch=replace(costs, graph_colds=((20, 1e-6),), graph_across_colds=((20, 1e-6),)))
    names = [f"cuda:{k}" for k in range(gpus)]
    plan = replace(planned(workload(dict.fromkeys(names, 1.0)), here, {n: f"{n}/s0" for n in names}), mode=mode)
    meter = PaceMeter(here, plan, 0.01)
    for _ in range(3):
        meter.take()
    meter.close()
    assert meter.pace.launches == tuple((n, 2.0 * n) for n in taken)
    assert made == closed == 2 * [list(range(n)) for n in taken]
    assert meter.pace.launch_colds == tuple(((20, 1.0), (200, 2.0), (1000, 3.0)) for _ in taken)
