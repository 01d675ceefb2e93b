"""``bench --only optima``: folders of graphs, what is known about them, and what comes out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from graphsched.cli import bench_optima as module
from graphsched.cli.optima_cases import known_cases
from graphsched.errors import FileFormatError
from tests.schedulers.processors import STG

pytest.importorskip("ortools")

SMALL = "2\n0 0 0\n1 4 1 0\n2 3 1 0\n3 0 2 1 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two graphs; of the first the optimum on 1 and 2 processors is known, of the second a wrong one."""
    found = tmp_path / "graphs"
    (found / "deep").mkdir(parents=True)
    (found / "a.stg").write_text(SMALL)
    (found / "deep" / "b.stg").write_text(SMALL)
    table = "graph,processors,best,lower_bound\na.stg,1,7,7\na.stg,2,4,4\ndeep/b.stg,2,5,4\nnone.stg,2,9,9\n"
    (found / "best.csv").write_text(table)
    return found


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small generated workload a method."""
    for name, value in {"SIZES": ((2, 6),), "SHARES": (1.0,), "SEEDS": 1, "SEARCH_S": 0.2}.items():
        monkeypatch.setattr(module, name, value)


def test_the_rows_of_the_table_are_the_cases(folder: Path) -> None:
    """Those whose graph is there."""
    found = [(case.name, case.processors, case.best, case.path.is_file()) for case in known_cases(folder)]
    assert found == [("a.stg", 1, 7.0, True), ("a.stg", 2, 4.0, True), ("deep/b.stg", 2, 5.0, True)]


def test_without_a_table_all_graphs_are_asked_for(folder: Path) -> None:
    (folder / "best.csv").unlink()
    found = [(case.name, case.processors, case.best) for case in known_cases(folder)]
    assert found == [(name, m, None) for name in ("a.stg", "deep/b.stg") for m in (2, 4, 8, 16)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("graph,processors\na.stg,2\n", "has no column 'best'"),
        ("", "has no column 'graph'"),
        ("graph,processors,best\na.stg,0,4\n", "line 2: 0 processors"),
        ("graph,processors,best\na.stg,2.5,4\n", "line 2: 2.5 processors"),
        ("graph,processors,best\na.stg,2,four\n", "line 2: best is 'four'"),
        ("graph,processors,best\na.stg,2\n", "line 2: best is None"),
        ("graph,processors,best\nb.stg,2,4\n", "names no graph of the folder: name them as in 'a.stg'"),
    ],
)
def test_what_is_wrong_with_a_table(folder: Path, table: str, message: str) -> None:
    (folder / "best.csv").write_text(table)
    with pytest.raises(FileFormatError, match=message):
        known_cases(folder)


def test_a_table_of_a_spreadsheet_is_read(folder: Path) -> None:
    """With the mark that it puts before UTF-8."""
    (folder / "best.csv").write_text("graph,processors,best\na.stg,2,4\n", encoding="utf-8-sig")
    assert [(case.name, case.best) for case in known_cases(folder)] == [("a.stg", 4.0)]


def test_a_table_in_another_encoding_is_named_with_its_line(call, folder: Path) -> None:
    (folder / "best.csv").write_bytes("graph,processors,best\na.stg,2,4\nä.stg,2,4\n".encode("latin-1"))
    called = call("bench", str(folder), "--only", "optima")
    assert called.code == 2
    assert "best.csv, line 3: invalid continuation byte: UTF-8 is needed" in called.err


@pytest.mark.parametrize("best", [0, 6])
def test_a_makespan_that_no_schedule_can_have_is_named(call, folder: Path, best: int) -> None:
    """4 and 3, one after the other on one processor, take 7; of what is known to take 0 none would be in excess."""
    (folder / "best.csv").write_text(f"graph,processors,best\na.stg,2,4\ndeep/b.stg,1,{best}\n")
    called = call("bench", str(folder), "--only", "optima")
    assert called.code == 2
    message = f"'deep/b.stg' on 1 processor takes {best} in best.csv, and no schedule takes less than 7: correct"
    assert message in called.err


def test_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileFormatError, match="no folder with graphs"):
            known_cases(path)


@pytest.mark.usefixtures("few")
def test_rows_and_samples(call, folder: Path, tmp_path: Path) -> None:
    """Excess over the best known, or over what is found here where that is shorter; goals, and whether they are met."""
    out = tmp_path / "figures.json"
    called = call("bench", str(folder), "--only", "optima", "--json", "--out", str(out))
    assert called.code == 0, called.err
    assert json.loads(out.read_text()) == called.json
    rows = {row["scheduler"]: row for row in called.json["optima"]}
    assert list(rows) == ["critical_path", "search", "optimal"]
    for row in rows.values():
        assert (row["cases"], row["mean_excess"], row["worst_excess"], row["best_share"]) == (3, 0.0, 0.0, 1.0)
        assert (row["proven_share"], row["shorter_than_known"], row["reached"]) == (1.0, 1, True)
    samples = called.json["optima_samples"]
    assert len(samples) == 9
    assert samples[0] | {"seconds": 0} == {
        "graph": "a.stg", "processors": 1, "scheduler": "critical_path", "makespan": 7.0, "lower_bound": 7.0,
        "best": 7.0, "excess": 0.0, "seconds": 0,
    }  # fmt: skip
    generated = called.json["generated_optima"]
    assert [(row["method"], row["scheduler"]) for row in generated] == [
        (method, name) for method in ("packed", "threaded") for name in ("heft", "peft", "lookahead", "search")
    ]
    assert all(row["mean_excess"] >= 0.0 for row in generated)


@pytest.mark.usefixtures("few")
def test_figures_are_printed_for_people(call, folder: Path) -> None:
    """Shares in per cent; samples are for the file."""
    called = call("bench", str(folder), "--only", "optima")
    assert called.code == 0, called.err
    for words in ("critical_path", "100.00 %", "≤ 0.02 %", "≥ 97.00 %", "generated optima", "packed"):
        assert words in called.out
    assert "optima samples" not in called.out


def test_a_schedule_above_the_optimum_counts() -> None:
    """4.4 % above: neither best nor proven, and the goal is missed."""
    made = {"excess": 0.044, "makespan": 94.0, "lower_bound": 90.0, "best": 90.0, "seconds": 1.0}
    exact = {"excess": 0.0, "makespan": 90.0, "lower_bound": 90.0, "best": 90.0, "seconds": 3.0}
    row = module._summary("search", [made, exact])
    assert (row["mean_excess"], row["worst_excess"], row["best_share"], row["proven_share"]) == (0.022, 0.044, 0.5, 0.5)
    assert (row["mean_time_s"], row["longest_time_s"], row["shorter_than_known"]) == (2.0, 3.0, 0)
    assert module._goal(row) == {"goal": "≤ 0.02 %", "reached": False}
    assert module._goal(row | {"scheduler": "optimal"}) == {"goal": "≥ 97.00 %", "reached": False}


def test_quick_takes_some_of_the_cases(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every seventh; with less time no goals are held against it."""
    monkeypatch.setattr(module, "QUICK_SIZES", ((2, 6),))
    shutil.copytree(STG, tmp_path / "stg")
    for path in (tmp_path / "stg" / "100").iterdir():
        path.unlink()
    called = call("bench", str(tmp_path / "stg"), "--only", "optima", "--quick", "--json")
    assert called.code == 0, called.err
    assert {row["cases"] for row in called.json["optima"]} == {9}
    assert "goal" not in called.json["optima"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "graphs"), "a folder (graphs) is for the benchmark of known optima: add --only optima"),
        (("bench", "nowhere", "--only", "optima"), "nowhere is no folder with graphs"),
        (("bench", "--only", "optima", "-p", "size=3"), "'size'"),
    ],
)
def test_wrong_requests(call, arguments: tuple[str, ...], message: str) -> None:
    called = call(*arguments)
    assert called.code == 2
    assert message in called.err


def test_a_graph_that_cannot_be_read_ends_it_with_its_name(call, folder: Path) -> None:
    (folder / "a.stg").write_text("2\n0 0 0\n")
    called = call("bench", str(folder), "--only", "optima")
    assert called.code == 2
    assert "a.stg: 2 tasks and the 2 dummies are announced" in called.err
