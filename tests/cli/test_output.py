"""Tables as they are printed."""

from __future__ import annotations

import io
import json

import pytest

from graphsched.cli.output import figure, print_json, print_table, seconds


def test_brackets_in_headings_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """They are no markup: a way of running a case may have any name."""
    print_table(("case [1]", ">plain [compiled]", ">[/b]"), [("[red]a[/red]", "1", "2")])
    out = capsys.readouterr().out
    assert out.split()[:5] == ["case", "[1]", "plain", "[compiled]", "[/b]"]
    assert "[red]a[/red]" in out


@pytest.mark.parametrize("value", [1e308, -1e308, 999999.4, 1e6, 5e-324, -1.2345e-12, 1e-9, 0.0])
def test_no_time_takes_more_room_than_others(value: float) -> None:
    """As durations of graph files may be anything."""
    assert len(seconds(value)) <= 15
    assert len(figure("latency_s", value)) <= 15


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_keeps_every_character_whatever_the_locale(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a locale without µ or é these are escaped: no question mark takes their place, and any reader takes it."""
    content = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(content, encoding, errors="replace", write_through=True))
    print_json({"label": "é, 5 µs, 部"})
    assert json.loads(content.getvalue().decode()) == {"label": "é, 5 µs, 部"}
