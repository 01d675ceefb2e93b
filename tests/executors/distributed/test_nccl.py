"""Plans on several GPUs, a process each: messages by NCCL between them, by Gloo to and from another rank's host."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import numpy as np
import pytest

from graphsched.timeline import Timeline
from tests.executors.distributed import jobs
from tests.executors.distributed.ranks import Ended, on_ranks
from tests.executors.distributed.test_results import assert_same
from tests.executors.programs import Plain, digits

TIMEOUT_S = 4.0
WITHIN_S = 25.0  # beyond it, with 4 s in which a rank's signs of life are looked for

pytestmark = [pytest.mark.multigpu, pytest.mark.slow]


@pytest.mark.parametrize("host", [False, True])
def test_random_plans_on_gpus_give_the_results_of_plain_pytorch(host: bool) -> None:
    """Random graphs over two GPUs, without the host's lanes and with them; twice in a row."""
    seeds = list(range(8))
    first, *others = on_ranks(jobs.run_gpu_plans, 2, seeds, host, method="spawn")
    assert not first.error, first.text
    assert not any(other.error for other in others)
    for seed, found in zip(seeds, first.result, strict=True):
        plain = Plain(jobs.gpu_plan(seed, host).work)
        expected = [plain.run(x=digits(step)) for step in range(2)] + [plain.states]
        for mine, theirs in zip(found, expected, strict=True):
            assert_same(mine, theirs)


def test_spans_of_gpus_are_on_one_clock() -> None:
    ended = on_ranks(jobs.time_gpu_plan, 2, 3, method="spawn")
    assert [rank.error for rank in ended] == [""] * 2, [rank.text for rank in ended]
    timeline = Timeline.from_dict(ended[0].result, jobs.gpu_plan(3, False))
    assert np.isfinite(timeline.start_s).all()
    backwards_s = timeline.start_s - timeline.end_s
    first = int(backwards_s.argmax())
    assert backwards_s[first] <= 0, (timeline.plan.names[first], backwards_s[first], timeline.clock_uncertainty_s)
    assert 0 < timeline.clock_uncertainty_s < 1e-2


# -- faults ----------------------------------------------------------------------------------------------


def run_wrong(job: Callable[..., float], wrong: str, timeout_s: float = TIMEOUT_S) -> tuple[Ended, Ended]:
    """How both ranks end where a task of rank 1 goes wrong in the second run, without a hang of rank 0 at its exit."""
    zero, one = on_ranks(job, 2, wrong, timeout_s, stops=1 if wrong == "stop" else None, method="spawn")
    assert (zero.error, zero.exit_code) == ("RankError", 1), zero
    assert seconds(zero) < timeout_s + WITHIN_S
    return zero, one


def test_a_task_that_raises_on_a_gpu_ends_both_ranks() -> None:
    """x ──▶ a (cuda:0) ──▶ b (cuda:1), which raises, ──▶ c (cuda:0), whose stream waits for NCCL."""
    zero, one = run_wrong(jobs.run_gpu_chain, "fail", timeout_s=30.0)
    assert zero.text.startswith("rank 0: rank 1 ended the run: 'b' failed on lane cuda:1/s0")
    assert "ValueError: no such luck" in zero.text
    assert (one.error, one.exit_code) == ("TaskFailedError", 1)
    assert seconds(one) < WITHIN_S


@pytest.mark.parametrize(
    ("wrong", "end"),
    [("die", "gives no sign of life"), ("stop", "gives no sign of life"), ("hang", "did not answer in time")],
)
def test_a_rank_of_a_gpu_that_is_lost_is_named_with_its_task(wrong: str, end: str) -> None:
    """The same chain; rank 1 ends, is stopped or hangs at b."""
    zero, _ = run_wrong(jobs.run_gpu_chain, wrong)
    message = "receive 'b>cuda:0' from rank 1 on lane cuda:1>cuda:0, where rank 1 first needs 'b' on lane cuda:1/s0"
    assert f"{message}: rank 1 {end}" in zero.text


def test_a_kernel_that_does_not_end_is_named_by_both_ranks() -> None:
    """The same chain; b is on cuda:1 for a minute, while both threads wait for their streams. Its process is ended."""
    zero, one = run_wrong(jobs.run_gpu_chain, "spin")
    for rank in (zero, one):
        assert "not over: 'b' or what follows it on lane cuda:1/s0" in rank.text
    assert (one.error, one.exit_code) == ("StuckError", -signal.SIGALRM)


def test_a_rank_that_dies_before_a_sum_over_gpus_is_named() -> None:
    """a (cuda:0) ──▶ sum over both ◀── b (cuda:1), at which rank 1 ends."""
    zero, _ = run_wrong(jobs.run_gpu_sum, "die")
    assert "collective 'sum' with ranks 0, 1 on lane " in zero.text
    assert "rank 1 gives no sign of life" in zero.text


def seconds(rank: Ended) -> float:
    found = re.search(r"\(([\d.]+) s\)$", rank.text)
    assert found, rank
    return float(found[1])
