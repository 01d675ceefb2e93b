"""What holds in every plan, and bounds that rest on it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.schedulers import lower_bound, schedule
from graphsched.schedulers.bounds import critical_path_bound, interval_bound
from graphsched.schedulers.bounds.precedence import always_before
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.graphs import LIST, MATRIX, add, machine, workloads


def look_and_step(**look: object) -> Workload:
    """A task that reads a state for long, and one that updates it.

    ::

        w ─▶ look (9)        w ─▶ step(w) (2)
    """
    work = Workload()
    w = work.state("w", MATRIX, device="cuda:0")
    add(work, "look", w, duration_s=9.0, **look)
    add(work, "step", w, updates=w, duration_s=2.0)
    return work


def before(work: Workload) -> list[str]:
    """What `step` waits for in every plan on two GPUs and a cpu."""
    return always_before(work, find_candidates(work, machine(2)))["step"]


def test_an_update_may_pass_a_reader_elsewhere() -> None:
    """The reader has a copy there; on the home of the state it is in the way."""
    assert before(look_and_step()) == []
    assert before(look_and_step(device="cuda:1")) == []
    assert before(look_and_step(device="cuda:0")) == ["look"]


def test_an_update_passes_no_copy_and_no_other_update() -> None:
    """A copy that is asked for reads the state itself; so does who updates it."""
    work = Workload()
    w = work.state("w", MATRIX, device="cuda:0")
    work.copy(w, to="cpu", pinned=True, name="copy")
    add(work, "first", w, updates=w)
    add(work, "step", w, updates=w)
    found = always_before(work, find_candidates(work, machine(2)))
    assert found == {"copy": [], "first": ["copy"], "step": ["first"]}


def test_bounds_let_it_pass() -> None:
    """9 s, not 11."""
    work = look_and_step()
    assert critical_path_bound(work, machine(2)) == interval_bound(work, machine(2)) == 9
    assert critical_path_bound(look_and_step(device="cuda:0"), machine(2)) == 11


@settings(deadline=None, max_examples=200)
@given(work=workloads(), name=st.sampled_from(LIST))
def test_no_plan_of_states_and_copies_is_faster_than_the_bound(work: Workload, name: str) -> None:
    """Whatever the scheduler."""
    plan = schedule(work, machine(2), scheduler=name)
    assert lower_bound(work, machine(2)) <= predict(plan).makespan_s * (1 + 1e-9)
