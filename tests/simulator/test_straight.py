"""What goes straight on is issued and run as everything else is, to the bit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import Model
from graphsched.simulator.columns import SEVERAL, Columns
from graphsched.simulator.dispatch import Thread
from graphsched.simulator.engine import Engine
from graphsched.simulator.predict import tabulated
from graphsched.simulator.straight import goes_straight
from tests.builders import ROUND, chain, planned, platform, workload
from tests.simulator.test_properties import NOISY, random_plan

Run = tuple[float, list[float], list[float], list[float], list[float]]


def columns_of(plan: Plan, model: Model) -> Columns:
    return tabulated(plan, 1, model)[0]


def run(columns: Columns, *, timed: bool, straight: bool) -> Run:
    """Makespan, issues and spans."""
    engine = Engine(columns, timed)
    assert isinstance(engine.thread, Thread)
    if not straight:
        engine.thread.straight = None
    makespan_s = engine.run()
    return makespan_s, engine.thread.issue_start_s, engine.thread.issue_end_s, engine.start_s, engine.end_s


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 10**6),
    st.sampled_from([NOISY, Dispatch(), ROUND, Dispatch(queue_depth=1), Dispatch(cold_s=1e-5)]),
    st.booleans(),
    st.sampled_from([Model(), Model(sharing=False), Model(sharing=False, contention=False)]),
)
def test_the_same_without_it(seed: int, dispatch: Dispatch, timed: bool, model: Model) -> None:
    """Random layered DAGs on lanes of GPUs, CPU and workers, with waits, full queues and shared links."""
    columns = columns_of(random_plan(seed, dispatch), model)
    assert run(columns, timed=timed, straight=True) == run(columns, timed=timed, straight=False)


@pytest.mark.parametrize("timed", [False, True])
def test_goes_to_the_end_of_what_hangs_on_nothing_unknown(timed: bool) -> None:
    """t0 -> t1 -> t2 -> t3 on two streams in turn."""
    plan = planned(chain(4), platform(dispatch=ROUND), {f"t{k}": f"cuda:0/s{k % 2}" for k in range(4)})
    columns = columns_of(plan, Model(sharing=False))
    engine = Engine(columns, timed)
    assert isinstance(engine.thread, Thread)
    assert engine.thread.straight is not None
    assert engine.thread.straight.run(0, 0.0, timed=timed) == 4


def test_leaves_what_shares_or_has_several_launches() -> None:
    """Two tasks side by side on one GPU; a task of several launches between two of one."""
    plan = planned(workload({"a": 1.0, "b": 1.0}), platform(), {"a": "cuda:0/s0", "b": "cuda:0/s1"})
    assert goes_straight(columns_of(plan, Model())) == [False, False]
    columns = columns_of(planned(chain(3), platform(), {f"t{k}": "cuda:0/s0" for k in range(3)}), Model())
    columns.flags[1] = SEVERAL
    assert goes_straight(columns) == [True, False, True]


def test_stops_at_an_end_that_is_not_known() -> None:
    """b beside c on another lane of its GPU; d waits for b."""
    work = workload({"b": 1.0, "c": 1.0, "d": 1.0}, [("b", "d", 0)])
    lanes = {"b": "cuda:0/s0", "c": "cuda:0/s1", "d": "cuda:1/s0"}
    engine = Engine(columns_of(planned(work, platform(), lanes), Model()), timed=False)
    assert isinstance(engine.thread, Thread)
    assert engine.thread.straight is not None
    assert engine.thread.straight.run(2, 0.0, timed=False) == 2
