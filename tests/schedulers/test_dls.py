"""DLS against a published schedule, and by hand."""

from __future__ import annotations

from graphsched.schedulers import schedule
from graphsched.workload import Workload
from tests.schedulers.graphs import graph, lanes_of, machine
from tests.schedulers.papers import by_paper, timed, topcuoglu


def test_published_makespan() -> None:
    """91 on the graph of Topcuoglu 2002, says that paper, where HEFT has 80 and CPOP 86."""
    assert by_paper("dls", topcuoglu())[2] == 91


def test_by_hand() -> None:
    """Static levels with medians (a 3, b 4, c 1) and what devices gain on these decide.

    ::

        a (cuda:0: 1, cuda:1: 3) ─▶ c (1 on both)        b (cuda:0: 4, cuda:1: 4)

    Medians: a 2, b 4, c 1; levels: a 3, b 4, c 1. First a on cuda:0 has 3 - 0 + 1 = 4, b 4 - 0 + 0 = 4 on both: a
    stands first in the workload. Then b has 4 - 1 = 3 on cuda:0 and 4 on cuda:1, c 1 - 1 = 0 on cuda:0: b goes to
    cuda:1. Last c: 1 - 1 = 0 on cuda:0, 1 - 4 = -3 on cuda:1. Makespan 4.
    """
    work = graph([("a", "c")], a={"cuda:0": 1.0, "cuda:1": 3.0}, b={"cuda": 4.0}, c={"cuda": 1.0})
    plan = schedule(work, machine(2, cpu=False), scheduler="dls")
    assert lanes_of(plan) == {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0"}
    assert timed(plan).makespan_s == 4


def test_a_device_that_is_fast_for_a_task_draws_it() -> None:
    """With the same start everywhere, `a` goes where it is fastest: the median is no device's time."""
    work = graph(a={"cuda:0": 5.0, "cuda:1": 1.0, "cuda:2": 3.0})
    assert lanes_of(schedule(work, machine(3, cpu=False), scheduler="dls")) == {"a": "cuda:1/s0"}


def test_no_gap_is_filled() -> None:
    """d (1 s) has a lower level than b and stands behind it, though cuda:1 is idle for the 6 s before b.

    ::

        a (1, cuda:0) ─5 bytes─▶ b (9, cuda:1)        d (1, cuda:1)

    a's level is 10 and it goes first; then b has 9 - 6 = 3, d 1 - 0 = 1.
    """
    import networkx as nx

    dag = nx.DiGraph([("a", "b", {"nbytes": 5})])
    dag.add_node("d")
    nx.set_node_attributes(dag, {"a": {"cuda:0": 1.0}, "b": {"cuda:1": 9.0}, "d": {"cuda:1": 1.0}}, "duration_s")
    plan = schedule(Workload.from_graph(dag), machine(2), scheduler="dls")
    assert timed(plan).start_s == {"a": 0, "b": 6, "d": 15}
