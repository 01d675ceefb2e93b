"""Which case of a group is named as the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsched.cli.app import main
from graphsched.cli.best import best_of_groups, in_words

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


def _figures(
    label: str, predicted: float | None, measured: float | None, spread: float | None = None
) -> dict[str, object]:
    return {"label": label, "predicted_s": predicted, "measured_s": measured, "spread": spread}


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
    expected = {"group": "a", "predicted": "one", "measured": "two", "alike": [], "lost": pytest.approx(0.25)}
    assert found == [expected | {"estimated": False}]


@pytest.mark.parametrize("estimated", [["a product"], []])
def test_a_best_that_rests_on_estimates_says_so(estimated: list[str]) -> None:
    """What is measured on two GPUs beside what is estimated on three: people see which of them it is."""
    three = _figures("three", 1.0, None) | {"estimated": estimated}
    (found,) = best_of_groups([("a", _figures("two", 2.0, None) | {"estimated": []}), ("a", three)])
    assert found["estimated"] is bool(estimated)
    assert in_words(found) == f"best of a: three as predicted{' (by estimates)' if estimated else ''}"


def test_what_failed_is_nowhere_the_best() -> None:
    (found,) = best_of_groups([("a", _figures("failed", 1.0, None)), ("a", _figures("two", 1.1, 1.2))])
    assert (found["predicted"], found["measured"], found["lost"]) == ("failed", "two", None)


@pytest.mark.parametrize(
    ("one_s", "spreads", "alike"),
    [
        (1.009, (None, None), True),  # nearer than 1 %, whatever the spread
        (1.02, (0.001, 0.001), False),
        (1.05, (0.03, 0.001), True),  # within twice the larger spread, of the slower
        (1.05, (0.001, 0.03), True),  # or of the faster
        (1.07, (0.03, 0.03), False),
    ],
)
def test_no_best_is_named_within_noise(one_s: float, spreads: tuple[float | None, float | None], alike: bool) -> None:
    """One is predicted to be faster, and measured to take a little longer than two; three is far behind."""
    cases = [
        _figures("one", 1.0, one_s, spreads[0]),
        _figures("two", 1.1, 1.0, spreads[1]),
        _figures("three", 1.2, 3.0),
        _figures("baseline", None, 1.001, 0.5),
    ]
    (found,) = best_of_groups(("a", case) for case in cases)
    assert found["alike"] == (["one"] if alike else [])
    within = "best of a: one as predicted; two and one are the same within noise as measured"
    beyond = f"best of a: one as predicted, two as measured; {100 * found['lost']:.1f} % lost"
    assert in_words(found) == (within if alike else beyond)


def test_what_is_lost_beyond_noise_is_told_where_others_are_alike() -> None:
    cases = [_figures("slow", 1.0, 2.0), _figures("two", 1.1, 1.0), _figures("three", 1.2, 1.005)]
    (found,) = best_of_groups(("a", case) for case in cases)
    words = "best of a: slow as predicted; two and three are the same within noise as measured; 100.0 % lost"
    assert in_words(found) == words


def test_the_predicted_best_can_be_one_of_several_alike() -> None:
    """Of those beyond three only the number is told."""
    (found,) = best_of_groups(("a", _figures(str(i), 1.0 + i, 1.0 + i / 1000)) for i in range(6))
    assert in_words(found) == "best of a: 0 as predicted; 0, 1, 2 and 3 more are the same within noise as measured"


def test_a_prediction_names_the_best_and_the_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "race.py").write_text(EXPERIMENT, encoding="utf-8")
    assert main(["predict", str(tmp_path / "race.py"), "--platform", "h200-x1"]) == 0
    out = capsys.readouterr().out
    assert "best of a: short as predicted" in out
    assert "best of b" not in out
    assert "peak memory" in out
    assert "1 kB" in out.replace("1.02 kB", "1 kB")
