"""Tasks that share a GPU, sorted into kinds: those of one kind slow each other, and others, alike."""

from __future__ import annotations

from graphsched.costs import TaskCost
from graphsched.plan import Plan


class Kinds:
    """Kinds of tasks: by operation where kernels or pairs are known, else by curve, so that there are few.

    Attributes:
        costs: The cost of each kind.
    """

    def __init__(self, plan: Plan, paired: set[tuple[str, str]]) -> None:
        """`paired`: (signature, device model) of operations of which pairs are measured."""
        self.costs: list[TaskCost] = []
        self._paired = paired
        self._tasks = plan.tasks
        self._models = [
            plan.platform.device(lane.device).model if lane.kind == "compute" else "" for lane in plan.lanes
        ]
        self._places: dict[object, int] = {}
        self._operations: dict[tuple[str, str], list[int]] = {}

    def place(self, action: int, lane: int, cost: TaskCost) -> int:
        """Number of the kind of an action."""
        task = self._tasks[action]
        operation = (task.signature if task is not None else "", self._models[lane])
        known = bool(cost.kernels) or operation in self._paired
        key = (operation, cost.kernels, cost.concurrency) if known else cost.concurrency
        if key not in self._places:
            self._places[key] = len(self.costs)
            self._operations.setdefault(operation, []).append(len(self.costs))
            self.costs.append(cost)
        return self._places[key]

    def places(self, signature: str, beside: str, model: str) -> list[tuple[int, int]]:
        """The kinds that a measured pair is about."""
        mine, other = (self._operations.get((name, model), []) for name in (signature, beside))
        return [(a, b) for a in mine for b in other]
