"""A rank that fails, dies, hangs or has another plan ends all others; the message names rank, lane and action."""

from __future__ import annotations

import re

import pytest

from tests.executors.distributed import jobs
from tests.executors.distributed.ranks import Ended, on_ranks

TIMEOUT_S = 3.0
WITHIN_S = 20.0  # of a loaded host; a rank that nobody ends would hang for a minute


def seconds(rank: Ended) -> float:
    found = re.search(r"\(([\d.]+) s\)$", rank.text)
    assert found, rank
    return float(found[1])


@pytest.mark.slow
def test_a_task_that_raises_ends_all_ranks() -> None:
    """a (worker:0) ──▶ b (worker:1), which raises ──▶ c (worker:2) ──▶ d (worker:0)."""
    ended = on_ranks(jobs.run_chain, 3, "fail", 30.0)
    why = r"'b' failed on lane worker:1/s0 with inputs a: float32\[4\]: ValueError: no such luck"
    assert [rank.error for rank in ended] == ["RankError", "TaskFailedError", "RankError"]
    assert re.match(f"rank 0: rank 1 ended the run: {why}", ended[0].text)
    assert re.match(f"rank 1: {why}", ended[1].text)
    assert re.match(f"rank 2: rank 1 ended the run: {why}", ended[2].text)
    assert all(seconds(rank) < WITHIN_S and rank.exit_code == 1 for rank in ended)


@pytest.mark.slow
def test_a_rank_that_waits_for_no_message_hears_of_a_failure() -> None:
    """a (worker:0) is over, and b (worker:1) raises: rank 0 is at the end of the run, and rank 1 does not go."""
    zero, _ = on_ranks(jobs.fail_beside, 2, 40.0, stops=1)
    assert zero.text.startswith("rank 0: rank 1 ended the run: 'b' failed on lane worker:1/s0")
    assert seconds(zero) < WITHIN_S


@pytest.mark.slow
def test_a_rank_that_dies_ends_all_ranks() -> None:
    """The process of worker:1 ends in the middle of b: nobody can say so but those who waited for it."""
    zero, one, two = on_ranks(jobs.run_chain, 3, "die", 30.0)
    assert one.exit_code == 7
    for rank in (zero, two):
        assert rank.error == "RankError"
        assert "receive 'b>worker:2' from rank 1 on lane worker:1>worker:2" in rank.text
        assert "where rank 1 first needs 'b' on lane worker:1/s0: rank 1 is gone" in rank.text
        assert seconds(rank) < WITHIN_S


@pytest.mark.slow
def test_a_task_that_hangs_ends_all_ranks_within_the_timeout() -> None:
    """b sleeps for a minute: its own rank finds it, and the others quote that."""
    ended = on_ranks(jobs.run_chain, 3, "hang", TIMEOUT_S)
    assert [rank.error for rank in ended] == ["RankError", "StuckError", "RankError"]
    for rank in ended:
        assert "; not over: 'b' on lane worker:1/s0" in rank.text
        assert TIMEOUT_S <= seconds(rank) < TIMEOUT_S + WITHIN_S
    assert ended[2].text.startswith("rank 2: receive 'b>worker:2' from rank 1 on lane worker:1>worker:2")


@pytest.mark.slow
def test_a_rank_that_is_stopped_ends_the_others_within_the_timeout() -> None:
    """The process of worker:1 stops, as one on a host that hangs: it says nothing."""
    zero, one, two = on_ranks(jobs.run_chain, 3, "stop", TIMEOUT_S, stops=1)
    assert one.exit_code == -9
    for rank in (zero, two):
        assert rank.error == "RankError"
        assert "'b' on lane worker:1/s0: rank 1 did not answer in time" in rank.text
        assert TIMEOUT_S <= seconds(rank) < TIMEOUT_S + WITHIN_S


@pytest.mark.slow
def test_ranks_with_different_plans_run_nothing() -> None:
    ended = on_ranks(jobs.run_different_plans, 3)
    for rank in ended:
        assert rank.error == "RankError"
        assert re.search(r"the ranks disagree: workload is \w+ on rank 0, 2; \w+ on rank 1, and ", rank.text)
        assert re.search(r"and plan is \w+ on rank 0, 2; \w+ on rank 1: start all ranks with the same", rank.text)


@pytest.mark.slow
def test_ranks_do_not_run_again_after_a_failure() -> None:
    for rank, ended in enumerate(on_ranks(jobs.run_twice, 3)):
        assert ended.result.startswith(f"rank {rank}: the ranks cannot run again after: rank {rank}: "), ended
        assert ended.result.endswith("no such luck: start them anew")


@pytest.mark.slow
def test_fewer_ranks_than_the_plan_needs_are_refused() -> None:
    for ended in on_ranks(jobs.need_more, 2):
        assert ended.error == "ScheduleError"
        assert "needs 3 ranks, one for each of worker:0, worker:1, worker:2" in ended.text
        assert "there are 2: torchrun --nproc-per-node 3" in ended.text


@pytest.mark.slow
def test_ranks_that_do_not_all_come_are_missed() -> None:
    """Two processes of three."""
    for ended in on_ranks(jobs.meet, 2, 3, 2.0):
        assert ended.error == "RankError"
        assert "3 ranks did not meet at 127.0.0.1:" in ended.text
        assert "within 2 s" in ended.text
