"""Messages beside computing: rates and products are measured where they are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.hosts import beside
from graphsched.executors.distributed import join
from tests.executors.distributed.ranks import on_ranks


def measured(rank: int) -> list[Any]:
    """Messages alone, two products alone, and messages beside one product, a short while each."""
    beside.SECONDS = 0.1
    world = join(20.0)
    return [beside.both(world, messages, computing) for messages, computing in ((True, 0), (False, 2), (True, 1))]


@pytest.mark.slow
def test_messages_and_products_are_measured_alone_and_together() -> None:
    ended = on_ranks(measured, 4)
    assert [rank.error for rank in ended] == [""] * 4, [rank.text for rank in ended]
    (sent, none), (nothing, two), (less, one) = ended[0].result
    assert (none, nothing, len(two), len(one)) == ([], 0.0, 2, 1)
    assert all(1e5 < rate < 1e12 for rate in (sent, less))
    assert all(1e-5 < seconds < 1 for seconds in (*two, *one))
