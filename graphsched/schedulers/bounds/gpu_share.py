"""What part of a GPU a task takes up at least while others run beside it, by the rules of the simulator.

Any tasks that run side by side on one GPU, each at its own rate, must have parts of which the sum, each times its
rate, is 1 at most; then the work of all is a lower bound of the time. The simulator has three rules
(`simulator.compute`), and which one holds depends on what else is on the GPU: a task's part is the least by any.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphsched.costs import Beside, Costs, TaskCost
from graphsched.simulator.blocks import Shape, shape_of
from graphsched.simulator.pressure import LEAST

RESOURCES = 4
"""Of a multiprocessor: registers, threads, shared memory, places for blocks."""
SURE = 0.99
"""Part of a measured curve that counts. Chosen with recorded runs in view: products of 4000² in several lanes took
0.5 % less than their curve says, and placing their blocks 0.15 % less."""
Parts = tuple[float, ...]
"""Part of each of the resources of a GPU, over the time that a task takes alone."""


class Company:
    """What is measured of the kinds of tasks of one workload beside each other.

    Args:
        costs: With pairs.
        signatures: Of the tasks.
    """

    def __init__(self, costs: Costs, signatures: Iterable[str]) -> None:
        kinds = set(signatures)
        self.is_single = len(kinds) <= 1
        self._beside: dict[tuple[str, str], list[Beside]] = {}
        self._itself: set[tuple[str, str]] = set()
        for (signature, other, model), pair in costs.pairs.items():
            if signature in kinds and other in kinds:
                self._beside.setdefault((signature, model), []).append(pair)
                if signature == other:
                    self._itself.add((signature, model))

    def parts(self, signature: str, model: str, cost: TaskCost, lanes: int) -> Parts:
        """The parts of a GPU that a task takes up; the least of them counts where nothing tells the resource.

        Copies of one operation that was measured beside itself, and nothing else, go by its curve alone, if each fills
        the GPU: then what was measured of some holds for more.
        """
        pairs = self._beside.get((signature, model), [])
        known = bool(cost.kernels and cost.processors)
        measured = self.is_single and (signature, model) in self._itself
        if known and measured and _fills(cost) and _presses(cost, pairs):
            return (SURE * _among_copies(cost),) * RESOURCES
        by_rate = min(_among_copies(cost), _among_others(cost, pairs, lanes))
        return tuple(min(by_rate, part) for part in _by_blocks(cost, pairs)) if known else (by_rate,) * RESOURCES


def _among_copies(cost: TaskCost) -> float:
    """Least time beside copies of itself over time alone and their number."""
    return min([1.0, *(slowdown / k for k, slowdown in cost.concurrency if k > 0)])


def _among_others(cost: TaskCost, pairs: Iterable[Beside], lanes: int) -> float:
    """The same where some count as copies and the rest are those that cost it least of all that were measured."""
    excess = min((pair.slowdown - 1.0 for pair in pairs), default=1.0)
    if excess >= 1.0:
        return 1.0
    slower = [cost.slowdown(k) for k in range(lanes + 1)]
    mixed = (max(1.0, slower[1 + c] + (n - 1 - c) * excess) / n for n in range(2, lanes + 1) for c in range(n))
    return min(mixed, default=1.0)


def _fills(cost: TaskCost) -> bool:
    """Whether each of its kernels has more blocks than the GPU has room for."""
    return all(shape.blocks > shape.resident for shape in _shapes(cost))


def _shapes(cost: TaskCost) -> list[Shape]:
    assert cost.processors is not None
    return [shape_of(kernel, cost.processors) for kernel in cost.kernels]


def _by_blocks(cost: TaskCost, pairs: Iterable[Beside]) -> Parts:
    """What the blocks of its kernels occupy, where each goes as fast as it can among others."""
    there = cost.processors
    assert there is not None
    room = [each * there.count for each in (there.registers, there.threads, there.shared_bytes, there.blocks)]
    presses, shapes = _presses(cost, pairs), _shapes(cost)
    factors = [shape.relief if presses else LEAST for shape in shapes]
    waves = [(x * s.share / s.waves * s.blocks, s.need) for x, s in zip(factors, shapes, strict=True)]
    held = (sum(blocks * need[k] for blocks, need in waves) / max(1, room[k]) for k in range(RESOURCES))
    return tuple(min(1.0, part) for part in held)


def _presses(cost: TaskCost, pairs: Iterable[Beside]) -> bool:
    """Whether nothing beside it makes its blocks faster."""
    factors = [cost.slowdown(2), *(x for pair in pairs for x in (pair.contention, *(f for _, f in pair.copies)))]
    return min(factors) >= 1.0
