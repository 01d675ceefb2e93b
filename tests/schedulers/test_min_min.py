"""Min-min by hand."""

from __future__ import annotations

import pytest

from graphsched.schedulers import schedule
from tests.schedulers.graphs import graph, lanes_of, machine
from tests.schedulers.papers import independent, timed
from tests.schedulers.processors import processors
from tests.schedulers.test_etf import diamond


def test_by_hand() -> None:
    """The graph of `test_etf`: a and d on cuda:0, then c; b on cuda:1.

    a can be over at 2, b at 3: a goes to cuda:0. b could be over at 5 there and at 3 on cuda:1; d at 4 and at
    2 + 1 + 2 = 5: b goes to cuda:1. c could be over at max(2, 3 + 1) + 3 = 7 on cuda:0 and at max(3, 2 + 3) + 3 = 8 on
    cuda:1, d still at 4: d goes to cuda:0. c could be over at max(4, 4) + 3 = 7 there. Makespan 7.
    """
    plan = schedule(diamond(), machine(2, cpu=False), scheduler="min_min")
    table = timed(plan)
    assert {n: (lanes_of(plan)[n][:6], table.start_s[n]) for n in "abcd"} == {
        "a": ("cuda:0", 0), "b": ("cuda:1", 0), "c": ("cuda:0", 4), "d": ("cuda:0", 2),
    }  # fmt: skip
    assert table.makespan_s == 7


def test_short_tasks_first_leave_the_long_one_to_the_end() -> None:
    """Three tasks of 1 s and one of 3 on two devices: 4 s, where `max_min` takes 3."""
    plan = schedule(graph(long=3.0, a=1.0, b=1.0, c=1.0), machine(2, cpu=False), scheduler="min_min")
    assert timed(plan).makespan_s == 4
    assert plan.names[-1] == "long"


def test_each_task_where_it_is_over_first() -> None:
    """Unrelated times: a (2, 9) and b (9, 3) part; c (4, 4) is over at 6 behind a, at 7 behind b."""
    times = {"a": (2.0, 9.0), "b": (9.0, 3.0), "c": (4.0, 4.0)}
    work = graph(**{name: {"cuda:0": x, "cuda:1": y} for name, (x, y) in times.items()})
    plan = schedule(work, machine(2, cpu=False), scheduler="min_min")
    assert [lanes_of(plan)[name][:6] for name in "abc"] == ["cuda:0", "cuda:1", "cuda:0"]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_published_worst_case_of_short_tasks_first(count: int) -> None:
    """2m - 1 on m processors, where m is possible: m (m - 1) tasks of a second, then the one of m.

    Source: R. L. Graham, Bounds for certain multiprocessing anomalies, Bell System Technical Journal 45 (1966).
    """
    work = independent(count, *[1] * (count * (count - 1)))
    assert timed(schedule(work, processors(count), scheduler="min_min")).makespan_s == 2 * count - 1
