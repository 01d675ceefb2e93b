"""Ways timed in turn: the order of rounds, results checked before, and ways that fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import torch

from experiments._side_by_side import WARM_UP, Running, Way, difference, side_by_side

EXPECTED = [torch.tensor([1.0, -2.0])]


def way(name: str, log: list[str], results: Sequence[torch.Tensor] = EXPECTED) -> Way:
    """A way that takes a second more each time, and says so in `log`."""

    @contextmanager
    def start() -> Iterator[Running]:
        def time_s() -> float:
            log.append(name)
            return float(log.count(name))

        yield Running(time_s, lambda: results)
        log.append(f"end of {name}")

    return Way(name, start)


def test_each_round_begins_with_another_way() -> None:
    log: list[str] = []
    entries = side_by_side([way(name, log) for name in "abc"], EXPECTED, rounds=3)
    assert "".join(log[: 3 * WARM_UP]) == "a" * WARM_UP + "b" * WARM_UP + "c" * WARM_UP
    assert "".join(log[3 * WARM_UP : -3]) == "abc" + "bca" + "cab"
    assert log[-3:] == ["end of c", "end of b", "end of a"]
    first = WARM_UP + 1.0
    assert [entry.samples_s for entry in entries] == [(first, first + 1, first + 2)] * 3
    assert [entry.median_s for entry in entries] == [first + 1] * 3
    figures = entries[0].figures()
    assert (figures["q1_s"], figures["q3_s"], figures["rounds"]) == (first + 0.5, first + 1.5, 3)


def test_a_way_with_other_results_is_not_timed() -> None:
    log: list[str] = []
    ways = [way("right", log), way("wrong", log, [torch.tensor([1.0, -2.5])])]
    right, wrong = side_by_side(ways, EXPECTED, rounds=2)
    assert log.count("wrong") == WARM_UP
    assert len(right.samples_s) == 2
    assert not wrong.samples_s
    assert wrong.median_s is None
    assert wrong.figures()["note"] == "results differ from plain PyTorch's by 0.25 of the largest"


def test_a_way_that_cannot_start_says_why_and_the_others_go_on() -> None:
    @contextmanager
    def broken() -> Iterator[Running]:
        raise RuntimeError("no compiler here\nand much more")
        yield

    log: list[str] = []
    failed, fine = side_by_side([Way("broken", broken), way("fine", log)], EXPECTED, rounds=2)
    assert failed.failure == "RuntimeError: no compiler here"
    assert len(fine.samples_s) == 2


def test_an_infinite_difference_is_told_in_words_alone() -> None:
    (wrong,) = side_by_side([way("wrong", [], [torch.ones(3)])], EXPECTED, rounds=1)
    assert wrong.figures()["difference"] is None
    assert wrong.figures()["note"] == "results differ from plain PyTorch's by inf of the largest"


@pytest.mark.parametrize("found", [[], [torch.ones(3)], [torch.tensor([1.0, float("nan")])], [*EXPECTED, *EXPECTED]])
def test_other_shapes_and_no_numbers_are_far_off(found: list[torch.Tensor]) -> None:
    assert difference(found, EXPECTED) == float("inf")


def test_a_difference_is_a_share_of_the_largest() -> None:
    assert difference([torch.tensor([1.5, -2.0])], EXPECTED) == 0.25
    assert difference(EXPECTED, EXPECTED) == 0.0
