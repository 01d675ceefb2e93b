"""Timing events of a CUDA graph of several lanes: its device serves them one by one, first come, first served."""

from __future__ import annotations

from collections.abc import Callable, Container

from graphsched.platform import Dispatch


class EventServer:
    """Serves the event before each action and the one behind it; a `simulator.fluid.Resource`.

    How soon the next follows goes by how many lanes have something left to do; an event takes as long as that on its
    lane, or what it takes in a graph of one lane.

    Example:
        >>> server = EventServer(2, Dispatch(graph_event_s=1.0, graph_event_rates=((2, 3.0),)), {1}, print)
        >>> for action in (0, 1, 1, 0):  # the last lane that is left waits for nobody
        ...     server.enter(action, now=5.0)
        0 8.0 False
        1 11.0 False
        1 14.0 True
        0 15.0 True
    """

    def __init__(
        self,
        lanes: int,
        costs: Dispatch,
        last: Container[int],
        served: Callable[[int, float, bool], None],
    ) -> None:
        """What is served, and what is called then.

        Args:
            lanes: Of the graph on the device.
            costs: Say how soon the next event follows, by the lanes left, and what one takes at least.
            last: Actions that are the last on their lane.
            served: ``served(action, time, behind)``: the event before an action is over, or the one behind it.
        """
        self._lanes, self._costs = lanes, costs
        self._last, self._served = last, served
        self._begun: set[int] = set()
        self._known: dict[int, float] = {}
        self._free_s = 0.0

    def expect(self, action: int, start: float) -> float:
        """The work of `action` is known to start at `start`, behind the event before it: when that is to be served."""
        self._known[action] = start
        return start - self._took_s()

    def enter(self, action: int, now: float) -> None:
        """The event before `action` is next on its lane, or the one behind it."""
        known, behind = self._known.pop(action, None), action in self._begun
        self._begun.add(action)
        time = max(now, self._free_s) if known is None else now
        over = time + self._took_s() if known is None else max(now, known)
        self._free_s = max(self._free_s, time + self._costs.graph_event_rate_s(self._lanes))
        if behind and action in self._last:
            self._lanes -= 1
        self._served(action, over, behind)

    def _took_s(self) -> float:
        return max(self._costs.graph_event_rate_s(self._lanes), self._costs.graph_event_s)

    def refresh(self, now: float) -> None:
        """Nothing here has a rate."""

    def due(self, token: int, now: float) -> list[int]:  # noqa: ARG002 - a Resource has it
        """Nothing here ends."""
        return []
