"""What graphs over several GPUs cost more is found again from rows that are played, and measured on real ones."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_across as module
from graphsched.calibration.graph_across import LONG, SENT, STAGES, Rows, across_figures, figures_of, further_rounds
from graphsched.calibration.graph_replays import Replay
from graphsched.calibration.launch_pace import launches_on
from graphsched.platform import Dispatch
from tests.executors.fake_cuda import FakeCuda

NODE, COPY, PEER_EDGE, GPU_EDGE = 1.0, 2.0, 4.0, 3.0  # µs, as all here
ACROSS, START, ROOT, EDGE, SEND, FETCH, MORE = 6.0, 5.0, 2.0, 1.5, 0.5, 0.75, 0.25
STAGED = 147  # nodes of all stages: five rounds of 1 to 7, and 1 and 6
KNOWN = {"graph_peer_copy_s": COPY * 1e-6, "graph_peer_edge_s": PEER_EDGE * 1e-6}
NAMES = (
    "graph_across_s", "graph_across_start_s", "graph_across_root_s", "graph_across_edge_s", "graph_across_copy_s",
    "graph_across_host_copy_s", "graph_across_more_s", "graph_other_device_s",
)  # fmt: skip


def replay(host_us: float, whole_us: float) -> Replay:
    return Replay(host_us * 1e-6, whole_us * 1e-6)


def exchanges(gpus: int) -> list[Replay]:
    """Of one round, and of more: a copy and an edge for each two GPUs, and both ways."""
    pairs, edge = gpus * (gpus - 1), EDGE + (gpus - 2) * MORE
    launch = 5 + (gpus - 1) * (ACROSS + ROOT)
    return [replay(launch + n * pairs * (SEND + edge), 99) for n in (1, 1 + further_rounds(gpus))]


def played(gpus: int) -> Rows:
    """A launch takes 5 µs, and what the figures say beyond that; its first node starts 10 after it."""
    each = 5 + (gpus - 1) * (ACROSS + ROOT)
    hops = (STAGES - 1) * (PEER_EDGE + COPY + GPU_EDGE)
    two, all_of_them = exchanges(2), exchanges(gpus)
    return Rows(
        one=replay(5, 12),
        each=replay(each, 40),
        lanes=replay(each + (module.LANES - 1) * gpus * ROOT, 60),
        few_sent=replay(5 + SENT[0] * SEND, 30),
        many_sent=replay(5 + SENT[1] * SEND, 60),
        few_fetched=replay(each + SENT[0] * FETCH, 30),
        many_fetched=replay(each + SENT[1] * FETCH, 60),
        pair_once=two[0],
        pair_often=two[1],
        all_once=all_of_them[0],
        all_often=all_of_them[1],
        long=replay(5, 10 + LONG * NODE),
        long_beside=replay(each, 10 + START * (gpus - 1) + LONG * NODE),
        stages=replay(5, 10 + STAGED * NODE),
        stages_round=replay(each, 10 + START * (gpus - 1) + STAGED * NODE + hops),
    )


@pytest.mark.parametrize("gpus", [2, 4])
def test_all_figures_are_found_again(gpus: int) -> None:
    found = figures_of(played(gpus), gpus, KNOWN)
    wanted = (ACROSS, START, ROOT, EDGE, SEND, FETCH, MORE if gpus > 2 else 0.0, GPU_EDGE)
    assert found == {name: pytest.approx(us * 1e-6) for name, us in zip(NAMES, wanted, strict=True)}
    Dispatch(**found)


@pytest.mark.parametrize("gpus", [2, 4])
def test_roots_on_the_first_gpu_take_what_they_do_on_it_alone(gpus: int) -> None:
    """0.5 µs there, of all that lanes take, and 2 on each other."""
    rows, more = played(gpus), module.LANES - 1
    lanes = replay(rows.each.host_s * 1e6 + more * (0.5 + (gpus - 1) * ROOT), 60)
    found = figures_of(rows._replace(lanes=lanes), gpus, {**KNOWN, "graph_root_s": 0.5e-6})
    assert found["graph_across_root_s"] == pytest.approx(ROOT * 1e-6)
    assert found["graph_across_s"] == pytest.approx(ACROSS * 1e-6)


def test_one_gpu_has_none() -> None:
    assert across_figures([0], {}) == {}


def test_rows_are_compared_within_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two of five turns the thread is half as fast and all runs 20 µs longer, and in the third until `long` is over.

    So of `long` most replays are slow, and of `long_beside` most are not. One replay is interrupted.
    """
    rows, calls = played(2), iter(range(module.TURNS * len(Rows._fields)))
    builds: list[tuple[list[int], Any]] = []

    def program(devices: list[int], build: Any) -> Any:
        builds.append((devices, build))
        return nullcontext(len(builds) - 1)

    def seen(row: int) -> Replay:
        turn, place = divmod(next(calls), len(Rows._fields))
        assert place == row
        late_s = 1e-3 if (turn, row) == (3, len(Rows._fields) - 1) else 0.0
        slow = turn < 2 or (turn == 2 and row <= Rows._fields.index("long"))
        return Replay(rows[row].host_s * (2 if slow else 1), rows[row].whole_s + late_s + (2e-5 if slow else 0.0))

    paces = iter([*[12e-6] * 5, *[6e-6] * 5])
    yardstick = SimpleNamespace(sample_s=lambda: next(paces), close=lambda: None)
    monkeypatch.setattr(module, "LaunchYardstick", lambda gpus: yardstick)
    monkeypatch.setattr(module, "program_of", program)
    monkeypatch.setattr(module, "replay_of", seen)
    found = across_figures([0, 2], {**KNOWN, "graph_launches": ((1, 9e-6), (2, 6e-6))})
    assert [devices for devices, _ in builds] == [[0], *[[0, 2]] * 10, [0], [0, 2], [0], [0, 2]]
    assert found == {name: pytest.approx(seconds) for name, seconds in figures_of(rows, 2, KNOWN).items()}


def test_noise_makes_nothing_negative() -> None:
    backwards = Rows(*(replay(50 - 10 * k, 50 - 10 * k) for k in range(len(Rows._fields))))
    assert set(figures_of(backwards, 2, KNOWN).values()) == {0.0}


def test_rows_are_one_graph_over_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """t0 on cuda:0 ──▶ copy ──▶ t1 on cuda:2 ──▶ copy ──▶ t2 on cuda:0; stages of 1, 6, of 1 + 2, 6 + 2; lanes;
    a long chain.

    Of those sent, t0 ──▶ c0, t1 ──▶ c1, on cuda:0; of those fetched, x ──▶ c0 on cuda:0, x ──▶ c1 on cuda:2 and a task
    on each; of an exchange, a task on each, a copy each way, a sum on each.
    """
    FakeCuda(3).install(monkeypatch)
    wanted = {
        partial(module.going_round, tasks=3): ["cuda:0", "cuda:0", "cuda:2", "cuda:2", "cuda:0"],
        partial(module.going_round, tasks=2, longest=7): ["cuda:0", "cuda:0", *["cuda:2"] * 6],
        partial(module.going_round, tasks=2, longest=7, elements=8): ["cuda:0"] * 4 + ["cuda:2"] * 8,
        partial(module.on_each, lanes=2): ["cuda:0"] * 2 + ["cuda:2"] * 2,
        partial(module.sent, copies=2): ["cuda:0"] * 4,
        partial(module.fetched, copies=2): ["cuda:0", "cuda:2"] * 2,
        partial(module.exchanged, rounds=1): ["cuda:0", "cuda:2", "cuda:2", "cuda:0", "cuda:0", "cuda:2"],
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
        here, {"graph_launches": launches_on(here), "graph_peer_copy_s": 2.3e-6, "graph_peer_edge_s": 4.5e-6}
    )
    assert 1e-6 < found["graph_across_s"] < 5e-5
    assert 1e-7 < found["graph_across_root_s"] < 1e-5
    assert 1e-7 < found["graph_across_edge_s"] < 1e-5
    assert 1e-7 < found["graph_across_copy_s"] < 1e-5
    assert 1e-7 < found["graph_across_host_copy_s"] < 1e-5
    assert 0 <= found["graph_across_more_s"] < 1e-5
    assert 0 <= found["graph_across_start_s"] < 5e-5
    assert 0 <= found["graph_other_device_s"] < 2e-5
