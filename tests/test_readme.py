"""The README's code runs as it stands there, and its links and commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphsched.cases import load_file

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST, OWN = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_first_workload_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(FIRST, "README.md", "exec"), {})
    assert "makespan" in capsys.readouterr().out
    assert (tmp_path / "overlap.png").read_bytes().startswith(b"\x89PNG")


def test_the_first_workload_has_twenty_lines_at_most() -> None:
    assert len([line for line in FIRST.splitlines() if line.strip()]) <= 20


def test_the_experiment_of_ones_own_loads(tmp_path: Path) -> None:
    (tmp_path / "my_experiment.py").write_text(OWN, encoding="utf-8")
    (found,) = load_file(tmp_path / "my_experiment.py")
    assert found.name == "halves"
    assert found.title == "Two independent products, in one lane and in two."


def test_all_commands_exist() -> None:
    app = pytest.importorskip("graphsched.cli.app", exc_type=ImportError)
    named = {command.name for command in app.app.registered_commands}
    told = set(re.findall(r"^\| `graphsched (\w+)", TEXT, re.MULTILINE))
    assert told <= named


def test_all_experiments_are_listed() -> None:
    files = {file.stem for file in (ROOT / "experiments").glob("*.py") if not file.name.startswith("_")}
    assert files == set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))


def test_links_lead_somewhere() -> None:
    linked = re.findall(r"(?<!!)\[[^]]*\]\(([^)]+)\)", TEXT)
    assert all(link.startswith("https://") or (ROOT / link).is_file() for link in linked)
