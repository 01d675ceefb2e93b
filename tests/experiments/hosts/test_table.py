"""The table of predicted and measured runs: what it runs, what it prints, and what becomes of a run that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.hosts import table
from graphsched.records import CaseRecord, RunRecord
from tests.records.examples import SETUP

CASE = CaseRecord(
    SETUP, "1 server of its own, 3 machines", "one_stream", "distributed",
    predicted_s=1.1, samples_s=(1.2, 0.9, 1.0), measured_s=1.0, spread=0.025,
)  # fmt: skip


class Played:
    """Commands in place of real ones; those with `fails` in them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, fails: str = "nothing") -> None:
        self.called: list[tuple[str, ...]] = []
        self._folder, self._fails = folder, fails
        monkeypatch.setattr(table.subprocess, "run", self)
        monkeypatch.setattr(table, "load_run", lambda path: RunRecord("multi_machine", "", (CASE,)))

    def __call__(self, command: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[:3] == (sys.executable, "-m", "experiments.hosts")
        self.called.append(command[3:])
        code = int(self._fails in command)
        return subprocess.CompletedProcess(command, code, "", "first\nno room" if code else "")


def test_each_network_is_measured_and_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = Played(monkeypatch, tmp_path)
    monkeypatch.setattr(table.os, "getloadavg", lambda: (2.25, 0.0, 0.0))
    assert table.main(["--out", str(tmp_path / "out"), "--only", "10gbit", "--repeats", "5"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "| 10gbit-5ms-2x1 | 1 server of its own | 1.1 s | 1 s | 900 ms | +10.0% | 2.5% | 2.2 |"
    assert [call[0] for call in played.called] == ["measure", "run"] * 3
    network = ("--ranks", "1,1,1,1", "--gbit", "10", "--delay-ms", "0.1")
    folder = str(tmp_path / "out" / "10gbit-0.1ms-2x1")
    assert played.called[0] == ("measure", *network, "--out", f"{folder}/platform.json")
    assert played.called[1][:8] == ("run", *network, "--")
    assert " ".join(played.called[1][8:]) == (
        f"-m graphsched run multi_machine --mode distributed --platform {folder}/platform.json --no-pictures "
        f"-p machines=2 -p mbytes=30 --repeats 5 --out {folder}"
    )


def test_a_network_that_fails_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Played(monkeypatch, tmp_path, fails="0.1")
    assert table.main(["--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "error: 1gbit-0.1ms-3x2: python -m experiments.hosts measure" in said.err
    assert "ended with 1: first: no room" in said.err
    assert len(said.out.splitlines()) == 2 + 4


@pytest.mark.parametrize(
    ("wrong", "words"), [("--only=2gbit", "there are 1gbit-0.1ms-3x2"), ("--out=/proc/x", "/proc/x")]
)
def test_what_cannot_be_done_is_refused(
    wrong: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        table.main(["--out", str(tmp_path), wrong])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_seven_networks_are_in_it() -> None:
    """One host for each rank beyond those of the machines that work; names differ."""
    assert len({str(row) for row in table.ROWS}) == 7
    assert all(len(row.ranks) == 2 * row.machines for row in table.ROWS)
