"""Tags of messages between ranks: what is of one kind, or of one lane, is never taken for another."""

from __future__ import annotations

from collections.abc import Iterable

BARRIER_TAG, CLOCK_TAG, ABORT_TAG, OBJECT_TAG, FIRST_LANE_TAG = 1, 2, 3, 4, 16


def lane_tags(lanes: Iterable[str]) -> dict[str, int]:
    """A tag for the messages of each lane; the same on all ranks, which know the same lanes.

    Example:
        >>> lane_tags(["b", "a", "b"])
        {'a': 16, 'b': 17}
    """
    return {lane: FIRST_LANE_TAG + k for k, lane in enumerate(sorted(set(lanes)))}
