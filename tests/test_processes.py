"""Work spread over processes."""

from __future__ import annotations

import math
import os
from concurrent.futures.process import BrokenProcessPool

import pytest

from graphsched.processes import cores, spread


def test_each_item_comes_with_its_result_whatever_ends_first() -> None:
    assert dict(spread(math.sqrt, [4.0, 9.0, 16.0], 2)) == {4.0: 2.0, 9.0: 3.0, 16.0: 4.0}
    assert list(spread(math.sqrt, [], 2)) == []


GIVEN: list[int] = []


def keep(number: int) -> None:
    GIVEN.append(number)


def times(item: int) -> int:
    return item * GIVEN[0] * int(os.environ["OMP_NUM_THREADS"])


def test_what_all_have_in_common_is_there_before_the_first_item() -> None:
    """In each process, which computes in one thread; here nothing has changed."""
    assert dict(spread(times, [2, 3, 5], 2, keep, (7,))) == {2: 14, 3: 21, 5: 35}
    assert GIVEN == []


def test_what_an_item_raises_is_raised_here() -> None:
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        list(spread(math.sqrt, [-1.0, 4.0], 2))


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(BrokenProcessPool):
        list(spread(os._exit, [3], 1))


def test_there_are_cores() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
