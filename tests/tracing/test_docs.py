"""The code of docs/tracing.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import graphsched as gs

TEXT = (Path(__file__).parents[2] / "docs" / "tracing.md").read_text(encoding="utf-8")


def test_the_code_runs_and_its_steps_are_the_same() -> None:
    names: dict[str, gs.Workload] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(block, "tracing.md", "exec"), names)
    assert len(names["layers"]) < len(names["step"]) < len(names["work"])
    assert {v.name for v in names["work"].values.values() if v.kind == "input"} == {"image", "label"}
