"""What a call costs the host: in a row of its own, in company, on streams in turn; on a GPU that is played."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import host_costs as module
from graphsched.calibration.host_costs import HostCosts, company_on, host_costs
from graphsched.calibration.tiny_plans import other_functions, other_operators
from graphsched.calibration.tiny_tasks import KINDS
from graphsched.costs import COMPANY_KINDS
from graphsched.workload import Workload, fill

CALL_S, COMPANY_S, SWITCHING_S, SET_S, TINY_S = 1e-5, 4e-6, 2e-6, 1e-6, 5e-6


UNLIKE = 2.5  # times as much company from others that are called in another way
COLD_S = 2e-6  # after a wait
AGE_S = 7e-6  # more, behind a yardstick and others


class Host:
    """A thread that takes `pace` times as long; calls take longer after others, more so behind a yardstick, and on
    another stream.

    Attributes:
        alike: The plan of others that are called as the calls of this host are.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pace: float) -> None:
        self.time_s, self.pace = 0.0, pace
        self.company_s, self.stream, self.last, self.age_s = 0.0, 0, 0, 0.0
        self.alike: Any = other_functions
        self.streams = 0
        for name, thing in (
            ("Yardstick", lambda device: SimpleNamespace(sample_s=self.yardstick, close=lambda: None)),
            ("ColdCalls", lambda device: SimpleNamespace(sample_s=lambda waits_us: (0.0, self.pace * COLD_S))),
            ("program_of", self.program_of),
            ("new_stream", self.new_stream),
        ):
            monkeypatch.setattr(module, name, thing)
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.time_s)
        monkeypatch.setattr(torch.cuda, "stream", self.current)
        monkeypatch.setattr(torch.cuda, "set_stream", self.set_stream)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)

    def new_stream(self, device: int) -> int:
        self.streams += 1
        return self.streams

    @contextlib.contextmanager
    def current(self, stream: int) -> Any:
        before, self.stream = self.stream, stream
        self.last = stream
        yield
        self.stream = before

    def set_stream(self, stream: int) -> None:
        self.time_s += self.pace * SET_S
        self.stream = stream

    def yardstick(self) -> float:
        self.age_s = AGE_S
        return TINY_S * self.pace

    def program_of(self, build: Any, gpus: tuple[int, ...]) -> Any:
        def others() -> None:
            self.company_s = COMPANY_S * (1.0 if build is self.alike else UNLIKE)

        return contextlib.nullcontext(SimpleNamespace(time_once=others))

    def call(self) -> None:
        more = self.company_s + SWITCHING_S * (self.stream != self.last)
        if self.company_s:
            more += self.age_s
        self.time_s += self.pace * (CALL_S + more)
        self.company_s, self.last, self.age_s = 0.0, self.stream, 0.0


def costs_of(host: Host, alone_s: float, function: Callable[..., Any] = torch.relu) -> HostCosts:
    with company_on(0) as company:
        return host_costs([host.call], function, company, alone_s, returned_bytes=4)


def test_every_cost_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 1.0)
    found = costs_of(host, alone_s=1e-6)
    assert found == HostCosts(
        *(pytest.approx(s) for s in (CALL_S, TINY_S, COMPANY_S + AGE_S, COMPANY_S, COLD_S, SWITCHING_S))
    )


def test_a_slower_thread_has_the_same_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 3.0)
    found = costs_of(host, alone_s=1e-6)
    costs = (found.dispatch_s, found.company_s, found.recent_s, found.cold_s, found.switching_s)
    assert [cost / found.call_s for cost in costs] == pytest.approx([2.0, 2.2, 0.8, 0.4, 0.4])


@pytest.mark.parametrize(
    ("function", "alike"),
    [
        (torch.relu, other_functions),
        (torch.nn.functional.relu, other_functions),
        (torch.Tensor.relu_, other_functions),
        (torch.ops.aten.relu.default, other_operators),
        (torch.ops.aten.relu, other_operators),
    ],
)
def test_the_others_are_called_in_the_same_way(monkeypatch: pytest.MonkeyPatch, function: Any, alike: Any) -> None:
    host = Host(monkeypatch, 1.0)
    host.alike = alike
    found = costs_of(host, 1e-6, function)
    assert (found.company_s, found.recent_s) == pytest.approx((COMPANY_S + AGE_S, COMPANY_S))


def test_functions_and_operators_are_the_same_tasks() -> None:
    """Each kind as a function and as an operator gives the same tensor of 8 × 8."""
    results = []
    for build in (other_functions, other_operators):
        work = Workload()
        x = work.input("x", torch.rand(8, 8, generator=torch.Generator().manual_seed(0)), device="cuda:0")
        assert build(work, [x]) == {f"t{i}": "cuda:0/s0" for i in range(len(work.tasks))}
        results.append([first_result(task, work.tensors["x"]) for task in work.tasks])
    assert len(results[0]) == len(results[1])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def first_result(task: Any, x: torch.Tensor) -> torch.Tensor:
    made = task.operation.function(*fill(task.operation.args, [x] * len(task.reads)), **task.operation.kwargs)
    return made[0] if isinstance(made, tuple) else made


def test_streams_do_not_matter_where_the_device_is_busy_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 1.0)
    assert costs_of(host, alone_s=1e-3).switching_s == 0.0


def test_the_others_are_of_as_many_kinds_as_costs_say() -> None:
    assert len(set(KINDS)) == COMPANY_KINDS
