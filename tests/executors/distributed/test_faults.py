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
@pytest.mark.parametrize(
    ("wrong", "own", "why"),
    [
        (
            "leave",
            "TaskFailedError: rank 1: {}",
            r"'b' failed on lane worker:1/s0 .*it ends the script \(SystemExit: 3\)",
        ),
        (
            "interrupt",
            "KeyboardInterrupt: ",
            r"it was interrupted \(KeyboardInterrupt\); not over: 'b' on lane worker:1",
        ),
        ("raise interrupt", "KeyboardInterrupt: ", r"it was interrupted \(KeyboardInterrupt\)"),
    ],
)
def test_a_rank_that_is_interrupted_or_left_tells_the_others(wrong: str, own: str, why: str) -> None:
    """a (worker:0) ──▶ b (worker:1) ──▶ c (worker:0); none can run again."""
    zero, one = (rank.result for rank in on_ranks(jobs.interrupted, 2, wrong))
    assert re.match(f"RankError: rank 0: rank 1 ended the run: {why}", zero[0]), zero
    assert re.match(own.format(why), one[0]), one
    assert re.match(
        f"RankError: rank 0: the ranks cannot run again after: rank 0: rank 1 ended the run: {why}", zero[1]
    )
    assert re.match(f"RankError: rank 1: the ranks cannot run again after: rank 1: {why}", one[1])


@pytest.mark.slow
def test_a_rank_that_waits_for_no_message_hears_of_a_failure() -> None:
    """a (worker:0) is over, and b (worker:1) raises: rank 0 is at the end of the run, and rank 1 does not go."""
    zero, _ = on_ranks(jobs.wrong_beside, 2, "fail", 40.0, stops=1)
    assert zero.text.startswith("rank 0: rank 1 ended the run: 'b' failed on lane worker:1/s0")
    assert seconds(zero) < WITHIN_S


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "end"), [("die", "is gone"), ("stop", "did not answer in time")])
def test_a_rank_that_is_lost_while_others_are_at_the_end_of_a_run_is_named_with_its_last_task(
    wrong: str, end: str
) -> None:
    """a (worker:0) is over, and b (worker:1) never is: no message is missed but that of the end."""
    zero, _ = on_ranks(jobs.wrong_beside, 2, wrong, TIMEOUT_S, stops=1 if wrong == "stop" else None)
    assert zero.text.startswith(
        f"rank 0: the end of the run, where rank 1 last runs 'b' on lane worker:1/s0: rank 1 {end}"
    )
    assert seconds(zero) < TIMEOUT_S + WITHIN_S


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
def test_the_last_of_four_ranks_hears_which_one_died() -> None:
    """a ──▶ b (worker:1), which dies, ──▶ c ──▶ d ──▶ e (worker:0): rank 3 waits for rank 2, which waits for rank 1."""
    ended = on_ranks(jobs.run_long_chain, 4, "die", 30.0)
    assert ended[1].exit_code == 7
    for rank in (ended[0], *ended[2:]):
        assert rank.error == "RankError"
        assert "'b>worker:2' from rank 1 on lane worker:1>worker:2, where rank 1 first needs 'b' on" in rank.text
        assert "rank 1 is gone" in rank.text
        assert seconds(rank) < WITHIN_S


@pytest.mark.slow
def test_rank_0_that_dies_ends_all_ranks() -> None:
    """The process of worker:0 ends in the middle of a."""
    zero, one, two = on_ranks(jobs.run_chain, 3, "die", 30.0, "a")
    assert zero.exit_code == 7
    for rank in (one, two):
        assert "receive 'a>worker:1' from rank 0 on lane worker:0>worker:1, where rank 0 first needs 'a'" in rank.text
        assert "rank 0 is gone" in rank.text
        assert seconds(rank) < WITHIN_S


@pytest.mark.slow
def test_a_stopped_rank_0_that_keeps_the_store_ends_the_others_within_the_timeout() -> None:
    """torch waits without end for the answers of such a store."""
    zero, one, two = on_ranks(jobs.run_chain, 3, "stop", TIMEOUT_S, "a", stops=0, rank_0_keeps_store=True)
    assert zero.exit_code == -9
    assert "'a' on lane worker:0/s0: rank 0 did not answer in time" in one.text
    assert "'b' on lane worker:1/s0: rank 1 did not answer in time" in two.text
    assert all(TIMEOUT_S <= seconds(rank) < TIMEOUT_S + WITHIN_S for rank in (one, two))


@pytest.mark.slow
@pytest.mark.parametrize(("who", "wrong", "end"), [(1, "die", "is gone"), (1, "stop", "did not answer in time")])
def test_a_rank_that_goes_before_the_first_run_is_named(who: int, wrong: str, end: str) -> None:
    """No lane is at work yet."""
    ended = on_ranks(jobs.wrong_before_a_run, 3, who, wrong, TIMEOUT_S, stops=who if wrong == "stop" else None)
    for rank in (k for k in range(3) if k != who):
        assert f"the comparison of plans: rank {who} {end}" in ended[rank].text
        assert seconds(ended[rank]) < TIMEOUT_S + WITHIN_S


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "end"),
    [
        ("die", r".*rank 1 has ended meanwhile, hangs or tries yet: look at what it prints"),
        ("stop", r".*rank 1 has ended meanwhile, hangs or tries yet: look at what it prints"),
        ("refuse", r"rank 1 says: no route to host; (is there a network between their hosts\?|rank .* tries yet)"),
        ("refuse silently", r"rank 1 says: RuntimeError; "),
    ],
)
def test_a_rank_that_cannot_connect_is_named(wrong: str, end: str) -> None:
    """Before messages can pass; the others may have connected with it."""
    ended = on_ranks(jobs.wrong_while_connecting, 3, 1, wrong, TIMEOUT_S, stops=1 if wrong == "stop" else None)
    for rank in (k for k in range(3) if k != 1 or wrong.startswith("refuse")):
        assert ended[rank].error == "RankError"
        assert re.search(rf"rank {rank}: 3 ranks met at .* and could not connect within .* s: {end}", ended[rank].text)


@pytest.mark.slow
def test_a_stopped_rank_is_found_where_others_are_patient() -> None:
    """Rank 0 may measure for an hour; a process that was stopped gives no sign of life."""
    zero, *others = on_ranks(jobs.stop_while_others_are_patient, 3, stops=0)
    assert zero.exit_code == -9
    for rank in others:
        assert "rank 0 gives no sign of life: its process was stopped, or its host hangs" in rank.text
        assert seconds(rank) < WITHIN_S


@pytest.mark.slow
def test_an_end_by_sigterm_is_an_error_with_words() -> None:
    """SIGTERM comes to rank 0 alone, and rank 1 is alive; Python would end without a word."""
    zero, _ = on_ranks(jobs.told_to_end, 2, stops=1)
    assert zero.result == "rank 0: it was told to end by SIGTERM, and no other rank is known to have ended"


@pytest.mark.slow
def test_a_rank_that_is_killed_while_another_one_measures_is_named() -> None:
    """No run is under way: rank 0 waits for nobody, and rank 2 for rank 0."""
    zero, one, two = on_ranks(jobs.told_to_end_at_work, 3)
    assert one.exit_code == -9
    assert zero.result is not None, zero
    why = "torchrun ends all ranks, for rank 1 is gone"
    words = f"rank 0: {why}, while rank 0 did work of its own and no run was under way"
    assert zero.result == (words, ["wrote results"])
    assert two.result is not None, two
    assert why in two.result[0]


# -- what was asked for --------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_input_that_is_wrong_on_one_rank_ends_all() -> None:
    """x lies on rank 0: as it is given there, or on the others."""
    wrong = "input 'x' must be float32[4], got float32[5]"
    zero, one, two = (rank.result for rank in on_ranks(jobs.wrong_input, 3, [0]))
    assert zero == f"WorkloadError: rank 0: {wrong}"
    assert one == f"RankError: rank 1: rank 0 ended the run: {wrong}"
    assert two == f"RankError: rank 2: rank 0 ended the run: {wrong}"
    everyone = [rank.result for rank in on_ranks(jobs.wrong_input, 3, [0, 1, 2])]
    assert everyone == [f"WorkloadError: rank {k}: {wrong}" for k in range(3)]


@pytest.mark.slow
def test_a_result_of_another_shape_is_not_sent() -> None:
    """a ──▶ b, which declares float32[4] and returns float32[1], ──▶ c."""
    for ended in on_ranks(jobs.wrong_output, 3):
        assert "task 'b' declares b: float32[4] and returned float32[1]" in ended.text


@pytest.mark.slow
def test_a_later_result_of_another_shape_is_not_sent() -> None:
    """a ──▶ b, which returns float32[1] in the second run, ──▶ c."""
    for ended in on_ranks(jobs.later_output, 3):
        assert "output 'b' of task 'b' is declared as float32[4] and has become float32[1]" in ended.text


@pytest.mark.slow
def test_ranks_with_different_software_do_not_meet() -> None:
    """Whatever they would exchange may mean something else on the other side."""
    for ended in on_ranks(jobs.other_version, 3):
        assert ended.error == "RankError"
        assert "the ranks disagree: graphsched is 0.0 on rank 0, 2; 0.1 on rank 1: start all ranks with the same" in (
            ended.text
        )


@pytest.mark.slow
def test_a_rank_that_the_plan_does_not_need_has_nothing_to_do() -> None:
    """Four ranks, and a plan for three."""
    first, *others = (rank.result for rank in on_ranks(jobs.more_ranks, 4))
    assert first == {"d": [1.0] * 4}
    assert others == [{}] * 3


@pytest.mark.slow
def test_what_cannot_be_built_is_refused_on_every_rank() -> None:
    """Sums of different shapes and types; a key that nobody has pushed, and one that a worker pushes twice."""
    words = (
        "values of one shape are needed",
        "values of one element type are needed",
        "no key 'w': nobody has pushed or initialised anything",
        "has pushed key 'w' in this round already",
    )
    for ended in on_ranks(jobs.wrong_workloads, 2):
        assert [word in text for word, text in zip(words, ended.result, strict=True)] == [True] * 4, ended


@pytest.mark.slow
def test_ranks_with_different_plans_run_nothing() -> None:
    ended = on_ranks(jobs.run_different_plans, 3)
    for rank in ended:
        assert rank.error == "RankError"
        assert re.search(r"the ranks disagree: workload is \w+ on rank 0, 2; \w+ on rank 1, and ", rank.text)
        assert re.search(r"and plan is \w+ on rank 0, 2; \w+ on rank 1: start all ranks with the same", rank.text)
        assert re.search(r"; the first that differs is '.+', in its ", rank.text)


@pytest.mark.slow
def test_ranks_do_not_run_again_after_a_failure() -> None:
    for rank, ended in enumerate(on_ranks(jobs.run_twice, 3)):
        assert len(set(ended.result)) == 1, ended
        assert ended.result[0].startswith(f"rank {rank}: the ranks cannot run again after: rank {rank}: ")
        assert ended.result[0].endswith("no such luck: start them anew")


@pytest.mark.slow
def test_a_second_thread_is_refused_and_the_first_goes_on() -> None:
    for rank, ended in enumerate(on_ranks(jobs.use_from_two_threads, 3)):
        refused, total = ended.result
        assert len(refused) == 8
        assert all(text.startswith("another thread is using this program: give each") for text in refused), ended
        assert total == (4.0 if rank == 0 else 0.0)


@pytest.mark.slow
def test_a_closed_program_does_not_run_and_hinders_no_other() -> None:
    for ended in on_ranks(jobs.use_closed, 3):
        assert ended.result == ["this program is closed: make a new one"] * 4, ended


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
        assert re.search(r"rank 2 did not come to 127.0.0.1:\d+ within 2 s: start as many processes as", ended.text)
