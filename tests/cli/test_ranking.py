"""Schedulers held against each other: which groups rank them, who is best, and whether the order is as predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphsched.cli.app import main
from graphsched.cli.ranking import Ranking, draw_rankings, print_rankings, rankings

EXPERIMENT = '''
import graphsched as gs
from graphsched.workload import TensorSpec

@gs.experiment(source="by hand")
def race(platform: gs.Platform, scheduler: str = "optimal"):
    """Two tasks, one after the other or side by side."""
    work = gs.Workload()
    for name in "ab":
        x = work.input(f"x{name}", TensorSpec((64,)), device="cuda:0")
        work.task(abs, x, name=name, duration_s=1.0, outputs=[TensorSpec((64,))], device=("cuda:0", "cuda:1"))
    for name in ("one_stream", "heft", scheduler):
        yield gs.Case(f"two tasks, {name}", work, scheduler=name, group="two tasks", optional=True)
'''


def case(scheduler: str | None, predicted: float | None, measured: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "scheduler": scheduler,
        "mode": "eager",
        "predicted_s": predicted,
        "measured_s": measured,
        "spread": 0.0,
        "lower_bound_s": None,
    } | more


def ranking(*given: dict[str, Any]) -> Ranking:
    (found,) = rankings(("group", figures) for figures in given)
    return found


def test_a_group_of_several_schedulers_is_ranked_in_each_mode() -> None:
    a, b = case("heft", 1.0), case("etf", 2.0)
    found = rankings(
        [
            *(("one", figures) for figures in (a, b, a | {"mode": "graph"}, b | {"mode": "graph"})),
            *(("alike", figures) for figures in (a, a)),
            *(("", figures) for figures in (a, b)),
            *(("others", figures) for figures in (a, case(None, None, 1.0, mode="baseline"))),
        ]
    )
    assert [(each.group, each.mode) for each in found] == [("one", "eager"), ("one", "graph")]


def test_times_over_the_best_are_in_order() -> None:
    found = ranking(case("one_stream", 4.0, 3.0), case("heft", 2.0, 2.0), case("etf", None, None))
    assert list(found.over_best("predicted").items()) == [("heft", 1.0), ("one_stream", 2.0)]
    assert found.over_best("measured") == {"heft": 1.0, "one_stream": 1.5}


def test_what_is_lost_is_of_the_one_predicted_to_be_best() -> None:
    assert ranking(case("a", 1.0, 3.0), case("b", 1.1, 2.0)).lost == 0.5
    assert ranking(case("a", 1.0), case("b", 1.1, 2.0)).lost == 0.0  # a was not measured
    assert ranking(case("a", 1.0), case("b", 1.1)).lost is None


def test_a_fastest_that_takes_no_time_has_no_times_over_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty workload where dispatch is free: it is neither in the tables nor on the picture, and others are."""
    nothing = [("nothing", case("heft", 0.0, 0.0)), ("nothing", case("etf", 1.0, 0.0))]
    some = [("some", case("heft", 1.0)), ("some", case("etf", 2.0))]
    found = rankings([*nothing, *some])
    assert (found[0].figures()["predicted_over_best"], found[0].lost) == (None, None)
    print_rankings(found[:1])
    assert capsys.readouterr().out == ""
    assert draw_rankings(found[:1], tmp_path, "exp", "exp") == ()
    print_rankings(found)
    printed = capsys.readouterr().out
    assert "schedulers over 1 groups, predicted" in printed
    assert "nothing" not in printed
    assert [path.name for path in draw_rankings(found, tmp_path, "exp", "exp")] == ["exp-eager-ranking.png"]


def test_pairs_nearer_than_noise_do_not_count() -> None:
    """b and c differ by 0.5 %; d scatters."""
    found = ranking(
        case("a", 1.0, 1.0),
        case("b", 3.0, 2.0),
        case("c", 2.0, 2.01),
        case("d", 0.9, 2.02, spread=0.3),
    )
    assert found.pairs == [True, True, False]
    assert found.figures()["in_order"] == 2
    assert found.figures()["pairs"] == 3


def test_the_bound_is_the_largest_that_is_known() -> None:
    assert ranking(case("a", 1.0, lower_bound_s=0.5), case("b", 1.0, lower_bound_s=0.7)).lower_bound_s == 0.7
    assert ranking(case("a", 1.0), case("b", 1.0)).lower_bound_s is None


def test_tables_tell_yardsticks_ties_and_the_order(capsys: pytest.CaptureFixture[str]) -> None:
    print_rankings(
        [
            ranking(
                case("one_stream", 4.0, 3.0),
                case("heft", 2.0, 2.0),
                case("auto", 2.0, 2.0),
                case("round_robin", 3.0, 2.5),
            )
        ]
    )
    out = capsys.readouterr().out
    predicted, measured = (out.index(f"fastest schedulers, {way}") for way in ("predicted", "measured"))
    assert predicted < measured
    row = next(line for line in out.splitlines() if "heft and auto" in line)
    assert row.split()[-2:] == ["2.00", "1.50"]
    assert "in the measured order: 5 of 5 pairs that differ by more than noise" in out


@pytest.mark.parametrize(
    ("slower_s", "spread", "alike"),
    [(2.01, 0.0, True), (2.03, 0.0, False), (2.1, 0.03, True), (2.2, 0.03, False)],
)
def test_no_fastest_is_named_within_noise(
    slower_s: float, spread: float, alike: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """heft is predicted to be faster than etf and measured to take a little longer; sequential is far behind."""
    found = ranking(
        case("heft", 1.0, slower_s, spread=spread), case("etf", 1.1, 2.0), case("sequential", 3.0, 4.0, spread=0.01)
    )
    assert found.fastest("measured") == (["etf", "heft"] if alike else ["etf"])
    assert found.fastest("predicted") == ["heft"]
    assert found.figures()["alike"] == (["heft"] if alike else [])
    print_rankings([found])
    out = capsys.readouterr().out
    measured = out.partition("fastest schedulers, measured")[2]
    row = next(line for line in measured.splitlines() if line.split()[:1] == ["group"])
    assert ("etf and heft, within noise" in row) == alike
    assert row.rstrip().endswith("within noise" if alike else f"{100 * (slower_s / 2.0 - 1):.2f} %")


def test_of_a_prediction_alone_nothing_is_within_noise() -> None:
    found = ranking(case("heft", 1.0), case("etf", 1.0001), case("dls", 1.009))
    assert found.fastest("predicted") == ["heft", "etf"]
    assert (found.fastest("measured"), found.figures()["alike"], found.lost) == ([], [], None)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "race.py").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_prediction_is_ranked_and_drawn(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "race.py", "--platform", "h200-x2", "--no-pictures", "--out", "out"]
    assert main([*words, "-p", "scheduler=etf"]) == 0
    out = capsys.readouterr().out
    assert "fastest schedulers, predicted" in out
    assert "best of two tasks" not in out
    assert [path.name for path in (here / "out").iterdir()] == ["h200-x2-race-eager-ranking.png"]


def test_what_is_refused_is_told_and_hides_no_other(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where OR-Tools is missing."""
    monkeypatch.setitem(__import__("sys").modules, "ortools", None)
    assert main(["predict", "race.py", "--platform", "h200-x2"]) == 0
    out = capsys.readouterr().out
    assert "two tasks, heft" in out
    assert "note: left out: case 'two tasks, optimal': scheduler 'optimal'" in out.replace("\n", " ")
    assert "OR-Tools" in out


def test_a_request_of_which_nothing_is_left_is_wrong(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "race.py").write_text(EXPERIMENT.replace('group="two tasks"', 'options={"lanes": 0}, group="two tasks"'))
    assert main(["predict", "race.py", "--platform", "h200-x2"]) == 2
    told = capsys.readouterr().err
    assert "no case can be run in eager mode" in told
    assert "left out: case 'two tasks, heft': lanes=0" in told


def test_each_plan_is_made_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the check of the whole request, and for the prediction."""
    import graphsched.cli.planning as planning

    asked: list[str] = []
    make = planning.make_plan
    monkeypatch.setattr(planning, "make_plan", lambda case, *rest: asked.append(case.label) or make(case, *rest))
    assert main(["predict", "race.py", "--platform", "h200-x2", "-p", "scheduler=etf", "--mode", "graph,eager"]) == 0
    assert len(asked) == 2 * 3
