"""Where stamps take the place of timing events: what is known of kernels, and the room that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Costs, Kernel, Multiprocessors, TaskCost
from graphsched.plan import Plan, stamped, stamping
from graphsched.plan.stamping import STAMP, leaves_room
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform, workload

SMS = Multiprocessors(132, 65536, 2048, 233472, 32)
LONG_S = 1e-4
HALF = Kernel(132, 32768, 256, 0)  # two of them take all registers
TIGHT = Kernel(132, 64512, 384, 200_000)  # leaves 1024 registers, and no place for another
FULL = Kernel(132, 65536, 1024, 0)
LIGHT = Kernel(132, 20000, 512, 0)  # three leave 5536 registers


def cost(*kernels: Kernel, seconds: float = LONG_S) -> TaskCost:
    return TaskCost(seconds, kernels=kernels, processors=SMS)


def plan(lanes: Sequence[str], *costs: TaskCost | None, mode: str = "graph", stamp_s: float = 1e-6) -> Plan:
    """Independent tasks, one on each of `lanes`; their costs in turn."""
    work, gpus = Workload(), sorted({lane.partition("/")[0] for lane in lanes})
    inputs = {gpu: work.input(gpu[-1], TensorSpec((2, 2)), device=gpu) for gpu in gpus if gpu != "cpu"}
    given_input = work.input("host", TensorSpec((2, 2)))
    table: dict[tuple[str, str], TaskCost] = {}
    for k, lane in enumerate(lanes):
        gpu = lane.partition("/")[0]
        work.task(_operation, inputs.get(gpu, given_input), k, name=f"t{k}", outputs=[], device=gpu)
        found = costs[k % len(costs)]
        if found is not None:
            table[work[f"t{k}"].signature, "GPU"] = found
    here = platform(gpus=2, dispatch=replace(FREE, graph_stamp_s=stamp_s))
    made = planned(work, here, {f"t{k}": lane for k, lane in enumerate(lanes)})
    return replace(made, costs=Costs(table), mode=mode)


def _operation(x: torch.Tensor, number: int) -> None:
    """An operation whose cost is filed under its number."""


ONE, TWO = ["cuda:0/s0"] * 2, ["cuda:0/s0", "cuda:0/s1"]


def test_one_lane_of_each_gpu_has_room() -> None:
    assert stamped(plan(ONE, None))
    assert stamped(plan(["cuda:0/s0", "cuda:1/s0"], None))


@pytest.mark.parametrize("other", [{"mode": "eager"}, {"stamp_s": 0.0}])
def test_it_takes_graph_mode_and_a_measured_stamp(other: dict[str, object]) -> None:
    assert not stamped(plan(ONE, None, **other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("costs", "room"),
    [
        ([None], False),  # nothing is known
        ([cost(LIGHT), None], False),
        ([TaskCost(LONG_S)], False),
        ([TaskCost(0.0, launches=0)], True),  # it only makes views
        ([cost(LIGHT)], True),
        ([cost(TIGHT)], True),
        ([cost(FULL)], False),
        ([cost(HALF)], False),
        ([cost(HALF), cost(LIGHT, HALF)], False),
        ([cost(TIGHT), cost(replace(LIGHT, registers=1024))], False),  # the small one takes what the large one leaves
        ([cost(FULL, seconds=3e-6)], True),  # short blocks
        ([cost(FULL, seconds=3.1e-6)], False),
        ([cost(replace(FULL, blocks=1320), seconds=3e-5)], True),  # ten waves
        ([cost(replace(FULL, share=0.01), LIGHT, seconds=2e-4)], True),
        ([cost(Kernel(1, 1024, 32, 0))], True),  # one block a lane leaves places
        ([cost(Kernel(99, 1024, 32, 0))], False),
        ([replace(cost(FULL), graph_s=2e-6)], True),  # its time inside a graph counts
    ],
)
def test_room_on_several_lanes(costs: list[TaskCost | None], room: bool) -> None:
    assert stamped(plan(TWO, *costs)) == room


def test_only_lanes_of_a_crowded_gpu_matter() -> None:
    """On cuda:1 one lane, whose kernels fill it."""
    assert stamped(plan([*TWO, "cuda:1/s0"], cost(LIGHT), cost(LIGHT), cost(FULL)))


def test_tasks_on_the_cpu_need_no_room() -> None:
    assert stamped(plan([*TWO, "cpu/w0"], cost(LIGHT), cost(LIGHT), None))


def test_a_copy_lane_is_a_lane() -> None:
    """The copy of a result to the host, beside kernels that fill the GPU."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    y = work.task(torch.neg, x, name="y")
    work.copy(y, to="cpu", pinned=True, name="out")
    made = planned(work, platform(dispatch=replace(FREE, graph_stamp_s=1e-6)), {"y": "cuda:0/s0"})
    for kernel, room in ((FULL, False), (LIGHT, True)):
        costs = Costs({(work["y"].signature, "GPU"): cost(kernel)})
        assert stamped(replace(made, costs=costs, mode="graph")) == room


def test_a_given_duration_says_nothing_of_kernels() -> None:
    here = platform(dispatch=replace(FREE, graph_stamp_s=1e-6))
    made = replace(planned(workload({"a": 1.0, "b": 1.0}), here, {"a": TWO[0], "b": TWO[1]}), mode="graph")
    assert not stamped(made)
    assert stamped(replace(planned(made.work, here, {"a": TWO[0], "b": TWO[0]}), mode="graph"))


def test_too_many_mixes_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of them fit in."""
    room, needs = (65536, 2048, 233472, 32), (((8000, 200, 1000, 1), 99),)
    assert leaves_room(room, needs, 3)
    monkeypatch.setattr(stamping, "MOST_MIXES", 8)
    leaves_room.cache_clear()
    assert not leaves_room(room, needs, 3)
    leaves_room.cache_clear()


def test_no_more_kernels_at_once_than_lanes() -> None:
    """One block of each of the three kernels leaves 536 registers, any mix of two of them 2536 or more."""
    room, needs = (65536, 2048, 233472, 32), tuple(((n, 64, 0, 1), 99) for n in (30000, 18500, 16500))
    assert leaves_room(room, needs, 2)
    assert not leaves_room(room, needs, 3)


SIZES = st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(0, 8), st.just(1))


@given(st.lists(SIZES, min_size=1, max_size=3, unique=True), st.integers(1, 3), st.integers(1, 8))
def test_the_mixes_are_all_mixes(sizes: list[tuple[int, ...]], lanes: int, blocks: int) -> None:
    """Against every choice of numbers of blocks."""
    unit = (4096, 128, 16384, 1)
    needs = tuple((tuple(n * u for n, u in zip(size, unit, strict=True)), blocks) for size in sizes)
    room = (65536, 2048, 233472, 32)
    worst = True
    for numbers in product(range(17), repeat=len(needs)):
        used = [sum(n * need[k] for n, (need, _) in zip(numbers, needs, strict=True)) for k in range(4)]
        fits = all(u <= r for u, r in zip(used, room, strict=True))
        if fits and sum(map(bool, numbers)) <= lanes and max(numbers) <= lanes * blocks:
            worst &= all(u + s <= r for u, s, r in zip(used, STAMP, room, strict=True))
    assert leaves_room(room, needs, lanes) == worst
