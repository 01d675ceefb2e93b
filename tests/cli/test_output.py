"""Tables as they are printed."""

from __future__ import annotations

import pytest

from graphsched.cli.output import print_table


def test_brackets_in_headings_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """They are no markup: a way of running a case may have any name."""
    print_table(("case [1]", ">plain [compiled]", ">[/b]"), [("[red]a[/red]", "1", "2")])
    out = capsys.readouterr().out
    assert out.split()[:5] == ["case", "[1]", "plain", "[compiled]", "[/b]"]
    assert "[red]a[/red]" in out
