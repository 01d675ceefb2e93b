"""Plans for more GPUs than are visible: refused as a whole, with what is missing, before anything is taken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import graphsched as gs
from graphsched.errors import ExecutionError
from graphsched.executors import lanes
from graphsched.executors.peaks import measured_peaks
from graphsched.plan import Plan
from graphsched.workload import Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import by_hand, machine

FOUR = [f"cuda:{k}" for k in range(4)]
REAL = lanes.device_index

Visible = Callable[[int], FakeCuda]


@pytest.fixture
def visible(cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> Visible:
    """Makes that many fake GPUs, which torch counts."""

    def make(devices: int) -> FakeCuda:
        fake = cuda(devices)
        monkeypatch.setattr(lanes, "device_index", REAL)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1 << 30, 1 << 30))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 0)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 0)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(devices))))
        return fake

    return make


def chain(gpus: list[str], mode: str = "eager", platform: gs.Platform | None = None) -> Plan:
    """x ─ y0 on cuda:0 ─ y1 on the next ─ … ─ last on a worker, with the copies between them."""
    work = Workload()
    value = work.input("x", torch.ones(2))
    for k, gpu in enumerate(gpus):
        value = work.task(torch.neg, value, name=f"y{k}", device=gpu)
    if platform is None:
        work.task(torch.neg, value, name="last", device="worker:0")
    where = machine(*FOUR, "worker:0") if platform is None else platform
    return gs.schedule(work, where, scheduler="one_stream", mode=mode)


def assert_nothing_begun(fake: FakeCuda, call: Callable[[], object], message: str) -> None:
    before, numbers = threading.enumerate(), torch.get_rng_state()
    with pytest.raises(ExecutionError, match=message):
        call()
    assert not any((fake.lanes, fake.log, fake.live, fake.homes))
    assert threading.enumerate() == before
    assert torch.equal(torch.get_rng_state(), numbers)
    assert fake.device == 0


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (3, r"the plan runs on cuda:3, this host has 3 CUDA devices \(cuda:0, cuda:1, cuda:2\) and not this one, "),
        (2, r"the plan runs on cuda:2, cuda:3, this host has 2 CUDA devices \(cuda:0, cuda:1\) and not these, "),
        (0, r"the plan runs on cuda:0, cuda:1, cuda:2, cuda:3, this host has 0 CUDA devices \(none\) and not these, "),
    ],
)
def test_all_that_are_missing_are_named(
    visible: Visible, tmp_path: Path, devices: int, message: str, mode: str
) -> None:
    """Made as a program, executed, and executed from its file."""
    fake, plan = visible(devices), chain(FOUR, mode)
    shown = ",".join(map(str, range(devices)))
    message += f"CUDA_VISIBLE_DEVICES is '{shown}': run where all are visible, or schedule for gs.local_platform"
    assert_nothing_begun(fake, lambda: gs.Program(plan), message)
    assert_nothing_begun(fake, lambda: gs.execute(plan), message)
    gs.save_plan(plan, tmp_path / "four.plan")
    assert_nothing_begun(fake, lambda: gs.execute(gs.load_plan(tmp_path / "four.plan")), message)


def test_visible_devices_that_are_not_set(visible: Visible, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = visible(1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert_nothing_begun(fake, lambda: gs.Program(chain(FOUR[:2])), "cuda:1, .* CUDA_VISIBLE_DEVICES is not set")


def test_a_device_that_only_holds_memory_is_missing_too(visible: Visible) -> None:
    """x at home on cuda:3 ─ y on cuda:0; and y on cuda:0 ─ copy to cuda:2, where nothing runs."""
    fake, work, other = visible(2), Workload(), Workload()
    work.task(torch.neg, work.input("x", torch.ones(1), device="cuda:3"), name="y", device="cuda:0")
    plan = gs.schedule(work, machine(*FOUR), scheduler="one_stream")
    assert_nothing_begun(fake, lambda: gs.Program(plan), "the plan runs on cuda:3, ")
    y = other.task(torch.neg, other.input("x", torch.ones(1), device="cuda:0"), name="y", device="cuda:0")
    other.copy(y, to="cuda:2", name="there")
    assert_nothing_begun(fake, lambda: gs.Program(by_hand(other, machine(*FOUR), "cuda:0/s0")), "runs on cuda:2, ")


def test_a_platform_file_for_more_gpus(visible: Visible) -> None:
    fake = visible(2)
    plan = chain(FOUR, platform=gs.Platform.load("h200-x4"))
    assert_nothing_begun(fake, lambda: gs.execute(plan), "the plan runs on cuda:2, cuda:3, .* CUDA_VISIBLE_DEVICES")


def test_peaks_need_the_devices_too(visible: Visible) -> None:
    fake = visible(2)
    assert_nothing_begun(fake, lambda: measured_peaks(chain(FOUR)), "the plan runs on cuda:2")


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_plan_that_uses_only_what_is_visible_runs(visible: Visible, mode: str) -> None:
    """Two GPUs of a platform of four."""
    visible(2)
    with gs.Program(chain(FOUR[:2], mode)) as program:
        assert torch.equal(program.run()["last"], -torch.ones(2))
