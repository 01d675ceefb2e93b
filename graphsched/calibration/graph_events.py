"""Timing events inside CUDA graphs of several lanes: how close they follow each other, what they add to the launch.

Rows of tiny operations side by side are plans, run as those of users are (`calibration.graph_rows`), with timing events
around every operation. These run beside the events of other lanes and take no time of their own, so all the time is
that of events.
"""

from __future__ import annotations

from contextlib import closing
from statistics import median
from typing import Any

from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import Launches, tiny_timed
from graphsched.calibration.launch_pace import LaunchYardstick

LANES = (2, 4, 8)
NODES = FEW, MANY = 10, 50  # of a lane
EVENTS = 2  # around every operation


def event_figures(device: int, launches: Launches) -> dict[str, Any]:
    """Fields of `Dispatch` about timing events in graphs of several lanes of a GPU; seconds, tables by lanes.

    Args:
        device: Number of the GPU.
        launches: What launches are told for.
    """
    rates, launches_s = [], []
    with closing(LaunchYardstick([device])) as yardstick:
        for lanes in LANES:
            short, long = (tiny_timed(device, lanes * n, lanes, yardstick, launches) for n in NODES)
            more = EVENTS * lanes * (MANY - FEW)
            rates.append((lanes, each_s(short.whole_s, long.whole_s, more)))
            launches_s.append(each_s(short.host_s, long.host_s, more))
    return {"graph_event_rates": tuple(rates), "graph_launch_event_s": median(launches_s)}
