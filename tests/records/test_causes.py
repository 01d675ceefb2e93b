"""Causes of large errors that people wrote down."""

from __future__ import annotations

import pytest

from graphsched.errors import FileFormatError
from graphsched.records.causes import cause_of, find_causes

FIGURES = {"experiment": "exp", "platform": "h200-x2", "label": "a, 2 GPUs", "scheduler": None, "mode": "eager"}
TEXT = """
[[cause]]
experiment = "exp"
label = "a, *"
cause = "copies wait for each other"

[[cause]]
platform = "h200-*"
cause = "a slow host"
"""


def test_the_first_cause_that_fits_is_given(tmp_path):
    (tmp_path / "causes.toml").write_text(TEXT)
    causes = find_causes([tmp_path])
    assert cause_of(FIGURES, causes) == "copies wait for each other"
    assert cause_of(FIGURES | {"label": "b"}, causes) == "a slow host"
    assert cause_of(FIGURES | {"label": "b", "platform": "desk"}, causes) is None


def test_each_file_is_read_once(tmp_path):
    (tmp_path / "x1").mkdir()
    (tmp_path / "x2").mkdir()
    (tmp_path / "causes.toml").write_text(TEXT)
    assert len(find_causes([tmp_path, tmp_path / "x1", tmp_path / "x2"])) == 2


def test_the_file_need_not_be_there(tmp_path):
    assert find_causes([tmp_path]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[cause", "TOMLDecodeError"),
        ("", "KeyError"),
        ("cause = 1", "TypeError"),
        ("cause = [1]", "TypeError"),
        ('[[cause]]\nlabel = "a"', "entry 1 lacks a text"),
        ('[[cause]]\ncause = "everything"', "entry 1 lacks a text or a pattern"),
        ('[[cause]]\nlabel = "a"\ncause = " "', "entry 1 lacks"),
        ('[[cause]]\nlabel = 1\ncause = "x"', "entry 1 lacks"),
        (TEXT + '[[cause]]\nlable = "a"\ncause = "x"', "entry 3 has a pattern of 'lable'"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, text, message):
    (tmp_path / "causes.toml").write_text(text)
    with pytest.raises(FileFormatError, match=rf"causes\.toml is no list of causes.*{message}"):
        find_causes([tmp_path])
