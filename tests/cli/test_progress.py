"""Parts done of all: lines where there is no terminal, a bar where there is one."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from graphsched.cli.progress import counting, progress


def test_lines_count_the_parts_and_remarks_stand_between(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("measuring", ["links", "calls"]) as report:
        report("links")
        report("a remark")
        report("calls")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == ["[1/2] links", "a remark", "[2/2] calls"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress("measuring", ["links", "calls"]) as report:
        report("links")
        report("a [remark]")
        report("calls")
    shown = sys.stderr.getvalue()
    assert "measuring" in shown
    assert "a [remark]\n" in shown
    assert "2/2" in shown
    assert "measuring: calls" in shown


def test_an_interrupt_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())

    def interrupted() -> None:
        with progress("measuring", ["links"]) as report:
            report("links")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "1/1" not in sys.stderr.getvalue()


def test_how_many_there_are_is_known_with_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    with counting("operations") as report:
        report("mm", 1, 2)
        report("relu", 2, 2)
    assert capsys.readouterr().err == "operations: 2\n"
    with counting("operations"):
        pass
    assert capsys.readouterr().err == ""


def test_a_bar_of_parts_that_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are no markup: x[0] stays what it is."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with counting("operations") as report:
        report("x[0]", 3, 7)
    shown = sys.stderr.getvalue()
    assert "operations: x[0]" in shown
    assert "2/7" in shown


def test_no_thread_draws_beside_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    before = threading.active_count()
    with counting("operations") as report:
        report("mm", 1, 2)
        assert threading.active_count() == before
    with progress("measuring", ["links"]) as begin:
        begin("links")
        assert threading.active_count() == before
