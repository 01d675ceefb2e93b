"""Whether trainings can be kept as asked for; files of trainings: see `test_loop`."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.training.checkpoints import check_keeping
from graphsched.errors import ExperimentError, OutputError


@pytest.mark.parametrize("every", [0, 1, 100])
def test_any_number_of_steps_and_a_folder_that_is_made(tmp_path: Path, every: int) -> None:
    """Nothing is left in the folder; without one nothing is kept."""
    folder = tmp_path / "kept" / "here"
    check_keeping(str(folder), every)
    check_keeping("", every)
    assert list(tmp_path.rglob("*")) == [folder.parent, folder]


def test_steps_below_0_are_refused(tmp_path: Path) -> None:
    words = "parameter 'every' is -1: a number of steps is needed, or 0 to keep a training after each epoch only"
    with pytest.raises(ExperimentError, match=words):
        check_keeping(str(tmp_path / "kept"), -1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["file", "file/kept"])
def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / place
    with pytest.raises(OutputError) as caught:
        check_keeping(str(folder), 0)
    words = str(caught.value)
    assert words.startswith(f"parameter 'checkpoints' is {str(folder)!r}: cannot write into folder {folder}: ")
    assert words.endswith(": name a folder that can be written")
