"""Which case of a group is named as the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsched.cli.app import main
from graphsched.cli.best import best_of_groups

EXPERIMENT = '''
import graphsched as gs
from graphsched.workload import TensorSpec

@gs.experiment(source="by hand")
def race(platform: gs.Platform):
    """One task, short or long."""
    for label, seconds, group in (("long", 2.0, "a"), ("short", 1.0, "a"), ("alone", 0.5, "b"), ("apart", 0.1, "")):
        work = gs.Workload()
        x = work.input("x", TensorSpec((64,)), device="cuda:0")
        work.task(abs, x, name="y", duration_s=seconds, outputs=[TensorSpec((64,))], device="cuda:0")
        yield gs.Case(label, work, group=group)
'''


def _figures(label: str, predicted: float | None, measured: float | None) -> dict[str, object]:
    return {"label": label, "predicted_s": predicted, "measured_s": measured}


def test_each_group_has_a_best() -> None:
    found = best_of_groups(
        [
            ("a", _figures("one", 1.0, 1.5)),
            ("b", _figures("other", 0.1, 0.1)),
            ("a", _figures("two", 1.1, 1.2)),
            ("a", _figures("baseline", None, 0.9)),
            ("", _figures("apart", 0.0, 0.0)),
        ]
    )
    assert found == [{"group": "a", "predicted": "one", "measured": "two", "lost": pytest.approx(0.25)}]


def test_what_failed_is_nowhere_the_best() -> None:
    (found,) = best_of_groups([("a", _figures("failed", 1.0, None)), ("a", _figures("two", 1.1, 1.2))])
    assert (found["predicted"], found["measured"], found["lost"]) == ("failed", "two", None)


def test_a_prediction_names_the_best_and_the_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "race.py").write_text(EXPERIMENT, encoding="utf-8")
    assert main(["predict", str(tmp_path / "race.py"), "--platform", "h200-x1"]) == 0
    out = capsys.readouterr().out
    assert "best of a: short as predicted" in out
    assert "best of b" not in out
    assert "peak memory" in out
    assert "1 kB" in out.replace("1.02 kB", "1 kB")
