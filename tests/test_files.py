"""Files are whole or not there, and errors name them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from graphsched.errors import FileFormatError, OutputError
from graphsched.files import check_folder, read_json, write_bytes, write_text


def test_write_makes_folders_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "out.txt"
    write_text(path, "1 µs\n")
    assert path.read_bytes() == "1 µs\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["out.txt"]


def test_write_replaces(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "long before")
    write_text(path, "now")
    assert path.read_text() == "now"


def test_half_of_a_character_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write .*out.txt: UTF-8 has no '\\ud800', half of a character"):
        write_text(tmp_path / "out.txt", "a\ud800b")
    assert not list(tmp_path.iterdir())


def test_what_is_written_can_be_read_by_others(tmp_path: Path) -> None:
    write_text(tmp_path / "out.txt", "")
    assert (tmp_path / "out.txt").stat().st_mode & 0o777 == 0o644


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "old")

    def interrupt(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write .*file/out.txt"):
        write_bytes(tmp_path / "file" / "out.txt", b"")
    with pytest.raises(OutputError, match=r"cannot write into folder .*file"):
        check_folder(tmp_path / "file")


def test_a_file_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match="out"):
        write_text(tmp_path / "out", "")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_check_folder_makes_it_and_leaves_it_empty(tmp_path: Path) -> None:
    folder = check_folder(str(tmp_path / "a" / "b"))
    assert folder == tmp_path / "a" / "b"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("cut", range(len('{"a": [1, 2]}')))
def test_truncated_json(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": [1, 2]}'[:cut])
    with pytest.raises(FileFormatError, match=r"x.json is no complete JSON file"):
        read_json(path)


def test_json_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"cannot read .*none.json"):
        read_json(tmp_path / "none.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match=r"deep.json"):
        read_json(tmp_path / "deep.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match=r"bytes.json"):
        read_json(tmp_path / "bytes.json")


def test_json_is_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "x.json", json.dumps({"unit": "µs"}, ensure_ascii=False))
    assert read_json(tmp_path / "x.json") == {"unit": "µs"}
