"""The team that a thread's parallel operations leave, by the threads that the system counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsched.executors import own_team

COUNTS = """
import os, threading, torch
from graphsched.executors.own_team import end_own_team
threads = lambda: len(os.listdir("/proc/self/task"))
torch.set_num_threads(4)
def work():
    torch.rand(2_000_000).add_(1.0)
alone = threads()
work()
with_team = threads()
end_own_team()
ended, number = threads(), torch.get_num_threads()
end_own_team()
work()
print(alone, with_team, ended, threads(), number)
"""

LANES = """
import os, torch, graphsched as gs
from tests.builders import platform
from dataclasses import replace
torch.set_num_threads(4)
work = gs.Workload()
x = work.input("x", torch.rand(2_000_000), device="cpu")
work.task(torch.add, x, 1.0, name="y", device="cpu")
here = platform(gpus=0)
here = replace(here, devices=tuple(replace(d, threads=2) for d in here.devices), cores=2)
threads = lambda: len(os.listdir("/proc/self/task"))
with gs.Program(gs.schedule(work, here, scheduler="one_stream")) as program:
    program.run()
    before = threads()
    torch.rand(2_000_000).add_(1.0)
    beside = threads()
    program.time_once()
    print(before, beside, threads())
"""


RESTS = (
    LANES[: LANES.index("with gs")]
    + """
from graphsched.executors import execute
from graphsched.executors.program import Program
run, seen = Program.time_once, []
def counted(program):
    seconds = run(program)
    seen.append(threads())
    return seconds
Program.time_once = counted
plan, beside = gs.schedule(work, here, scheduler="one_stream"), []
execute(plan, repeats=2, warmup=1, between=lambda: beside.append(threads()))
print(*beside, *sorted(set(seen)))
"""
)


def counts(code: str) -> list[int]:
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux" or own_team._pause() is None, reason="no OpenMP library that can pause")
def test_a_team_ends_and_another_one_begins_with_the_next_operation() -> None:
    alone, with_team, ended, again, number = counts(COUNTS)
    assert with_team >= alone + 3
    assert ended == with_team - 3
    assert again == with_team
    assert number == 4  # as it was set


@pytest.mark.skipif(sys.platform != "linux" or own_team._pause() is None, reason="no OpenMP library that can pause")
def test_the_thread_that_dispatches_has_none_while_lanes_of_the_cpu_run() -> None:
    before, beside, after = counts(LANES)
    assert beside == before + 3
    assert after == before


@pytest.mark.skipif(sys.platform != "linux" or own_team._pause() is None, reason="no OpenMP library that can pause")
def test_lanes_have_none_while_something_else_is_done_between_their_runs() -> None:
    """What computes then has the cores, and threads that look for work, to itself; the next run makes others."""
    *beside, in_runs = counts(RESTS)
    assert beside == [in_runs - 1] * 2


@pytest.mark.skipif(own_team._pause() is None, reason="no OpenMP library that can pause")
def test_the_library_is_found_in_a_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside files whose names are not UTF-8, and others in a folder of its name."""
    paths = (os.fsdecode(line.split(maxsplit=5)[-1]) for line in own_team.MAPS.read_bytes().splitlines())
    library = next(Path(path) for path in paths if "libgomp" in Path(path).name)
    there = tmp_path / "my libgomp" / library.name
    there.parent.mkdir()
    there.symlink_to(library)
    others = [b"/data/\xe4.bin", os.fsencode(there.parent / "other.so")]
    mapped = [b"7f00-7f01 r-xp 00000000 fe:00 17      " + path for path in (*others, os.fsencode(there))]
    maps = tmp_path / "maps"
    maps.write_bytes(b"\n".join([b"7ffd-7ffe rw-p 00000000 00:00 0 ", *mapped]) + b"\n")
    monkeypatch.setattr(own_team, "MAPS", maps)
    pause = own_team._pause.__wrapped__()
    assert pause is not None
    assert pause(own_team.SOFT) == 0


def test_without_such_a_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> object:
        raise OSError("none")

    own_team._pause.cache_clear()
    monkeypatch.setattr(own_team.ctypes, "CDLL", missing)
    try:
        own_team.end_own_team()
        assert own_team._pause() is None
    finally:
        own_team._pause.cache_clear()
