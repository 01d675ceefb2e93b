"""Memory of results is kept for the next run, unless the user has told the C library otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from graphsched.executors import kept_memory
from graphsched.executors.kept_memory import VARIABLES, on_glibc

RUNS = """
import resource
import statistics
import torch
import graphsched as gs

work = gs.Workload("means")
x, y = (work.input(name, torch.rand(3000, 3000)) for name in "xy")
for k in range(6):
    work.task(torch.lerp, x, y, 0.5, name=f"mean{k}")
here = gs.Platform("here", (gs.Device("cpu", "cpu"),))
plan = gs.schedule(work, here, scheduler="round_robin", lanes=2)
with gs.Program(plan) as program:
    for _ in range(6):
        program.time_once()
    new = []
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        program.time_once()
        new.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    print(statistics.median(new))  # on a host with other load a run now and then needs one more block than any before
    kept = int(open("/proc/self/statm").read().split()[1])
print(kept - int(open("/proc/self/statm").read().split()[1]))
"""
PAGES = 6 * 3000 * 3000 * 4 // 4096  # of the results of a run; by default glibc keeps blocks up to 32 MiB, not these


def runs(**more: str) -> tuple[int, int]:
    """Pages new to the process in the median run, and those that closing the program gives back."""
    plain = {name: text for name, text in os.environ.items() if name not in (*VARIABLES, "GLIBC_TUNABLES")}
    told = subprocess.run([sys.executable, "-c", RUNS], env=plain | more, capture_output=True, text=True, check=True)
    first, second = told.stdout.split()
    return int(first), int(second)


@pytest.mark.skipif(not on_glibc(), reason="another C library")
def test_runs_write_results_into_memory_that_is_there() -> None:
    """6 means of 36 MB on two lanes, again and again; a program that is closed gives their memory back."""
    new, given_back = runs()
    assert new < PAGES / 100
    assert given_back > PAGES / 2


@pytest.mark.skipif(not on_glibc(), reason="another C library")
@pytest.mark.parametrize(
    "told", [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}]
)
def test_who_has_told_the_library_what_to_keep_is_not_overruled(told: dict[str, str]) -> None:
    """Blocks with a mapping of their own end with the result: each run has all of its pages anew."""
    assert runs(**told)[0] > PAGES / 2


class Library:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, ...]] = []

    def mallopt(self, number: int, value: int) -> int:
        self.told.append((number, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.told.append((pad,))
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setattr(kept_memory.ctypes, "CDLL", lambda _: found)
    for name in (*VARIABLES, "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    for function in (kept_memory.keep_memory, kept_memory.memory_kept):
        monkeypatch.setattr(kept_memory, function.__name__, function.__wrapped__)
    return found


def test_the_library_is_told_each_figure(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_memory, "on_glibc", lambda: True)
    kept_memory.keep_memory()
    assert library.told == [(-8, 1), (-4, 0), (-1, -1), (-2, 2**26)]
    kept_memory.give_memory_back()
    assert library.told[4:] == [(0,)]


@pytest.mark.parametrize("name", VARIABLES)
def test_where_a_variable_is_set_it_is_left_alone(name: str, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_memory, "on_glibc", lambda: True)
    monkeypatch.setenv(name, "1")
    kept_memory.keep_memory()
    kept_memory.give_memory_back()
    assert not library.told


@pytest.mark.parametrize("answer", [("", ""), ("musl", "1.2"), ("libc", "")])
def test_another_library_is_left_alone(
    answer: tuple[str, str], library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_memory.platform, "libc_ver", lambda: answer)
    kept_memory.keep_memory()
    kept_memory.give_memory_back()
    assert not library.told
