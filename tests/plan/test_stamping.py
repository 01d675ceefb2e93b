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
from graphsched.plan import Plan, stamped
from graphsched.plan.stamping import STAMP, leaves_room
from graphsched.simulator.blocks import Floor, shape_of
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform, workload

SMS = Multiprocessors(132, 65536, 2048, 233472, 32)
LONG_S = 1e-4
HALF = Kernel(132, 32768, 256, 0)  # two of them take all registers
FULL = Kernel(132, 65536, 1024, 0)
LIGHT = Kernel(132, 20000, 512, 0)  # three leave 5536 registers
SMALL = Kernel(65, 65536, 1024, 0)  # on nearly half of the multiprocessors


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
        ([cost(FULL)], False),
        ([cost(HALF)], False),  # two of them take all registers
        ([cost(HALF), cost(LIGHT)], True),
        ([cost(HALF), cost(LIGHT, HALF)], False),
        ([cost(LIGHT), TaskCost(0.0, launches=0)], True),
        ([cost(SMALL)], True),  # a multiprocessor for each block
        ([cost(SMALL), cost(replace(SMALL, blocks=66))], True),
        ([cost(SMALL), cost(replace(SMALL, blocks=67))], False),
        ([cost(replace(LIGHT, blocks=133))], False),  # two blocks of each lane on one multiprocessor
    ],
)
def test_room_on_several_lanes(costs: list[TaskCost | None], room: bool) -> None:
    assert stamped(plan(TWO, *costs)) == room


def test_only_lanes_of_a_crowded_gpu_matter() -> None:
    """On cuda:1 one lane, whose kernels fill it."""
    assert stamped(plan([*TWO, "cuda:1/s0"], cost(LIGHT), cost(LIGHT), cost(FULL)))


def test_tasks_on_the_cpu_need_no_room() -> None:
    assert stamped(plan([*TWO, "cpu/w0"], cost(LIGHT), cost(LIGHT), None))


def test_lanes_of_copies_do_not_matter() -> None:
    """The copy of a result to the host, beside kernels that fill the GPU: it has events."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    y = work.task(torch.neg, x, name="y")
    work.copy(y, to="cpu", pinned=True, name="out")
    here = platform(dispatch=replace(FREE, graph_stamp_s=1e-6))
    costs = Costs({(work["y"].signature, "GPU"): cost(FULL)})
    made = replace(planned(work, here, {"y": "cuda:0/s0"}), costs=costs, mode="graph")
    assert stamped(made)


def test_a_plan_of_copies_has_no_stamps() -> None:
    work = Workload()
    work.copy(work.input("x", TensorSpec((2, 2)), device="cuda:0"), to="cpu", pinned=True, name="out")
    assert not stamped(replace(planned(work, platform(dispatch=replace(FREE, graph_stamp_s=1e-6)), {}), mode="graph"))


def test_a_given_duration_says_nothing_of_kernels() -> None:
    here = platform(dispatch=replace(FREE, graph_stamp_s=1e-6))
    made = replace(planned(workload({"a": 1.0, "b": 1.0}), here, {"a": TWO[0], "b": TWO[1]}), mode="graph")
    assert not stamped(made)
    assert stamped(replace(planned(made.work, here, {"a": TWO[0], "b": TWO[0]}), mode="graph"))


def test_three_lanes_take_the_room_of_three() -> None:
    """Of two there is room for a stamp."""
    third = replace(LIGHT, registers=30000)
    assert stamped(plan(TWO, cost(third)))
    assert not stamped(plan([*TWO, "cuda:0/s2"], cost(third)))


HUNDREDS = st.integers(0, 9).map(lambda n: 100 * n)
KERNELS = st.builds(Kernel, st.integers(1, 6), HUNDREDS, st.integers(1, 9), HUNDREDS)


@given(st.lists(st.lists(KERNELS, min_size=1, max_size=2), min_size=1, max_size=4))
def test_where_there_is_room_blocks_of_all_lanes_and_a_stamp_can_be_placed(lanes: list[list[Kernel]]) -> None:
    """Whichever kernel each lane is at: one after the other, every block where most is free."""
    processors = Multiprocessors(4, 2048, 64, 2048, 8)
    if not leaves_room(processors, lanes):
        return
    for at in product(*lanes):
        floor = Floor(processors)
        for kernel in (*at, Kernel(1, STAMP[0], STAMP[1], STAMP[2])):
            assert floor.place(shape_of(kernel, processors), kernel.blocks)[1] == kernel.blocks
