"""Work bounds of GPUs whose tasks share them: never above what the simulator says of tasks side by side."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from graphsched.costs import Beside, Costs, Kernel, Multiprocessors, TaskCost
from graphsched.platform import Platform
from graphsched.schedulers.bounds.gpu_share import Company
from graphsched.simulator.side_by_side import ends_s

GPU = Multiprocessors(count=4, registers=65536, threads=2048, shared_bytes=2**17, blocks=32)
SMALL = TaskCost(1.0, kernels=(Kernel(1, 32768, 1024, 0),), processors=GPU)  # one of eight places
LARGE = TaskCost(1.0, kernels=(Kernel(64, 32768, 1024, 0),), processors=GPU)  # eight waves


def parts(costs: Costs, *signatures: str) -> list[tuple[float, ...]]:
    company = Company(costs, signatures)
    return [company.parts(name, "H200", costs[name, "H200"], 32) for name in signatures]


def test_a_gpu_of_which_nothing_is_known_does_one_task_at_a_time() -> None:
    """Without curve, pairs and kernels a task takes all of it."""
    assert parts(Costs({("a", "H200"): TaskCost(1.0)}), "a") == [(1.0,) * 4]


@pytest.mark.parametrize("relief", [0.25, 0.5, 1.0])
def test_small_kernels_take_what_their_blocks_occupy(relief: float) -> None:
    """Eight of them fit side by side, and blocks among few go no faster than their relief."""
    small = replace(SMALL, kernels=(replace(SMALL.kernels[0], relief=relief),))
    (found,) = parts(Costs({("a", "H200"): small}), "a")
    assert found == (relief / 8, relief / 8, 0.0, relief / 128)
    assert ends_s([small], [[0]] * 8, {(0, 0): Beside(1.0)}) == [1.0] * 8


def test_a_pair_that_costs_nothing_takes_half_each() -> None:
    """Kernels are not known, and each of the two goes as fast as alone."""
    pairs = {("a", "b", "H200"): Beside(1.0), ("b", "a", "H200"): Beside(1.0)}
    costs = Costs({("a", "H200"): TaskCost(1.0), ("b", "H200"): TaskCost(1.0)}, pairs)
    a, b = parts(costs, "a", "b")
    assert a[0] + b[0] <= 1.0
    assert parts(costs, "a") == [(1.0,) * 4]  # the other one is not in the workload


def test_copies_that_fill_the_gpu_go_by_their_curve() -> None:
    """Measured beside itself, and by nothing else in the workload; 1 % is left for what curves miss."""
    large = TaskCost(1.0, kernels=LARGE.kernels, processors=GPU, concurrency=((2, 1.9),))
    itself = {("a", "a", "H200"): Beside(1.9)}
    assert parts(Costs({("a", "H200"): large}, itself), "a") == [(0.99 * 0.95,) * 4]
    costs = Costs({("a", "H200"): large, ("b", "H200"): SMALL}, itself)
    assert parts(costs, "a", "b")[0][0] == 0.5


@pytest.mark.parametrize("platform", ["h200-x1", "h200-x2"])
def test_no_mix_of_measured_operations_beats_it(platform: str) -> None:
    """Chains of operations as measured on H200s, side by side, as the simulator has them."""
    costs = Platform.load(platform).costs
    model = Counter(model for _, model in costs).most_common(1)[0][0]
    names = [name for name, where in costs if where == model and costs[name, where].device_s]
    beside: dict[str, list[str]] = {}
    for name, other, _ in costs.pairs:
        beside.setdefault(name, []).append(other)
    choice = random.Random(7)
    for _ in range(60):
        first = choice.choice(names)
        assert_not_beaten(
            costs, model, [first, *(choice.choice(beside.get(first, names)) for _ in range(choice.randint(1, 5)))]
        )


def assert_not_beaten(costs: Costs, model: str, mix: list[str]) -> None:
    names = [name for name in dict.fromkeys(mix) if (name, model) in costs]
    kinds = [costs[name, model] for name in names]
    pairs = {
        (i, j): costs.pairs[a, b, model]
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if (a, b, model) in costs.pairs
    }
    longest = max(kind.device_s for kind in kinds)
    chains = [[k] * max(1, min(12, round(longest / kinds[k].device_s))) for k in map(names.index, names) for _ in "12"]
    company = Company(costs, names)
    rows = [np.array(company.parts(name, model, kind, 32)) for name, kind in zip(names, kinds, strict=True)]
    work = sum(len(chain) * kinds[chain[0]].device_s * rows[chain[0]] for chain in chains)
    assert np.max(work) <= max(ends_s(kinds, chains, pairs)) * (1 + 1e-9)
