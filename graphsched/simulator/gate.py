"""Nodes of a CUDA graph that are ready start one after another on a device, whatever their lanes.

Not modelled: nodes of one task, and stamps around it, which are let in together and keep the gate as long as all of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Gate:
    """Lets actions into a pool first come, first served; a `simulator.fluid.Resource`.

    Example:
        >>> passed = []
        >>> gate = Gate(0.5, [1, 2, 1], lambda action, time: passed.append((action, time)))
        >>> for action in range(3):
        ...     gate.enter(action, now=1.0)
        >>> passed
        [(0, 1.0), (1, 1.5), (2, 2.5)]
    """

    def __init__(self, spacing_s: float, nodes: Sequence[int], let_in: Callable[[int, float], None]) -> None:
        """Each of an action's `nodes` keeps the gate for `spacing_s`; ``let_in(action, time)`` passes it on."""
        self._spacing_s, self._nodes, self._let_in = spacing_s, nodes, let_in
        self._free_s = 0.0

    def enter(self, action: int, now: float) -> None:
        """`action` is ready to start."""
        time = max(now, self._free_s)
        self._free_s = time + self._spacing_s * self._nodes[action]
        self._let_in(action, time)

    def refresh(self, now: float) -> None:
        """Nothing here has a rate."""

    def due(self, token: int, now: float) -> list[int]:  # noqa: ARG002 - a Resource has it
        """Nothing here ends."""
        return []
