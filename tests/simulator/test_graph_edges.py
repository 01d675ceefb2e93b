"""Edges between the lanes of a graph: small plans drawn by hand, and what must hold for every plan."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.simulator.gate import Gate
from graphsched.simulator.graph_edges import chained, joined
from graphsched.simulator.lane_costs import CUDA, WAIT

HOST = 9


def links(waits: list[tuple[int, ...]], lane: list[int]) -> list[int]:
    return chained(waits, lane, [WAIT if number == HOST else CUDA for number in lane])


@pytest.mark.parametrize(
    ("waits", "lane", "found"),
    [
        ([(), (0,), (1,), (2,)], [0, 1, 0, 1], [1, 2, 3]),  # to and fro
        ([(), (0,), (1,), (2,)], [0, 1, 2, 3], [1, 2, 3]),  # ever on
        ([(), (0,), (1, 0)], [0, 1, 2], [1, 2]),  # 1 implies 0
        ([(), (0,), (0,)], [0, 1, 2], []),  # two leave 0
        ([(), (), (0, 1)], [0, 1, 2], []),  # two come together
        ([(), (0,), (), (1, 2)], [0, 1, 0, 0], []),  # diamond: 0 ──▶ (2, 1) ──▶ 3
        ([(), (), (0,)], [0, 1, 1], []),  # 2 follows 1 on its lane too
        ([(), ()], [0, 0], []),  # one lane
        ([(), (), (0,), (2,)], [0, 0, 1, 0], []),  # 2 leaves, and comes back after 1
    ],
)
def test_links_of_chains(waits: list[tuple[int, ...]], lane: list[int], found: list[int]) -> None:
    assert links(waits, lane) == found


def test_what_follows_over_several_lanes_is_no_edge() -> None:
    """0 ──▶ 1 ──▶ 2 on three lanes, and 3 behind 2 on lane 0, whose 0 it need not wait for."""
    assert links([(), (0,), (1,), (2,)], [0, 1, 2, 0]) == [1, 2, 3]
    assert links([(), (0,), (1,), (2, 1, 0)], [0, 1, 2, 0]) == [1, 2, 3]


def test_a_wait_of_the_thread_is_taken_by_the_next_of_every_lane() -> None:
    lane, kind = [0, 1, HOST, 0, 1, 1], [CUDA, CUDA, WAIT, CUDA, CUDA, CUDA]
    assert joined([(), (), (0, 1), (), (), ()], lane, kind, [0] * 6) == [(), (), (0, 1), (1,), (0,), ()]


def test_waits_of_the_thread_add_up_until_a_lane_goes_on() -> None:
    """Of several of one lane the last counts; one that the action waits for anyway is not added."""
    lane, kind = [0, HOST, 0, 1, HOST, 2, 2], [CUDA, WAIT, CUDA, CUDA, WAIT, CUDA, CUDA]
    assert joined([(), (0,), (), (), (2,), (), ()], lane, kind, [0] * 7) == [(), (0,), (), (0,), (2,), (2,), ()]
    assert joined([(), (0,), (0,)], [0, HOST, 1], [CUDA, WAIT, CUDA], [0] * 3)[2] == (0,)


def random_plan(seed: int) -> tuple[list[tuple[int, ...]], list[int]]:
    rng = random.Random(seed)
    lane = [rng.randrange(3) for _ in range(12)]
    waits = [tuple(sorted(rng.sample(range(i), min(i, rng.randint(0, 2))))) for i in range(12)]
    return [tuple(j for j in before if lane[j] != lane[i]) for i, before in enumerate(waits)], lane


def reaches(waits: list[tuple[int, ...]], lane: list[int]) -> list[set[int]]:
    """What is over before each action, by brute force."""
    found: list[set[int]] = []
    for i, before in enumerate(waits):
        direct = {*before, *(j for j in range(i) if lane[j] == lane[i])}
        found.append(direct.union(*(found[j] for j in direct)) if direct else set())
    return found


@given(st.integers(0, 10**6))
def test_links_are_those_of_the_reduced_graph(seed: int) -> None:
    """An oracle: with all that is implied taken away, a link has one before it, elsewhere, which has one after it."""
    waits, lane = random_plan(seed)
    over = reaches(waits, lane)
    needed = [{j for j in before if not any(j in over[k] for k in before)} for before in over]
    users = [sum(j in before for before in needed) for j in range(len(lane))]
    expected = [
        i
        for i, before in enumerate(needed)
        if len(before) == 1 and lane[min(before)] != lane[i] and users[min(before)] == 1
    ]
    assert links(waits, lane) == expected


def test_a_gate_that_was_idle_lets_in_at_once() -> None:
    passed: list[tuple[int, float]] = []
    gate = Gate(2.0, [1, 1, 3, 1], lambda action, time: passed.append((action, time)))
    for action, now in ((0, 5.0), (1, 6.0), (2, 20.0), (3, 21.0)):
        gate.enter(action, now)
    assert passed == [(0, 5.0), (1, 7.0), (2, 20.0), (3, 26.0)]
    gate.refresh(30.0)
    assert gate.due(0, 30.0) == []
