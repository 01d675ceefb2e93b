"""Max-min by hand."""

from __future__ import annotations

import pytest

from graphsched.schedulers import schedule
from tests.schedulers.graphs import graph, lanes_of, machine
from tests.schedulers.papers import independent, timed
from tests.schedulers.processors import processors
from tests.schedulers.test_etf import diamond


def test_by_hand() -> None:
    """The graph of `test_etf`: b and d on cuda:0, a and c on cuda:1.

    At best a is over at 2, b at 3: b goes to cuda:0. Then a alone is ready: cuda:1, over at 2. c could be over at
    5 + 3 = 8 on cuda:0 and at max(2, 3 + 1) + 3 = 7 on cuda:1, d at max(3, 2 + 1) + 2 = 5 and at 4: c is over last and
    goes to cuda:1. d could be over at 5 on cuda:0, at 9 behind c. Makespan 7.
    """
    plan = schedule(diamond(), machine(2, cpu=False), scheduler="max_min")
    table = timed(plan)
    assert {n: (lanes_of(plan)[n][:6], table.start_s[n]) for n in "abcd"} == {
        "a": ("cuda:1", 0), "b": ("cuda:0", 0), "c": ("cuda:1", 4), "d": ("cuda:0", 3),
    }  # fmt: skip
    assert table.makespan_s == 7


def test_long_tasks_first_leave_short_ones_to_the_gaps() -> None:
    """Three tasks of 1 s and one of 3 on two devices: 3 s, where `min_min` takes 4."""
    plan = schedule(graph(a=1.0, b=1.0, c=1.0, long=3.0), machine(2, cpu=False), scheduler="max_min")
    assert timed(plan).makespan_s == 3
    assert plan.names[0] == "long"


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_published_worst_case_of_longest_tasks_first(count: int) -> None:
    """4m - 1 on m processors, where 3m is possible: two tasks of each of 2m - 1, …, m + 1 seconds, three of m.

    Source: R. L. Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17 (1969).
    """
    pairs = [seconds for seconds in range(2 * count - 1, count, -1) for _ in range(2)]
    work = independent(*reversed(pairs), *[count] * 3)
    assert timed(schedule(work, processors(count), scheduler="max_min")).makespan_s == 4 * count - 1
