"""Plans on several ranks give the results of plain PyTorch, to the bit, and a timeline that obeys the plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphsched.timeline import Timeline
from tests.executors.distributed import jobs
from tests.executors.distributed.ranks import on_ranks
from tests.executors.programs import Plain, digits


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4])
def test_random_plans_give_the_results_of_plain_pytorch(count: int) -> None:
    """Random graphs over workers and the host: inputs, states and views, copies, barriers; twice in a row."""
    seeds = list(range(10 * count, 10 * count + 6))
    first, *others = on_ranks(jobs.run_plans, count, count, seeds)
    assert not first.error, first.text
    for seed, found in zip(seeds, first.result, strict=True):
        plain = Plain(jobs.plan_of(seed, count).work)
        expected = [plain.run(x=digits(step)) for step in range(2)] + [plain.states]
        for mine, theirs in zip(found, expected, strict=True):
            assert_same(mine, theirs)
    assert all(result == {} for other in others for runs in other.result for result in runs)


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert np.array_equal(array, expected[name].numpy()), name


@pytest.mark.slow
def test_offsets_and_messages_are_measured() -> None:
    """The clocks of one host are one: each measured offset is zero, give or take what is stated."""
    (offsets, messages), *others = (rank.result for rank in on_ranks(jobs.measure, 3))
    assert others == [([], [])] * 2
    assert [abs(offset.seconds) <= offset.uncertainty_s for offset in offsets] == [True] * 3
    assert offsets[0].uncertainty_s == 0
    assert [len(row) for row in messages] == [5, 5]
    assert all(seconds > 0 for row in messages for seconds in row)


@pytest.mark.slow
def test_what_rank_0_does_between_runs_is_beside_no_work_of_another() -> None:
    """Before the first run and after the second: rank 1 clears once before it, and once for each run."""
    ended = on_ranks(jobs.rest_between_runs, 2)
    assert [rank.error for rank in ended] == ["", ""], [rank.text for rank in ended]
    free, cleared = ended[0].result, ended[1].result
    assert len(free) == 2
    assert free[0] > cleared[0]
    assert free[1] > cleared[3]


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "runs"), [(1, 4 + 1), (2, 20 + 1)])
def test_runs_beside_lanes_of_several_threads_settle_before_one_is_timed(threads: int, runs: int) -> None:
    """Also on a rank that has none."""
    ended = on_ranks(jobs.count_timed_runs, 2, threads)
    assert [(rank.error, rank.result) for rank in ended] == [("", runs)] * 2, [rank.text for rank in ended]


@pytest.mark.slow
def test_all_ranks_get_one_timeline() -> None:
    """Its spans are those of every action, on rank 0's clock; the clocks of one host are one."""
    ended = on_ranks(jobs.time_plan, 3, 5, 3)
    assert [rank.error for rank in ended] == [""] * 3, [rank.text for rank in ended]
    assert ended[0].result == ended[1].result == ended[2].result
    timeline = Timeline.from_dict(ended[0].result, jobs.plan_of(5, 3))
    assert np.isfinite(timeline.start_s).all()
    assert (timeline.end_s >= timeline.start_s).all()
    assert timeline.makespan_s > 0
    assert len(timeline.samples_s) == 3
    assert 0 < timeline.clock_uncertainty_s < 1
