"""Tasks on CPU lanes that want more of the host's memory together than it gives slow each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.platform.parts import HOST_MEMORY
from graphsched.simulator import Model, predict
from graphsched.simulator.host_memory import CACHED_BYTES, memory_shares
from tests.builders import planned, platform, workload

MOVED = 2 * CACHED_BYTES  # by each task: what it passes on


def side_by_side(
    seconds: list[float], memory: float | None, *, moved: int = MOVED, cores: int = 8, workers: int = 3
) -> Plan:
    """a on worker:0, b on worker:1, …, each of so many seconds, and passes `moved` bytes to a task of its own lane.

    Copies were measured to move `memory` bytes a second, each of which is read and written; None: not measured.
    """
    names = "abc"[: len(seconds)]
    edges = [(name, f"{name}2", moved) for name in names]
    work = workload({**dict(zip(names, seconds, strict=True)), **{f"{name}2": 0.0 for name in names}}, edges)
    lanes = {name: f"worker:{k}/s0" for k, name in enumerate(names)}
    here = platform(gpus=0, workers=workers, cores=cores)
    here = here if memory is None else replace(here, capacities={HOST_MEMORY: memory})
    return planned(work, here, lanes | {f"{name}2": lane for name, lane in lanes.items()})


def ends(plan: Plan, model: Model | None = None) -> dict[str, float]:
    line = predict(plan, model=model or Model())
    return {name: float(end) for name, end in zip(plan.names, line.end_s, strict=True) if len(name) == 1}


def test_two_that_want_three_halves_of_it_take_three_halves_as_long() -> None:
    """a and b move 2 x CACHED_BYTES in 4 s each; memory can move 4/3 of what each would."""
    plan = side_by_side([4.0, 4.0], MOVED / 4.0 * (4 / 3) / 2)
    assert ends(plan) == pytest.approx({"a": 6.0, "b": 6.0})
    assert ends(plan, Model(memory=False)) == {"a": 4.0, "b": 4.0}
    assert ends(plan, Model(sharing=False)) == {"a": 4.0, "b": 4.0}


def test_one_that_wants_little_has_all_of_that() -> None:
    """a and b would move 3 each, c 0.5, of 4.5: a and b get 2 and take 3 / 2 as long, c loses nothing."""
    unit = MOVED / 3.0
    plan = side_by_side([1.0, 1.0, 6.0], 1.5 * unit * 3.0 / 2)
    found = ends(plan)
    assert found["c"] == pytest.approx(6.0)
    assert found["a"] == found["b"] == pytest.approx(1.0 * 3.0 / 2.0)


def test_what_one_moves_alone_is_there() -> None:
    """Copies move less than a does: it was measured so."""
    assert ends(side_by_side([4.0], MOVED / 4.0 / 10)) == {"a": 4.0}
    found = ends(side_by_side([4.0, 4.0], MOVED / 4.0 / 2 * 0.75))
    assert found == pytest.approx({"a": 8.0, "b": 8.0})


@pytest.mark.parametrize(
    ("moved", "memory"),
    [(CACHED_BYTES // 2, 1.0), (MOVED, None), (MOVED, MOVED / 4.0 / 2 / 2.5)],
    ids=["a cache holds it", "not known", "a view"],
)
def test_what_does_not_go_through_memory_is_not_slowed(moved: int, memory: float | None) -> None:
    plan = side_by_side([4.0, 4.0], memory, moved=moved)
    assert ends(plan) == {"a": 4.0, "b": 4.0}


def test_cores_come_first() -> None:
    """Two on one core have half of it each, and then want no more of memory than there is."""
    plan = side_by_side([4.0, 4.0], MOVED / 4.0 / 2, cores=1)
    assert ends(plan) == pytest.approx({"a": 8.0, "b": 8.0})


@given(st.lists(st.floats(0.0, 1e12), max_size=6), st.floats(0.0, 1e12))
def test_shares_are_fair(moved: list[float], bytes_per_s: float) -> None:
    """Nobody has more than all of it, and who has less than all moves as much as anybody."""
    shares = memory_shares(moved, bytes_per_s)
    given_bytes = [share * wanted for share, wanted in zip(shares, moved, strict=True)]
    assert all(0.0 <= share <= 1.0 + 1e-9 for share in shares)
    assert sum(given_bytes) <= max([bytes_per_s, *moved]) * (1 + 1e-9)
    held_up = [part for part, share in zip(given_bytes, shares, strict=True) if share < 1.0 - 1e-9]
    assert all(part == pytest.approx(max(given_bytes)) for part in held_up)


def test_each_step_of_several_shares_memory_too() -> None:
    """Two steps of a and b, who would move 4/3 of what there is less each: each step takes 3/2 as long."""
    plan = side_by_side([4.0, 4.0], MOVED / 4.0 * (4 / 3) / 2)
    once, twice = (predict(plan, steps=steps).makespan_s for steps in (1, 2))
    assert twice == pytest.approx(2 * once)
    assert once == pytest.approx(6.0)
