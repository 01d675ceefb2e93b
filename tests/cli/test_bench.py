"""``bench --only``: one benchmark, or ways to run an experiment's networks side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphsched.cli import bench
from tests.experiments.small import FOLDER, hand_written

FILE = '''
import graphsched as gs

@gs.experiment(source="mine")
def mine(platform, size: int = 4):
    """Nothing."""
    yield gs.Case("idle", baseline=lambda: None)

def bench(platform, size: int = 4, quick: bool = False):
    row = {"size": size, "platform": platform.name, "quick": quick}
    return {"mine": [row], "mine_samples": [{"sample": 123456}]}
'''


@pytest.fixture
def host(tmp_path: Path) -> str:
    """A file of a host with one worker."""
    hand_written("worker", 1, lanes=2).save(tmp_path / "host.json")
    return str(tmp_path / "host.json")


def test_some_benchmarks_alone(call, monkeypatch):
    for name in bench.OWN:
        monkeypatch.setitem(bench.OWN, name, lambda quick, name=name: {name: {"quick": quick}})
    assert call("bench", "--json", "--only", "replay").json == {"replay": {"quick": False}}
    both = call("bench", "--quick", "--json", "--only", "replay", "--only", "dispatch").json
    assert both == {"replay": {"quick": True}, "dispatch": {"quick": True}}
    assert list(call("bench", "--json").json) == ["simulator", "schedulers", "dispatch", "replay"]


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
    ],
)
def test_wrong_requests_are_told_before_anything_runs(call, here, words, message):
    (here / "mine.py").write_text(FILE)
    called = call("bench", *words)
    assert called.code == 2
    assert message in called.err
    assert not called.out
