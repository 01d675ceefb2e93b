"""What an error comes from: parts that add up, against cases in which the cause is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.comparison import Attribution, Part, attribute, attribution, compare
from graphsched.comparison.attribution import shapley
from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import Model, predict
from graphsched.simulator.substitution import TERMS, Term
from graphsched.timeline import Timeline
from tests.builders import FREE, platform
from tests.simulator.measured import as_measured, of_durations, slower_host, slower_links, twin
from tests.simulator.test_properties import random_plan
from tests.simulator.test_substitution import SMALL
from tests.timelines import handover, simple_run

NAMES = [*TERMS, "timing events", "rest"]


def two_hosts(dispatch: Dispatch = FREE, seconds: float = 2.0, prefix: str = "cuda") -> Plan:
    """a (GPU 0) ─▶ copy of 100 bytes, 1 s ─▶ b (GPU 1)."""
    lanes = {"a": f"{prefix}:0/s0", "b": f"{prefix}:1/s0"}
    return of_durations({"a": seconds, "b": seconds}, [("a", "b", 100)], platform(dispatch=dispatch), lanes)


def parts(predicted: Timeline, measured: Timeline) -> dict[str, Part]:
    found = attribute(predicted, measured)
    assert found is not None
    assert [part.name for part in found.parts] == NAMES
    return {part.name: part for part in found.parts}


def test_an_error_of_transfers_is_all_of_transfers() -> None:
    """The copy takes 2 s where 1 s was expected: 5 s of 6 s."""
    plan = two_hosts()
    found = parts(predict(plan), twin(plan, links=slower_links(plan.platform, 2)))
    assert found["transfers"].share == pytest.approx(-1 / 6)
    assert found["transfers"].detail == "cuda:0>cuda:1"
    assert [found[name].share for name in NAMES if name != "transfers"] == pytest.approx([0.0] * 5, abs=1e-12)


def test_an_error_of_compute_is_all_of_compute() -> None:
    """Tasks take 1 s where 2 s were expected: 5 s of 3 s."""
    found = parts(predict(two_hosts()), as_measured(predict(two_hosts(seconds=1.0)), two_hosts()))
    assert found["compute"] == Part("compute", pytest.approx(2 / 3), "tasks on cuda:0")
    assert found["transfers"].share == pytest.approx(0.0, abs=1e-12)


def test_errors_that_cancel_are_both_shown() -> None:
    """Tasks take 0.5 s less each, the copy 1 s more: no error, for two wrong reasons."""
    plan = two_hosts()
    shorter = two_hosts(seconds=1.5)
    shorter = replace(shorter, platform=replace(shorter.platform, links=slower_links(shorter.platform, 2)))
    found = parts(predict(plan), as_measured(predict(shorter), plan))
    assert (found["compute"].share, found["transfers"].share) == pytest.approx((0.2, -0.2))
    assert math.fsum(part.share for part in found.values()) == pytest.approx(0.0, abs=1e-15)


def test_two_classes_that_hide_each_other_share_alike() -> None:
    """A task beside a copy, 2 s each; measured 1 s each: neither alone changes anything.

    ::

        cuda:0/s0    |-- b, 2 s --|          1 s measured
        cuda:0>cpu   |-- copy, 2 s --|       1 s measured
    """
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cpu/w0"}
    durations, edges = {"a": 0.0, "b": 2.0, "c": 0.0}, [("a", "c", 200)]
    plan = of_durations(durations, edges, platform(), lanes)
    faster = of_durations(durations | {"b": 1.0}, edges, platform(bandwidth=200.0), lanes)
    found = parts(predict(plan), as_measured(predict(faster), plan))
    assert (found["compute"].share, found["transfers"].share) == pytest.approx((0.5, 0.5))


def test_dispatch_and_waits_are_named() -> None:
    """A thread that is slower, and goes on later after its waits, than expected."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0"}
    plan = of_durations({"a": 2.0, "b": 2.0}, [], platform(dispatch=SMALL), lanes, wait_after=["a"])
    found = parts(predict(plan), twin(plan, dispatch=replace(SMALL, run_s=0.5, sync_s=1.0)))
    assert found["dispatch"].detail == "tasks"
    assert found["waits"].detail == "returns of the thread"
    assert found["dispatch"].share < 0
    assert found["waits"].share < 0


def test_a_target_that_comes_late_to_a_message_is_dispatch() -> None:
    """Issuing x and y takes rank 1 1 s each, not 0.5 s: 3.6 s instead of 2.6 s, and nothing is left over.

    ::

        cuda:0/s0   a ──▶ message, 1 s
        cuda:1/s0   x, y      └──▶ b
    """
    lanes = dict.fromkeys("xyb", "cuda:1/s0") | {"a": "cuda:0/s0"}
    costs = replace(FREE, run_s=0.5, message_s=0.5)
    plan = of_durations(dict.fromkeys("xyab", 0.1), [("a", "b", 100)], platform(dispatch=costs), lanes)
    plan = replace(plan, mode="distributed")
    measured = twin(plan, dispatch=replace(costs, run_s=1.0))
    found = parts(predict(plan), measured)
    assert found["dispatch"].share == pytest.approx(-1.0 / measured.timed_makespan_s)
    assert [found[name].share for name in NAMES if name != "dispatch"] == pytest.approx([0.0] * 5, abs=1e-12)


@pytest.mark.parametrize(
    ("source", "target", "detail"),
    [
        ("cuda:0/s0", "cpu/w0", "D2H cuda:0 under load"),
        ("cpu/w0", "cuda:0/s0", "H2D cuda:0 under load"),
    ],
)
def test_transfers_under_load_are_named_so(source: str, target: str, detail: str) -> None:
    """Two copies through one bus of half the bandwidth that it has in truth."""
    where = platform(shared={"bus": 100.0})
    lanes = {"a": source, "b": source.replace("0/", "1/") if "cuda" in source else "cpu/w1"}
    lanes |= {"c": target, "d": target.replace("0/", "1/") if "cuda" in target else "cpu/w1"}
    plan = of_durations(dict.fromkeys("abcd", 0.0), [("a", "c", 100), ("b", "d", 99)], where, lanes)
    assert parts(predict(plan), twin(plan, capacities={"bus": 200.0}))["transfers"].detail == detail


def test_what_timing_events_change_stands_apart() -> None:
    """The run without events is 10 % shorter than expected, the run with events just as expected."""
    line = predict(two_hosts())
    measured = replace(as_measured(line, line.plan), makespan_s=line.makespan_s * 0.9)
    found = parts(line, measured)
    assert found["timing events"].share == pytest.approx(1 / 9.0)
    assert math.fsum(part.share for part in found.values()) == pytest.approx(1 / 0.9 - 1)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_the_parts_add_up_to_the_error(seed: int) -> None:
    """Random DAGs on random lanes; link, host and bus are measured at random, and so is the run without events."""
    plan, rng = random_plan(seed, dispatch=SMALL), random.Random(seed)
    measured = twin(
        plan,
        links=slower_links(plan.platform, rng.uniform(0.5, 2)),
        dispatch=slower_host(SMALL, rng.uniform(0.5, 2)),
        capacities={name: rate * rng.uniform(0.5, 2) for name, rate in plan.platform.capacities.items()},
    )
    measured = replace(measured, makespan_s=measured.makespan_s * rng.uniform(0.9, 1.1))
    compared = compare(predict(plan), measured)
    assert compared.attribution is not None
    assert compared.attribution.error == pytest.approx(compared.makespan_error, abs=1e-15)
    assert abs(compared.attribution.parts[-1].share) < 1e-9


def test_two_orders_make_the_same_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large plans: one order of the classes and its reverse."""
    plan = two_hosts(SMALL)
    measured = twin(plan, links=slower_links(plan.platform, 2), dispatch=slower_host(SMALL, 2))
    every = attribute(predict(plan), measured)
    monkeypatch.setattr(attribution, "LARGE", 1)
    assert every is not None
    assert attribution._orders(3) == (TERMS, TERMS[::-1])
    assert attribute(predict(plan), measured) == Attribution(
        tuple(Part(p.name, pytest.approx(p.share, abs=1e-12), p.detail) for p in every.parts)
    )


def test_no_attribution_of_what_the_simulator_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms switched off, several steps, a timeline by another rule, a plan without actions, one too large."""
    plan = two_hosts(SMALL)
    measured = as_measured(predict(plan), plan)
    assert attribute(predict(plan, model=Model(timing=False)), measured) is None
    assert attribute(predict(plan, steps=2), measured) is None
    hand = handover()
    assert attribute(simple_run(hand, lambda i: 1e-3), simple_run(hand, lambda i: 2e-3, source="measured")) is None
    assert attribute(predict(plan), replace(measured, makespan_s=0.0)) is None
    monkeypatch.setattr(attribution, "LARGEST", 2)
    assert attribute(predict(plan), measured) is None


def test_shapley_values_add_up_and_treat_equals_alike() -> None:
    """The textbook's three: a worth of 1 for any two, 2 for all."""
    three: tuple[Term, ...] = ("compute", "dispatch", "waits")
    worth = {0: 0.0, 1: 0.0, 2: 1.0, 3: 2.0}
    values = shapley(three, lambda terms: worth[len(terms)], tuple(permutations(three)))
    assert list(values.values()) == pytest.approx([2 / 3] * 3)


def test_a_class_that_never_matters_is_worth_nothing() -> None:
    three: tuple[Term, ...] = ("compute", "dispatch", "waits")
    values = shapley(three, lambda terms: float("waits" in terms), tuple(permutations(three)))
    assert values == {"compute": 0.0, "dispatch": 0.0, "waits": 1.0}


def test_text_names_the_largest_parts_first_and_leaves_out_what_rounds_to_nothing() -> None:
    shares = zip(
        NAMES, (0.004, -0.036, 0.00004, 0.0, 0.02, 0.001), ("mm on cuda:0", "D2H cuda:1", "", "", "", ""), strict=True
    )
    line = Attribution(tuple(Part(*row) for row in shares))
    text = "error -1.10 %: transfers -3.60 (D2H cuda:1), compute +0.40 (mm on cuda:0), timing events +2.00, rest +0.10"
    assert str(line) == text
    assert line.figures()["transfers"] == -0.036
    assert str(Attribution((Part("rest", 0.0),))) == "error +0.00 %: none"


def test_the_table_has_the_attribution() -> None:
    plan = two_hosts()
    text = str(compare(predict(plan), twin(plan, links=slower_links(plan.platform, 2))))
    assert "error -16.67 %: transfers -16.67 (cuda:0>cuda:1)" in text.splitlines()


def test_spans_alone_decide_the_details() -> None:
    """Where no group goes the way of its class, none is named."""
    plan = two_hosts()
    line = predict(plan)
    measured = as_measured(replace(line, end_s=line.end_s + np.array([0.0, 0.0, 1.0]), timed_makespan_s=6.0), plan)
    found = parts(line, measured)
    assert found["compute"].detail == "tasks on cuda:1"
    assert found["transfers"].detail == ""
