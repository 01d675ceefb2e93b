"""The code and the tables of docs/formats.md are what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphsched.formats.graph_files import FORMATS, written_formats

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "formats.md", "exec"), names)
    assert capsys.readouterr().out == "[('make', 'use', 4000000)]\n"


def test_the_table_lists_all_formats() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]
    listed = {row[0].strip("`"): row for row in rows if len(row) == 5}
    assert list(listed) == ["stg", "wfformat", "dot", "node-link", "json", "chakra", "kineto"]
    assert listed.keys() == FORMATS.keys()
    assert {name for name, row in listed.items() if row[3] != "no"} == set(written_formats())
    assert {name for name, row in listed.items() if row[4] == "seconds"} == {
        n for n, one in FORMATS.items() if one.unit
    }
    for name, row in listed.items():
        assert all(f"`{suffix}`" in row[1] for suffix in FORMATS[name].suffixes)
