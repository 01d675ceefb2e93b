"""Schedulers reckon with the way of the CPU's results into pinned memory, and with how slowly cores hand them out."""

from __future__ import annotations

import pytest

from graphsched.platform import Device, Link, Platform
from graphsched.schedulers import schedule
from graphsched.workload import TensorSpec, Workload
from tests.schedulers.graphs import LIST, lanes_of

QUICK, SLOW = 1e9, 0.5  # bytes a second, into pinned memory
ELSEWISE = "cpop", "etf", "work_stealing"
"""They take the device of a whole path, the first to start, or the first that is idle."""

TEN = TensorSpec((10,), "uint8")


@pytest.mark.parametrize("scheduler", [*(name for name in LIST if name not in ELSEWISE), "search"])
@pytest.mark.parametrize("contention", [True, False])
@pytest.mark.parametrize(
    ("pinning", "written_s", "made", "device"),
    [
        (QUICK, 0.0, True, "cuda:0"),
        (SLOW, 0.0, True, "cpu"),
        (SLOW, 0.0, False, "cuda:0"),
        (QUICK, 20.0, True, "cpu"),
        (QUICK, 20.0, False, "cuda:0"),
    ],
)
def test_a_reader_goes_to_the_gpu_if_it_is_worth_the_way(
    scheduler: str, contention: bool, pinning: float, written_s: float, made: bool, device: str
) -> None:
    """What was there before (not `made`) lies in pinned memory already.

    ::

        a (1, cpu) ─10 bytes, 10 s─▶ b (cpu: 25, cuda: 1)
    """
    work = Workload()
    a = work.input("a", TEN, device="cpu")
    if made:
        a = work.task("make", a, name="make", outputs=[TEN], device="cpu", duration_s=1.0)
    work.task("b", a, name="b", outputs=[], duration_s={"cpu": 25.0, "cuda": 1.0})
    way = Link("cpu", "cuda:0", "pinned", 0.0, 1.0, (), False, (10,), (10.0,), (written_s,))
    links = way, Link("cpu", "cpu", "pinned", 0.0, pinning)
    here = Platform("pair", (Device("cpu", "cpu"), Device("cuda:0", "cuda")), links)
    options = {} if scheduler == "search" else {"contention": contention}
    plan = schedule(work, here, scheduler=scheduler, **options)
    assert lanes_of(plan)["b"].startswith(device)


def test_other_links_than_those_of_pinned_memory_need_no_pinning() -> None:
    """As above, by a link between the two that is no host's.

    ::

        make (1, cpu) ─10 bytes, 10 s─▶ b (cpu: 25, cuda: 1)
    """
    work = Workload()
    made = work.task("make", name="make", outputs=[TEN], device="cpu", duration_s=1.0)
    work.task("b", made, name="b", outputs=[], duration_s={"cpu": 25.0, "cuda": 1.0})
    links = Link("cpu", "cuda:0", "peer", 0.0, 1.0), Link("cpu", "cpu", "pinned", 0.0, SLOW)
    here = Platform("pair", (Device("cpu", "cpu"), Device("cuda:0", "cuda")), links)
    assert lanes_of(schedule(work, here))["b"].startswith("cuda:0")
