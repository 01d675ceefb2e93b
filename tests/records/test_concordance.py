"""Schedules of one workload held against each other: their order, and the best of them."""

from __future__ import annotations

import pytest

from graphsched.records.concordance import concordance, regrets
from graphsched.records.summaries import regret_of
from tests.records.entries import entry
from tests.records.examples import chain


def test_pairs_in_the_measured_order_count():
    """Three schedules measured at 1, 2 and 3 s, predicted at 1, 3 and 2 s: two of three pairs."""
    assert concordance([entry(1.0, 1.0), entry(3.0, 2.0), entry(2.0, 3.0)]) == pytest.approx(2 / 3)


def test_pairs_that_do_not_differ_have_no_order():
    assert concordance([entry(1.0, 1.0), entry(2.0, 1.009)]) is None
    assert concordance([entry(1.0, 1.0), entry(2.0, 1.011)]) == 1.0
    assert concordance([entry(1.0, 1.0, spread=0.1), entry(2.0, 1.19)]) is None
    assert concordance([entry(1.0, 1.0, spread=0.1), entry(2.0, 1.21)]) == 1.0


def test_two_names_of_one_plan_are_no_pair():
    """Three schedules, of which the first two are the same plan: two programs of it took 1.0 and 1.1 s."""
    found = [
        entry(1.0, 1.1, plan="one", scheduler="auto"),
        entry(1.0, 1.0, plan="one", scheduler="streams"),
        entry(2.0, 3.0, plan="other"),
    ]
    assert concordance(found) == 1.0
    (regret,) = regrets(found)
    assert regret.share == pytest.approx(0.1)
    assert not regret.beyond_noise


def test_only_schedules_of_one_workload_and_mode_are_held_against_each_other():
    assert concordance([entry(1.0, 2.0), entry(2.0, 1.0, mode="graph")]) is None
    assert concordance([entry(1.0, 2.0), entry(2.0, 1.0, work=chain())]) is None
    assert concordance([entry(1.0, 2.0), entry(2.0, 1.0)]) == 0.0


def test_regret_is_what_the_predicted_best_takes_longer_than_the_best():
    """Predicted to be best: b, 1.1 s. The best: c, 1.0 s."""
    found = [entry(3.0, 1.2, label="a"), entry(1.0, 1.1, label="b"), entry(2.0, 1.0, label="c")]
    (regret,) = regrets(found)
    assert (regret.chosen.case.label, regret.best.case.label) == ("b", "c")
    assert regret.share == pytest.approx(0.1)
    assert regret_of(found)["over"] == [
        {
            "experiment": "exp",
            "platform": "bench",
            "mode": "eager",
            "chosen": "b",
            "best": "c",
            "regret": pytest.approx(0.1),
        }
    ]


def test_a_right_choice_is_never_regretted():
    figures = regret_of(
        [entry(1.0, 1.0), entry(2.0, 2.0), entry(1.5, 1.0, mode="graph"), entry(3.0, 4.0, mode="graph")]
    )
    assert figures == {"groups": 2, "median": 0.0, "max": 0.0, "beyond_noise": 0.0, "over": []}


def test_of_schedules_predicted_alike_the_first_is_taken():
    (regret,) = regrets([entry(1.0, 1.2, label="first"), entry(1.0, 1.0, label="second")])
    assert regret.chosen.case.label == "first"


@pytest.mark.parametrize(("measured_s", "spread", "counts"), [(1.009, 0.0, 0), (1.011, 0.0, 1), (1.011, 0.01, 0)])
def test_regret_within_noise_does_not_count(measured_s, spread, counts):
    figures = regret_of([entry(1.0, measured_s), entry(2.0, 1.0, spread=spread)])
    assert figures["max"] == pytest.approx(measured_s - 1)
    assert len(figures["over"]) == counts
    assert figures["beyond_noise"] == pytest.approx((measured_s - 1) * counts)


def test_regrets_are_listed_largest_first():
    small = [entry(1.0, 1.1), entry(2.0, 1.0)]
    large = [entry(1.0, 1.5, mode="graph"), entry(2.0, 1.0, mode="graph")]
    figures = regret_of(small + large)
    assert [row["regret"] for row in figures["over"]] == pytest.approx([0.5, 0.1])
    assert figures["beyond_noise"] == pytest.approx(0.5)
    assert figures["median"] == pytest.approx(0.3)


def test_a_workload_with_one_schedule_has_no_regret():
    assert regret_of([entry(1.0, 2.0)]) == {
        "groups": 0,
        "median": None,
        "max": None,
        "beyond_noise": None,
        "over": [],
    }
