"""Graphs behind tasks of a CPU lane, for which the thread sleeps: what the end of a run is later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphsched.calibration import slept_launches as module
from graphsched.calibration.slept_launches import SAMPLES, WAITS_US, SleptLaunches, slept_launches_on
from graphsched.calibration.tiny_plans import company_order
from graphsched.errors import ExecutionError
from graphsched.plan import segments_of
from graphsched.platform import Dispatch
from graphsched.processes import cores
from tests.executors.fake_cuda import FakeCuda


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCuda(3).install(monkeypatch)
    monkeypatch.setattr(module, "PAGE", 64)
    monkeypatch.setattr(module, "PART", 8)
    monkeypatch.setattr(module, "WAITS_US", (20, 50))


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("gpus", [[1], [0, 2]])
def test_a_graph_of_all_kinds_waits_for_a_lane_of_these_threads(gpus: list[int]) -> None:
    """going (CPU) ──▶ going>cuda ──▶ there ─▶ …, tasks and copies of all kinds: one graph, launched behind going."""
    launches = SleptLaunches(gpus, threads=3)
    for program, _ in launches._runs:
        plan = program.plan
        assert plan.names[0] == "going"
        assert [lane.name for lane in plan.lanes if lane.device == "cpu" and lane.kind == "compute"] == ["cpu/w0"]
        assert plan.platform.device("cpu").threads == 3
        assert plan.platform.cores == cores()
        assert len(plan) == 3 + len(company_order(len(gpus)))
        segments = segments_of(plan)
        assert len(segments) == 1
        assert [plan.names[i] for i in segments.before[0]] == ["going"]
    assert len(launches.sample_s()) == 2
    launches.close()
    for program, _ in launches._runs:
        with pytest.raises(ExecutionError, match="closed"):
            program.run()


@pytest.mark.usefixtures("brief")
def test_of_calls_the_first_count_alone() -> None:
    """going (CPU) ──▶ going>cuda ──▶ there, one by one."""
    launches = SleptLaunches([1], threads=3, mode="eager")
    for program, _ in launches._runs:
        assert program.mode == "eager"
        assert program.plan.names == ["going", "going>cuda:1", "there"]
    assert len(launches.sample_s()) == 2
    launches.close()


@pytest.mark.usefixtures("brief")
def test_a_failure_while_it_is_made_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    program_of = module.program_of
    monkeypatch.setattr(module, "program_of", lambda *a, **k: made.append(program_of(*a, **k)) or made[-1])
    monkeypatch.setattr(SleptLaunches, "sample_s", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SleptLaunches([0], threads=2)
    assert len(made) == 3
    for program in made:
        with pytest.raises(ExecutionError, match="closed"):
            program.run()


@pytest.mark.usefixtures("brief")
def test_what_comes_behind_a_task_that_is_over_at_once_counts_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends 40 µs behind the lane's task, and a hundredth of that task later; the first of a sample 9 later."""
    clock, runs = [10.0], [0]
    launches = SleptLaunches([0], threads=2)
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])

    def run(task: Any, seconds: float) -> Any:
        def time_once() -> None:
            task.over_s = clock[0] + seconds
            runs[0] += 1
            clock[0] = task.over_s + 4e-5 + seconds / 100 + (9e-6 if runs[0] == 1 else 0.0)

        return SimpleNamespace(time_once=time_once), task

    held: Any = launches
    held._runs = [run(SimpleNamespace(over_s=0.0), us * 1e-6) for us in (0, 300, 1000)]
    assert launches.sample_s() == (pytest.approx(3e-6), pytest.approx(1e-5))
    monkeypatch.undo()
    launches.close()


def test_they_become_figures_of_dispatch() -> None:
    made: list[tuple[tuple[int, ...], int, str]] = []

    class Played:
        def __init__(self, gpus: Any, threads: int, mode: str = "graph") -> None:
            made.append((tuple(gpus), threads, mode))
            self.count = 5 if mode == "eager" else len(gpus)

        def sample_s(self) -> tuple[float, ...]:
            return tuple(self.count * us * 1e-8 for us in WAITS_US)

        def close(self) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SleptLaunches", Played)
        one, two = slept_launches_on([4], 15), slept_launches_on([4, 6, 7], 15)
    assert set(one) == {"slept_colds", "graph_slept_colds"}
    dispatch = Dispatch(**two)
    assert dispatch.graph_slept_colds == ((300, 3e-6), (1000, 1e-5), (3000, pytest.approx(3e-5)))
    assert dispatch.graph_across_slept_colds[-1] == (3000, pytest.approx(6e-5))
    assert dispatch.slept_colds[0] == (300, pytest.approx(15e-6))
    assert set(made) == {((4,), 15, "eager"), ((4,), 15, "graph"), ((4, 6), 15, "graph")}
    assert SAMPLES > 1


@pytest.mark.gpu
def test_of_this_host() -> None:
    found = slept_launches_on([0], 4)
    print(found)
    for name in ("slept_colds", "graph_slept_colds"):
        assert [us for us, _ in found[name]] == list(WAITS_US)
        assert all(0.0 <= seconds < 1e-3 for _, seconds in found[name])
