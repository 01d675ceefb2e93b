"""Calibration on GPUs: sane figures, verified data. Nothing here is timed against a limit that load could break."""

from __future__ import annotations

import pytest
import torch

from graphsched.calibration import check_platform, measure_platform, profile
from graphsched.platform import Dispatch, Platform
from graphsched.workload import Workload

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def here() -> Platform:
    """This host, measured quickly."""
    return measure_platform(quick=True)


def test_every_gpu_is_linked_with_the_host(here: Platform) -> None:
    for name in here.accelerators():
        for source, target in (("cpu", name), (name, "cpu")):
            for kind in ("pinned", "pageable", "fresh"):
                link = here.link(source, target, kind)
                assert link.memory == kind
                assert link.blocking == (kind != "pinned")
                assert link.bandwidth_bytes_per_s > 1e9 or kind == "fresh"
                assert set(link.crosses) <= set(here.capacities)
        assert here.link(name, name).bandwidth_bytes_per_s > 1e11
        assert here.device(name).flop_per_s > 1e12


def test_dispatch_figures_are_of_the_right_size(here: Platform) -> None:
    dispatch = here.dispatch
    for field in ("record_s", "wait_s", "switch_s", "copy_s", "timed_record_s", "sync_s", "launch_s"):
        assert 0 < getattr(dispatch, field) < 1e-3, field
    assert dispatch.same_device_s < 1e-4
    assert 5e-7 < dispatch.graph_node_s < 5e-5
    assert dispatch.graph_wait_s < 1e-5
    assert 1e-6 < dispatch.graph_launch_s < 1e-3
    for field in ("query_s", "change_s", "start_s"):
        assert 0 <= getattr(dispatch, field) < 1e-4, field
    assert all(0 <= seconds < 1e-4 for _, seconds in dispatch.colds)
    assert len(dispatch.colds) > 1
    assert dispatch.call_s > 0
    assert dispatch.queue_depth > 16


def test_the_platform_survives_its_file_and_a_check(here: Platform) -> None:
    assert Platform.from_dict(here.to_dict()) == here
    entries = [row.entry for row in check_platform(here)]
    assert "cpu>cuda:0 (pinned), 67108864 bytes" in entries
    assert "dispatch call_s" in entries


@pytest.mark.multigpu
def test_calls_that_join_gpus_are_measured(here: Platform) -> None:
    for field in ("peer_copy_s", "device_switch_s", "other_device_s"):
        assert 0 < getattr(here.dispatch, field) < 1e-3, field
        assert getattr(here.dispatch, field) != getattr(Dispatch(), field), field


@pytest.mark.multigpu
def test_every_pair_of_gpus_is_linked(here: Platform) -> None:
    names = here.accelerators()
    for source in names:
        for target in names:
            if source != target:
                link = here.link(source, target)
                assert link.memory in ("peer", "staged")
                assert link.bandwidth_bytes_per_s > 1e9
                if link.memory == "peer":
                    assert link.crosses == (f"{source}/out", f"{target}/in")


def product(size: int) -> Workload:
    """x ──▶ y"""
    work = Workload()
    x = work.input("x", torch.rand(size, size))
    work.task(torch.mm, x, x, name="y", device="cuda")
    return work


def events_s(size: int, calls: int = 50) -> float:
    """Seconds of a product by two events around many."""
    x = torch.rand(size, size, device="cuda:0")
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.mm(x, x)
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        torch.mm(x, x)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / calls


def test_a_products_cost_agrees_with_events(here: Platform) -> None:
    work = product(2048)
    costs = profile(work, here)
    cost = costs[work["y"].signature, here.device("cuda:0").model]
    assert cost.device_s == pytest.approx(events_s(2048), rel=0.2)
    assert 0 < cost.dispatch_s < 1e-3
    assert cost.launches >= 1
    assert cost.samples >= 20
    assert [k for k, _ in cost.concurrency] == [1, 2, 4, 8]
    assert cost.slowdown(8) > 4  # a large product fills the device


def test_small_products_gain_from_company(here: Platform) -> None:
    work = product(256)
    cost = profile(work, here)[work["y"].signature, here.device("cuda:0").model]
    assert cost.concurrency
    assert cost.slowdown(8) < 8


def test_memory_that_the_cache_has_lost_makes_a_sum_longer_in_a_graph(here: Platform) -> None:
    """4 MB, which the cache holds: no shorter from memory, and no more than 100 µs longer in any state."""
    work = Workload()
    work.task(torch.sum, work.input("x", torch.rand(1024, 1024)), 0, name="sum")
    cost = profile(work, here, refresh=True, mode="graph")[work["sum"].signature, here.device("cuda:0").model]
    assert cost.cache is not None
    assert cost.cache.lost_s > 0
    assert cost.cache.lost_s >= cost.cache.written_s > -1e-6
    assert max(cost.cache.lost_s, cost.cache.company_s) < 1e-4


def test_updates_and_random_numbers_stay_as_they_were(here: Platform) -> None:
    """w is updated in place by a task on the GPU."""

    def scale(w: torch.Tensor) -> None:
        w.mul_(0.5)

    work = Workload()
    w = work.state("w", torch.ones(1000))
    work.task(scale, w, updates=w, name="scale", device="cuda")
    work.task(torch.rand_like, w, name="noise", device="cuda")
    torch.cuda.manual_seed(5)
    before = torch.cuda.get_rng_state()
    costs = profile(work, here)
    assert costs[work["scale"].signature, here.device("cuda:0").model].device_s > 0
    assert torch.equal(work.tensors["w"], torch.ones(1000))
    assert torch.equal(torch.cuda.get_rng_state(), before)
