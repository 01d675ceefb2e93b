"""Doors of a run: what actions pass one after another before they work, or after it; nothing there has a rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from graphsched.simulator.columns import Columns
from graphsched.simulator.copy_engines import CopyEngine
from graphsched.simulator.fluid import Resource
from graphsched.simulator.gate import Gate


class Doors:
    """Those of the plan in some columns.

    Attributes:
        engines: Copy engines of GPUs, see `Columns.engine_of`.
        gates: By pool, what lets in nodes of CUDA graphs.
        all: Every one of them.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        copy: Callable[[int, float], None],
        let_in: Callable[[int, int, float], None],
    ) -> None:
        """What is called when an action passes.

        Args:
            columns: Of the plan.
            copy: ``copy(action, time)``: a copy begins.
            let_in: ``let_in(pool, action, time)``: a node may start.
        """
        self.engines = [CopyEngine(room, copy) for room in columns.engines]
        self.gates = {k: Gate(s, columns.launches, partial(let_in, k)) for k, s in columns.spacing_s.items()}
        self.all: set[Resource] = {*self.engines, *self.gates.values()}
