"""Doors of a run: what actions pass one after another before they work, or after it; nothing there has a rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from graphsched.simulator.columns import Columns
from graphsched.simulator.copy_engines import CopyEngine
from graphsched.simulator.event_nodes import EVENTS
from graphsched.simulator.fluid import Resource
from graphsched.simulator.gate import Gate


class Doors:
    """Those of the plan in some columns.

    Attributes:
        engines: Copy engines of GPUs, see `Columns.engine_of`.
        gates: By pool, what lets in nodes of CUDA graphs.
        of_events: By action of a graph, what its timing events pass; empty where there are none.
        all: Every one of them.
    """

    def __init__(
        self,
        columns: Columns,
        timed: bool,
        *,
        copy: Callable[[int, float], None],
        let_in: Callable[[int, int, float], None],
        pass_events: Callable[[int, float], None],
    ) -> None:
        """What is called when an action passes.

        Args:
            columns: Of the plan.
            timed: With timing events.
            copy: ``copy(action, time)``: a copy begins.
            let_in: ``let_in(pool, action, time)``: a node may start.
            pass_events: ``pass_events(action, time)``: the events around an action are served.
        """
        events = [EVENTS] * len(columns) if columns.event_gates else []
        passing = {k: Gate(s, events, pass_events) for k, s in columns.event_spacing_s.items()}
        self.engines = [CopyEngine(room, copy) for room in columns.engines]
        self.gates = {k: Gate(s, columns.launches, partial(let_in, k)) for k, s in columns.spacing_s.items()}
        self.of_events = {i: passing[k] for i, k in columns.event_gates.items()} if timed else {}
        self.all: set[Resource] = {*self.engines, *self.gates.values(), *passing.values()}
