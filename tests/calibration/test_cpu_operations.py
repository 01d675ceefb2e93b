"""An operation on a CPU lane: threads that slept before each sample, or go on at once."""

from __future__ import annotations

import itertools
import weakref

import pytest
import torch

from graphsched.calibration import cpu_operations as module
from graphsched.calibration.cpu_operations import LONG_RESTS, MOST_SETS, SHORT_S, Sampled, measure_on_cpu
from graphsched.calibration.lane_pace import LONGEST_ROW_S
from graphsched.costs import BRIEF_REST_S, LONG_REST_S, REST_S

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
    cost = measure_on_cpu([Sampled(call)], threads, repeats=20)
    assert cost.device_s > 0
    if threads == 1:
        assert not rests
        assert calls > 100  # short ones are timed together
    else:
        assert len(rests) >= 20
        assert rests.count(BRIEF_REST_S) == cost.samples
        assert rests.count(LONG_REST_S) == min(cost.samples, LONG_RESTS)
        assert rests.count(REST_S) >= cost.samples  # the first behind a row of the yardstick does not count
        assert set(rests) == {BRIEF_REST_S, REST_S, LONG_REST_S}
        assert calls == len(rests) + FIRST


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

    def row(product: object, row_s: float) -> float:
        if not row_s:
            return PRODUCT_S
        lengths.append(row_s)
        order.append("row")
        return PRODUCT_S * (4 if len(lengths) % 3 else 1) if again else PRODUCT_S * len(lengths)

    def sample(lane: object, batch: int, rest_s: float = 0.0) -> float:
        order.append("sample")
        return 30.0 if again and order[-2:-1] == ["row"] else first_s

    monkeypatch.setattr(module, "product_s", row)
    monkeypatch.setattr(module._Lane, "sample_s", sample)
    cost = measure_on_cpu([Sampled(lambda: None)], 1, repeats=21)
    rows = cost.samples // every
    assert (cost.device_s, len(lengths)) == (first_s, rows)
    assert cost.product_s == pytest.approx(PRODUCT_S if again else PRODUCT_S * (rows + 1) / 2)
    assert set(lengths) == {min(LONGEST_ROW_S, max(SHORT_S, first_s))}
    assert order == ["sample"] * (3 + again) + (["row"] + ["sample"] * (every + again)) * rows


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

    measure_on_cpu([Sampled(call)], threads, repeats=20)
    assert max(alive) == places


@pytest.mark.parametrize(("threads", "seconds", "known"), [(2, 1e-4, True), (2, 0.1, False), (1, 1e-4, False)])
def test_rests_of_other_lengths_count_apart(
    monkeypatch: pytest.MonkeyPatch, threads: int, seconds: float, known: bool
) -> None:
    """Operations take 4 times as long after a rest, 6 times after a long one; what takes long does not mind, one thread
    has no others.
    """
    longer = {0.0: 1.0, BRIEF_REST_S: 2.0, REST_S: 4.0, LONG_REST_S: 6.0}
    monkeypatch.setattr(module._Lane, "sample_s", lambda lane, batch, rest_s=0.0: seconds * longer[rest_s])
    monkeypatch.setattr(module, "product_s", lambda product, row_s: PRODUCT_S)
    cost = measure_on_cpu([Sampled(lambda: None)], threads, repeats=20)
    assert cost.device_s == pytest.approx(seconds * (4.0 if threads > 1 else 1.0))
    points = {rest_s: seconds * longer[rest_s] for rest_s in (BRIEF_REST_S, REST_S, LONG_REST_S)}
    assert dict(cost.rests) == (pytest.approx(points) if known else {})


@pytest.mark.parametrize(
    ("fetch_s", "known"), [(1e-4, (BRIEF_REST_S, REST_S, LONG_REST_S)), (3e-3, (3e-3, LONG_REST_S))]
)
def test_a_rest_ends_with_bringing_the_operands(
    monkeypatch: pytest.MonkeyPatch, fetch_s: float, known: tuple[float, ...]
) -> None:
    """It is no longer for it, unless bringing them takes longer than the rest."""
    order: list[object] = []
    monkeypatch.setattr(module.time, "sleep", order.append)
    calls = [Sampled(lambda: order.append("call"), lambda: order.append("fetch"), fetch_s)]
    cost = measure_on_cpu(calls, 2, repeats=20)
    assert tuple(rest_s for rest_s, _ in cost.rests) == known
    assert order[:FIRST] == ["call"] * FIRST
    slept = [step for step in order if isinstance(step, float)]
    assert set(slept) == {rest_s - fetch_s for rest_s in (BRIEF_REST_S, REST_S, LONG_REST_S) if rest_s > fetch_s}
    assert all(after == "fetch" for step, after in itertools.pairwise(order) if isinstance(step, float))
    told = [step for step in order[FIRST:] if not isinstance(step, float)]
    assert told == ["fetch", "call"] * (len(told) // 2)
