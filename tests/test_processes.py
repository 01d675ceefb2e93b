"""Work spread over processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from graphsched import processes
from graphsched.processes import cores, spread


def test_each_item_comes_with_its_result_whatever_ends_first() -> None:
    assert dict(spread(math.sqrt, [4.0, 9.0, 16.0], 2)) == {4.0: 2.0, 9.0: 3.0, 16.0: 4.0}
    assert list(spread(math.sqrt, [], 2)) == []


GIVEN: list[int] = []


def keep(number: int) -> None:
    GIVEN.append(number)


def times(item: int) -> int:
    return item * GIVEN[0] * int(os.environ["OMP_NUM_THREADS"])


def test_what_all_have_in_common_is_there_before_the_first_item() -> None:
    """In each process, which computes in one thread; here nothing has changed."""
    assert dict(spread(times, [2, 3, 5], 2, keep, (7,))) == {2: 14, 3: 21, 5: 35}
    assert GIVEN == []


def test_what_an_item_raises_is_raised_here() -> None:
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        list(spread(math.sqrt, [-1.0, 4.0], 2))


class TwoPartsError(Exception):
    """One that a pipe takes and does not give back: it is made of two parts, and keeps one."""

    def __init__(self, what: str, why: object) -> None:
        super().__init__(f"{what} {why}")


def of_two_parts(item: int) -> None:
    raise TwoPartsError("item", item)


def with_a_lock(item: int) -> None:
    """No pipe takes what this raises."""
    error = ValueError(f"item {item}")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


@pytest.mark.parametrize(
    ("function", "told"), [(of_two_parts, "TwoPartsError: item 3"), (with_a_lock, "ValueError: item 3")]
)
def test_what_no_pipe_takes_or_gives_back_is_told_by_its_text(function: Callable[[int], None], told: str) -> None:
    with pytest.raises(RuntimeError, match=told) as raised:
        list(spread(function, [3], 1))
    assert f"in {function.__name__}" in "".join(raised.value.__notes__)


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(BrokenProcessPool):
        list(spread(os._exit, [3], 1))


def large_or_none(item: int) -> bytes:
    """A result that takes long to hand over; without one for the item after some."""
    if item == 5:
        raise ValueError("no result")
    return bytes(30_000_000)


def ends(run: str) -> str:
    """What a script says that ends in time: Python waits at exit for its threads."""
    script = f"from tests.test_processes import large_or_none\nfrom graphsched.processes import spread\n{run}"
    guarded = "if __name__ == '__main__':\n" + textwrap.indent(script, "    ")
    done = subprocess.run([sys.executable, "-c", guarded], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr.strip().rpartition("\n")[2]


def test_what_an_item_raises_ends_processes_that_hand_over_large_results() -> None:
    assert ends("for _ in range(3): print(sorted(item for item, _ in spread(large_or_none, [1, 2], 2)))") == (
        "[1, 2]\n" * 3
    )
    assert ends("list(spread(large_or_none, list(range(12)), 3))") == "ValueError: no result"


def test_nothing_is_left_of_results_that_nobody_wants_any_more() -> None:
    """As after an interrupt."""
    run = "results = spread(large_or_none, [1, 2, 3, 4], 3)\nprint(next(results)[0] in {1, 2, 3})\nresults.close()"
    assert ends(run) == "True\n"


def test_an_interrupt_as_an_item_is_handed_over_ends_the_process_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all items have in common, the first item, and the second, which takes a minute."""
    real, sent = processes._send, [0]

    def send(*given: Any) -> None:
        real(*given)
        sent[0] += 1
        if sent[0] == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_send", send)
    began_s = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        list(spread(time.sleep, [0.0, 60.0], 1))
    assert time.perf_counter() - began_s < 45.0


def test_results_that_are_kept_until_python_ends_keep_it_from_nothing() -> None:
    assert ends("results = spread(abs, [1, 2, 3], 2)\nprint(next(results)[0] in {1, 2})") == "True\n"


def test_a_script_that_starts_itself_again_ends(tmp_path: Path) -> None:
    """Its processes die before they have been given what all have in common, which no pipe holds."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import math\nfrom graphsched.processes import spread\n"
        "print(dict(spread(math.sqrt, [4.0], 1, len, (bytes(1_000_000),))))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.rstrip().endswith("BrokenProcessPool: a process died")


def test_there_are_cores() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
