"""What runs of one action take beyond its parts, on devices that are played."""

from __future__ import annotations

import contextlib
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cuda_single_runs as module
from graphsched.calibration import tiny_plans
from graphsched.calibration.cuda_single_runs import QUEUED, single_figures
from graphsched.calibration.single_plans import one_copy_across, one_copy_in, one_copy_out, one_task
from graphsched.calibration.tiny_plans import program_of
from graphsched.executors import repeats
from graphsched.executors.repeats import SETTLED
from graphsched.platform import Dispatch
from graphsched.platform.dispatch import BLOCKING_BYTES
from graphsched.platform.links import SHORTEST_S
from tests.calibration.streams import Stream

KNOWN = {
    "call_s": 6.0, "copy_s": 7.0, "copy_out_s": 5.0, "peer_copy_s": 9.0, "switch_s": 1.0, "device_switch_s": 1.5,
    "launch_s": 4.0, "sync_s": 2.5, "tiny_s": 1.5,
}  # fmt: skip
HOST_S = {one_task: 7.0, one_copy_in: 8.0, one_copy_out: 6.0, one_copy_across: 11.5}
WORK_S = {one_task: 1.5, one_copy_in: 3.0, one_copy_out: 2.0, one_copy_across: 3.5}
MORE_S = {one_task: 2.0, one_copy_in: 1.0, one_copy_out: 0.5, one_copy_across: 4.0}


class Programs:
    """Runs of a thread that is `pace` times as slow; the first four after the yardstick take longer still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pace: float, more_s: dict[Any, float]) -> None:
        self.pace, self.more_s, self.since = pace, more_s, 0
        self.gpus: dict[Any, tuple[int, ...]] = {}
        yardstick = SimpleNamespace(sample_s=self.sample_s, close=lambda: None)
        works = iter([WORK_S[one_copy_in], WORK_S[one_copy_out], WORK_S[one_copy_across]])
        monkeypatch.setattr(module, "program_of", self.program_of)
        monkeypatch.setattr(module, "Yardstick", lambda device: yardstick)
        monkeypatch.setattr(module, "_copied_s", lambda spinner, way: next(works))
        monkeypatch.setattr(repeats, "SETTLED_S", math.inf)  # runs here take seconds

    def sample_s(self) -> float:
        self.since = 0
        return 6.0 * self.pace

    def program_of(self, build: Any, gpus: tuple[int, ...]) -> Any:
        self.gpus[build] = gpus

        def time_once() -> float:
            self.since += 1
            cold_s = 9.0 / self.since if self.since <= SETTLED else 0.0
            host_s = HOST_S[build] + self.more_s[build] + cold_s
            return KNOWN["launch_s"] + WORK_S[build] + KNOWN["sync_s"] + self.pace * host_s

        return contextlib.nullcontext(SimpleNamespace(time_once=time_once))


@pytest.mark.parametrize("pace", [1.0, 1.5])
def test_what_a_run_takes_beyond_its_parts_is_told_for_each_kind(monkeypatch: pytest.MonkeyPatch, pace: float) -> None:
    """In a thread of any speed, and without the runs that follow a yardstick."""
    programs = Programs(monkeypatch, pace, MORE_S)
    found = single_figures([SimpleNamespace(device=k) for k in (2, 3)], KNOWN)  # type: ignore[list-item]
    assert found == pytest.approx({"first_s": 2.0, "first_in_s": 1.0, "first_out_s": 0.5, "first_peer_s": 4.0})
    assert programs.gpus == {one_task: (2,), one_copy_in: (2,), one_copy_out: (2,), one_copy_across: (2, 3)}
    Dispatch(**found)


def test_what_takes_no_longer_is_known_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure of 0 says of copies that nothing is known; one GPU has no copies to another."""
    Programs(monkeypatch, 1.0, dict.fromkeys(MORE_S, -1.0))
    found = single_figures([SimpleNamespace(device=0)], KNOWN)  # type: ignore[list-item]
    assert found == {"first_s": 0.0, "first_in_s": SHORTEST_S, "first_out_s": SHORTEST_S}


def test_the_plans_have_one_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_plans, "Program", lambda plan, mode: plan)
    lanes = ((one_task, "cuda:0/s0"), (one_copy_in, "cuda:0/h2d"), (one_copy_out, "cuda:0/d2h"))
    for build, lane in (*lanes, (one_copy_across, "cuda:0>cuda:1")):
        plan: Any = program_of(build, (0, 1))
        assert (len(plan), plan.lanes[plan.lane_of[0]].name) == (1, lane)
        assert {copy.read.value.nbytes for copy in plan.copies.values()} <= {BLOCKING_BYTES}
        assert "cuda:1" in lane or {copy.memory for copy in plan.copies.values()} <= {"pinned"}


@pytest.mark.parametrize("way", ["_to_gpu", "_to_host", "_across"])
def test_small_copies_are_queued_on_a_stream_of_the_gpu(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """8 in a row, of 4 KiB each, that let the thread go on; the median of rows of which the first does not count."""
    copied: list[tuple[Any, ...]] = []
    rows = iter([50.0, *[3.0, 2.0, 4.0] * 20])

    def queued_s(spinner: Any, streams: Any, call: Any, batch: int) -> float:
        assert batch == QUEUED
        call()
        return next(rows)

    stream = Stream(1)
    stream.cuda_stream = 77  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "new_stream", lambda device: stream)
    monkeypatch.setattr(module, "queued_s", queued_s)
    monkeypatch.setattr(module, "_page", lambda device: torch.zeros(BLOCKING_BYTES, dtype=torch.uint8))
    monkeypatch.setattr(module, "_pinned", lambda: torch.ones(BLOCKING_BYTES, dtype=torch.uint8))
    monkeypatch.setattr(module, "allow_access", lambda source, target: None)
    monkeypatch.setattr(module, "driver_copy", lambda: lambda *args: copied.append(args))

    def copy(to: Any, source: Any, *, non_blocking: bool) -> None:
        copied.append((to.numel(), int(source[0]), non_blocking))

    monkeypatch.setattr(torch.Tensor, "copy_", copy)
    call = module._across(0, 1) if way == "_across" else getattr(module, way)(0)
    assert module._copied_s(SimpleNamespace(device=0), call) == 3.0  # type: ignore[arg-type]
    if way == "_across":
        assert {(nbytes, there) for _, _, nbytes, there in copied} == {(BLOCKING_BYTES, 77)}
    else:
        assert set(copied) == {(BLOCKING_BYTES, int(way == "_to_gpu"), True)}


@pytest.mark.gpu
def test_a_run_of_one_action_takes_little_beyond_its_parts_here() -> None:
    from graphsched.calibration.cuda_clock import Spinner
    from graphsched.calibration.cuda_dispatch import cuda_dispatch

    found = cuda_dispatch([Spinner(0)])
    assert all(0.0 <= found[name] < 3e-5 for name in ("first_s", "first_in_s", "first_out_s"))
