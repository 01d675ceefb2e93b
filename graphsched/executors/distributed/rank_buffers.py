"""The memory of one rank: the inputs and states that lie there, and results."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from graphsched.errors import WorkloadError
from graphsched.executors.buffers import Buffers, check_tensor
from graphsched.plan import Plan
from graphsched.plan.ranks import Places
from graphsched.plan.ranks.places import EVERYWHERE
from graphsched.workload import TensorSpec, check_data


class RankBuffers(Buffers):
    """Buffers of the values that this rank holds; in place of other ranks' inputs and states lies nothing.

    What all ranks have before time 0 lies on those that read it, and on rank 0.
    """

    def __init__(self, plan: Plan, places: Places, rank: int) -> None:
        import torch

        self._rank, self._holder = rank, places.holder
        self._reads = _read_in(plan)
        given = [value.name for value in plan.work.values.values() if value.producer is None]
        self._elsewhere = {name for name in given if not self._is_here(name)}
        super().__init__(plan, {name: torch.empty(0) for name in self._elsewhere})

    def _is_here(self, name: str) -> bool:
        holder = self._holder[name]
        return holder == self._rank or (holder == EVERYWHERE and (self._rank == 0 or name in self._reads))

    def _answers_for(self, name: str) -> bool:
        """Whether it is this rank that gives the value of a state or a result."""
        return self._holder[name] == self._rank or (self._holder[name] == EVERYWHERE and self._rank == 0)

    def load(self, inputs: Mapping[str, Any]) -> set[int]:
        """As `Buffers.load`; inputs of other ranks are checked, and left to these."""
        self._check_elsewhere(inputs, "input")
        return super().load(self._of_this_rank(inputs))

    def states(self) -> dict[str, Any]:
        """Clones of the states that lie here as they are now."""
        return self._of_this_rank(super().states())

    def own_states(self) -> dict[str, Any]:
        """Those of `states` that no other rank gives."""
        return {name: tensor for name, tensor in self.states().items() if self._answers_for(name)}

    def restore(self, states: Mapping[str, Any]) -> None:
        """As `Buffers.restore`; states of other ranks are checked, and left to these."""
        self._check_elsewhere(states, "state")
        super().restore(self._of_this_rank(states))

    def _check_elsewhere(self, tensors: Mapping[str, Any], kind: str) -> None:
        """What the rank where a tensor lies finds wrong with it is found here too: all ranks end alike."""
        for name, tensor in tensors.items():
            value = self.plan.work.values.get(name)
            if name in self._elsewhere and value is not None and value.kind == kind and value.spec is not None:
                check_tensor(value, tensor)
                found = TensorSpec.of(tensor)
                if (found.shape, found.dtype) != (value.spec.shape, value.spec.dtype):
                    raise WorkloadError(f"{kind} {name!r} must be {value.spec}, got {found}")
                check_data(value.kind, name, tensor)

    def _of_this_rank(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tensor for name, tensor in tensors.items() if name not in self._elsewhere}

    @functools.cached_property
    def _returned(self) -> dict[str, int]:
        return {v.name: self.slot(v.name) for v in self.plan.work.returned() if self._answers_for(v.name)}


def _read_in(plan: Plan) -> set[str]:
    """Names of the values that the actions of a rank's `plan` read."""
    found = {copy.read.value.name for copy in plan.copies.values()}
    for i, kind in enumerate(plan.kinds):
        task = plan.task(i) if kind in ("run", "collective") else None
        if task is not None:
            found.update(read.value.name for read in task.reads)
    return found
