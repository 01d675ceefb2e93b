"""The schedules that an experiment on graphs tries on some devices, and their words for labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import graphsched as gs
from experiments._shared import lanes_that_fit

ONE_DEVICE = ("sequential", "one_stream")  # they put every task on the first device
SEVERAL_LANES = 4


@dataclass(frozen=True)
class Schedule:
    """A scheduler with its options; `words` name both in a label."""

    words: str
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)


def schedules(platform: gs.Platform, devices: Sequence[str], *, waits: bool = False) -> Iterator[Schedule]:
    """One lane a device by each scheduler that can use `devices`, several lanes in turn, and as many as pay.

    `waits`: also with a wait after each task, on one device.
    """
    if len(devices) == 1:
        if waits:
            yield Schedule("sequential", "sequential")
        yield Schedule("one_stream", "one_stream")
    else:
        yield Schedule("round_robin, 1 lane each", "round_robin", {"lanes": 1})
    yield Schedule("wavefront, 1 lane each", "wavefront", {"lanes": 1})
    yield Schedule("heft", "heft")
    for lanes in lanes_that_fit(platform, devices[0], (SEVERAL_LANES,)):
        yield Schedule(f"round_robin, {lanes} lanes each", "round_robin", {"lanes": lanes})
    yield Schedule("streams", "streams")
