"""Elimination: never a wrong choice, and every one that there is only one way to make."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from graphsched.formats.elimination import Wanted, eliminate
from graphsched.formats.profiler_trace import DeviceWork


def piece(what: str, start: float, end: float, device: int = 0) -> DeviceWork:
    return DeviceWork(what, "kernel", device, 7, start, end, 1)


def want(start: float, end: float, *launches: str, devices: tuple[int, ...] = (0,)) -> Wanted:
    return Wanted(launches, devices, start, end)


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


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 8), st.floats(0, 0.5))
def test_what_is_found_is_true(seed: int, lanes: int, count: int, tolerance: float) -> None:
    """Lanes of actions, their work somewhat outside of their spans, clocks off by no more than the tolerance."""
    rng = random.Random(seed)
    wanted: dict[int, Wanted] = {}
    truth: dict[int, tuple[DeviceWork, ...]] = {}
    for _ in range(lanes):
        now = rng.random()
        for _ in range(count):
            i, off, pieces = len(wanted), rng.uniform(-tolerance, tolerance), []
            start = now
            for _ in range(rng.randint(1, 2)):
                begin = now + rng.random()
                now = begin + rng.random()
                pieces.append(piece(rng.choice(["mm", "add"]), begin + off, now + off))
            now += rng.random() / 4
            wanted[i] = want(start, now, *(p.what for p in pieces))
            truth[i] = tuple(pieces)
    work = [p for pieces in truth.values() for p in pieces]
    rng.shuffle(work)
    found = eliminate(wanted, work, tolerance + 1e-9)
    assert all(truth[i] == pieces for i, pieces in found.items())
    if lanes == 1 and tolerance == 0:
        assert found == truth
