"""One recorded case simulated again: the ends of its lanes, and its flags."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.platform import Device
from graphsched.records import record_baseline, save_run
from graphsched.records.checked import check_again, check_case, check_runs, lane_end_errors
from graphsched.simulator import Model
from tests.records.entries import entry
from tests.records.examples import SETUP, case_of, chain, plan_of, run_of, timeline, two
from tests.timelines import overlap
from tests.timelines import timeline as spans_of

TWO_GPUS = replace(SETUP.platform, devices=(*SETUP.platform.devices, Device("cuda:1", "cuda", "GPU")))


def test_ends_of_lanes_are_fractions_of_their_own():
    """Lanes a and b end at 1 and 4 s, predicted at 2 and 3 s."""
    plan = plan_of(two(), "round_robin", lanes=2)
    measured = spans_of(plan, [(0, 1), (0, 4)], source="measured")
    assert lane_end_errors(spans_of(plan, [(0, 2), (0, 3)]), measured) == pytest.approx([1.0, 0.25])


def test_a_lane_ends_with_its_last_action():
    plan = plan_of(chain(3))
    assert lane_end_errors(timeline(plan, 3.3), timeline(plan, 3.0)) == pytest.approx([0.1])


def test_lanes_of_copies_and_of_the_cpu_do_not_count():
    """Two GPUs, each with a compute lane and one of copies."""
    plan = overlap(2, gpus=2)
    ends = [(float(i), float(i + 1)) for i in range(len(plan))]
    found = lane_end_errors(spans_of(plan, ends), spans_of(plan, ends, source="measured"))
    assert len(plan.lanes) == 5
    assert found == pytest.approx([0.0, 0.0])


def test_a_lane_that_ended_at_once_has_no_error():
    plan = plan_of(chain(1))
    assert not len(lane_end_errors(spans_of(plan, [(0, 1)]), spans_of(plan, [(0, 0)], source="measured")))


@pytest.mark.parametrize(("spread", "noisy"), [(0.0, False), (0.019, False), (0.021, True)])
def test_a_spread_over_2_percent_is_flagged(spread, noisy):
    made = entry(1.0, 1.0, spread=spread)
    assert (made.noisy, made.figures()["noisy"]) == (noisy, noisy)


@pytest.mark.parametrize(("measured_s", "inside"), [(0.8, False), (0.9, True), (1.2, True), (1.3, False)])
def test_bounds_are_inside_the_interval(measured_s, inside):
    assert entry(1.0, measured_s, interval_s=(0.9, 1.2)).inside is inside
    assert entry(1.0, measured_s).inside is None


def test_places_are_of_workload_platform_and_mode():
    first = check_case("exp", case_of(chain(3)))
    assert check_case("other", case_of(chain(3), label="other", scheduler="sequential")).place == first.place
    larger = replace(SETUP, platform=TWO_GPUS)
    for other in (case_of(chain(4)), case_of(chain(3), setup=larger)):
        assert check_case("exp", other).place != first.place
    assert first.place[2] == "eager"


def test_a_case_stays_in_its_group_whatever_is_switched_off():
    first = replace(check_case("exp", case_of(two(), scheduler="round_robin", lanes=2)), group="sm_sharing")
    (again,) = check_again([first], Model(sharing=False))
    assert again.predicted_s < 0.6 * first.predicted_s
    assert (first.interval_s is not None, again.interval_s) == (True, None)
    assert (again.group, again.place, again.case) == ("sm_sharing", first.place, first.case)


def test_runs_are_restricted_to_modes(tmp_path):
    """Code of others has a mode of its own, and is in none of them."""
    cases = [case_of(chain(), label=mode, mode=mode) for mode in ("eager", "graph")]
    save_run(run_of(*cases, record_baseline(SETUP, "plain", (1.0,))), tmp_path)
    found = {modes: [e.case.label for e in check_runs([tmp_path], modes=modes)] for modes in (None, ("graph",), ())}
    assert found == {None: ["eager", "graph"], ("graph",): ["graph"], (): []}
    assert check_runs([tmp_path], modes=("baseline",)) == []
