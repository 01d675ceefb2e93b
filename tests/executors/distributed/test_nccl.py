"""Plans on several GPUs, a process each: messages by NCCL between them, by Gloo to and from another rank's host."""

from __future__ import annotations

import numpy as np
import pytest

from graphsched.timeline import Timeline
from tests.executors.distributed import jobs
from tests.executors.distributed.ranks import on_ranks
from tests.executors.distributed.test_results import assert_same
from tests.executors.programs import Plain, digits

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
    assert (timeline.end_s >= timeline.start_s).all()
    assert 0 < timeline.clock_uncertainty_s < 1e-2
