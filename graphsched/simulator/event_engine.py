"""The engine of timed runs of CUDA graphs whose timing events are served one by one, see `simulator.event_nodes`."""

from __future__ import annotations

from collections.abc import Mapping

from graphsched.simulator.columns import Columns
from graphsched.simulator.engine import Engine
from graphsched.simulator.event_server import EventServer


class EventEngine(Engine):
    """An engine in which an action waits for the event before it to be served, and for the one behind it."""

    def __init__(self, columns: Columns, timed: bool, late_s: Mapping[int, float] | None = None) -> None:
        """As `Engine`; what `late_s` says of an action holds the wait for the event before it."""
        super().__init__(columns, timed, late_s)
        self._starts_known = late_s is not None
        self._servers: dict[int, EventServer] = {}
        if timed and columns.events_of:
            lanes, last = columns.event_lanes, columns.event_ends
            servers = [EventServer(k, columns.dispatch, last, self._event_served) for k in lanes]
            self._servers = {i: servers[k] for i, k in columns.events_of.items()}
            self._doors.update(servers)
            self._least_gap_s = columns.event_s
        self._over = self._work_over

    def _work(self, i: int, start: float, longer_s: float) -> None:
        server = self._servers.get(i)
        if server is None:
            super()._work(i, start, longer_s)
        else:
            self._arrive(i, server.expect(i, start) if self._starts_known else start, server)

    def _work_over(self, i: int, end: float) -> None:
        """The work of action `i` is over at `end`; events of other lanes may stand before the one behind it."""
        server = self._servers.get(i)
        if server is None:
            self._end(i, end)
        elif i in self._columns.events_known:
            self._set_end(i, end + self._columns.event_s)
        else:
            self._arrive(i, end, server)

    def _event_served(self, i: int, time: float, behind: bool) -> None:
        """The timing event before action `i` is over at `time`, or the one behind it."""
        if behind:
            self._set_end(i, time)
        else:
            super()._work(i, time, 0.0)
