"""Patterns measured in rounds: interleaved, medians kept, what was not listed measured when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphsched.calibration.capacities import Flow, fit_capacities
from graphsched.calibration.patterns import asked_patterns, fitted_patterns, new_patterns, pattern_label
from graphsched.calibration.survey import Survey
from tests.calibration.simulated_host import SimulatedHost

IN, OUT, ACROSS = ("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1")


class Played:
    """Answers with the given rates of the first flow, one after the other; 1 for the others."""

    def __init__(self, *first: float) -> None:
        self.first, self.asked = iter(first), list[list[Flow]]()

    def __call__(self, flows: Sequence[Flow]) -> list[float]:
        self.asked.append(list(flows))
        return [next(self.first), *[1.0] * (len(flows) - 1)]


def test_patterns_take_turns_and_keep_their_medians() -> None:
    rates = Played(10, 1, 90, 2, 30, 3)
    survey = Survey(rates, [[IN], [OUT]], rounds=3)
    assert rates.asked == [[IN], [OUT]] * 3
    assert (survey([IN]), survey([OUT])) == ([30.0], [2.0])
    assert len(rates.asked) == 6  # nothing is measured again


def test_each_flow_has_its_mean_share_in_any_order() -> None:
    """Sums of 4, 8 and 5, of which the first flow has 3/4, 7/8 and 4/5."""
    rates = Played(3, 7, 4)
    survey = Survey(rates, [[OUT, IN], [IN, OUT]], rounds=3)
    assert rates.asked == [[OUT, IN]] * 3
    share = (3 / 4 + 7 / 8 + 4 / 5) / 3
    assert survey([OUT, IN]) == pytest.approx([5 * share, 5 * (1 - share)])
    assert survey([IN, OUT]) == pytest.approx([5 * (1 - share), 5 * share])


def test_transfers_that_go_one_after_the_other_keep_their_sum() -> None:
    """A port that serves one of three at a time, another in every round: no flow's median would be above 0."""
    turns = iter([[6.0, 0.0, 0.0], [0.0, 6.0, 0.0], [0.0, 0.0, 6.0]])
    survey = Survey(lambda _: next(turns), [[IN, OUT, ACROSS]], rounds=3)
    assert survey([IN, OUT, ACROSS]) == pytest.approx([2.0, 2.0, 2.0])


def test_what_was_not_listed_is_measured_once_in_all_rounds() -> None:
    rates = Played(1, 1, 4, 6)
    survey = Survey(rates, [[IN]], rounds=2)
    assert survey([ACROSS]) == survey([ACROSS]) == [5.0]
    assert rates.asked == [[IN], [IN], [ACROSS], [ACROSS]]


@pytest.mark.parametrize(
    ("first", "spread"),
    [((9, 11), 0.2), ((9, 10, 12), 0.3), ((1, 10, 9, 11, 30), 0.2), ((10,), 0.0)],
)
def test_spread_is_the_range_of_few_rounds_and_the_quartiles_of_more(first: tuple[float, ...], spread: float) -> None:
    survey = Survey(Played(*first), [[IN]], rounds=len(first))
    assert survey.spreads == {"cpu>cuda:0": pytest.approx(spread)}


def test_spread_is_that_of_the_sums() -> None:
    """Two flows of 9 and 1, then of 11 and 1: 10 and 12."""
    assert Survey(Played(9, 11), [[IN, OUT]], rounds=2).spreads == {"cpu>cuda:0 + cuda:0>cpu": pytest.approx(2 / 11)}


def test_drift_of_the_host_falls_on_all_patterns_alike() -> None:
    """A host that becomes slower and slower: one after the other, the second pattern seems slower than the first."""
    clock = iter(range(100))
    survey = Survey(lambda _: [100.0 - next(clock)], [[IN], [OUT]], rounds=5)
    assert survey([IN])[0] - survey([OUT])[0] == 1.0


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("linked", [True, False])
def test_a_fit_asks_for_nothing_that_was_not_measured_in_rounds(gpus: int, linked: bool) -> None:
    pairs = frozenset(frozenset((i, j)) for i in range(gpus) for j in range(i))
    host = SimulatedHost(gpus, unlinked=frozenset() if linked else pairs, noise=0.01)
    patterns = asked_patterns(gpus, host.links())
    survey = Survey(host.measure, patterns, rounds=2)
    fit_capacities(gpus, host.links(), survey)
    assert host.asked == patterns * 2
    assert len({tuple(sorted(flows)) for flows in patterns}) == len(patterns)


def test_uneven_topologies_are_asked_for_as_they_are() -> None:
    """cuda:0 and cuda:1 are linked, cuda:2 with nobody."""
    host = SimulatedHost(3, unlinked=frozenset({frozenset((0, 2)), frozenset((1, 2))}))
    patterns = asked_patterns(3, host.links())
    fit_capacities(3, host.links(), Survey(host.measure, patterns, rounds=1))
    assert host.asked == patterns


def test_new_patterns_are_none_of_those_fitted_on() -> None:
    for gpus in (1, 2, 4):
        links = SimulatedHost(gpus).links()
        fitted = {tuple(sorted(flows)) for flows in asked_patterns(gpus, links)}
        new = new_patterns(gpus, links)
        assert fitted.isdisjoint(tuple(sorted(flows)) for flows in new)
        assert len(new) == (7 if gpus == 4 else 2)
        assert all(len(flows) > 1 for flows in fitted_patterns(gpus, links))


@pytest.mark.parametrize("one_at_a_time", [True, False])
def test_all_to_all_is_fitted_on_where_copies_go_side_by_side(one_at_a_time: bool) -> None:
    """Where a GPU makes one copy at a time it says nothing of ports: it is measured, and predicted."""
    host = SimulatedHost(4, one_at_a_time=one_at_a_time)
    links = host.links()
    everyone = [(link.source, link.target) for link in links if link.memory == "peer"]
    assert everyone in fitted_patterns(4, links)
    assert (everyone in fitted_patterns(4, links, host.measure)) is not one_at_a_time


def test_labels_of_a_pattern_do_not_depend_on_its_order() -> None:
    assert pattern_label([OUT, IN]) == pattern_label([IN, OUT])
    many = [("cpu", f"cuda:{i}") for i in range(5)]
    assert pattern_label(many) == "5 transfers from cpu to cuda:0, cuda:1, cuda:2, cuda:3, cuda:4"
