"""Collectives between ranks: their results, spans and failures."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from graphsched.executors import Program
from graphsched.timeline import Timeline
from graphsched.workload import Collective
from tests.executors.distributed import collective_jobs
from tests.executors.distributed.ranks import on_ranks
from tests.executors.programs import Plain, turned


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4])
def test_ranks_get_what_one_process_gets(count: int) -> None:
    """all_reduce, all_gather, reduce_scatter over all ranks, then all_reduce over two: whole numbers, so the same bits.

    x0 ── in0 ──┐                   ┌── end0
    x1 ── in1 ──┼── each operation  some
    x2 ── in2 ──┘                   └── end1
    """
    with Program(collective_jobs.plan_of_steps(count)) as program:
        expected = program.run()
    first, *others = on_ranks(collective_jobs.run_steps, count, count)
    assert not first.error, first.text
    for found in first.result:
        assert found.keys() == expected.keys()
        for name, array in found.items():
            assert np.array_equal(array, expected[name].numpy()), name
    assert [rank.error for rank in others] == [""] * (count - 1)


@pytest.mark.slow
def test_values_that_turn_out_not_to_be_contiguous() -> None:
    """Each operation on what is declared as contiguous, and is not."""
    first, second = on_ranks(collective_jobs.run_turned, 2)
    assert (first.error, second.error) == ("", ""), first.text + second.text
    for operation, found in zip(get_args(Collective), first.result, strict=True):
        expected = Plain(turned(operation).work).run()
        assert found.keys() == expected.keys()
        assert all(np.array_equal(array, expected[name].numpy()) for name, array in found.items()), operation


@pytest.mark.multigpu
def test_ranks_on_gpus_get_the_same_by_nccl() -> None:
    with Program(collective_jobs.plan_of_steps(2)) as program:
        expected = program.run()
    first, second = on_ranks(collective_jobs.run_steps, 2, 2, "cuda", method="spawn")
    assert (first.error, second.error) == ("", ""), first.text + second.text
    for found in first.result:
        assert found.keys() == expected.keys()
        assert all(np.array_equal(array, expected[name].numpy()) for name, array in found.items())


@pytest.mark.slow
def test_a_collective_has_one_span_on_the_clock_of_rank_0() -> None:
    """It begins when the last rank has come; what follows it on any rank begins no sooner than it ends."""
    ended = on_ranks(collective_jobs.time_steps, 3, 3)
    assert [rank.error for rank in ended] == [""] * 3, [rank.text for rank in ended]
    plan = collective_jobs.plan_of_steps(3)
    timeline = Timeline.from_dict(ended[0].result, plan)
    sums = [i for i, kind in enumerate(plan.kinds) if kind == "collective"]
    assert len(sums) == 4
    assert np.isfinite(timeline.start_s).all()
    assert (timeline.end_s[sums] >= timeline.start_s[sums] - 2 * timeline.clock_uncertainty_s).all()


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_others_within_the_time_out() -> None:
    """y of rank 1 ends its process; rank 0 says whom it waited for, in which collective, on which lane."""
    first, second = on_ranks(collective_jobs.die, 2)
    assert second.exit_code == -9
    assert first.error == "RankError"
    assert "rank 1" in first.text
    assert "'sum'" in first.text
    assert "worker:0/comm" in first.text


@pytest.mark.slow
def test_a_rank_whose_task_raises_ends_the_others_with_its_words() -> None:
    first, second = on_ranks(collective_jobs.fail, 2)
    assert second.error == "TaskFailedError"
    assert first.error == "RankError"
    assert "'y' failed on lane worker:1/s0" in first.text


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_told_of_by_what_it_is_at() -> None:
    """x0, x1 and y of x2, which never ends ──▶ sum of all three: all end within the time-out and some seconds.

    The one that hangs knows what is not over, and the others say it too.
    """
    ended = on_ranks(collective_jobs.miss, 3, "hang")
    assert [rank.error for rank in ended] == ["RankError", "RankError", "StuckError"]
    for rank in ended:
        assert "not over: 'y' on lane worker:2/s0" in rank.text
    for k, rank in enumerate(ended[:2]):
        own = f"collective 'sum' with ranks 0, 1, 2 on lane worker:{k}/comm: one of rank"
        assert any(told in rank.text for told in (own, "rank 2 ended the run", "the end of the run: rank 2 "))


@pytest.mark.slow
def test_a_rank_that_is_stopped_before_a_collective_is_named() -> None:
    """x0, x1 and y of x2, which stops its process ──▶ sum of all three.

    Where lanes have not told in time what they wait for, the end of the run names who does not come.
    """
    for k, rank in enumerate(on_ranks(collective_jobs.miss, 3, "stop", stops=2)[:2]):
        assert rank.error == "RankError"
        told = f"collective 'sum' with ranks 0, 1, 2 on lane worker:{k}/comm: rank 2 gives no sign of life"
        assert told in rank.text or "the end of the run: rank 2 did not answer in time" in rank.text


@pytest.mark.slow
def test_a_task_that_hangs_is_named_where_all_ranks_wait_for_each_other() -> None:
    """Ranks 0 and 1 may have waited for each other first, and rank 2 for one of them: its own task is the cause."""
    ended = on_ranks(collective_jobs.wrong_in_turn, 3, "hang")
    assert [rank.error for rank in ended] == ["RankError", "RankError", "StuckError"]
    for rank in ended:
        assert "; not over: 'y' on lane worker:2/s0" in rank.text


@pytest.mark.slow
def test_a_rank_that_is_stopped_is_named_where_all_ranks_wait_for_each_other() -> None:
    """What it does not say its pulse tells."""
    ended = on_ranks(collective_jobs.wrong_in_turn, 3, "stop", stops=2)
    for rank in ended[:2]:
        assert rank.error == "RankError"
        assert "rank 2 did not answer in time" in rank.text or "rank 2 gives no sign of life" in rank.text
