"""The code of docs/tracing.md and docs/partition.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def run_code(page: str) -> dict[str, Any]:
    """The names that the Python blocks of a page define."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page, "exec"), names)
    return names


def test_the_code_runs_and_its_steps_are_the_same() -> None:
    names = run_code("tracing.md")
    assert len(names["layers"]) < len(names["step"]) < len(names["work"])
    assert {v.name for v in names["work"].values.values() if v.kind == "input"} == {"image", "label"}


def test_the_code_splits_a_step() -> None:
    names = run_code("partition.md")
    for split in ("by_batch", "by_layers", "inside_layers"):
        assert {device for task in names[split].tasks for device in task.devices} == {"cuda:0", "cuda:1"}
