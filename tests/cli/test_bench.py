"""``bench --only``: one benchmark, or ways to run an experiment's networks side by side."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsched.cli import bench, bench_parts
from graphsched.errors import ExecutionError, OutputError
from tests.experiments.small import FOLDER, hand_written

FILE = '''
import signal
from pathlib import Path

import graphsched as gs

@gs.experiment(source="mine")
def mine(platform, size: int = 4):
    """Nothing."""
    yield gs.Case("idle", baseline=lambda: None)

def bench(platform, size: int = 4, quick: bool = False):
    row = {"size": size, "platform": platform.name, "quick": quick}
    yield {"mine": [row], "mine_samples": [{"sample": 123456}]}
'''


def begun(then: str) -> str:
    """`FILE`, whose benchmark does this after its first row and before its second."""
    return f'{FILE}    {then}\n    yield {{"mine": [row, row]}}\n'


INTERRUPT = "signal.raise_signal(signal.SIGINT)"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal: a shell's background jobs start with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that is done at once, on a host with a GPU."""
    monkeypatch.setattr(bench_parts, "gpu_here", lambda: True)
    monkeypatch.setitem(bench.OWN, "replay", lambda quick: {"replay": [{"nodes": 7654321}]})


@pytest.fixture
def host(tmp_path: Path) -> str:
    """A file of a host with one worker."""
    hand_written("worker", 1, lanes=2).save(tmp_path / "host.json")
    return str(tmp_path / "host.json")


def test_some_benchmarks_alone(call, monkeypatch):
    for name in bench.OWN:
        monkeypatch.setitem(bench.OWN, name, lambda quick, name=name: {name: {"quick": quick}})
    monkeypatch.setattr(bench, "speed_goals", lambda _: {})
    monkeypatch.setattr(bench_parts, "gpu_here", lambda: True)
    assert call("bench", "--json", "--only", "replay").json == {"replay": {"quick": False}}
    both = call("bench", "--quick", "--json", "--only", "replay", "--only", "dispatch").json
    assert both == {"replay": {"quick": True}, "dispatch": {"quick": True}}
    assert list(call("bench", "--json").json) == ["simulator", "workloads", "schedulers", "dispatch", "replay"]


def test_goals_come_last_and_hold_all_that_was_measured(call, monkeypatch):
    rows = {
        "workloads": [{"graph": "random", "tasks": n, "edges": n, "seconds": n * 1e-6} for n in (1_000, 100_000)],
        "schedulers": [{"name": "heft", "tasks": n, "devices": 8, "seconds": n * 1e-5} for n in (1_000, 10_000)],
    }
    for name, found in rows.items():
        monkeypatch.setitem(bench.OWN, name, lambda quick, name=name, found=found: {name: found})
    called = call("bench", "--json", "--only", "workloads", "--only", "schedulers")
    assert list(called.json) == ["workloads", "schedulers", "growth", "goals"]
    assert len(called.json["growth"]) == 2
    assert [row["held"] for row in called.json["goals"]] == [True] * 5
    assert "heft: 10,000 tasks on 8 devices" in call("bench", "--only", "schedulers").out


def test_an_experiments_own_benchmark(call, here, host):
    (here / "mine.py").write_text(FILE)
    words = ("bench", "--only", "mine.py", "--platform", host, "-p", "size=7", "--out", "kept/figures.json")
    called = call(*words)
    assert called.code == 0
    assert "worker x1" in called.out
    assert "123456" not in called.out.replace(",", "")
    data = json.loads((here / "kept" / "figures.json").read_text())
    assert data["mine"] == [{"size": 7, "platform": "worker x1", "quick": False}]
    assert data["mine_samples"] == [{"sample": 123456}]
    assert call(*words[:5], "--quick", "--json").json["mine"][0]["quick"] is True


def test_branches_and_metg_side_by_side(call, host):
    small = ("-p", "networks=inception", "-p", "shrink=16", "-p", "lanes=2")
    file = str(FOLDER / "branches.py")
    called = call("bench", "--only", file, "--quick", "--platform", host, "--json", *small)
    assert called.json.keys() == {"branches", "branches_ways"}
    small = ("-p", "patterns=tree", "-p", "widths=2", "-p", "size=8", "-p", "windows=3", "-p", "steps=3")
    called = call("bench", "--only", str(FOLDER / "metg.py"), "--quick", "--platform", host, *small)
    assert "serial metg" in called.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "nothing_like_it"), "no single experiment 'nothing_like_it'"),
        (("--only", str(FOLDER / "overlap.py")), "its file needs a function 'bench'"),
        (("--only", "mine.py", "-p", "width=7"), "benchmark 'mine.py' has no parameter 'width'"),
        (("--only", "replay", "-p", "width=7"), "benchmark 'replay' has no parameter 'width'"),
        (("--only", "dispatch", "--only", "mine.py", "--platform", "nowhere"), "'nowhere'"),
        (("--only", "simulator", "--quick", "--out", "."), "cannot write .: it is a folder: name a file in it"),
    ],
)
def test_wrong_requests_are_told_before_anything_runs(call, here, words, message):
    (here / "mine.py").write_text(FILE)
    called = call("bench", *words)
    assert called.code == 2
    assert message in called.err
    assert not called.out


def test_replay_says_that_it_needs_a_gpu(call, here, monkeypatch):
    """Alone it is refused; beside others it has no rows."""
    monkeypatch.setattr(bench_parts, "gpu_here", lambda: False)
    alone = call("bench", "--only", "replay", "--json", "--out", "kept/f.json")
    assert (alone.code, alone.out) == (2, "")
    assert alone.err == (
        "error: replay needs a GPU, and PyTorch finds none here: call it on a host with one, or measure what needs "
        "none, with --only: simulator, workloads, schedulers, dispatch\n"
    )
    assert not (here / "kept").exists()
    found = {"replay": [], "dispatch": [{"actions": 5}]}
    for name, rows in found.items():
        monkeypatch.setitem(bench.OWN, name, lambda quick, name=name, rows=rows: {name: rows})
    both = call("bench", "--only", "replay", "--only", "dispatch", "--json")
    assert (both.code, both.json) == (0, found)
    assert both.err == "note: replay needs a GPU, and PyTorch finds none here: it has no rows\n"
    assert call("bench", "--only", "dispatch").err == ""


@pytest.mark.usefixtures("interruptible", "replay")
def test_an_interrupt_keeps_what_is_finished(call, here, host):
    (here / "mine.py").write_text(begun(INTERRUPT))
    words = (
        "bench",
        "--only",
        "replay",
        "--only",
        "mine.py",
        "--only",
        "dispatch",
        "--platform",
        host,
        "--out",
        "f.json",
    )
    called = call(*words)
    assert called.code == 130
    assert "7,654,321" in called.out
    assert called.out.count("worker x1") == 1
    assert called.err.splitlines() == ["not finished: mine.py, dispatch; what is finished is in f.json", "interrupted"]
    data = json.loads((here / "f.json").read_text())
    assert data.keys() == {"replay", "mine", "mine_samples", "unfinished"}
    assert (len(data["mine"]), data["unfinished"]) == (1, ["mine.py", "dispatch"])
    again = call(*words, "--json")
    assert again.code == 130
    assert again.json == data


@pytest.mark.usefixtures("interruptible", "replay")
def test_a_second_interrupt_at_once_costs_nothing(call, here, host, monkeypatch):
    (here / "mine.py").write_text(begun(INTERRUPT))
    print_rows = bench.print_rows

    def interrupted(*given, **named):
        signal.raise_signal(signal.SIGINT)
        print_rows(*given, **named)

    monkeypatch.setattr(bench, "print_rows", interrupted)
    called = call("bench", "--only", "replay", "--only", "mine.py", "--platform", host)
    assert called.code == 130
    assert "7,654,321" in called.out
    assert "worker x1" in called.out
    assert called.err.splitlines() == ["not finished: mine.py", "interrupted"]


@pytest.mark.usefixtures("interruptible", "replay")
def test_an_interrupt_that_got_lost_is_heard_after_the_step(call, here, host):
    (here / "mine.py").write_text(
        begun("pass").replace("    row =", f"    try: {INTERRUPT}\n    except: pass\n    row =")
    )
    called = call("bench", "--only", "mine.py", "--only", "replay", "--platform", host, "--json")
    assert called.code == 130
    assert called.json.keys() == {"mine", "mine_samples", "unfinished"}
    assert len(called.json["mine"]) == 1


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_before_anything_is_finished_writes_nothing(call, here, host):
    (here / "mine.py").write_text(FILE.replace("    row =", f"    {INTERRUPT}\n    row ="))
    words = ("bench", "--only", "mine.py", "--platform", host, "--out", "f.json")
    called = call(*words)
    assert (called.code, called.out, called.err) == (130, "", "not finished: mine.py\ninterrupted\n")
    assert not (here / "f.json").exists()
    assert call(*words, "--json").json == {"unfinished": ["mine.py"]}


@pytest.mark.usefixtures("replay")
def test_a_failure_keeps_what_is_finished(call, here, monkeypatch):
    def failing(quick):
        raise ExecutionError("out of luck")

    monkeypatch.setitem(bench.OWN, "dispatch", failing)
    words = ("bench", "--only", "replay", "--only", "dispatch", "--out", "f.json")
    called = call(*words)
    assert called.code == 1
    assert "7,654,321" in called.out
    assert called.err.splitlines() == [
        "not finished: dispatch; what is finished is in f.json",
        "error: out of luck",
    ]
    data = {"replay": [{"nodes": 7654321}], "unfinished": ["dispatch"]}
    assert json.loads((here / "f.json").read_text()) == data
    assert call(*words, "--json").json == data


@pytest.mark.usefixtures("replay")
def test_a_file_that_cannot_be_written_costs_no_table(call, here, monkeypatch):
    def full(path, text):
        raise OutputError(f"cannot write {path}: no space left")

    monkeypatch.setattr("graphsched.files.write_text", full)
    called = call("bench", "--only", "replay", "--out", "f.json")
    assert (called.code, called.err) == (2, "error: cannot write f.json: no space left\n")
    assert "7,654,321" in called.out


def test_what_is_finished_is_written_at_once(call, here, host):
    """Also where nothing can be done any more, as the process is killed."""
    (here / "mine.py").write_text(begun("Path('then.json').write_text(Path('f.json').read_text())"))
    called = call("bench", "--only", "mine.py", "--platform", host, "--out", "f.json")
    assert called.code == 0
    then, now = (json.loads((here / name).read_text()) for name in ("then.json", "f.json"))
    assert (len(then["mine"]), then["unfinished"]) == (1, ["mine.py"])
    assert (len(now["mine"]), "unfinished" in now) == (2, False)


def test_numbers_of_numpy_are_written_as_numbers_and_what_is_not_finite_as_null(call, here, host):
    """In the file as on stdout; for people with their units."""
    row = "import numpy; row |= {'n': numpy.int64(3), 'time_s': numpy.float32(0.5), 'ratio': float('nan')}"
    (here / "mine.py").write_text(begun(row))
    words = ("bench", "--only", "mine.py", "--platform", host, "--out", "f.json")
    shown = call(*words, "--json").json
    found = json.loads((here / "f.json").read_text(), parse_constant=pytest.fail)
    assert found == shown
    assert [found["mine"][0][key] for key in ("n", "time_s", "ratio")] == [3, 0.5, None]
    assert "500 ms" in call(*words).out


@pytest.mark.parametrize(
    ("experiment", "parameter", "message"),
    [
        ("branches", "networks=nas,ns", "no network 'ns': did you mean 'nas'? There are inception, transformer, nas"),
        ("metg", "patterns=tre", "no pattern 'tre': did you mean 'tree'? There are stencil"),
        ("metg", "any=1", "its parameters and defaults: patterns=stencil"),
    ],
)
def test_names_of_parameters_are_checked_before_anything_runs(
    call, here, host, experiment, parameter, message, monkeypatch
):
    monkeypatch.setattr(bench, "_measure", lambda *_: pytest.fail("measured"))
    called = call("bench", "--only", FOLDER / f"{experiment}.py", "-p", parameter, "--platform", host, "--json")
    assert (called.code, called.out) == (2, "")
    assert message in called.err


@pytest.mark.parametrize(
    ("instead", "message"),
    [
        ("return {}", "benchmark 'mine.py' returned dict: let its function 'bench' yield a dict of its tables"),
        ("yield from ()", "benchmark 'mine.py' has nothing to measure"),
    ],
)
def test_a_benchmark_yields_tables(call, here, host, instead, message):
    (here / "mine.py").write_text(FILE[: FILE.rindex("yield")] + instead)
    called = call("bench", "--only", "mine.py", "--platform", host)
    assert called.code == 2
    assert message in called.err


def test_help_names_parameters(call):
    printed = call("bench", "-h").out
    assert "networks=nas" in printed
    assert "patterns=tree" in printed
