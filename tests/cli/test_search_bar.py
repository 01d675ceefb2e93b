"""The bar of schedulers that search."""

from __future__ import annotations

import io
import sys

import pytest

from graphsched.cli.search_bar import searches_shown
from graphsched.schedulers.asking.progress import Progress, report


class Terminal(io.StringIO):
    """What is written to it can be read; it says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """No fixture: pytest changes stderr between these and the test."""
    monkeypatch.setenv("TERM", "xterm")
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    return found


def test_the_best_so_far_and_the_bound_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with searches_shown(lambda makespan: f"{makespan:g} units"):
        for done in (0.25, 0.5):
            report(Progress("search", done, 312.0, 296.0))
    assert "search: 312 units, bound 296 units" in terminal.getvalue()


def test_other_schedulers_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with searches_shown(str):
        pass
    assert terminal.getvalue() == ""


def test_the_bar_is_gone_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), searches_shown(lambda makespan: str(1 / makespan)):
        report(Progress("search", 0.5, 0.0, 0.0))
    before = terminal.getvalue()
    report(Progress("search", 0.9, 2.0, 1.0))
    assert terminal.getvalue() == before


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with searches_shown(str):
        report(Progress("search", 0.5, 2.0, 1.0))
    assert capsys.readouterr().err == ""
