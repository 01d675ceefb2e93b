"""Messages between GPUs of ranks: found again from runs that are simulated with known costs, and measured on GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.calibration import rank_messages
from graphsched.calibration.rank_messages import (
    SEVERAL,
    RankMessages,
    measure_rank_messages,
    solved,
    tiny_plan,
    with_rank_messages,
)
from graphsched.executors.distributed import join
from graphsched.executors.distributed.message_links import with_messages
from graphsched.plan import Placement, build_plan
from graphsched.platform import Platform
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Workload
from tests.executors.distributed.ranks import on_ranks

ENDS = "cuda:0", "cuda:1"
FOUND = RankMessages(4e-5, 1e-4, 7e-5, ((8e-6, 9e-6, 1.2e-5, 2e-5, 6e-5, 2.1e-4, 8.1e-4),))


def plans_on(platform: Platform) -> dict[tuple[int, bool], rank_messages.Plan]:
    return {(n, moved): tiny_plan(platform, ENDS, n, moved=moved) for n in (1, SEVERAL) for moved in (False, True)}


def test_costs_are_found_again() -> None:
    """Runs of 1 and 6 tiny tasks a GPU, with a message each and without, which take what a platform with them says."""
    platform = Platform.load("h200-x2")
    real = with_rank_messages(platform, FOUND)
    plans = plans_on(platform)
    took = {key: rank_messages._predicted(predict(replace(plan, platform=real))) for key, plan in plans.items()}
    found = solved(platform, plans, took, FOUND.seconds, 1.0)
    assert found.message_s == pytest.approx(FOUND.message_s, rel=0.01)
    assert found.first_message_s == pytest.approx(FOUND.first_message_s, rel=0.01)
    assert found.meeting_s == pytest.approx(FOUND.meeting_s, rel=0.01)
    assert found.seconds == FOUND.seconds
    assert solved(platform, plans, took, FOUND.seconds, 1.5).meeting_s == pytest.approx(1.5 * found.meeting_s)


def test_a_platform_takes_them_over() -> None:
    """cuda:0 and cuda:1 are of two ranks; the host is rank 0's, and reaches cuda:1 by a message and a copy."""
    process = Platform.load("h200-x2")
    messages = with_messages(process, [(1e-4, 1e-4, 1e-4, 1e-3, 1e-2)])
    platform = with_rank_messages(messages, FOUND)
    link = platform.link("cuda:0", "cuda:1")
    assert [link.duration_s(size) for size in rank_messages.SIZES_BYTES] == pytest.approx(FOUND.seconds[0])
    assert link.duration_s(1 << 29) == pytest.approx(8.1e-4 + (8.1e-4 - 2.1e-4) / (3 << 26) * (1 << 28))
    assert link.crosses == process.link("cuda:0", "cuda:1").crosses
    aside = process.link("cuda:1", "cpu", "pinned").duration_s(1 << 24)
    assert platform.link("cuda:1", "cpu").duration_s(1 << 24) == pytest.approx(1e-2 + aside)
    assert platform.link("cuda:1", "cpu").blocking
    assert platform.link("cuda:0", "cpu") == process.link("cuda:0", "cpu")
    assert platform.dispatch.message_s == FOUND.message_s
    assert platform.dispatch.first_message_s == FOUND.first_message_s
    assert platform.dispatch.meeting_s == FOUND.meeting_s
    assert with_rank_messages(messages, None) is messages


def test_messages_into_one_gpu_share_its_port() -> None:
    """cuda:1, cuda:2 and cuda:3 send 160 MB to cuda:0 at once, where one message takes 0.51 ms."""
    process = Platform.load("h200-x4")
    measured = replace(FOUND, seconds=FOUND.seconds * 3)
    platform = with_rank_messages(process, measured)
    work, spec = Workload(), TensorSpec((40_000_000,))
    for k in range(1, 4):
        sent = work.task(abs, name=f"a{k}", device=f"cuda:{k}", outputs=[spec], durations={"cuda": 0.0})
        work.task(abs, sent, name=f"b{k}", device="cuda:0", outputs=[TensorSpec((1,))], durations={"cuda": 0.0})
    lanes = {f"a{k}": f"cuda:{k}/s0" for k in range(1, 4)} | {f"b{k}": f"cuda:0/s{k}" for k in range(1, 4)}
    plan = build_plan(work, platform, None, Placement([t.name for t in work.tasks], lanes), scheduler="by hand")
    assert platform.link("cuda:1", "cuda:0").duration_s(160_000_000) < 6e-4
    assert predict(plan, mode="distributed").makespan_s > 1.1e-3


def test_links_of_several_hosts_stay() -> None:
    one = Platform.load("h200-x2")
    devices = tuple(replace(device, host="far" if device.name == "cuda:1" else "near") for device in one.devices)
    platform = replace(one, devices=devices)
    found = with_rank_messages(platform, FOUND)
    assert found.links == platform.links
    assert found.dispatch.message_s == FOUND.message_s


def test_gpus_without_a_link_are_not_measured() -> None:
    assert [rank.result for rank in on_ranks(measure_here, 2, "apart")] == [None, None]


def test_ranks_without_gpus_measure_none() -> None:
    assert [rank.result for rank in on_ranks(measure_here, 2, "workers")] == [None, None]


def measure_here(rank: int, which: str) -> RankMessages | None:
    whole = Platform.load("h200-x2")
    devices = whole.devices[:1] if which == "workers" else whole.devices
    return measure_rank_messages(join(20.0), whole if which == "gpus" else Platform("here", devices))


@pytest.mark.multigpu
@pytest.mark.slow
def test_messages_of_two_gpus() -> None:
    """A message takes a thread longer than a copy in one process, and a stream the longer, the more bytes it has."""
    zero, one = on_ranks(measure_here, 2, "gpus", method="spawn")
    assert one.result is None
    assert not zero.error, zero.text
    assert 1e-5 < zero.result.message_s < 5e-4
    assert zero.result.first_message_s < 2e-3
    assert zero.result.meeting_s < 5e-3
    (seconds,) = zero.result.seconds
    assert all(s > 1e-6 for s in seconds)
    assert seconds[-1] > 3 * seconds[2]
