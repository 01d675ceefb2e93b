"""Small changes of the lanes of a placement, kept where a simulation says that they pay.

Not modelled: changes that pay only together; other devices and other orders of dispatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, cycle

from graphsched.plan import Lane, Placement
from graphsched.schedulers.searching.lane_rules import Assigned
from graphsched.schedulers.searching.trials import Trial, Trials

TOLERANCE = 0.002
"""Part of the makespan: moving a chain must shorten it by more, fewer lanes may lengthen it by so much."""

Chain = tuple[str, ...]


def lanes_merged(trials: Trials, tasks: Assigned, best: Trial) -> Trial:
    """`best` with the tasks of two lanes on one, again and again as long as it takes no longer.

    Args:
        trials: Simulates; without simulations left, `best` stays.
        tasks: The workload with the devices of `best`.
        best: A placement and its seconds.
    """
    while (merged := next(_merges(trials, tasks, best), None)) is not None:
        best = merged
    return best


def _merges(trials: Trials, tasks: Assigned, best: Trial) -> Iterator[Trial]:
    """Trials with two lanes of `best` merged that take no longer."""
    lanes = best.placement.lanes
    for kept, merged in combinations(dict.fromkeys(lanes.values()), 2):
        if Lane.named(kept).device == Lane.named(merged).device:
            both = {name: kept if lane == merged else lane for name, lane in lanes.items()}
            found = trials.trial(tasks.placed(best.placement.order, both))
            if found.makespan_s <= best.makespan_s:
                yield found


def chains_moved(trials: Trials, tasks: Assigned, best: Trial, lanes: int, enough_s: float = 0.0) -> Trial:
    """`best` with chains on other lanes, the longest first, until no move of any chain pays.

    Args:
        trials: Simulates; the search ends when no simulation is left.
        tasks: The workload with the devices of `best`.
        best: A placement and its seconds.
        lanes: Most lanes a device.
        enough_s: No placement takes less: where `best` takes no more, nothing is left to find.
    """
    moves = [(chain, lane) for chain in _chains(tasks, best.placement) for lane in tasks.lanes_for(chain[0], lanes)]
    lane_of = dict(best.placement.lanes)
    vain = 0
    for chain, lane in cycle(moves):
        if vain == len(moves) or not trials.left or best.makespan_s <= enough_s:
            break
        moved = lane_of | dict.fromkeys(chain, lane)
        found = trials.trial(tasks.placed(best.placement.order, moved))
        vain += 1
        if found.makespan_s < best.makespan_s * (1.0 - TOLERANCE):
            best, lane_of, vain = found, moved, 0
    return best


def _chains(tasks: Assigned, placement: Placement) -> list[Chain]:
    """Tasks that follow each other both on their lane and in the graph; those of most seconds first."""
    last: dict[str, list[str]] = {}
    chains: list[list[str]] = []
    for name in placement.order:
        lane = placement.lanes.get(name)
        if lane is None:
            continue
        if lane in last and tasks.work.graph.has_edge(last[lane][-1], name):
            last[lane].append(name)
        else:
            last[lane] = [name]
            chains.append(last[lane])
    return sorted(map(tuple, chains), key=lambda chain: -sum(tasks.seconds[name] for name in chain))
