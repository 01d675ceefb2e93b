"""What a call costs the host: in a row of its own, in company, on streams in turn; on a GPU that is played."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import host_costs as module
from graphsched.calibration.host_costs import HostCosts, company_on, host_costs
from graphsched.calibration.tiny_plans import KINDS
from graphsched.costs import COMPANY_KINDS

CALL_S, COMPANY_S, SWITCHING_S, SET_S, TINY_S = 1e-5, 4e-6, 2e-6, 1e-6, 5e-6


class Host:
    """A thread that takes `pace` times as long; calls take longer after others, and on another stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pace: float) -> None:
        self.time_s, self.pace = 0.0, pace
        self.after_others, self.stream, self.last = False, 0, 0
        self.streams = 0
        for name, thing in (
            ("Yardstick", lambda device: SimpleNamespace(sample_s=self.yardstick, close=lambda: None)),
            ("program_of", lambda build, gpus: contextlib.nullcontext(SimpleNamespace(time_once=self.others))),
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
        return TINY_S * self.pace

    def others(self) -> None:
        self.after_others = True

    def call(self) -> None:
        more = COMPANY_S * self.after_others + SWITCHING_S * (self.stream != self.last)
        self.time_s += self.pace * (CALL_S + more)
        self.after_others, self.last = False, self.stream


def costs_of(host: Host, alone_s: float) -> HostCosts:
    with company_on(0) as company:
        return host_costs([host.call], company, alone_s, returned_bytes=4)


def test_every_cost_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 1.0)
    found = costs_of(host, alone_s=1e-6)
    assert found == HostCosts(*(pytest.approx(s) for s in (CALL_S, TINY_S, COMPANY_S, SWITCHING_S)))


def test_a_slower_thread_has_the_same_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 3.0)
    found = costs_of(host, alone_s=1e-6)
    costs = (found.dispatch_s, found.company_s, found.switching_s)
    assert [cost / found.call_s for cost in costs] == pytest.approx([2.0, 0.8, 0.4])


def test_streams_do_not_matter_where_the_device_is_busy_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 1.0)
    assert costs_of(host, alone_s=1e-3).switching_s == 0.0


def test_the_others_are_of_as_many_kinds_as_costs_say() -> None:
    assert len(set(KINDS)) == COMPANY_KINDS
