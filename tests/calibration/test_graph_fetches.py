"""Operations that fetch their code beside others: the forks of one graph, and what their differences say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_fetches as module
from graphsched.calibration.graph_company import marking
from graphsched.calibration.graph_fetches import CALLS, LEAST_S, ROUNDS, RUNS, Hindered, hindered, spans_s
from graphsched.calibration.graph_rows import COLD_RUNS, Fork, forks_of
from graphsched.calibration.graph_states import writing
from graphsched.executors.stamp_kernel import StampMemory
from tests.executors.fake_cuda import STAMP_NS, FakeCuda

ALONE_S = 5e-6


class Played:
    """Forks that take what they are said to take: `beside_s` longer beside the sum "y", and more behind a fill "f"."""

    def __init__(self, patch: pytest.MonkeyPatch, beside_s: float, lost_s: float) -> None:
        self.beside_s, self.lost_s = beside_s, lost_s
        self.forks: list[Fork] = []
        patch.setattr(module, "cache_bytes", lambda device: 1000)
        patch.setattr(module, "other_calls", lambda device: list("xyz"))
        patch.setattr(module, "filling", lambda device: SimpleNamespace(written="f"))
        patch.setattr(module, "StampMemory", lambda device, places: places)
        patch.setattr(module, "marking", lambda memory, place, device: place)
        patch.setattr(module, "spans_s", self.spans_s)

    def spans_s(self, forks: list[Fork], memory: Any, device: int) -> list[float]:
        assert device == 3
        self.forks = list(forks)
        found = []
        for fork in forks[:CALLS]:
            longer_s = (self.beside_s + self.lost_s * ("f" in fork.before)) if fork.here == ["y"] else 0.0
            found.append(ALONE_S + 3e-6 * ("f" in fork.before) + longer_s)
        return found


@pytest.mark.parametrize(("beside_s", "lost_s"), [(4e-6, 1.2e-5), (1e-6, 0.0), (0.0, 0.0)])
def test_what_an_operation_takes_longer_is_found_again(
    monkeypatch: pytest.MonkeyPatch, beside_s: float, lost_s: float
) -> None:
    """Where the cache of data has its code, and beyond that where it has not."""
    Played(monkeypatch, beside_s, lost_s)
    assert hindered("o", ["w"], 3, ALONE_S, 500, LEAST_S) == pytest.approx(Hindered(beside_s, lost_s))  # type: ignore[arg-type]


def test_it_is_not_below_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Played(monkeypatch, -1e-6, -1e-6)
    assert hindered("o", [], 3, ALONE_S, 500, LEAST_S) == Hindered()  # type: ignore[arg-type]


def test_forks_come_in_turn_and_are_marked_on_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a stamp and a sum, with the others but that sum before, and again behind a fill; stamps have places."""
    played = Played(monkeypatch, 0.0, 0.0)
    hindered("o", ["w"], 3, ALONE_S, 500, LEAST_S)  # type: ignore[arg-type]
    spare = 2 * CALLS * ROUNDS
    assert len(played.forks) == CALLS * ROUNDS
    expected: list[Any] = [
        Fork(["x", "z", "w", 0], [spare], ["o", 1]),
        Fork(["x", "z", "w", 2], ["y"], ["o", 3]),
        Fork(["f", "x", "z", "w", 4], [spare], ["o", 5]),
        Fork(["f", "x", "z", "w", 6], ["y"], ["o", 7]),
        Fork(["x", "z", "w", 8], [spare], ["o", 9]),
    ]
    assert played.forks[:5] == expected


@pytest.mark.parametrize(("alone_s", "nbytes", "fetch_s"), [(1e-3, 0, 1e-6), (1e-6, 501, 1e-6), (1e-6, 0, 1.9e-7)])
def test_long_operations_and_those_of_much_data_or_little_code_are_not_measured(
    monkeypatch: pytest.MonkeyPatch, alone_s: float, nbytes: int, fetch_s: float
) -> None:
    played = Played(monkeypatch, 1.0, 1.0)
    assert hindered("o", [], 3, alone_s, nbytes, fetch_s) == Hindered()  # type: ignore[arg-type]
    assert not played.forks


def test_forks_are_plans_of_two_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """a, b ──▶ c beside d, e ──▶ a: barriers hold the parts apart."""
    FakeCuda(1).install(monkeypatch)
    log: list[str] = []
    a, b, c, d, e = ((lambda name=name: log.append(name)) for name in "abcde")
    with forks_of([Fork([a, b], [c], [d, e]), Fork([a], [], [b])], 0) as program:
        plan = program.plan
        lanes = [plan.lanes[lane].name for lane in plan.lane_of]
        assert "".join(log).startswith("abcdeab")
        parts = " ".join(name.rpartition("/")[2] for name in lanes)
        assert parts == "s0 s0 py s0 s1 s1 py s0 py s1 py"


def test_spans_are_from_the_fork_to_the_end_of_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stamps of a played GPU are a microsecond apart: one for the two of a fork."""
    FakeCuda(1).install(monkeypatch)
    memory = StampMemory(0, 2 * CALLS)
    forks = [Fork([marking(memory, 2 * k, 0)], [], [marking(memory, 2 * k + 1, 0)]) for k in range(CALLS)]
    assert spans_s(forks, memory, 0) == pytest.approx([STAMP_NS * 1e-9] * CALLS)
    assert COLD_RUNS + RUNS > 2


@pytest.mark.gpu
def test_a_product_is_hindered_and_a_negation_hardly() -> None:
    """256 x 10 by 10 x 128: several microseconds; a negation of 64 elements, of a kernel of few instructions, one."""
    x, w, tiny = (torch.rand(*shape, device="cuda:0") for shape in ((256, 10), (10, 128), (64,)))
    product = hindered(lambda: torch.mm(x, w), writing([x, w]), 0, 8e-6, x.nbytes + w.nbytes, 1e-6)
    negation = hindered(tiny.neg, writing([tiny]), 0, 1e-6, tiny.nbytes, 1e-6)
    print(product, negation)
    assert 2e-6 < sum(product) < 5e-5
    assert sum(negation) < min(1.5e-6, sum(product) / 2)
