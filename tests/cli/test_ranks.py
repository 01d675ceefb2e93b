"""``run --mode distributed``, called as torchrun calls it and without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphsched.cli.ranks import STAY_S
from graphsched.records import load_run
from tests.cli import rank_jobs
from tests.cli.conftest import Call
from tests.executors.distributed.ranks import on_ranks

RUN = ("run", "pair", "--platform", "two.json", "--mode", "distributed", "--repeats", "4", "--out", "out")
ROOT = Path(__file__).parents[2]
KILL_ONE = """
import os, time
from pathlib import Path
ONE = Path("one")
if os.environ["RANK"] == "1":
    ONE.write_text(str(os.getpid()))

def kill_one():
    if ONE.exists():
        os.kill(int(ONE.read_text()), 9)
        ONE.unlink()
    time.sleep(0.1)
"""
SOON_S = 10.0  # of a loaded host; a rank that nobody ends would wait for two minutes


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
def test_a_rank_that_is_killed_is_named_and_what_was_measured_before_is_written(here: Path) -> None:
    """Rank 1 is killed in heft's products; torchrun then ends rank 0, which has the time to say so and to write."""
    file = here / "experiments" / "pair.py"
    luck = 'import os\n    if os.environ["RANK"] == "0":\n        return a.mm(b)\n    os.kill(os.getpid(), 9)'
    file.write_text(file.read_text().replace('raise RuntimeError("out of luck")', luck))
    called = torchrun(2, *RUN, "-p", "fail=yes", "--no-pictures", "--cases", "workers")
    assert called.returncode == 1
    assert "failed: heft, 2 workers: rank 0: " in called.stderr
    assert "rank 1 is gone" in called.stderr
    assert "terminate called" not in called.stderr
    assert [case.label for case in load_run(here / "out" / "pair.json").cases] == ["sequential, 2 workers"]


@pytest.mark.slow
def test_a_rank_that_is_killed_while_costs_are_measured_is_named(here: Path) -> None:
    """Rank 0 alone calls the products then; the first one of heft kills rank 1, as a host would that lacks memory."""
    file = here / "experiments" / "pair.py"
    file.write_text(
        file.read_text().replace('raise RuntimeError("out of luck")', "kill_one(); return a.mm(b)") + KILL_ONE
    )
    called = torchrun(2, *RUN, "-p", "fail=yes", "--no-pictures", "--cases", "workers")
    assert called.returncode == 1
    words = "torchrun ends all ranks, for rank 1 is gone, while rank 0 did work of its own and no run was under way"
    assert f"error: rank 0: {words}\n" in called.stderr
    assert "failed: " not in called.stderr
    assert [case.label for case in load_run(here / "out" / "pair.json").cases] == ["sequential, 2 workers"]


@pytest.mark.slow
def test_ranks_that_build_other_cases_measure_nothing(here: Path) -> None:
    """Rank 1's file makes larger matrices, as on a host with another version of it."""
    file = here / "experiments" / "pair.py"
    larger = 'size += int(__import__("os").environ["RANK"]); work = '
    file.write_text(file.read_text().replace("work = gs.Workload", f"{larger}gs.Workload"))
    called = torchrun(2, *RUN)
    assert called.returncode == 1
    words = "the ranks disagree: set of cases is 2 cases [0-9a-f]+ on rank 0; 2 cases [0-9a-f]+ on rank 1: start all"
    assert re.search(f"error: {words}", called.stderr)
    assert re.search(f"error: rank 1: rank 0 ended: {words}", called.stderr)
    assert "[1] sequential" not in called.stderr


@pytest.mark.slow
def test_a_workload_that_cannot_be_built_is_refused_on_every_rank(here: Path) -> None:
    """A sum of values of different shapes."""
    file = here / "experiments" / "pair.py"
    wrong = (
        "values = [work.input(f'v{k}', torch.ones(4 + k), device=d) for k, d in enumerate(platform.accelerators(2))]"
    )
    line = f'{wrong}\n        gs.collectives.all_reduce(work, values)\n        x = work.input("x"'
    file.write_text(file.read_text().replace('x = work.input("x"', line))
    called = torchrun(2, *RUN)
    words = "value 'v1' is float32[5], value 'v0' is float32[4]: values of one shape are needed"
    assert f"error: {words}" in called.stderr
    assert f"error: rank 1: rank 0 ended: {words}" in called.stderr


@pytest.mark.slow
def test_figures_that_all_ranks_take_together_are_recorded(here: Path) -> None:
    """Each rank adds its number; rank 0 has the sum."""
    file = here / "experiments" / "pair.py"
    file.write_text(
        file.read_text().replace("scheduler=scheduler, reported", "on_ranks=numbers, scheduler=scheduler, reported")
        + """
def numbers(plan):
    from graphsched.executors.distributed import RankProgram
    with RankProgram(plan) as program:
        return {"ranks_total": float(sum(program.world.gather(program.world.rank + 1, 20.0, "numbers")))}
"""
    )
    called = torchrun(2, *RUN, "--json", "--no-pictures")
    assert called.returncode == 0, called.stderr[-2000:]
    assert [case["metrics"] for case in json.loads(called.stdout)["cases"][:2]] == [{"ranks_total": 3.0}] * 2


@pytest.mark.slow
def test_cases_for_more_ranks_than_there_are_are_left_out(here: Path) -> None:
    called = torchrun(1, *RUN)
    assert called.returncode == 1  # torchrun's
    assert "no case can be run in distributed mode" in called.stderr
    assert "left out: case 'heft, 2 workers': the plan needs 2 ranks, one for each of" in called.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("ctrl_c_on_rank_1", "ended"), [(False, 1), (True, "interrupted")])
def test_ctrl_c_between_two_runs_ends_all_ranks_at_once(ctrl_c_on_rank_1: bool, ended: object) -> None:
    """The message of the end would wait for rank 1, which waits for rank 0 to begin the next run."""
    zero, one = on_ranks(rank_jobs.interrupted_between_runs, 2, ctrl_c_on_rank_1)
    assert zero.result is not None, zero
    assert one.result is not None, one
    assert (zero.result[0], one.result[0]) == ("interrupted", ended)
    assert max(zero.result[1], one.result[1]) < SOON_S


@pytest.mark.slow
@pytest.mark.parametrize("dies", [True, False])
def test_the_others_stay_for_rank_0_to_write_unless_it_is_lost(dies: bool) -> None:
    """torchrun ends all ranks with the first; one that has died writes nothing."""
    zero, *others = on_ranks(rank_jobs.rank_0_ends, 3, dies, writes_s := 4.0)
    assert zero.exit_code == (7 if dies else 0)
    for rank in others:
        assert rank.result is not None, rank
        assert rank.result[0] == 1
        assert rank.result[1] < STAY_S if dies else rank.result[1] > writes_s


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
