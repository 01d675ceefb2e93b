"""What graphs over several GPUs cost more is found again from rows that are played, and measured on real ones."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_across as module
from graphsched.calibration.graph_across import LONG, ROUND, Rows, across_figures, figures_of, measured_rows
from graphsched.calibration.graph_replays import Replay
from graphsched.platform import Dispatch
from tests.executors.fake_cuda import FakeCuda

NODE, COPY, PEER_EDGE, GPU_EDGE = 1.0, 2.0, 4.0, 3.0  # µs, as all here
ACROSS, START, ROOT, EDGE = 6.0, 5.0, 2.0, 1.5
KNOWN = {"graph_node_s": NODE * 1e-6, "graph_peer_copy_s": COPY * 1e-6, "graph_peer_edge_s": PEER_EDGE * 1e-6}
NAMES = ("graph_across_s", "graph_across_start_s", "graph_across_root_s", "graph_across_edge_s", "graph_other_device_s")


def replay(host_us: float, whole_us: float) -> Replay:
    return Replay(host_us * 1e-6, whole_us * 1e-6)


def played(gpus: int) -> Rows:
    """A launch takes 5 µs, and what the figures say beyond that; its first node starts 10 after it."""
    each = 5 + (gpus - 1) * (ACROSS + ROOT)
    rounds = [(each + (n - 1) * 2 * EDGE, 30 + n * (NODE + PEER_EDGE + COPY + GPU_EDGE)) for n in ROUND]
    return Rows(
        one=replay(5, 12),
        each=replay(each, 40),
        lanes=replay(each + (module.LANES - 1) * gpus * ROOT, 60),
        short_round=replay(*rounds[0]),
        long_round=replay(*rounds[1]),
        long=replay(5, 10 + LONG * NODE),
        long_beside=replay(each, 10 + START * (gpus - 1) + LONG * NODE),
    )


@pytest.mark.parametrize("gpus", [2, 4])
def test_all_figures_are_found_again(gpus: int) -> None:
    found = figures_of(played(gpus), gpus, KNOWN)
    wanted = (ACROSS, START, ROOT, EDGE, GPU_EDGE)
    assert found == {name: pytest.approx(us * 1e-6) for name, us in zip(NAMES, wanted, strict=True)}
    Dispatch(**found)


def test_one_gpu_has_none() -> None:
    assert across_figures([0], {}) == {}


def test_rows_are_replayed_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second of three turns the thread is half as fast, and one replay is interrupted."""
    rows, calls = played(2), iter(range(3 * len(Rows._fields)))
    builds: list[tuple[list[int], Any]] = []

    def program(devices: list[int], build: Any) -> Any:
        builds.append((devices, build))
        return nullcontext(len(builds) - 1)

    def seen(row: int) -> Replay:
        turn, place = divmod(next(calls), len(Rows._fields))
        assert place == row
        late_s = 1e-3 if (turn, row) == (1, 4) else 0.0
        return Replay(rows[row].host_s * (2 if turn == 1 else 1), rows[row].whole_s + late_s)

    paces = iter([6e-6, 6e-6, 12e-6, 12e-6, 6e-6, 6e-6])
    yardstick = SimpleNamespace(sample_s=lambda: next(paces), close=lambda: None)
    monkeypatch.setattr(module, "Yardstick", lambda device: yardstick)
    monkeypatch.setattr(module, "program_of", program)
    monkeypatch.setattr(module, "replay_of", seen)
    found = measured_rows([0, 2], 3e-6)
    assert [devices for devices, _ in builds] == [[0], *[[0, 2]] * 4, [0], [0, 2]]
    for one, wanted in zip(found, rows, strict=True):
        assert one == pytest.approx(Replay(wanted.host_s / 2, wanted.whole_s))


def test_noise_makes_nothing_negative() -> None:
    backwards = Rows(*(replay(50 - 10 * k, 50 - 10 * k) for k in range(len(Rows._fields))))
    assert set(figures_of(backwards, 2, KNOWN).values()) == {0.0}


def test_rows_are_one_graph_over_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """t0 on cuda:0 ──▶ copy ──▶ t1 on cuda:1 ──▶ copy ──▶ t2 on cuda:0; a task a lane; a chain beside single tasks."""
    FakeCuda(3).install(monkeypatch)
    wanted = {
        partial(module.going_round, tasks=3): ["cuda:0", "cuda:0", "cuda:2", "cuda:2", "cuda:0"],
        partial(module.on_each, lanes=2): ["cuda:0"] * 2 + ["cuda:2"] * 2,
        module.long_on_first: ["cuda:0"] * LONG + ["cuda:2"],
    }
    for build, devices in wanted.items():
        with module.program_of([0, 2], build) as row:
            assert [row.plan.lanes[lane].device for lane in row.plan.lane_of] == devices
            assert len(row._compiler.inner.segments) == 1
            assert row.time_once() > 0


@pytest.mark.gpu
@pytest.mark.multigpu
def test_graphs_over_these_gpus() -> None:
    here = list(range(torch.cuda.device_count()))
    found = across_figures(
        here, {"call_s": 6e-6, "graph_node_s": 1.1e-6, "graph_peer_copy_s": 2.3e-6, "graph_peer_edge_s": 4.5e-6}
    )
    assert 1e-6 < found["graph_across_s"] < 5e-5
    assert 1e-7 < found["graph_across_root_s"] < 1e-5
    assert 1e-7 < found["graph_across_edge_s"] < 1e-5
    assert 0 <= found["graph_across_start_s"] < 5e-5
    assert 0 <= found["graph_other_device_s"] < 2e-5
