"""Which plans leave the thread that dispatches them a core."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.plan import spares_a_core
from tests.builders import planned, platform, workload


@pytest.mark.parametrize(("cores", "spares"), [(4, True), (3, False), (1, False)])
def test_threads_of_all_lanes_of_the_host_count(cores: int, spares: bool) -> None:
    """a ─▶ b on a lane of three threads, g on a GPU, which needs none."""
    work = workload({"a": 1.0, "b": 1.0, "g": 1.0}, [("a", "b", 0)])
    here = platform(cores=cores)
    here = replace(here, devices=(replace(here.device("cpu"), threads=3), *here.devices[1:]))
    assert spares_a_core(planned(work, here, {"a": "cpu/w0", "b": "cpu/w0", "g": "cuda:0/s0"})) is spares


@pytest.mark.parametrize(("usable", "spares"), [(8, True), (4, True), (3, False), (1, False)])
def test_a_process_may_have_fewer_cores_than_the_platform_and_never_has_more(usable: int, spares: bool) -> None:
    """a on a lane of three threads."""
    here = platform(gpus=0, cores=4)
    here = replace(here, devices=(replace(here.device("cpu"), threads=3),))
    plan = planned(workload({"a": 1.0}), here, {"a": "cpu/w0"})
    assert spares_a_core(plan, usable) is spares
    assert not spares_a_core(replace(plan, platform=replace(here, cores=3)), usable)


@pytest.mark.parametrize(("workers", "spares"), [(1, True), (2, False)])
def test_workers_have_a_thread_each(workers: int, spares: bool) -> None:
    names = [f"t{k}" for k in range(workers)]
    here = platform(gpus=0, workers=2, cores=2)
    plan = planned(workload(dict.fromkeys(names, 1.0)), here, {n: f"worker:{k}/w0" for k, n in enumerate(names)})
    assert spares_a_core(plan) is spares


def test_a_plan_for_gpus_alone_does_and_one_of_ranks_does_not() -> None:
    here = platform(cores=1)
    plan = planned(workload({"g": 1.0}), here, {"g": "cuda:0/s0"})
    assert spares_a_core(plan)
    assert not spares_a_core(replace(plan, mode="distributed"))
