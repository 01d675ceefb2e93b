"""Trainings by several processes: what they learn, and how they go on after one of them was killed, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphsched as gs
from experiments.training.checkpoints import load
from tests.executors.distributed.ranks import on_ranks
from tests.experiments.training import rank_jobs

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone() -> tuple[dict[str, Any], list[dict[str, float]]]:
    """States and figures of the same training in one process, without a checkpoint."""
    with gs.Program(rank_jobs.plan(mode="eager")) as program:
        course = rank_jobs.run(program)
        return {name: t.numpy() for name, t in program.state().items()}, rank_jobs.figures(course)


def assert_same(found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """To the bit."""
    assert found[1] == expected[1]
    assert found[0].keys() == expected[0].keys()
    assert all(np.array_equal(array, expected[0][name]) for name, array in found[0].items())


def test_ranks_learn_what_one_process_learns(tmp_path: Path, alone: Any) -> None:
    """Every rank gets the same states and figures."""
    ended = on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "run.pt"), None)
    for rank in ended:
        assert not rank.error, rank.text
        assert_same(rank.result, alone)


@pytest.mark.parametrize("who", [0, 1])
def test_a_run_goes_on_after_a_rank_was_killed(tmp_path: Path, alone: Any, who: int) -> None:
    """Killed in step 9 of 15; the last checkpoint is that after step 8, the third of the second epoch."""
    file = tmp_path / "run.pt"
    ended = on_ranks(rank_jobs.train_on_ranks, 2, str(file), (who, 9))
    assert ended[who].exit_code == -signal.SIGKILL
    assert ended[1 - who].error == "RankError"
    assert f"rank {who}" in ended[1 - who].text
    kept = load(file)
    assert (kept.epoch, kept.step) == (1, 3)
    for rank in on_ranks(rank_jobs.train_on_ranks, 2, str(file), None):
        assert not rank.error, rank.text
        assert_same(rank.result, alone)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_each_rank_goes_on_with_its_own_random_numbers(tmp_path: Path) -> None:
    """Dropout on both ranks, whose generators differ."""
    whole = on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "whole.pt"), None, 0.5)
    on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "run.pt"), (1, 9), 0.5)
    ended = on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "run.pt"), None, 0.5, 6, 99)
    assert_same(ended[0].result, whole[0].result)
    one, other = load(tmp_path / "run.pt").random
    assert not torch.equal(one[0], other[0])


def test_torchrun_starts_the_ranks_again_and_they_go_on(tmp_path: Path, alone: Any) -> None:
    """Rank 1 kills itself in step 8; torchrun's second attempt ends with what one process has without a stop."""
    words = ("--standalone", "--nproc-per-node", "2", "--max-restarts", "1", "-m", rank_jobs.__name__)
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    files = [str(tmp_path / name) for name in ("run.pt", "result.pt")]
    called = subprocess.run(
        (sys.executable, "-m", "torch.distributed.run", *words, *files),
        capture_output=True, text=True, env=env, timeout=200, cwd=ROOT,
    )  # fmt: skip
    assert called.returncode == 0, called.stderr[-3000:]
    found = torch.load(files[1], weights_only=True)
    assert (found["attempt"], found["went on"]) == (1, True)
    assert_same(({name: t.numpy() for name, t in found["states"].items()}, found["history"]), alone)


def test_a_checkpoint_of_another_run_is_refused_on_every_rank(tmp_path: Path) -> None:
    """Of another network, and of one process."""
    on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "run.pt"), None)
    for rank in on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "run.pt"), None, 0.0, 7):
        assert rank.error == "ExperimentError"
        assert "run.pt is of another network: '0/0.bias' is float32[6] there and float32[7] here" in rank.text
    with gs.Program(rank_jobs.plan(mode="eager")) as program:
        rank_jobs.run(program, tmp_path / "alone.pt", epochs=1)
    for rank in on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "alone.pt"), None):
        assert rank.error == "ExperimentError"
        assert "alone.pt is of a run by 1 process, not 2: start as many" in rank.text


def test_ranks_that_do_not_see_one_file_are_refused(tmp_path: Path) -> None:
    """Rank 1 looks into another folder, as on a host that shares none."""
    for folder in "01":
        (tmp_path / folder).mkdir()
    on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "0" / "run.pt"), None)
    for rank in on_ranks(rank_jobs.train_on_ranks, 2, str(tmp_path / "{rank}" / "run.pt"), None):
        assert rank.error == "ExperimentError"
        assert "run.pt is not the same file for all ranks: rank 0 has " in rank.text
        assert "; rank 1 finds none: name one that they share" in rank.text


def test_all_ranks_stop_where_rank_0_is_interrupted(tmp_path: Path) -> None:
    """After the same step, though only one of them hears it."""
    ended = on_ranks(rank_jobs.interrupted_on_rank_0, 2, str(tmp_path / "run.pt"))
    assert [rank.result for rank in ended] == [[0, 2], [0, 2]], ended


def test_a_checkpoint_that_cannot_be_written_ends_all_ranks(tmp_path: Path) -> None:
    for rank in on_ranks(rank_jobs.cannot_write, 2, str(tmp_path / "run.pt")):
        assert rank.result.startswith("OutputError: cannot write "), rank
