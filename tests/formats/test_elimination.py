"""Elimination: never a wrong choice, and every one that there is only one way to make."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphsched.formats.elimination import Wanted, eliminate
from graphsched.formats.profiler_trace import DeviceWork


def piece(what: str, start: float, end: float, device: int = 0) -> DeviceWork:
    return DeviceWork(what, "kernel", device, 7, start, end, 1)


def want(start: float, end: float, *launches: str, devices: tuple[int, ...] = (0,), **more: Any) -> Wanted:
    return Wanted(launches, devices, start, end, **more)


def test_work_within_the_only_span_is_that_actions() -> None:
    first, second = piece("mm", 1, 2), piece("mm", 5, 6)
    found = eliminate({3: want(4, 7, "mm"), 1: want(0, 3, "mm")}, [second, first], 0)
    assert found == {1: (first,), 3: (second,)}


def test_two_that_could_be_either_are_left_out() -> None:
    """Two lanes run the same at the same time; the third action is plain."""
    work = [piece("mm", 1, 2), piece("mm", 1, 2), piece("add", 1, 2)]
    assert eliminate({0: want(0, 3, "mm"), 1: want(0, 3, "mm"), 2: want(0, 3, "add")}, work, 0) == {2: (work[2],)}


def test_what_is_settled_settles_others() -> None:
    """0 may be any of three, 1 the first two, 2 the first: all are found from 2."""
    work = [piece("mm", 1, 2), piece("mm", 3, 4), piece("mm", 5, 6)]
    wanted = {0: want(0, 7, "mm"), 1: want(0, 4.5, "mm"), 2: want(0, 2.5, "mm")}
    for more in ([], [piece("mm", 50, 51)]):  # whether or not all work is somebody's
        assert eliminate(wanted, [*work, *more], 0) == {0: (work[2],), 1: (work[1],), 2: (work[0],)}


def test_work_that_only_one_may_have_is_its_own_if_all_work_is_somebodys() -> None:
    """0 and 1 may both have the first; the second can only be 1's, so the first is 0's."""
    work = [piece("mm", 1, 2), piece("mm", 5, 6)]
    wanted = {0: want(0, 3, "mm"), 1: want(0, 7, "mm")}
    assert eliminate(wanted, work, 0) == {0: (work[0],), 1: (work[1],)}
    both = [piece("mm", 1, 2), piece("mm", 1.5, 2.5), piece("mm", 5, 6)]
    wanted |= {2: want(0, 3, "mm")}
    assert eliminate(wanted, both, 0) == {1: (both[2],)}
    assert eliminate(wanted, [*both, piece("mm", 8, 9)], 0) == {}  # one is nobody's: it may be the third


def test_devices_names_numbers_and_tolerance_count() -> None:
    there = piece("mm", 1, 2, device=1)
    assert eliminate({0: want(0, 3, "mm")}, [there], 0) == {}
    assert eliminate({0: want(0, 3, "mm", devices=(0, 1))}, [there], 0) == {0: (there,)}
    assert eliminate({0: want(0, 3, "add", devices=(1,))}, [there], 0) == {}
    assert eliminate({0: want(0, 3, "mm", "mm", devices=(1,))}, [there], 0) == {}
    assert eliminate({0: want(1.25, 1.75, "mm", devices=(1,))}, [there], 0.125) == {}
    assert eliminate({0: want(1.25, 1.75, "mm", devices=(1,))}, [there], 0.25) == {0: (there,)}


def test_work_of_several_launches_comes_by_time() -> None:
    work = [piece("fill", 3, 4), piece("mm", 1, 2), piece("fill", 5, 6)]
    assert eliminate({0: want(0, 9, "mm", "fill", "fill")}, work, 0) == {0: (work[1], work[0], work[2])}
    assert eliminate({0: want(0, 9)}, [], 0) == {}


def row(count: int, width: float, *launches: str) -> dict[int, Wanted]:
    """Actions of one lane, 3 apart; what each is known to be within reaches `width` to both sides."""
    return {k: want(3 * k - width, 3 * k + 3 + width, *launches, after=(k - 1,) if k else ()) for k in range(count)}


def test_the_order_settles_what_spans_do_not() -> None:
    """A lane of equal short kernels, whose spans are known no better than to several kernels."""
    work = [piece("mm", 3 * k + 1, 3 * k + 2) for k in range(12)]
    wanted = row(12, 7.0, "mm")
    assert eliminate(wanted, work, 0) == {k: (work[k],) for k in range(12)}
    loose = {k: replace(one, after=()) for k, one in wanted.items()}
    assert eliminate(loose, work, 0) == {}
    pairs = [piece("mm", k + 0.125, k + 0.875) for k in range(12)]
    found = eliminate(row(6, 40.0, "mm", "mm"), pairs, 0)
    assert found == {k: (pairs[2 * k], pairs[2 * k + 1]) for k in range(6)}


def test_what_is_settled_bounds_others_by_the_order() -> None:
    """0 may be either of two, but 1, which comes after it, is the add between them; so is 2 the second."""
    work = [piece("mm", 1, 2), piece("add", 3, 4), piece("mm", 5, 6), piece("mm", 50, 51)]
    wanted = {0: want(0, 9, "mm"), 1: want(0, 9, "add", after=(0,)), 2: want(0, 9, "mm", after=(1,))}
    assert eliminate(wanted, work, 0) == {0: (work[0],), 1: (work[1],), 2: (work[2],)}


def test_where_work_is_lost_nothing_of_its_name_is_found() -> None:
    """What is left may be either's, and the spans of both hold it; a name that is whole is not concerned."""
    work = [piece("mm", 1, 2), piece("add", 3, 4)]
    wanted = {0: want(0, 9, "mm"), 1: want(0, 9, "add", after=(0,)), 2: want(0, 9, "mm", after=(1,))}
    assert eliminate(wanted, work, 0) == {1: (work[1],)}
    three = [piece("mm", 1, 2), piece("mm", 4, 5), piece("mm", 6, 7)]
    wide = {k: want(0, 9, "mm") for k in (1, 2, 3)}
    assert eliminate({0: want(0, 3, "mm")} | wide, three, 0) == {}  # the first is 0's only if 0's is not the lost one


def test_spans_that_claim_the_same_work_contradict_each_other() -> None:
    work = [piece("mm", 1, 2), piece("mm", 20, 21), piece("add", 5, 6)]
    wanted = {0: want(0, 3, "mm"), 1: want(0, 3, "mm"), 2: want(4, 7, "add")}
    assert eliminate(wanted, work, 0) == {2: (work[2],)}


def test_an_order_that_was_not_kept_is_not_used() -> None:
    work = [piece("mm", 5, 6), piece("mm", 1, 2)]
    wanted = {0: want(4, 7, "mm"), 1: want(0, 3, "mm", after=(0,))}
    assert eliminate(wanted, work, 0) == {0: (work[0],), 1: (work[1],)}


def test_work_of_another_launch_is_no_choice() -> None:
    first, second = piece("mm", 1, 2), replace(piece("mm", 1, 2), correlation=2)
    wanted = {0: want(0, 3, "mm", launch=1), 1: want(0, 3, "mm", launch=2)}
    assert eliminate(wanted, [second, first], 0) == {0: (first,), 1: (second,)}


@given(
    st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 8), st.floats(0, 0.5), st.booleans(), st.integers(0, 2)
)
def test_what_is_found_is_true(seed: int, lanes: int, count: int, tolerance: float, ordered: bool, lost: int) -> None:
    """Lanes of actions, their work somewhat outside of their spans, clocks off by no more than the tolerance."""
    rng = random.Random(seed)
    slip = rng.uniform(-tolerance, tolerance)  # of the clock, the same for all
    wanted: dict[int, Wanted] = {}
    truth: dict[int, tuple[DeviceWork, ...]] = {}
    for _ in range(lanes):
        now = rng.random()
        for k in range(count):
            i, off, pieces = len(wanted), slip if ordered else rng.uniform(-tolerance, tolerance), []
            start = now
            for _ in range(rng.randint(1, 2)):
                begin = now + rng.random()
                now = begin + rng.random()
                pieces.append(piece(rng.choice(["mm", "add"]), begin + off, now + off))
            now += rng.random() / 4
            wanted[i] = want(start, now, *(p.what for p in pieces), after=(i - 1,) if ordered and k else ())
            truth[i] = tuple(pieces)
    work = [p for pieces in truth.values() for p in pieces]
    rng.shuffle(work)
    found = eliminate(wanted, work[lost:], tolerance + 1e-9)
    assert all(truth[i] == pieces for i, pieces in found.items())
    if lanes == 1 and lost == 0 and tolerance == 0:
        assert found == truth
