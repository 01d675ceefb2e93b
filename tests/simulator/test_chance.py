"""Tasks in CUDA graphs see the ends that they wait for on other GPUs sooner or later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.plan import Plan
from graphsched.simulator import Model, chance, predict
from graphsched.simulator.chance import FEW, MANY, with_chance
from graphsched.simulator.model import EVERYTHING
from graphsched.simulator.predict import tabulated
from tests.builders import FREE, chain, planned, platform, workload

MEAN_S = 0.5
ON_AVERAGE = Model(chance=False)


def joined(edge_bytes: int = 0, *, looks_s: float = 0.0, second_s: float = 1.0, mode: str = "graph") -> Plan:
    """a (cuda:1, 1 s) ──▶ c (cuda:0, 1 s) ◀── b (cuda:2, `second_s`)."""
    work = workload({"a": 1.0, "b": second_s, "c": 1.0}, [("a", "c", edge_bytes), ("b", "c", edge_bytes)])
    here = platform(gpus=3, dispatch=replace(FREE, graph_other_device_s=MEAN_S, graph_look_s=looks_s))
    plan = planned(work, here, {"a": "cuda:1/s0", "b": "cuda:2/s0", "c": "cuda:0/s0"})
    return replace(plan, mode=mode)


def makespan_s(plan: Plan, model: Model = EVERYTHING) -> float:
    return predict(plan, model=model).makespan_s


def seen_s(plan: Plan, *, chance: bool = True) -> float:
    """How long behind the ends of a and b c starts, in a run without timing events."""
    line = predict(plan, model=Model(timing=False, chance=chance))
    return float(line.start_s[plan.index_of["c"]]) - 1.0


def deviation_s(plan: Plan) -> float:
    return with_chance(tabulated(plan, 1, EVERYTHING)[0], EVERYTHING)[1]


def test_the_later_of_two_waits_is_longer_than_one_on_average():
    """Both end at 1 s and are seen half a second later on average, at any time from 0 to 1 s: the later one counts."""
    assert seen_s(joined(), chance=False) == pytest.approx(MEAN_S, rel=1e-4)
    assert MEAN_S + 0.01 < seen_s(joined()) < 2 * MEAN_S


@pytest.mark.parametrize("looks_s", [0.1, 0.19, 0.21, 0.3])
def test_a_wait_varies_by_half_a_period(looks_s: float):
    """The later of two ends is seen later than on average, by half a period at most: of 0.2 s from 0.4 to 0.6 s.

    Not of 0.2: c ends where it would be seen half a period later on average, and all runs are as long.
    """
    assert MEAN_S + 0.002 < seen_s(joined(looks_s=looks_s)) < MEAN_S + looks_s / 2


@pytest.mark.parametrize("tasks", [2, 3, 8])
def test_a_chain_takes_as_long_as_on_average(tasks: int):
    """t0 ──▶ t1 ──▶ …, to and fro between two GPUs: what one simulation has more another has less."""
    lanes = {f"t{k}": f"cuda:{k % 2}/s0" for k in range(tasks)}
    where = platform(gpus=2, dispatch=replace(FREE, graph_other_device_s=MEAN_S))
    plan = replace(planned(chain(tasks, 1.0), where, lanes), mode="graph")
    assert makespan_s(plan) == pytest.approx(makespan_s(plan, ON_AVERAGE), rel=1e-9)


def test_what_is_shown_is_the_run_of_the_makespan():
    """Without timing events the spans are those of the run that is told."""
    plan = joined()
    line = predict(plan, model=Model(timing=False))
    assert line.makespan_s == pytest.approx(max(line.end_s) + MEAN_S, rel=1e-5)  # seen by the GPU of a
    assert line.start_s.tolist() == predict(plan, model=Model(timing=False)).start_s.tolist()  # and the same again


@pytest.mark.parametrize(("second_s", "pairs"), [(1000.0, FEW), (1.0, MANY)])
def test_a_wait_that_hardly_matters_is_tried_a_few_times(second_s: float, pairs: int, monkeypatch: pytest.MonkeyPatch):
    """b ends 999 s behind a, and all makespans are alike; or both end at once, and more are simulated."""
    seeds: list[int] = []
    drawn_s = chance._drawn_s
    monkeypatch.setattr(chance, "_drawn_s", lambda *given: seeds.append(given[1]) or drawn_s(*given))
    with_chance(tabulated(joined(second_s=second_s), 1, EVERYTHING)[0], EVERYTHING)
    assert seeds == [seed for seed in range(pairs) for _ in (1, -1)]


@pytest.mark.parametrize("model", [ON_AVERAGE, Model(waits=False)])
def test_it_is_off_where_waits_are_as_on_average(model: Model):
    columns, _ = tabulated(joined(), 1, model)
    assert with_chance(columns, model) == (columns, 0.0)


def test_neither_streams_nor_one_gpu_nor_copies_have_it():
    """In eager mode; a ──▶ b on two lanes of one GPU; the copies that come from a and b, whose reader c has it."""
    eager = tabulated(joined(mode="eager"), 1, EVERYTHING)[0]
    assert with_chance(eager, EVERYTHING)[0] is eager
    here = platform(dispatch=replace(FREE, same_device_s=MEAN_S, graph_wait_s=MEAN_S, graph_fork_s=MEAN_S))
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1"}
    one = planned(workload({"a": 1.0, "b": 1.0}, [("a", "b", 0)]), here, lanes)
    columns = tabulated(replace(one, mode="graph"), 1, EVERYTHING)[0]
    assert with_chance(columns, EVERYTHING)[0] is columns
    plan = joined(edge_bytes=100)
    assert set(chance._longest_s(tabulated(plan, 1, EVERYTHING)[0])) == {plan.index_of["c"]}


def test_the_interval_is_as_wide_as_what_hangs_on_chance():
    wide, narrow = (predict(joined(), model=model).interval_s for model in (EVERYTHING, ON_AVERAGE))
    assert wide[1] - wide[0] > narrow[1] - narrow[0] + deviation_s(joined())
