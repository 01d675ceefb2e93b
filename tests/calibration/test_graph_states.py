"""Operations by the state of caches: which calls are made in which order, and what their seconds show."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_states as module
from graphsched.calibration.graph_rows import STAMPS, sequence_of, stamped_spans_s
from graphsched.calibration.graph_states import Fills, Round, cache_states, sequence_and_places, writing
from graphsched.costs import CacheStates
from tests.executors.fake_cuda import STAMP_NS, FakeCuda

CACHE = 1000
SECONDS = {"row": 5e-6, "written": 6.5e-6, "lost": 9e-6}
ONLY = 8.5e-6, 7e-6  # where the first input is there alone, and the second


def named(name: str) -> Any:
    return partial(str, name)


def names(sequence: list[Any]) -> list[str]:
    return [call() for call in sequence]


FILLS = Fills(named("fill"), named("read"))


def test_a_round_of_one_set() -> None:
    """The operation, again; inputs written; inputs written and the cache filled: in the second round by reading."""
    sequence, places = sequence_and_places([named("op")], [[[named("w1")], [named("w2")]]], FILLS, 2)
    one = ["op", "op", "w1", "w2", "op", "w1", "w2"]
    assert names(sequence) == [*one, "fill", "op", *one, "read", "op"]
    assert places == [Round(1, 4, 8), Round(10, 13, 17)]


def test_of_several_inputs_each_is_found_alone() -> None:
    """Behind a fill one of them is written, in turn the first and the third."""
    writes = [[[named("w1")], [named("w2")], [named("w3")]]]
    sequence, places = sequence_and_places([named("op")], writes, FILLS, 1, [0, 2])
    assert names(sequence)[places[0].lost + 1 :] == ["fill", "w1", "op", "fill", "w3", "op"]
    assert [names(sequence)[place] for place in places[0].only] == ["op", "op"]


def test_sets_are_gone_round_and_none_is_in_the_cache_when_a_row_would_not_find_it() -> None:
    """Of two sets, the one that `row` reads was last used before the cache was filled; both come behind both fills."""
    calls, writes = [named("op0"), named("op1")], [[[named("w0")]], [[named("w1")]]]
    sequence, places = sequence_and_places(calls, writes, FILLS, 4)
    said = names(sequence)
    assert said[:9] == ["fill", "op1", "op0", "w0", "op0", "w0", "fill", "op0", "read"]
    assert [(said[each.row - 2], said[each.row]) for each in places] == [
        ("fill", "op0"),
        ("read", "op0"),
        ("fill", "op1"),
        ("read", "op1"),
    ]
    for each in places:
        last = max((k for k in range(each.row) if said[k] == said[each.row]), default=-1)
        assert {"fill", "read"} & set(said[last + 1 : each.row])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16])
def test_what_is_written_is_what_was_there(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    turned, held = tensor.t(), tensor.clone()
    (write,) = writing([turned])
    turned.zero_()
    write()
    assert torch.equal(tensor, held)


def test_what_overlaps_itself_or_is_empty_is_not_written() -> None:
    assert writing([torch.ones(1).expand(3), torch.ones(0)]) == []


class Played:
    """A sequence whose calls take what their place in a round says."""

    def __init__(self, patch: pytest.MonkeyPatch, *, cache: int = CACHE, fails: bool = False) -> None:
        self.sequence: list[Any] = []
        self.places: list[Round] = []
        self.fails = fails
        patch.setattr(module, "cache_bytes", lambda device: cache)
        patch.setattr(module, "filling", lambda device: FILLS)
        patch.setattr(module, "sequence_and_places", self._made)
        patch.setattr(module, "sequence_of", self._program)
        patch.setattr(module, "stamped_spans_s", self._spans)

    def _made(self, *args: Any) -> tuple[list[Any], list[Round]]:
        self.sequence, self.places = sequence_and_places(*args)
        return self.sequence, self.places

    def _program(self, sequence: list[Any], device: int, dispatch: Any) -> Any:
        assert sequence is self.sequence
        assert dispatch is STAMPS
        if self.fails:
            raise RuntimeError("no capture")
        return _Opened()

    def _spans(self, program: Any) -> list[float]:
        seconds = [1e-3] * len(self.sequence)
        for each in self.places:
            for name, second in SECONDS.items():
                seconds[getattr(each, name)] = second
            for place, second in zip(each.only, ONLY, strict=False):
                seconds[place] = second
        return seconds


class _Opened:
    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        """It is closed."""


def step_of(*tensors: Any) -> Any:
    operation = SimpleNamespace(function=torch.neg, args=(), kwargs={})
    return SimpleNamespace(task=SimpleNamespace(operation=operation), tensors=tensors or (torch.ones(3),))


def test_states_are_beyond_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    Played(monkeypatch)
    found = cache_states(step_of(), 0, 1e-5, 4, 2)
    assert found is not None
    assert found.written_s == pytest.approx(1.5e-6)
    assert found.lost_s == pytest.approx(4e-6)
    assert found.company_s == 0.0
    assert found.shares == ()


def test_inputs_have_their_share_in_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """9 µs without the two large ones, 8.5 and 7 with one of them: they are worth 1 to 4, the small one nothing."""
    Played(monkeypatch)
    found = cache_states(step_of(torch.ones(30), torch.ones(1), torch.ones(50)), 0, 1e-5, 4, 1)
    assert found is not None
    assert found.shares == pytest.approx((0.2, 0.0, 0.8))


def test_one_that_returns_much_has_states_and_no_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four calls of 70 MB in a round leave room for three rounds in 1 GB, six for two."""
    Played(monkeypatch)
    found = cache_states(step_of(torch.ones(30), torch.ones(50)), 0, 1e-5, 70 * 10**6, 1)
    assert found is not None
    assert (found.written_s, found.shares) == (pytest.approx(1.5e-6), ())


def test_an_operation_that_loses_next_to_nothing_has_no_shares() -> None:
    places = [Round(0, 1, 2, (3, 4))]
    assert module.states_of([5.0, 5.0, 5.0 + 9e-7, 5.0, 5.0], places, [0, 1], 2).shares == ()
    assert module.states_of([5.0, 5.0, 5.0 + 2e-6, 5.0, 5.0], places, [0, 1], 2).shares == (0.5, 0.5)


@pytest.mark.parametrize("wrong", [{"cache": 0}, {"fails": True}])
def test_what_cannot_be_measured_is_not_known(wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Played(monkeypatch, **wrong)
    assert cache_states(step_of(), 0, 1e-5, 4, 1) is None


def test_long_and_large_ones_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    assert cache_states(step_of(), 0, 1e-3, 4, 1) is None
    assert cache_states(step_of(), 0, 1e-5, 10**9, 1) is None
    assert played.sequence == []


def test_a_sequence_is_a_plan_with_stamps_around_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three calls on one lane: a stamp before and after each, a tick of the clock between two."""
    fake = FakeCuda(1)
    fake.install(monkeypatch)
    log: list[str] = []
    with sequence_of([partial(log.append, name) for name in "abc"], 0, STAMPS) as program:
        assert program.plan.names == ["t0", "t1", "t2"]
        assert {program.plan.lanes[lane].name for lane in program.plan.lane_of} == {"cuda:0/s0"}
        seconds = stamped_spans_s(program, 3)
    assert "".join(log) == "abc" * (len(log) // 3)
    assert seconds == pytest.approx([STAMP_NS * 1e-9] * 3)


def test_states_of_rounds_are_medians_of_each_fill_and_their_mean() -> None:
    """Behind written lines 1, 3 and 2 longer, behind read ones 7."""
    seconds = [1.0, 2.0, 3.0, 1.0, 8.0, 9.0, 1.0, 4.0, 5.0, 1.0, 8.0, 9.0, 1.0, 3.0, 4.0]
    places = [Round(k, k + 1, k + 2) for k in range(0, len(seconds), 3)]
    assert module.states_of(seconds, places) == CacheStates(4.5, 5.5)
