"""Measured peaks of GPU memory: how they are reckoned, and how near the predicted ones are."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.executors import MeasuredPeak, measured_peaks, peaks
from graphsched.plan import Plan
from graphsched.workload import Workload
from tests.executors.programs import by_hand, machine

MIB = 2**18  # elements of float32
MODES = ("eager", "graph")


def test_what_was_there_and_what_libraries_keep_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 bytes in use, 140 after the first program, 400 at the peak of the second."""
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="a")
    plan, runs, at_rest = by_hand(work, machine("cuda:0"), "cuda:0/s0"), [], iter([100, 140])
    monkeypatch.setattr(peaks, "device_index", lambda name: 0)
    monkeypatch.setattr(peaks, "_run", lambda *given: runs.append(given))
    monkeypatch.setattr(peaks, "_numbers_kept", lambda devices: torch.no_grad())
    monkeypatch.setattr(peaks, "_allocated", lambda gpus: {"cuda:0": next(at_rest)})
    monkeypatch.setattr(peaks, "give_back", lambda: runs.append("given back"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda index: runs.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda index: 400)
    assert measured_peaks(plan, mode="graph") == {"cuda:0": MeasuredPeak(260, 40)}
    assert runs == ["given back", (plan, "graph", None), "reset", (plan, "graph", None)]


# -- on GPUs -----------------------------------------------------------------------------------------


def assert_near(plan: Plan, mode: str) -> None:
    """Predicted and measured peaks of each GPU differ by 5 % at most."""
    plan = replace(plan, mode=mode)
    measured = measured_peaks(plan)
    predicted = {device: peak.nbytes for device, peak in plan.peak_memory.items() if device.startswith("cuda")}
    assert predicted == {device: pytest.approx(peak.nbytes, rel=0.05) for device, peak in measured.items()}


def wide(x: Any, *, mebibytes: float) -> Any:
    """A result of that size, made of a few elements of `x`, without temporaries of its size."""
    return x.reshape(-1)[:1].repeat(int(mebibytes * MIB))


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
def test_a_chain_of_products(mode: str) -> None:
    """w (state), x ──▶ mm ──▶ tanh ──▶ mm ──▶ …, 16 MiB each; cuBLAS has a workspace besides."""
    work = Workload()
    w = work.state("w", torch.rand(2048, 2048), device="cuda:0")
    value: Any = work.input("x", torch.rand(2048, 2048), device="cuda:0")
    for i in range(5):
        value = work.task(torch.tanh, work.task(torch.mm, value, w, name=f"mm{i}"), name=f"tanh{i}")
    plan = by_hand(work, machine("cuda:0"), "cuda:0/s0")
    assert_near(plan, mode)
    assert measured_peaks(plan)["cuda:0"].library_bytes > 0


def layered(seed: int, devices: tuple[str, ...], layers: int = 8, width: int = 5) -> Plan:
    """Layers of tasks, each of two of the layer before; results of 2 KiB to 30 MiB, on two lanes a device."""
    rng = random.Random(seed)
    work, lanes = Workload(), {}
    above: list[Any] = [work.input(f"x{d}", torch.ones(MIB), device=device) for d, device in enumerate(devices)]
    for layer in range(layers):
        made = []
        for k in range(width):
            device, name = rng.choice(devices), f"t{layer}.{k}"
            read = rng.choice(above)
            size = rng.choice([1 / 512, 0.3, 1.1, 3.7, 6.4, 9.6, 11.2, 24.5, 30])
            made.append(work.task(wide, read, mebibytes=size, name=name))
            lanes[name] = f"{device}/s{rng.randrange(2)}"
            if k:
                work.task(join, made[-1], made[-2], name=f"join{layer}.{k}")
                lanes[f"join{layer}.{k}"] = f"{device}/s{rng.randrange(2)}"
        above = made
    return by_hand(work, machine(*devices), lanes)


def join(a: Any, b: Any) -> Any:
    """Reads both, makes a little."""
    return torch.stack((a[0], b[0]))


def test_layered_plans_keep_much_alive() -> None:
    """What runs on GPUs is checked as a plan here."""
    plan = layered(0, ("cuda:0", "cuda:1"))
    for device in ("cuda:0", "cuda:1"):
        peak = plan.peak_memory[device]
        assert sum(held.nbytes for held in peak.alive) > 0.8 * peak.nbytes > 50e6


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_a_random_layered_graph(seed: int, mode: str) -> None:
    assert_near(layered(seed, ("cuda:0",)), mode)


@pytest.mark.multigpu
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(2))
def test_a_plan_on_two_gpus(seed: int, mode: str) -> None:
    """Copies between GPUs take memory on the one that they go to."""
    assert_near(layered(seed, ("cuda:0", "cuda:1")), mode)


@pytest.mark.gpu
def test_a_program_of_the_predicted_size_is_all_that_is_taken() -> None:
    """Another run is no larger; afterwards all is given back."""
    plan = layered(1, ("cuda:0",))
    assert measured_peaks(plan)["cuda:0"].nbytes == pytest.approx(measured_peaks(plan)["cuda:0"].nbytes, rel=0.01)
