"""Memory that cuBLAS works in: graphs of programs have their own, whatever becomes of torch's."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsched.executors import Program, measured_peaks, workspaces
from graphsched.workload import Workload
from tests.executors.programs import by_hand, machine


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes when torch's memory is given back."""
    log: list[str] = []
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: log.append("given back"), raising=False)
    return log


def test_a_capture_finds_no_memory_of_torchs_and_leaves_none_of_its_own(given_back: list[str]) -> None:
    with workspaces.graphs_own():
        given_back.append("captured")
    assert given_back == ["given back", "captured", "given back"]


def test_a_capture_that_fails_leaves_none_either(given_back: list[str]) -> None:
    with pytest.raises(ValueError, match="no"), workspaces.graphs_own():
        raise ValueError("no")
    assert given_back == ["given back"] * 2


def test_torchs_memory_serves_captures_where_it_is_told_to(given_back: list[str]) -> None:
    with workspaces.torchs_own(), workspaces.torchs_own():
        pass
    with workspaces.torchs_own(), workspaces.graphs_own():
        given_back.append("captured")
    assert given_back == ["captured"]
    with workspaces.graphs_own():
        pass
    assert given_back == ["captured", "given back", "given back"]


# -- on GPUs -----------------------------------------------------------------------------------------

DEEP = 8192  # products of few rows and columns that are cut along this sum up in memory that cuBLAS works in


def products(device: str = "cuda:0") -> Any:
    """a, b ──▶ m0, m1, …, each a product of its own, on two lanes."""
    work = Workload()
    generator = torch.Generator().manual_seed(1)
    a = work.input("a", torch.randn(64, DEEP, generator=generator), device=device)
    b = work.input("b", torch.randn(DEEP, 64, generator=generator), device=device)
    for k in range(6):
        work.task(torch.mm, a, b, name=f"m{k}")
    return by_hand(work, machine(device), {f"m{k}": f"{device}/s{k % 2}" for k in range(6)})


def others_made_and_closed() -> None:
    """Programs whose lanes have the same streams, enough to come round in torch's pool of them."""
    for other in [Program(products(), mode="graph") for _ in range(20)]:
        other.run()
        other.close()
    gc.collect()


def compiled_behind_it() -> None:
    """torch.compile gives torch's memory back as it records its own graphs."""
    call = torch.compile(lambda x: x @ x, mode="reduce-overhead")
    x = torch.randn(512, 512, device="cuda:0")
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        call(x)


def peaks_measured() -> None:
    measured_peaks(products(), mode="graph")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # of torch.compile
@pytest.mark.parametrize("disturb", [others_made_and_closed, compiled_behind_it, peaks_measured, workspaces.give_back])
def test_what_others_do_spoils_neither_a_graphs_results_nor_other_memory(disturb: Callable[[], None]) -> None:
    """Tensors that are made behind it, and could lie in memory that was given back, stay as they are."""
    with Program(products(), mode="graph") as program:
        right = program.run()
        disturb()
        torch.cuda.empty_cache()
        for _ in range(20):
            others = [torch.full((1 << 20,), 7.0, device="cuda:0") for _ in range(40)]
            found = program.run()
            assert all(torch.equal(found[name], right[name]) for name in right)
            assert all(bool((other == 7.0).all()) for other in others)


@pytest.mark.gpu
def test_products_of_eager_calls_are_right_behind_a_graph_that_is_gone() -> None:
    a, b = torch.ones(64, DEEP, device="cuda:0"), torch.ones(DEEP, 64, device="cuda:0")
    with Program(products(), mode="graph") as program:
        program.run()
        before = a @ b
    gc.collect()
    torch.cuda.empty_cache()
    for _ in range(20):
        others = [torch.full((1 << 20,), 7.0, device="cuda:0") for _ in range(40)]
        assert torch.equal(a @ b, before)
        assert all(bool((other == 7.0).all()) for other in others)
