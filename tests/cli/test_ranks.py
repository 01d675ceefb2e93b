"""``run --mode distributed``, called as torchrun calls it and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsched.records import load_run
from tests.cli.conftest import Call

RUN = ("run", "pair", "--platform", "two.json", "--mode", "distributed", "--repeats", "4", "--out", "out")
ROOT = Path(__file__).parents[2]


def torchrun(ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in so many processes; torchrun prints on stderr, rank 0 alone on stdout."""
    start = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "graphsched")
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    return subprocess.run((sys.executable, *start, *words), capture_output=True, text=True, env=env, timeout=100)


@pytest.mark.slow
def test_torchrun_runs_cases_on_its_ranks(here: Path) -> None:
    """Two products on two workers, a process each; the baseline is rank 0's."""
    called = torchrun(2, *RUN, "--json")
    assert called.returncode == 0, called.stderr[-2000:]
    data = json.loads(called.stdout)
    assert [(case["label"], case["mode"]) for case in data["cases"]] == [
        ("sequential, 2 workers", "distributed"),
        ("heft, 2 workers", "distributed"),
        ("plain PyTorch", "baseline"),
    ]
    assert all(case["measured_s"] > 0 for case in data["cases"])
    assert all(case["predicted_s"] > 0 for case in data["cases"][:2])
    assert (here / "out" / "pair-2-heft-2-workers-distributed.png").is_file()
    record = load_run(here / "out" / "pair.json").cases[1]
    assert record.mode == "distributed"
    assert record.clock_uncertainty_s > 0
    assert record.repredict().makespan_s > 0


@pytest.mark.slow
def test_a_case_that_fails_ends_all_ranks_and_leaves_those_before(here: Path) -> None:
    """heft's products raise on rank 1 alone; what was measured before is written."""
    file = here / "experiments" / "pair.py"
    luck = 'import os\n    if os.environ["RANK"] == "0":\n        return a.mm(b)\n    raise RuntimeError'
    file.write_text(file.read_text().replace("raise RuntimeError", luck))
    called = torchrun(2, *RUN, "-p", "fail=yes", "--no-pictures", "--cases", "workers")
    assert called.returncode == 1
    assert "failed: heft, 2 workers: rank 0: rank 1 ended the run: 'mm_1' failed on lane worker:1/" in called.stderr
    assert "error: rank 1: 'mm_1' failed on lane worker:1/" in called.stderr
    assert called.stderr.count("RuntimeError: out of luck") == 2
    assert [case.label for case in load_run(here / "out" / "pair.json").cases] == ["sequential, 2 workers"]


@pytest.mark.slow
def test_cases_for_more_ranks_than_there_are_are_left_out(here: Path) -> None:
    called = torchrun(1, *RUN)
    assert called.returncode == 1  # torchrun's
    assert "no case can be run in distributed mode" in called.stderr
    assert "left out: case 'heft, 2 workers': the plan needs 2 ranks, one for each of" in called.stderr


def test_without_torchrun_the_command_is_told(call: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    called = call(*RUN)
    assert called.code == 2
    assert "torchrun --nproc-per-node 4 -m graphsched run EXPERIMENT --mode distributed" in called.err
    assert not (here / "out").exists()


def test_predictions_need_no_ranks(call: Call, here: Path) -> None:
    called = call("predict", "pair", "--platform", "two.json", "--mode", "distributed", "--json")
    assert [case["mode"] for case in called.json["cases"][:2]] == ["distributed", "distributed"]
    assert all(case["predicted_s"] > 0 for case in called.json["cases"][:2])
