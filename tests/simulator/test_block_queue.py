"""Blocks on multiprocessors, the queue they stand in, and what those in flight cost each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Beside, Costs, Kernel, Multiprocessors, TaskCost
from graphsched.costs.kernels import RELIEF
from graphsched.plan import Plan
from graphsched.simulator import Model, blocks, predict
from graphsched.simulator.block_queue import BlockQueue
from graphsched.simulator.blocks import MOST_WAVES, Floor, Placed, held, shape_of
from graphsched.simulator.pressure import slower
from graphsched.simulator.side_by_side import ends_s
from tests.builders import operations, planned, platform

FOUR = Multiprocessors(count=4, registers=1000, threads=8, shared_bytes=100, blocks=16)
"""A device of four multiprocessors with room for 8 threads each."""


def cost(blocks: int, threads: int, seconds: float = 1.0, **more: object) -> TaskCost:
    """An operation of one kernel whose blocks take so many threads."""
    return TaskCost(seconds, kernels=(Kernel(blocks, 0, threads, 0),), processors=FOUR, **more)  # type: ignore[arg-type]


def free(*kinds: int) -> dict[tuple[int, int], Beside]:
    """No contention among so many kinds."""
    return {(a, b): Beside(1.0, 1.0) for a in kinds for b in kinds}


def relieved(kinds: Sequence[int], parts: Sequence[float], *more: Any) -> list[float]:
    """`slower`, of kernels of which nothing else is known."""
    return slower(kinds, parts, [RELIEF] * len(kinds), *more)


# -- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "resident"),
    [
        (Kernel(1000, 0, 1, 0), 32),
        (Kernel(1000, 501, 1, 0), 4),
        (Kernel(1000, 0, 1, 30), 12),
        (Kernel(1000, 0, 0, 0), 64),
        (Kernel(3, 0, 1, 0), 3),
        (Kernel(1000, 2000, 1, 0), 4),
    ],
)
def test_blocks_alone_are_limited_by_what_runs_out_first(kernel: Kernel, resident: int) -> None:
    assert shape_of(kernel, FOUR).resident == resident


def test_waves() -> None:
    """32 fit: 96 blocks are 3 waves, 72 are 2 and a quarter, which takes half a wave; 1e6 count as 32 waves."""
    assert [shape_of(Kernel(n, 0, 1, 0), FOUR).waves for n in (1, 32, 96, 72, 10**6)] == [1, 1, 3, 2.5, MOST_WAVES]
    assert shape_of(Kernel(72, 0, 1, 0, relief=1.0), FOUR).waves == 3


@pytest.mark.parametrize(("threads", "fit"), [(1, 8), (4, 2), (5, 1), (9, 1)])
def test_blocks_that_a_multiprocessor_holds(threads: int, fit: int) -> None:
    """Of one that asks for more than there is, one."""
    assert held(Kernel(1, 0, threads, 0), FOUR) == fit


def each(placed: Sequence[Placed]) -> list[int]:
    """Blocks on each of the four multiprocessors."""
    return [sum(number for sms, number in placed if sms >> s & 1) for s in range(4)]


def test_the_emptiest_multiprocessor_comes_first() -> None:
    floor, wide, narrow = Floor(FOUR), shape_of(Kernel(9, 0, 5, 0), FOUR), shape_of(Kernel(99, 0, 2, 0), FOUR)
    first, number = floor.place(wide, 3)
    assert (each(first), number) == ([1, 1, 1, 0], 3)
    assert each(floor.place(narrow, 3)[0]) == [0, 0, 0, 3]
    assert floor.place(wide, 1) == ([], 0)
    last, number = floor.place(narrow, 99)
    assert (each(last), number) == ([1, 1, 1, 1], 4)
    floor.clear(wide, first)
    assert each(floor.place(wide, 9)[0]) == [1, 1, 1, 0]


def test_the_last_few_go_by_number() -> None:
    """4, 4, 3 and 3 blocks fit, of 9 then 2 to each; the last goes where most fit, to the first of these."""
    floor, narrow = Floor(FOUR), shape_of(Kernel(99, 0, 2, 0), FOUR)
    floor.place(narrow, 2)
    assert each(floor.place(narrow, 9)[0]) == [2, 2, 3, 2]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 8)), max_size=6))
def test_no_more_is_placed_than_there_is_room(wanted: list[tuple[int, int]]) -> None:
    """What is placed and cleared again leaves the device as it was."""
    floor = Floor(FOUR)
    done = []
    for number, threads in wanted:
        shape = shape_of(Kernel(number, 0, threads, 0), FOUR)
        placed, blocks = floor.place(shape, number)
        assert sum(each(placed)) == blocks <= number
        done.append((shape, placed))
    assert all(sum(shape.need[1] * each(placed)[s] for shape, placed in done) <= 8 for s in range(4))
    for shape, placed in done:
        floor.clear(shape, placed)
    assert each(floor.place(shape_of(Kernel(32, 0, 1, 0), FOUR), 32)[0]) == [8, 8, 8, 8]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same times with next to no memory."""
    kinds, chains = [cost(40, 2, 3.0), cost(3, 4)], [[0] * 3, [1] * 9]
    expected = ends_s(kinds, chains, free(0, 1))
    monkeypatch.setattr(blocks, "MOST_KNOWN", 1)
    assert ends_s(kinds, chains, free(0, 1)) == expected


# -- the queue ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 32, 96, 40, 1000])
def test_alone_a_task_takes_what_was_measured(number: int) -> None:
    """Chains of 3, whatever the number of blocks; with two kernels of different shapes too."""
    two = TaskCost(2.0, kernels=(Kernel(number, 0, 1, 0, 0.75), Kernel(5, 0, 8, 0, 0.25)), processors=FOUR)
    assert ends_s([cost(number, 1), two], [[0, 1, 0]], free(0, 1)) == [pytest.approx(4.0)]


def test_kernels_that_fit_together_do_not_wait() -> None:
    assert ends_s([cost(16, 1), cost(16, 1, 3.0)], [[0, 0], [1]], free(0, 1)) == [2.0, 3.0]


def test_kernels_that_do_not_fit_take_turns() -> None:
    """a a beside b, each with all threads of the device: a, b, then a again, which came after b."""
    assert ends_s([cost(4, 8), cost(4, 8, 3.0)], [[0, 0], [1]], free(0, 1)) == [5.0, 4.0]


def test_a_small_kernel_waits_until_a_large_one_is_placed() -> None:
    """a: three waves of 1 s; b needs one thread. It gets a place only when the third wave has one to spare."""
    large = TaskCost(3.0, kernels=(Kernel(95, 0, 1, 0),), processors=FOUR)
    ends = ends_s([large, cost(1, 1, 0.25)], [[0], [1]], free(0, 1))
    wave = 3.0 / (2 + 31 / 32)
    assert ends == pytest.approx([3.0, 2 * wave + 0.25], rel=1e-6)


def test_what_is_left_over_goes_to_the_next_in_part() -> None:
    """a leaves one of four multiprocessors: of b's four blocks one runs beside a, the others after it."""
    ends = ends_s([cost(3, 8), cost(4, 8, 1.0)], [[0], [1]], free(0, 1))
    fast = RELIEF  # with a quarter of its blocks in flight a kernel's blocks go twice as fast
    assert ends[0] == 1.0
    # blocks one and two of b run on the free multiprocessor while a runs, the other two after it, at once
    assert ends[1] == pytest.approx(1.0 + fast)


def test_a_block_with_a_multiprocessor_to_itself_goes_no_faster_beside_fewer() -> None:
    """As above, of a b whose kernel knows that: one block beside a, the other three after it, each for a second."""
    kernel = Kernel(4, 0, 8, 0, relief=1.0)
    ends = ends_s([cost(3, 8), replace(cost(4, 8), kernels=(kernel,))], [[0], [1]], free(0, 1))
    assert ends == [1.0, 2.0]
    assert slower([0, 1], [1.0, 0.25], [1.0, 1.0], {}) == [1.0, 1.0]
    assert slower([0, 1, 2], [0.25] * 3, [1.0, 0.5, 0.2], {}) == [1.0, 0.5, 0.25]


def test_one_that_does_not_fit_holds_back_those_that_would() -> None:
    """a takes 5 of 8 threads everywhere; b needs 4, c 1: c, which came after b, waits for b."""
    kinds = [cost(4, 5, 2.0), cost(4, 4), cost(1, 1, 0.5)]
    assert ends_s(kinds, [[0], [1], [2]], free(0, 1, 2)) == [2.0, 3.0, 2.5]


def test_the_next_kernel_of_an_operation_joins_at_the_end() -> None:
    """a: two kernels of 1 s, b one; each needs all threads: a, b, a."""
    two = TaskCost(2.0, kernels=(Kernel(4, 0, 8, 0, 0.5), Kernel(4, 0, 8, 0, 0.5)), processors=FOUR)
    assert ends_s([two, cost(4, 8)], [[0], [1]], free(0, 1)) == [3.0, 2.0]


def test_chains_behind_the_first_may_come_later() -> None:
    """a (1 s) and b (3 s) in turn, each with all threads; b and c come at 0.5 s, or when all of a is over."""
    kinds = [cost(4, 8), cost(4, 8, 3.0)]
    assert ends_s(kinds, [[0, 0], [1], [1]], free(0, 1), late_s=0.5) == [8.0, 4.0, 7.0]
    assert ends_s(kinds, [[0], [1], []], free(0, 1), late_s=2.0) == [1.0, 5.0, float("inf")]
    assert ends_s(kinds, [[], [0], [1]], free(0, 1), late_s=2.0) == [float("inf"), 1.0, 4.0]
    assert ends_s(kinds, [], free(0, 1), late_s=2.0) == []


def test_who_comes_first_matters() -> None:
    kinds = [cost(4, 8), cost(4, 8, 3.0)]
    assert ends_s(kinds, [[0], [1]], free(0, 1)) == [1.0, 4.0]
    assert ends_s(kinds, [[1], [0]], free(0, 1)) == [3.0, 4.0]


# -- contention -----------------------------------------------------------------------------------


def test_two_in_flight_slow_each_other_as_measured() -> None:
    pairs = {(0, 1): Beside(9.0, 1.5), (1, 0): Beside(9.0, 1.25)}
    assert ends_s([cost(4, 1, 2.0), cost(4, 1, 4.0)], [[0], [1]], pairs) == pytest.approx([3.0, 4.0 + 0.2 * 3])


def test_contention_counts_with_the_part_that_is_in_flight() -> None:
    """Half of b's blocks are placed beside a: half of what they cost it; b's blocks then go twice as fast."""
    assert relieved([0, 1], [1.0, 0.5], {(0, 1): 1.0, (1, 0): 1.0}) == [1.5, 1.5]


def test_who_is_held_up_by_others_presses_less() -> None:
    """Each of three costs the others as much again: in a pair 2, and so between 2 and 3 all together."""
    excess = dict.fromkeys([(a, b) for a in range(3) for b in range(3) if a != b], 1.0)
    factor = (1 + 17**0.5) / 2  # x = 1 + 2 · 1 · 2 / x: each presses 2 / x times as much as in a pair
    assert relieved([0, 1, 2], [1.0] * 3, excess) == pytest.approx([factor] * 3, rel=0.01)


def test_copies_of_an_operation_cost_by_their_number() -> None:
    """a0 to a3, all in flight: 1.2 times as long beside one other; among four by what is measured of four."""
    kind, pairs = cost(4, 1, 2.0), {(0, 0): Beside(9.0, copies=((2, 1.2), (4, 1.5)))}
    assert ends_s([kind], [[0]] * 2, pairs) == pytest.approx([2.4] * 2)
    among_four = relieved([0] * 4, [1.0] * 4, {(0, 0): 0.2}, {0: [0.2, 0.2, 0.2, 0.35, 0.5]})[0]
    assert ends_s([kind], [[0]] * 4, pairs) == pytest.approx([2.0 * among_four] * 4)
    assert among_four > relieved([0] * 4, [1.0] * 4, {(0, 0): 0.2})[0]


def test_more_copies_than_were_measured_cost_as_much_each_as_the_most() -> None:
    three, nine = (relieved([0] * n, [1.0] * n, {(0, 0): 0.5})[0] for n in (3, 9))
    table = {0: [0.5, 0.5, 0.5, 0.5]}
    assert [relieved([0] * n, [1.0] * n, {(0, 0): 0.5}, table)[0] for n in (3, 9)] == pytest.approx([three, nine])


def test_another_kind_among_copies_leaves_their_number() -> None:
    """Two of a and one of b: a pair of a's, whatever three would cost."""
    excess = {(0, 0): 0.2, (0, 1): 0.0, (1, 0): 0.0}
    assert relieved([0, 1, 0], [1.0] * 3, excess, {0: [0.2] * 3 + [9.0]})[0] == pytest.approx(1.2)


def test_no_contention_never_stops_a_task() -> None:
    assert min(relieved([0, 1], [1.0, 1.0], {(0, 1): -5.0})) > 0


def test_unmeasured_pairs_count_as_the_curve_says() -> None:
    kinds = [cost(4, 1, 2.0, concurrency=((2, 1.5),)), cost(4, 1, 10.0)]
    assert ends_s(kinds, [[0], [1]], {(1, 0): Beside(1.2)})[0] == 3.0
    assert ends_s(kinds, [[0], [1]], {})[1] == pytest.approx(10.0 + 3.0 / 2)


# -- in the simulator -----------------------------------------------------------------------------


def side_by_side(kinds: Sequence[TaskCost], lanes: Mapping[str, str]) -> tuple[Plan, Costs]:
    """Tasks named by their kind: a0 is of kind 0."""
    work, costs = operations({name: int(name[1]) for name in lanes}, kinds)
    return planned(work, platform(), lanes, costs=costs), costs


def test_a_plan_goes_through_the_queue_where_kernels_are_known() -> None:
    """a0, b1 on two lanes, each with all threads: one after the other; by the curve alone in equal parts."""
    kinds = [cost(4, 8, concurrency=((2, 1.5),)), cost(4, 8, 3.0)]
    plan, _ = side_by_side(kinds, {"a0": "cuda:0/s0", "b1": "cuda:0/s1"})
    assert predict(plan).end_s.tolist() == [1.0, 4.0]
    assert predict(plan, model=Model(block_queue=False)).end_s.tolist() == [1.5, 3.75]
    assert predict(plan, model=Model(sharing=False)).end_s.tolist() == [1.0, 3.0]


def test_one_task_without_kernels_keeps_the_queue_out() -> None:
    plan, _ = side_by_side([cost(4, 8), TaskCost(3.0)], {"a0": "cuda:0/s0", "b1": "cuda:0/s1"})
    assert predict(plan).end_s.tolist() == [2.0, 4.0]


def test_pairs_of_a_plans_costs_are_found_by_operation() -> None:
    """a0 beside b1: 1.5 and 1.25 times; without the queue by the whole slowdowns; without pairs by curves."""
    kinds = [cost(4, 1, 2.0), cost(4, 1, 4.0)]
    plan, costs = side_by_side(kinds, {"a0": "cuda:0/s0", "b1": "cuda:0/s1"})
    a, b = (plan.work[name].signature for name in ("a0", "b1"))
    pairs = {(a, b, "GPU"): Beside(3.0, 1.5), (b, a, "GPU"): Beside(1.0, 1.25), (a, b, "other GPU"): Beside(7.0)}
    plan = planned(
        plan.work, platform(), {"a0": "cuda:0/s0", "b1": "cuda:0/s1"}, costs=costs.merged(Costs(pairs=pairs))
    )
    assert predict(plan).end_s.tolist() == pytest.approx([3.0, 4.6])
    assert predict(plan, model=Model(block_queue=False)).end_s.tolist() == pytest.approx([4 + 2 / 3, 4.0])
    assert predict(plan, model=Model(pairs=False)).end_s.tolist() == pytest.approx([4.0, 6.0])


def test_a_late_comer_is_placed_after_those_before_it() -> None:
    """a1 has all threads until 3 s; a0 waits, x2 behind it though it needs none, and b0 after x2 on its lane.

    a0 and x2 then go at half speed: nothing is measured of them.
    """
    work, costs = operations({"a1": 1, "a0": 0, "x2": 2, "b0": 0}, [cost(4, 8), cost(4, 8, 3.0), TaskCost(1.0)])
    lanes = {"a1": "cuda:0/s0", "a0": "cuda:0/s1", "x2": "cuda:0/s2", "b0": "cuda:0/s2"}
    costs = costs.merged(Costs({(work["x2"].signature, "GPU"): cost(1, 0)}))
    ends = predict(planned(work, platform(), lanes, costs=costs)).end_s.tolist()
    assert ends == pytest.approx([3.0, 5.0, 5.0, 6.0])


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=4),
    st.tuples(*[st.tuples(st.integers(1, 70), st.integers(1, 8), st.integers(1, 5))] * 3),
)
def test_every_chain_ends(chains: list[list[int]], sizes: tuple[tuple[int, int, int], ...]) -> None:
    """No contention: every chain ends, none much sooner than alone (few blocks in flight go up to twice as fast)."""
    kinds = [cost(number, threads, float(seconds)) for number, threads, seconds in sizes]
    alone = [sum(kinds[k].device_s for k in chain) for chain in chains]
    ends = ends_s(kinds, chains, free(0, 1, 2))
    assert all(end >= RELIEF * mine * (1 - 1e-9) for end, mine in zip(ends, alone, strict=True))
    assert max(ends) < float("inf")


def test_who_waits_behind_others_changes_no_timer() -> None:
    """Each needs all threads: b finds no room, and c does not even look for some."""
    timers: list[tuple[float, int]] = []
    queue = BlockQueue(
        [cost(4, 8)],
        dict.fromkeys(range(3), 0),
        dict.fromkeys(range(3), 1.0),
        {},
        lambda t, _, k: timers.append((t, k)),
    )
    for action, now in enumerate((0.0, 0.5, 0.75)):
        queue.enter(action, now)
        queue.refresh(now)
    assert timers == [(1.0, 1), (1.0, 2)]
    assert queue.due(2, 1.0) == [0]
    queue.refresh(1.0)
    assert timers[2:] == [(2.0, 3)]
    assert queue.due(3, 2.0) == [1]


def test_who_comes_late_finds_what_was_looked_ahead() -> None:
    """a: 48 blocks on 32 places, two waves of 2/3 s; at 0.25 s b finds none until the second wave has 16 to spare."""
    kinds = [cost(48, 1), cost(4, 1, 0.5)]
    timers: list[tuple[float, int]] = []
    queue = BlockQueue(kinds, {0: 0, 1: 1}, {0: 1.0, 1: 0.5}, {}, lambda t, _, k: timers.append((t, k)))
    queue.enter(0, 0.0)
    queue.refresh(0.0)
    queue.enter(1, 0.25)
    queue.refresh(0.25)
    ends = {}
    while timers:
        now, token = timers.pop()
        for action in queue.due(token, now):
            ends[action] = now
            queue.refresh(now)
    assert ends == {0: pytest.approx(1.0), 1: pytest.approx(2 / 3 + 0.5)}


def test_the_timer_of_an_older_state_is_ignored() -> None:
    """Both fit: when b comes the end of a is set anew."""
    timers: list[tuple[float, int]] = []
    queue = BlockQueue(
        [cost(4, 1)], {0: 0, 1: 0}, {0: 1.0, 1: 1.0}, {(0, 0): 2.0}, lambda time, _, token: timers.append((time, token))
    )
    queue.enter(0, 0.0)
    queue.refresh(0.0)
    queue.enter(1, 0.5)
    queue.refresh(0.5)
    assert timers == [(1.0, 1), (1.5, 2)]
    assert queue.due(1, 1.0) == []
    assert queue.due(2, 1.5) == [0]
