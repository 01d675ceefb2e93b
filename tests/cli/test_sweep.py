"""``sweep``: grids of predictions, kept point by point, to one table and one picture."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from graphsched.cli import sweep_points, sweep_table
from graphsched.cli.sweep_grid import Point
from graphsched.cli.sweep_points import Row, compute_point, kept_rows
from graphsched.costs import Costs
from graphsched.errors import OutputError
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers import registry
from graphsched.schedulers.heft import heft
from graphsched.workload import Workload
from tests.cli.conftest import Call

EXPERIMENT = '''
import networkx as nx
import graphsched as gs

@gs.experiment()
def chains(platform, size: int = 2, lanes: tuple[int, ...] = (1,), name: str = "x", fail: bool = False,
           rate: float = 1.0, rates: tuple[float, ...] = ()):
    """Chains of tasks side by side."""
    print("building")
    with open("built.txt", "a") as log:
        log.write(f"{size} ")
    if fail:
        raise ValueError("out of luck")
    for n in lanes:
        graph = nx.DiGraph()
        for k in range(n):
            nx.add_path(graph, [f"{k}.{i}" for i in range(size)])
        nx.set_node_attributes(graph, 1.0, "duration_s")
        yield gs.Case(f"{n} chains of {size}", gs.Workload.from_graph(graph), scheduler="sequential")
    yield gs.Case("plain PyTorch", baseline=lambda: None)
'''


@pytest.fixture
def chains(here: Path) -> Path:
    """The current folder, with an experiment that needs no tensors, and two platforms: of one worker and of two."""
    (here / "experiments" / "chains.py").write_text(EXPERIMENT)
    two = Platform.load(here / "two.json")
    one = Platform("one", two.devices[:2], tuple(k for k in two.links if "worker:1" not in (k.source, k.target)))
    one.save(here / "one.json")
    return here


def table(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


ONE = ("--processes", 1, "--platform", "two.json")


def test_a_grid_is_in_order_of_platforms_parameters_modes_and_schedulers(call: Call, chains: Path) -> None:
    words = ("--platform", "two.json,one.json", "--scheduler", "heft,round_robin lanes=2", "-p", "size=3,1")
    called = call("sweep", "chains", *words, "-p", "name=n", "--processes", 1, "--out", "s.csv", "--json")
    assert called.code == 0
    rows = called.json["rows"]
    wanted = [
        (platform, size, scheduler)
        for platform in ("two", "one")
        for size in (3, 1)
        for scheduler in ("heft", "round_robin lanes=2")
    ]
    assert [(row["platform"], row["size"], row["scheduler"]) for row in rows] == wanted
    assert {row["name"] for row in rows} == {"n"}
    assert (called.json["points"], called.json["swept"], called.json["files"]) == (8, ["size"], ["s.csv", "s.png"])
    assert [float(row["predicted_s"]) for row in table("s.csv")] == [row["predicted_s"] for row in rows]
    assert [row["lower_bound_s"] for row in rows] == [3.0, 3.0, 1.0, 1.0] * 2
    assert Path("s.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_scheduler_cases_have_their_own_and_baselines_have_no_row(call: Call, chains: Path) -> None:
    rows = call("sweep", "chains", *ONE, "-p", "lanes=1;2,3", "--out", "s.csv", "--json").json["rows"]
    assert [(row["lanes"], row["case"], row["scheduler"]) for row in rows] == [
        ("1", "1 chains of 2", "sequential"),
        ("2,3", "2 chains of 2", "sequential"),
        ("2,3", "3 chains of 2", "sequential"),
    ]


def test_finished_points_are_not_computed_again(call: Call, chains: Path) -> None:
    first = call("sweep", "chains", *ONE, "-p", "size=1,2", "--out", "s.csv", "--json")
    again = call("sweep", "chains", *ONE, "-p", "size=2,4,1", "--out", "s.csv", "--json")
    assert Path("built.txt").read_text() == "1 2 4 "
    assert "2 of 3 points are kept" in again.err
    assert [row["size"] for row in again.json["rows"]] == [2, 4, 1]
    assert again.json["rows"][0] == first.json["rows"][1]
    call("sweep", "chains", *ONE, "-p", "size=1", "--out", "s.csv", "--fresh")
    assert Path("built.txt").read_text() == "1 2 4 1 "


def test_a_changed_experiment_or_platform_is_computed_again(call: Call, chains: Path) -> None:
    call("sweep", "chains", *ONE, "--out", "s.csv")
    two = json.loads(Path("two.json").read_text())
    two["cores"] = 8
    Path("two.json").write_text(json.dumps(two))
    call("sweep", "chains", *ONE, "--out", "s.csv")
    Path("experiments/chains.py").write_text(EXPERIMENT + "# changed\n")
    call("sweep", "chains", *ONE, "--out", "s.csv")
    assert Path("built.txt").read_text() == "2 2 2 "


@pytest.mark.parametrize("file", ["experiments/more/parts.py", "models/net.py", "models/parts/layer.py"])
def test_changed_code_that_an_experiment_imports_is_computed_again(call: Call, chains: Path, file: str) -> None:
    """Wherever it may import from; what is no code, or cannot be imported from, does not count."""
    (chains / "models").mkdir()
    (chains / "models" / "__init__.py").touch()
    (chains / file).parent.mkdir(exist_ok=True)
    (chains / file).write_text("SIZE = 1")
    call("sweep", "chains", *ONE, "--out", "s.csv")
    (chains / "experiments" / "not-code").mkdir()
    for other in ("experiments/not-code/x.py", "models/weights.bin", "beside.py"):
        (chains / other).write_text("SIZE = 2")
    assert "1 of 1 points are kept" in call("sweep", "chains", *ONE, "--out", "s.csv").err
    (chains / file).write_text("SIZE = 2")
    assert "kept" not in call("sweep", "chains", *ONE, "--out", "s.csv").err


@pytest.mark.parametrize("words", [("--scheduler", "mine"), ("--scheduler", "auto schedulers=heft+mine"), ()])
def test_a_changed_scheduler_of_others_is_computed_again(
    call: Call, chains: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Where it may be asked, any file of its package; without --scheduler, cases may ask it."""
    package = ModuleType("mine")
    package.__file__ = str(chains / "mine" / "__init__.py")
    (chains / "mine").mkdir()
    (chains / "mine" / "__init__.py").touch()
    (chains / "mine" / "rules.py").write_text("SIZE = 1")

    def mine(work: Workload, platform: Platform, costs: Costs) -> Placement:
        return heft(work, platform, costs)

    mine.__module__ = "mine"
    monkeypatch.setitem(sys.modules, "mine", package)
    monkeypatch.setattr(registry, "_REGISTERED", registry._REGISTERED | {"mine": mine})

    def kept(*asked: str) -> bool:
        return "1 of 1 points are kept" in call("sweep", "chains", *ONE, *asked, "--out", "s.csv").err

    assert [kept(*words), kept(*words)] == [False, True]
    assert [kept("--scheduler", "heft"), kept("--scheduler", "heft")] == [False, True]
    (chains / "mine" / "rules.py").write_text("SIZE = 2")
    assert [kept(*words), kept("--scheduler", "heft")] == [False, True]


def test_a_finished_sweep_can_be_asked_for_again_in_many_processes(call: Call, chains: Path) -> None:
    """None is left for them."""
    call("sweep", "chains", *ONE, "-p", "size=1,2", "--out", "s.csv")
    again = call("sweep", "chains", "--platform", "two.json", "-p", "size=1,2", "--out", "s.csv", "--processes", 2)
    assert again.code == 0
    assert "2 of 2 points are kept" in again.err


@pytest.mark.parametrize(
    "content",
    ['{"rows"', '{"rows": 5}', '{"rows": {}}', '{"rows": ""}', '{"rows": [5]}', '{"rows": [{"case": "x"}]}', "[]"],
)
def test_a_kept_file_that_is_broken_is_computed_again(call: Call, chains: Path, content: str) -> None:
    call("sweep", "chains", *ONE, "--out", "s.csv")
    (kept,) = Path("s.points").iterdir()
    kept.write_text(content)
    assert call("sweep", "chains", *ONE, "--out", "s.csv").code == 0
    assert Path("built.txt").read_text() == "2 2 "


ROW = {
    "case": "one",
    "scheduler": "heft",
    "mode": "eager",
    "predicted_s": 1.5,
    "lower_bound_s": 0.0,
    "reported_s": None,
    "estimated": False,
    "error": None,
}
DAMAGE: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("case", "scheduler", "mode"), (["x"], None, 1, "x\ud800")),
    **dict.fromkeys(("predicted_s", "lower_bound_s"), ("abc", -5.0, math.nan, math.inf, None, True, 10**309)),
    "reported_s": ("abc", -5.0, math.inf, False, [1.0]),
    "estimated": (None, 0, "no"),
    "error": ("boom", "", False),
}


@pytest.mark.parametrize(("key", "place"), [(key, k) for key, values in DAMAGE.items() for k in range(len(values))])
def test_a_kept_row_that_nobody_predicted_is_not_taken(tmp_path: Path, key: str, place: int) -> None:
    point = Point("chains", {}, None, "two", "eager", None, "two eager", "key", 600.0)

    def kept(**changed: object) -> list[Row] | None:
        rows = [ROW, ROW | {"reported_s": 2} | changed]
        (tmp_path / "key.json").write_text(json.dumps({"point": point.label, "rows": rows}))
        return kept_rows(tmp_path, point)

    assert kept() == [ROW, ROW | {"reported_s": 2}]
    assert kept(**{key: DAMAGE[key][place]}) is None


def test_without_any_prediction_there_is_no_table(call: Call, chains: Path) -> None:
    """No chains, and what times the code of others has no row."""
    called = call("sweep", "chains", *ONE, "-p", "lanes=", "--out", "s.csv")
    assert called.code == 2
    Path("experiments/chains.py").write_text(EXPERIMENT.replace("for n in lanes:", "for n in ():"))
    called = call("sweep", "chains", *ONE, "--out", "s.csv")
    assert called.code == 2
    assert "no case has a prediction" in called.err


@pytest.mark.slow
def test_a_point_whose_process_dies_hides_no_other(call: Call, chains: Path) -> None:
    """As where memory is out: found by one process each for those that are left."""
    dying = EXPERIMENT.replace("if fail:", "if size == 2:\n        __import__('os')._exit(9)\n    if fail:")
    Path("experiments/chains.py").write_text(dying)
    called = call("sweep", "chains", "--platform", "two.json", "-p", "size=1,2,3", "--out", "s.csv", "--processes", 2)
    assert called.code == 1
    assert [row["error"] for row in table("s.csv")] == ["", "its process died (out of memory?)", ""]


def test_an_interrupted_sweep_goes_on_and_ends_as_if_it_had_not_been(
    call: Call, chains: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sweep", "chains", *ONE, "-p", "size=1,2,3,4", "--out")
    call(*words, "whole.csv")

    def interrupted(point: Any, folder: Path) -> Any:
        if point.values["size"] == 3:
            raise KeyboardInterrupt
        return compute_point(point, folder)

    with monkeypatch.context() as patched:
        patched.setattr(sweep_points, "compute_point", interrupted)
        called = call(*words, "s.csv")
    assert called.code == 130
    assert "2 of 4 points are kept in s.points" in called.err
    assert not Path("s.csv").exists()
    assert call(*words, "s.csv").code == 0
    assert Path("built.txt").read_text() == "1 2 3 4 1 2 3 4 "
    assert Path("s.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert Path("s.png").read_bytes() == Path("whole.png").read_bytes()


def test_points_that_failed_before_an_interrupt_are_not_said_to_be_kept(
    call: Call, chains: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(point: Any, folder: Path) -> Any:
        if point.values["size"] == 2 and point.values["fail"]:
            raise KeyboardInterrupt
        return compute_point(point, folder)

    monkeypatch.setattr(sweep_points, "compute_point", interrupted)
    called = call("sweep", "chains", *ONE, "-p", "size=1,2", "-p", "fail=false,true", "--out", "s.csv")
    assert called.code == 130
    assert "2 of 4 points are kept in s.points" in called.err
    assert len(list(Path("s.points").iterdir())) == 2


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same_bytes(call: Call, chains: Path) -> None:
    words = ("sweep", "chains", "--platform", "two.json,one.json", "-p", "size=1,2", "--out")
    call(*words, "one.csv", "--processes", 1)
    many = call(*words, "many.csv", "--processes", 2, "--json")
    assert many.code == 0
    assert Path("many.csv").read_bytes() == Path("one.csv").read_bytes()
    assert Path("many.png").read_bytes() == Path("one.png").read_bytes()
    assert len(list(Path("many.points").iterdir())) == 4
    assert many.json["points"] == 4  # and what processes print is not on stdout


def test_points_that_fail_are_rows_and_hide_no_others(call: Call, chains: Path) -> None:
    called = call("sweep", "chains", *ONE, "-p", "fail=false,true", "--out", "s.csv")
    assert called.code == 1
    assert [row["error"] for row in table("s.csv")] == ["", table("s.csv")[1]["error"]]
    assert "out of luck" in table("s.csv")[1]["error"]
    assert "failed: two, eager, all cases: " in called.err
    assert len(list(Path("s.points").iterdir())) == 1  # to be tried again


@pytest.mark.parametrize("code", ["yield gs.Case('x\\ud800', gs.Workload())", "raise BaseException('x')"])
def test_a_point_that_cannot_be_written_or_raises_no_exception_is_a_row(call: Call, chains: Path, code: str) -> None:
    Path("experiments/chains.py").write_text(EXPERIMENT.replace('raise ValueError("out of luck")', code))
    called = call("sweep", "chains", *ONE, "-p", "fail=true,false", "--out", "s.csv")
    assert called.code == 1
    assert [bool(row["error"]) for row in table("s.csv")] == [True, False]


def test_a_picture_of_an_earlier_sweep_is_said_to_be_old(call: Call, chains: Path) -> None:
    """Nothing of the second can be drawn."""
    first = call("sweep", "chains", *ONE, "--out", "s.csv")
    drawn = Path("s.png").read_bytes()
    again = call("sweep", "chains", *ONE, "-p", "fail=true", "--out", "s.csv")
    assert (first.code, again.code) == (0, 1)
    assert Path("s.png").read_bytes() == drawn
    assert "s.png is of an earlier sweep" in again.err
    assert "s.png" not in first.err.replace("written: s.csv, s.png", "")
    assert "other.png" not in call("sweep", "chains", *ONE, "-p", "fail=true", "--out", "other.csv").err


def test_an_error_that_cannot_be_written_is_told_as_far_as_it_can(call: Call, chains: Path) -> None:
    Path("experiments/chains.py").write_text(EXPERIMENT.replace('"out of luck"', r'"out of \ud800"'))
    assert call("sweep", "chains", *ONE, "-p", "fail=true,false", "--out", "s.csv").code == 1
    assert table("s.csv")[0]["error"].endswith(r"ValueError: out of \ud800")


def test_a_point_that_cannot_be_kept_ends_no_sweep(call: Call, chains: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the disk is full; it is computed again next time."""

    def full(path: Path, text: str) -> None:
        raise OutputError(f"cannot write {path}: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(sweep_points, "write_text", full)
        called = call("sweep", "chains", *ONE, "-p", "size=1,2", "--out", "s.csv")
    assert called.code == 0
    assert called.err.count("No space left on device") == 2
    assert [row["case"] for row in table("s.csv")] == ["1 chains of 1", "1 chains of 2"]


def test_a_case_that_fails_hides_no_other(call: Call, chains: Path) -> None:
    """No worker has 99 lanes: both cases of that scheduler fail, those of the other do not."""
    called = call("sweep", "pair", *ONE, "--scheduler", "round_robin lanes=99,one_stream", "--out", "s.csv", "--json")
    assert called.code == 1
    rows = called.json["rows"]
    assert [row["error"] is None for row in rows] == [False, False, True, True]
    assert "lanes=99" in rows[0]["error"]
    assert called.err.count("failed: ") == 2


WRONG: Sequence[tuple[tuple[object, ...], str]] = [
    (("-p", "sizes=1"), "no parameter 'sizes'"),
    (("-p", "size=1,x"), "a whole number is needed"),
    (("-p", "size="), "no value"),
    (("-p", "rate=nan,1"), "parameter 'rate' is nan: finite numbers are needed"),
    (("-p", "rates=1;2,inf"), "parameter 'rates' is 2.0,inf: finite numbers are needed"),
    (("-p", "size"), "NAME=VALUE"),
    (("-p", "size=1", "-p", "size=2"), "given twice"),
    (("--scheduler", "heft,hefd"), "did you mean 'heft'"),
    (("--scheduler", "heft speed=3"), "no option 'speed'"),
    (("--mode", "eager,fast"), "no mode 'fast'"),
    (("--platform", "two.json,nowhere"), "no platform 'nowhere'"),
    (("--out", "s.txt"), ".csv or .parquet"),
    (("--out", "folder.csv"), "there is a folder of this name"),
    (("--plot", "folder.png"), "there is a folder of this name"),
    (("--out", "taken.csv"), "taken.points is a file, and finished points are kept in a folder of that name"),
    (("--plot", "s.txt"), "s.txt"),
    (("--processes", 0), "--processes"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_a_wrong_request_is_refused_before_anything_is_computed(
    call: Call, chains: Path, words: tuple[object, ...], message: str
) -> None:
    Path("folder.csv").mkdir()
    Path("folder.png").mkdir()
    Path("taken.points").touch()
    called = call("sweep", "chains", "--platform", "two.json", *words)
    assert (called.code, called.out) == (2, "")
    assert message in called.err
    assert not Path("built.txt").exists()


def test_parquet_needs_pyarrow(call: Call, chains: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(sweep_table.importlib, "import_module", missing)
    called = call("sweep", "chains", *ONE, "--out", "s.parquet")
    assert called.code == 2
    assert "pip install pyarrow" in called.err
    assert not Path("built.txt").exists()


def test_parquet_holds_the_same_rows(call: Call, chains: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    called = call("sweep", "chains", *ONE, "-p", "size=1,2", "--out", "s.parquet", "--json")
    assert parquet.read_table("s.parquet").to_pylist() == called.json["rows"]


def test_people_get_a_table(call: Call, chains: Path) -> None:
    called = call("sweep", "chains", *ONE, "-p", "size=1,2", "--out", "s.csv")
    assert called.out.startswith("chains, 2 points\n")
    lines = [line.split() for line in called.out.splitlines() if line.strip().startswith("two")]
    assert [line[:4] for line in lines] == [["two", "1", "eager", "sequential"], ["two", "2", "eager", "sequential"]]
    assert "written: s.csv, s.png" in called.err


def test_a_parameter_may_bear_the_name_of_a_column(call: Call, chains: Path) -> None:
    """Its values stand in a column of their own, and on the axis of the picture."""
    code = EXPERIMENT.replace("size: int = 2", "mode: int = 2").replace("size", "mode")
    Path("experiments/chains.py").write_text(code)
    words = ("sweep", "chains", *ONE, "-p", "mode=1,2", "--out", "s.csv", "--plot", "s.svg")
    lines = [line.split() for line in call(*words).out.splitlines() if line.strip().startswith("two")]
    assert [line[:4] for line in lines] == [["two", "1", "eager", "sequential"], ["two", "2", "eager", "sequential"]]
    found = call(*words, "--json").json
    assert found["swept"] == ["param_mode"]
    assert [row[found["swept"][0]] for row in found["rows"]] == [1, 2]
    assert "<!-- param_mode -->" in Path("s.svg").read_text()


def test_each_parameter_has_a_column_of_its_own(call: Call, chains: Path) -> None:
    """Also where one bears the name that another's column would have."""
    code = EXPERIMENT.replace("size: int = 2", "size: int = 2, mode: int = 0, param_mode: int = 0")
    Path("experiments/chains.py").write_text(code)
    found = call("sweep", "chains", *ONE, "-p", "mode=1,2", "-p", "param_mode=3,4", "--out", "s.csv", "--json").json
    assert found["swept"] == ["param_mode", "param_param_mode"]
    rows = [tuple(row[key] for key in found["swept"]) for row in found["rows"]]
    assert sorted(rows) == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_scheduler_that_never_ends_is_a_row_with_an_error(
    call: Call, chains: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(work: object, platform: object, costs: object) -> Placement:
        while True:
            pass

    monkeypatch.setattr(registry, "_REGISTERED", registry._REGISTERED | {"endless": endless})
    words = ("--scheduler", "endless,heft", "--time-limit", 0.3, "--out", "s.csv", "--json")
    called = call("sweep", "chains", *ONE, *words)
    assert called.code == 1
    first, second = called.json["rows"]
    assert "scheduler 'endless' was not done after 0.3 s" in first["error"]
    assert (second["scheduler"], second["error"]) == ("heft", None)


def test_the_limit_does_not_decide_which_points_are_kept(call: Call, chains: Path) -> None:
    call("sweep", "chains", *ONE, "--out", "s.csv")
    assert "1 of 1 points are kept" in call("sweep", "chains", *ONE, "--time-limit", 5, "--out", "s.csv").err
