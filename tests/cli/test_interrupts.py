"""Ctrl-C stops the work even where the exception gets lost, and JSON stays alone on stdout."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator

import pytest

from graphsched.cli import interrupts
from graphsched.cli.interrupts import check_interrupted, remembered
from tests.cli.conftest import Call

LOUD = '''
import torch
import graphsched as gs

print("at import")


@gs.experiment(source="here")
def loud(platform):
    """Prints while it builds its case."""
    print("while building")
    work = gs.Workload()
    x = work.input("x", torch.rand(8, 8), device=platform.accelerators(1)[0])
    work.task(torch.mm, x, x, name="y")
    yield gs.Case("one", work, scheduler="one_stream")
'''


USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal: a shell's background jobs start with it ignored."""
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_got_lost_is_raised_at_the_next_step() -> None:
    with remembered():
        check_interrupted()
        with contextlib.suppress(KeyboardInterrupt):  # as in a callback of the garbage collector
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check_interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with remembered():
        check_interrupted()


@pytest.mark.usefixtures("interruptible")
def test_interrupts_at_once_are_one_and_one_some_time_later_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with remembered():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(interrupts, "AT_ONCE_S", -1.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("rank", [False, True])
def test_what_ends_a_job_is_an_interrupt_but_for_ranks(monkeypatch: pytest.MonkeyPatch, rank: bool) -> None:
    monkeypatch.delenv("RANK", raising=False)
    if rank:
        monkeypatch.setenv("RANK", "1")
    with remembered():
        assert (signal.getsignal(signal.SIGTERM) is signal.SIG_DFL) is rank
        if not rank:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                check_interrupted()
    assert {number: signal.getsignal(number) for number in USUAL} == USUAL


@pytest.mark.usefixtures("interruptible")
def test_handlers_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with remembered():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_what_an_experiment_prints_stays_out_of_the_json(call: Call, tmp_path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    done = call("predict", str(tmp_path / "loud.py"), "--platform", "h200-x1", "--json")
    assert json.loads(done.out)["experiment"] == "loud"
    assert "at import" in done.err
    assert "while building" in done.err
