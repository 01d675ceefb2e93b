"""What a simulated makespan rests on: seconds along the one chain of causes that ends last, by what they are of.

From the end backwards: an action started because the one before it on its lane was over, because one that it
waited for was, or because the thread had issued it; the thread got there through the actions that it issued
since it was last held up, by a wait, a blocking copy, a result of a CPU lane or a full launch queue. The
seconds add up to the makespan.

Not modelled: chains that end almost as late.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal, NamedTuple

from graphsched.simulator.columns import BLOCKS, NEEDS_CPU, SEVERAL, Columns
from graphsched.simulator.engine import Engine
from graphsched.simulator.graph_mode import inside, latencies_s
from graphsched.simulator.host_calls import queries_s
from graphsched.simulator.lane_costs import CPU, CUDA, WAIT
from graphsched.simulator.returns import finished_s

Cost = Literal["work", "host", "latency"]

SAME = 1e-9  # two sums of the same times differ by less than that, relatively


class Stretch(NamedTuple):
    """Seconds of the chain: an action's ``work``, ``latency`` before it, or the ``host``'s until it was issued."""

    cost: Cost
    action: int
    seconds: float


class Place(NamedTuple):
    """Where the walk stands: at `time_s`, on the lane of `action` or on the thread, which has just issued it."""

    action: int
    time_s: float
    on_thread: bool


def chain(columns: Columns, engine: Engine) -> list[Stretch]:
    """The chain of causes of a run without timing events, last first."""
    if not len(columns):
        return []
    walk = _Walk(columns, engine)
    place: Place | None = walk.last
    while place is not None:
        place = walk.thread_back(place) if place.on_thread else walk.lane_back(place)
    return walk.found


class _Walk:
    def __init__(self, columns: Columns, engine: Engine) -> None:
        self._columns, self._thread = columns, engine.thread
        self._start_s, self._end_s = engine.start_s, engine.end_s
        self._ends: dict[int, list[tuple[float, int]]] = {}
        self._from_lane = -1  # the action whose own issue the walk came to from its lane
        last = max(range(len(columns)), key=lambda i: (engine.end_s[i], columns.kind[i] != WAIT))
        returned_s = sum(finished_s(columns, engine)) - max(engine.end_s[last], engine.thread.time)
        self.found = [Stretch("host", last, returned_s + queries_s(columns, engine.end_s))]
        self.last = Place(last, engine.end_s[last], False)
        if engine.thread.time > engine.end_s[last] or columns.kind[last] == WAIT:
            self.last = Place(len(columns) - 1, engine.thread.time, True)

    # -- an action on its lane -----------------------------------------------------------------

    def lane_back(self, place: Place) -> Place:
        """From the end of an action to what it started after."""
        columns, i = self._columns, place.action
        if columns.flags[i] & SEVERAL and self._end_s[i] <= self._thread.floor_s[i]:
            share_s, launch_s = columns.work_s[i] / columns.launches[i], columns.dispatch.launch_s
            self.found += [Stretch("work", i, share_s), Stretch("latency", i, launch_s)]
            self._from_lane = i
            return Place(i, place.time_s - share_s - launch_s, True)
        cause = self._cause(i)
        self.found.append(Stretch("work", i, place.time_s - self._start_s[i]))
        self.found.append(Stretch("latency", i, self._start_s[i] - cause.time_s))
        if cause.on_thread:
            self._from_lane = i
        return cause

    def _cause(self, i: int) -> Place:
        """What action `i` started after."""
        c, end_s, starts_s = self._columns, self._end_s, self._thread.ready_s[i]
        latency_s = latencies_s(c, i)
        cause = Place(i, starts_s - (c.dispatch.launch_s if c.kind[i] == CUDA else 0.0), True)
        if c.graphs is not None and inside(c, i):
            first = c.graphs.first[c.graphs.of[i]]
            launched_s = self._thread.issue_end_s[first]
            cause = Place(first, min(launched_s, starts_s) if c.graphs.spread_s else launched_s, True)
        for j in c.waits[i]:
            if end_s[j] + latency_s[c.lane[j]] > starts_s:
                starts_s = end_s[j] + latency_s[c.lane[j]]
                cause = Place(j, end_s[j], False)
        before = c.previous[i]
        return Place(before, end_s[before], False) if before >= 0 and end_s[before] >= starts_s else cause

    # -- the thread ----------------------------------------------------------------------------

    def thread_back(self, place: Place) -> Place | None:
        """From the issue of an action back to what held its thread up last, or to time 0."""
        orders, handed = self._columns.orders, self._columns.handed
        rank = next((k for k, order in enumerate(orders) if place.action in order), 0)
        order = orders[rank] if orders else range(len(self._columns))
        for i in reversed(order[: order.index(place.action) + 1]):
            if handed.get(i, -1) != rank and (held := self._held(i)):
                self.found.append(Stretch("host", place.action, place.time_s - held.time_s))
                return held
        self.found.append(Stretch("host", place.action, place.time_s))
        return None

    def _held(self, i: int) -> Place | None:
        """What the thread waited for while it issued action `i`."""
        columns, flags = self._columns, self._columns.flags[i]
        if inside(columns, i):
            return self._needed(i)
        if columns.kind[i] == WAIT:
            return self._latest(columns.waits[i], self._thread.issue_start_s[i])
        if flags & BLOCKS and i != self._from_lane:
            return Place(i, self._end_s[i], False)
        if flags & NEEDS_CPU:
            results = tuple(j for j in columns.waits[i] if columns.kind[j] == CPU)
            if found := self._latest(results, self._thread.issue_start_s[i] + columns.own_s[i]):
                return found
        return self._full(i) if columns.kind[i] == CUDA and self._thread.queue_of[columns.lane[i]] is not None else None

    def _needed(self, i: int) -> Place | None:
        """What the thread waited for before it launched the CUDA graph that begins with action `i`."""
        graphs = self._columns.graphs
        if graphs is None or graphs.first[graphs.of[i]] != i:
            return None
        return self._latest(graphs.needs[graphs.of[i]], self._thread.issue_start_s[i])

    def _latest(self, actions: tuple[int, ...], after_s: float) -> Place | None:
        """The last of `actions` to end, if that was after `after_s`."""
        last = max(actions, key=lambda j: (self._end_s[j], -j), default=-1)
        if last < 0 or self._end_s[last] <= after_s or self._columns.kind[last] == WAIT:
            return None
        return Place(last, self._end_s[last], False)

    def _full(self, i: int) -> Place | None:
        """The action whose end made room in the launch queue for action `i`, if it was full."""
        columns = self._columns
        calls_s = columns.call_s[i] / (columns.launches[i] if columns.flags[i] & SEVERAL else 1)
        admitted_s = self._thread.ready_s[i] - columns.dispatch.launch_s - calls_s
        ends = self._queue_ends(columns.lanes.queue[columns.lane[i]])
        k = bisect_left(ends, (admitted_s * (1 - SAME), -1))
        if k < len(ends) and ends[k][0] <= admitted_s * (1 + SAME) and ends[k][1] < i:
            return Place(ends[k][1], ends[k][0], False)
        return None

    def _queue_ends(self, queue: int) -> list[tuple[float, int]]:
        """Ends of the actions in a launch queue, ascending."""
        if queue not in self._ends:
            c = self._columns
            actions = (i for i in range(len(c)) if c.kind[i] == CUDA and c.lanes.queue[c.lane[i]] == queue)
            self._ends[queue] = sorted((self._end_s[i], i) for i in actions)
        return self._ends[queue]
