"""An operation on a CPU lane: threads that slept before each sample, or go on at once."""

from __future__ import annotations

import itertools
import signal
import threading
import time
import weakref
from functools import partial

import pytest
import torch

from graphsched.calibration import cpu_operations as module
from graphsched.calibration import lane_sweep
from graphsched.calibration.cpu_operations import (
    EVERY_LONG,
    FAR_BYTES,
    FAR_TIMES,
    LEAST_SAMPLES,
    LONGEST_WOKEN_S,
    MOST_SETS,
    NEAR_BYTES,
    NEAR_FIRST,
    SHORT_S,
    Sampled,
    measure_on_cpu,
)
from graphsched.calibration.lane_pace import LONGEST_ROW_S, Row, Yardsticks
from graphsched.calibration.lane_sweep import SWEPT_BYTES, Sweep
from graphsched.costs import BRIEF_REST_S, LONG_REST_S, NO_REST_S, REST_S

FIRST = 1 + 3 + MOST_SETS
"""Calls of a short operation before the first sample that counts: what it returns, how long it takes, all memory."""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_lane_of_several_threads_rests_before_each_sample(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    rests: list[float] = []
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1

    monkeypatch.setattr(module.time, "sleep", rests.append)
    cost = measure_on_cpu([Sampled(call)], Yardsticks(threads), repeats=20)
    assert cost.device_s > 0
    if threads == 1:
        assert not rests
        assert calls > 100  # short ones are timed together
    else:
        assert len(rests) >= 20
        assert rests.count(BRIEF_REST_S) == cost.samples
        assert rests.count(LONG_REST_S) == -(-cost.samples // EVERY_LONG)
        assert rests.count(REST_S) >= cost.samples  # the first behind a row of the yardstick does not count
        of_others = [rest_s for rest_s in rests if rest_s != REST_S]
        assert of_others == ([BRIEF_REST_S, LONG_REST_S, BRIEF_REST_S] * cost.samples)[: len(of_others)]  # by turns
        assert set(rests) == {BRIEF_REST_S, REST_S, LONG_REST_S}
        assert calls == len(rests) + FIRST - LEAST_SAMPLES + cost.samples  # those right behind another do not rest


PRODUCT_S = 4e-4


@pytest.mark.parametrize(("first_s", "every", "again"), [(3.0, 3, 0), (1e-5, 1, 1)])
def test_the_lanes_yardstick_is_taken_between_the_samples(
    monkeypatch: pytest.MonkeyPatch, first_s: float, every: int, again: int
) -> None:
    """Rows as long as a sample; after each, a short operation finds its caches empty once, and that does not count.

    Two of three rows beside a short one are interrupted and take four times as long; it is not.
    """
    lengths: list[float] = []
    order: list[str] = []

    def row(self: Yardsticks, row_s: float) -> Row:
        if not row_s:  # how long one takes
            return Row(PRODUCT_S, 0.0)
        lengths.append(row_s)
        order.append("row")
        return Row(PRODUCT_S * (4 if len(lengths) % 3 else 1) if again else PRODUCT_S * len(lengths), 0.0)

    def sample(lane: object, batch: int, rest_s: float = 0.0) -> float:
        order.append("sample")
        return 30.0 if again and order[-2:-1] == ["row"] else first_s

    monkeypatch.setattr(Yardsticks, "row", row)
    monkeypatch.setattr(module._Lane, "sample_s", sample)
    cost = measure_on_cpu([Sampled(lambda: None)], Yardsticks(1), repeats=21)
    rows = cost.samples // every
    assert (cost.device_s, len(lengths)) == (first_s, rows)
    assert cost.product_s == pytest.approx(PRODUCT_S if again else PRODUCT_S * (rows + 1) / 2)
    assert set(lengths) == {min(LONGEST_ROW_S, max(SHORT_S, first_s))}
    assert order == ["sample"] * (3 + again) + (["row"] + ["sample"] * (every + again)) * rows


@pytest.mark.parametrize(("nbytes", "shares"), [(SWEPT_BYTES // 2, (0.25, 0.5)), (0, (0.75, 0.0))])
def test_on_several_threads_a_share_goes_with_memory_and_one_with_neither(
    monkeypatch: pytest.MonkeyPatch, nbytes: int, shares: tuple[float, float]
) -> None:
    """Of 4 ms: a sweep takes 4, an operation on one number 1; on one thread there is no other yardstick."""
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: 4e-3)
    monkeypatch.setattr(module, "_least_s", lambda rest_s: 1e-3)
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(PRODUCT_S, 4e-3 if self.threads > 1 else 0.0))
    for threads, found in ((2, (4e-3, shares)), (1, (0.0, (1.0, 0.0)))):
        cost = measure_on_cpu([Sampled(lambda: None)], Yardsticks(threads), repeats=20, nbytes=nbytes)
        assert (cost.sweep_s, cost.shares) == (found[0], pytest.approx(found[1]))


@pytest.mark.parametrize(("threads", "seconds"), [(2, 2e-4), (1, 1e-4)])
def test_what_holds_up_some_samples_of_several_threads_counts(
    monkeypatch: pytest.MonkeyPatch, threads: int, seconds: float
) -> None:
    """Every fifth takes six times as long."""
    samples = itertools.cycle([1e-4, 1e-4, 1e-4, 1e-4, 6e-4])
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: next(samples))
    monkeypatch.setattr(module._Lane, "first_s", lambda lane: 1e-2)
    monkeypatch.setattr(module, "_least_s", lambda rest_s: 0.0)
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(PRODUCT_S, 0.0))
    assert measure_on_cpu([Sampled(lambda: None)], Yardsticks(threads), repeats=20).device_s == pytest.approx(seconds)


SPEEDS_S = [4e-3] * 6 + [8e-3] * 5
"""Of sweeps, row by row, again and again."""


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("nbytes", "seconds", "times"), [(FAR_BYTES, 2e-3, FAR_TIMES), (0, 2.8e-3, 1)])
def test_what_goes_with_sweeps_counts_at_the_speed_of_those_around_it(
    monkeypatch: pytest.MonkeyPatch, nbytes: int, seconds: float, times: int, every: int
) -> None:
    """Six sweeps take 4 ms, five 8, by turns, and each sample half of what the last one took.

    What moves much takes half of the middle one, and has more samples; what moves nothing takes what it took.
    """
    rows: list[float] = []
    speeds = itertools.cycle(SPEEDS_S)

    def row(self: Yardsticks, row_s: float) -> Row:
        rows.append(next(speeds))
        return Row(PRODUCT_S, rows[-1])

    monkeypatch.setattr(lane_sweep, "SWEPT_BYTES", 2 * FAR_BYTES)
    monkeypatch.setattr(Yardsticks, "row", row)
    monkeypatch.setattr(Yardsticks, "one_s", 0.0)
    monkeypatch.setattr(module, "rows_wanted", lambda row_s, samples: samples // every)
    monkeypatch.setattr(module, "_least_s", lambda rest_s: 0.0)
    monkeypatch.setattr(
        module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: rows[-1] / 2 if rows else LONGEST_WOKEN_S / 2
    )
    cost = measure_on_cpu([Sampled(lambda: None)], Yardsticks(2), repeats=66, nbytes=nbytes)
    assert (cost.sweep_s, cost.samples) == (4e-3, 66 * times)
    assert cost.device_s == pytest.approx(seconds, rel=0.1)
    assert [took for _, took in cost.rests] == pytest.approx([seconds] * 4, rel=0.1)
    assert cost.quartiles_s == pytest.approx((2e-3, 2e-3 if nbytes else 4e-3))


def test_a_sweep_that_is_held_up_alone_says_nothing_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of eight takes four times as long; samples do not."""
    rows = itertools.cycle([4e-3] * 4 + [16e-3] + [4e-3] * 3)
    monkeypatch.setattr(lane_sweep, "SWEPT_BYTES", 2 * FAR_BYTES)
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(PRODUCT_S, next(rows)))
    monkeypatch.setattr(module, "_least_s", lambda rest_s: 0.0)
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: 2e-3)
    cost = measure_on_cpu([Sampled(lambda: None)], Yardsticks(2), repeats=20, nbytes=FAR_BYTES)
    assert (cost.sweep_s, cost.device_s) == (4e-3, pytest.approx(2e-3))


@pytest.mark.parametrize(("threads", "first_s"), [(1, 1e-3), (2, LONGEST_WOKEN_S)])
def test_what_takes_long_or_one_thread_has_as_many_samples_whatever_it_moves(
    monkeypatch: pytest.MonkeyPatch, threads: int, first_s: float
) -> None:
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: first_s)
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(PRODUCT_S, 4e-3))
    bare, moving = (
        measure_on_cpu([Sampled(lambda: None)], Yardsticks(threads), repeats=20, nbytes=nbytes)
        for nbytes in (0, FAR_BYTES)
    )
    assert bare.samples == moving.samples


def test_a_rest_that_is_as_long_as_another_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bringing operands takes longer than the brief rest and the usual one, behind which an operation takes 1 ms."""
    longer = {0.0: 1e-3, NO_REST_S: 2e-3, BRIEF_REST_S: 2e-3, REST_S: 1e-3, LONG_REST_S: 3e-3}
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: longer[rest_s])
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(PRODUCT_S, 0.0))
    cost = measure_on_cpu([Sampled(lambda: None, fetch_s=REST_S + 1e-3)], Yardsticks(2), repeats=20)
    assert cost.rests == ((REST_S + 1e-3, pytest.approx(1e-3)), (LONG_REST_S, pytest.approx(3e-3)))


def test_how_long_a_row_takes_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest of three; whatever more operations are measured."""
    lengths = iter([3e-3, 1e-3, 2e-3])
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(next(lengths), 0.0))
    yardsticks = Yardsticks(1)
    assert (yardsticks.one_s, yardsticks.one_s) == (1e-3, 1e-3)


def test_what_reads_much_goes_with_memory_and_what_computes_much_with_products() -> None:
    """A sum of two tensors of 32 MB each, and a product of two of 1 MB."""
    for function, operand, most in ((torch.add, torch.rand(2**23), 1), (torch.mm, torch.rand(512, 512), 0)):
        call = partial(function, operand, operand, out=torch.empty_like(operand))
        shares = measure_on_cpu([Sampled(call)], Yardsticks(2), repeats=5, nbytes=3 * operand.nbytes).shares
        assert shares[most] > 0.6 > 0.4 > shares[1 - most]


def test_an_operation_on_one_number_takes_some_time_and_less_than_a_sweep() -> None:
    sweep = Sweep()
    sweep()
    began = time.perf_counter()
    sweep()
    assert 0.0 < module._least_s(1e-4) < time.perf_counter() - began


@pytest.mark.parametrize(("threads", "places"), [(1, 2), (2, MOST_SETS + 1)])
def test_results_are_kept_as_those_of_a_plan_are(threads: int, places: int) -> None:
    """So that the next ones come to other memory."""
    made: list[weakref.ref[torch.Tensor]] = []
    alive: set[int] = set()

    def call() -> torch.Tensor:
        alive.add(sum(ref() is not None for ref in made) + 1)
        result = torch.zeros(1000)
        made.append(weakref.ref(result))
        return result

    measure_on_cpu([Sampled(call)], Yardsticks(threads), repeats=20)
    assert max(alive) == places


@pytest.mark.parametrize(("threads", "seconds", "known"), [(2, 1e-4, True), (2, 0.1, False), (1, 1e-4, False)])
def test_rests_of_other_lengths_count_apart(
    monkeypatch: pytest.MonkeyPatch, threads: int, seconds: float, known: bool
) -> None:
    """Operations take 4 times as long after a rest, 6 times after a long one; what takes long does not mind, one thread
    has no others.
    """
    longer = {0.0: 1.0, NO_REST_S: 1.5, BRIEF_REST_S: 2.0, REST_S: 4.0, LONG_REST_S: 6.0}
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: seconds * longer[rest_s])
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(PRODUCT_S, 0.0))
    cost = measure_on_cpu([Sampled(lambda: None)], Yardsticks(threads), repeats=20)
    assert cost.device_s == pytest.approx(seconds * (4.0 if threads > 1 else 1.0))
    points = {rest_s: seconds * longer[rest_s] for rest_s in (NO_REST_S, BRIEF_REST_S, REST_S, LONG_REST_S)}
    assert dict(cost.rests) == (pytest.approx(points) if known else {})


@pytest.mark.parametrize(
    ("fetch_s", "known"), [(1e-4, (1e-4, BRIEF_REST_S, REST_S, LONG_REST_S)), (3e-3, (3e-3, LONG_REST_S))]
)
def test_a_rest_ends_with_bringing_the_operands(
    monkeypatch: pytest.MonkeyPatch, fetch_s: float, known: tuple[float, ...]
) -> None:
    """It is no longer for it, unless bringing them takes longer than the rest."""
    order: list[object] = []
    monkeypatch.setattr(module.time, "sleep", order.append)
    monkeypatch.setattr(module, "_least_s", lambda rest_s: 0.0)
    calls = [Sampled(lambda: order.append("call"), lambda: order.append("fetch"), fetch_s)]
    cost = measure_on_cpu(calls, Yardsticks(2), repeats=20)
    assert tuple(rest_s for rest_s, _ in cost.rests) == known
    assert order[:FIRST] == ["call"] * FIRST
    slept = [step for step in order if isinstance(step, float)]
    assert set(slept) == {rest_s - fetch_s for rest_s in (BRIEF_REST_S, REST_S, LONG_REST_S) if rest_s > fetch_s}
    assert all(after == "fetch" for step, after in itertools.pairwise(order) if isinstance(step, float))
    told = [step for step in order[FIRST:] if not isinstance(step, float)]
    assert told == ["fetch", "call"] * (len(told) // 2)


@pytest.mark.parametrize(
    ("threads", "seconds", "nbytes", "known"),
    [
        (2, 1e-4, NEAR_BYTES, True),
        (2, 1e-4, NEAR_BYTES - 1, False),
        (2, LONGEST_WOKEN_S, NEAR_BYTES, False),
        (1, 1e-4, NEAR_BYTES, False),
    ],
    ids=["known", "little", "long", "one thread"],
)
@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_what_it_takes_in_caches_is_timed_in_a_row_on_one_set(
    monkeypatch: pytest.MonkeyPatch, threads: int, seconds: float, nbytes: int, known: bool, slower: float
) -> None:
    """One set of operands takes a half; the first of the row do not count, and sweeps beside it take `slower` times as
    long, with which half of what it takes then goes."""
    rows, near = [0], [0]

    def sample_s(lane: module._Lane, batch: int, rest_s: float = 0.0) -> float:
        if lane._sets > 2:
            return seconds
        near[0] += 1
        half_s = 0.5 * seconds / (0.5 + 0.5 / slower)
        return 9.0 if near[0] <= NEAR_FIRST else half_s

    def row(self: Yardsticks, row_s: float) -> Row:
        rows[0] += 1
        return Row(PRODUCT_S, 1e-2 * (slower if near_begins(rows[0]) else 1.0))

    counted: list[int] = []

    def near_begins(count: int) -> bool:
        return bool(counted) and count > counted[0]

    old = module._near

    def of_one_set(sampled: Sampled, yardsticks: Yardsticks, row_s: float) -> module._Samples:
        counted.append(rows[0])
        return old(sampled, yardsticks, row_s)

    monkeypatch.setattr(module, "_near", of_one_set)
    monkeypatch.setattr(module, "shares_of", lambda *_: (0.5, 0.5))
    monkeypatch.setattr(module._Lane, "sample_s", sample_s)
    monkeypatch.setattr(Yardsticks, "row", row)
    monkeypatch.setattr(module, "_least_s", lambda rest_s: 0.0)
    calls = [Sampled(lambda: None) for _ in range(3)]
    cost = measure_on_cpu(calls, Yardsticks(threads), repeats=20, nbytes=nbytes)
    assert cost.near_s == (pytest.approx(0.5 * seconds) if known else None)
    assert len(counted) == known


def test_what_takes_no_less_in_caches_takes_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: 1e-4 if lane._sets > 2 else 2e-4)
    monkeypatch.setattr(module, "_least_s", lambda rest_s: 0.0)
    monkeypatch.setattr(Yardsticks, "row", lambda self, row_s: Row(PRODUCT_S, 0.0))
    cost = measure_on_cpu([Sampled(lambda: None)] * 3, Yardsticks(2), repeats=20, nbytes=NEAR_BYTES)
    assert cost.near_s == cost.device_s == pytest.approx(1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_waits_for_one_sample_alone(threads):
    """Those of an operation that takes seconds take minutes, in a thread that no signal reaches."""
    called = 0

    def call():
        nonlocal called
        called += 1
        if called == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.05)
        return torch.zeros(1)

    with pytest.raises(KeyboardInterrupt):
        measure_on_cpu([Sampled(call)], Yardsticks(threads), repeats=20)
    assert called <= 4
