"""What graphs over two GPUs cost more is found again from rows that are played, and measured on real ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphsched.calibration import graph_across as module
from graphsched.calibration.graph_across import across_figures
from graphsched.calibration.graph_replays import Replay
from graphsched.platform import Dispatch
from tests.executors.fake_cuda import FakeCuda


def play(patch: pytest.MonkeyPatch, *, each: float = 2.0, across: float = 20.0) -> list[tuple[int, ...]]:
    """µs: a launch takes 5 and `each` for a node; the first starts 10 after it, `across` later on two GPUs."""
    asked: list[tuple[int, ...]] = []

    def replay(devices: Sequence[int], nodes: int) -> Replay:
        asked.append((*devices, nodes))
        return Replay((5 + each * nodes) * 1e-6, (10 + across + max(each * (nodes - 1) + 1, nodes / 2) + 1) * 1e-6)

    patch.setattr(module, "replay", replay)
    patch.setattr(module, "tiny_replay", lambda device, nodes: Replay(5e-6, (10 + nodes + 1) * 1e-6))
    return asked


def test_both_figures_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = play(monkeypatch)
    found = across_figures([3, 5, 6], {"graph_launch_node_s": 0.5e-6})
    assert found == {"graph_across_s": pytest.approx(20.5e-6), "graph_across_node_s": pytest.approx(1.5e-6)}
    assert asked == [(3, 5, 20), (3, 5, 200), (3, 5, 2)]
    Dispatch(**found)


def test_one_gpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert across_figures([0], {}) == {}


def test_noise_makes_nothing_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, each=-0.1, across=-30.0)
    assert set(across_figures([0, 1], {"graph_launch_node_s": 0.0}).values()) == {0.0}


def test_a_row_is_one_graph_over_both_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """t0 and t2 on cuda:0, t1 on cuda:1."""
    FakeCuda(2).install(monkeypatch)
    with module._row([0, 1], 3) as row:
        assert [row.plan.lanes[lane].device for lane in row.plan.lane_of] == ["cuda:0", "cuda:1", "cuda:0"]
        assert len(row._compiler.inner.segments) == 1
        assert row.time_once() > 0


@pytest.mark.gpu
@pytest.mark.multigpu
def test_graphs_over_these_gpus() -> None:
    found = across_figures([0, 1], {"graph_launch_node_s": 0.0})
    print({name: round(seconds * 1e6, 2) for name, seconds in found.items()})
    assert 0 <= found["graph_across_s"] < 2e-4
    assert 1e-7 < found["graph_across_node_s"] < 1e-5
