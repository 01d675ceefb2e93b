"""The code and the table of docs/schedulers.md are what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphsched.schedulers import schedulers
from graphsched.schedulers.asking.options import options_of
from graphsched.schedulers.registry import find_scheduler

PAGE = (Path(__file__).parents[2] / "docs" / "schedulers.md").read_text(encoding="utf-8")
LIST_OPTIONS = ["lanes", "copies", "contention"]


def test_the_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Block after block, as a reader would."""
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)):
        exec(compile(block, f"schedulers.md, block {number}", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("peft contention=False ['cuda:0/s0', ")
    assert re.fullmatch(r"auto schedulers=one_stream\+heft\+etf \(\w+\) 2\.\d\d ms", printed[1])


def test_the_table_lists_all_schedulers_and_their_options() -> None:
    """In the order of the functions' parameters."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]
    listed = {row[0].strip("`"): row[3] for row in rows if len(row) == 4}
    assert set(listed) == set(schedulers())
    for name, text in listed.items():
        written = re.findall(r"`(\w+)`", text) + (LIST_OPTIONS if "list options" in text else [])
        assert written == list(options_of(find_scheduler(name))), name
