"""Max-min by hand."""

from __future__ import annotations

from graphsched.schedulers import schedule
from tests.schedulers.graphs import graph, lanes_of, machine
from tests.schedulers.papers import timed
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
