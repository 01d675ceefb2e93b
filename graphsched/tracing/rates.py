"""Numbers of optimisers (rates, momenta), which a workload keeps as they were at its trace.

A scheduler inside the step would count the trace, and change nothing ever after. So its step is refused before it
changes anything, and so is a number of an optimiser that the step sets itself.

Not modelled: numbers that an optimiser keeps elsewhere than in its groups.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from graphsched.errors import TraceError


@contextlib.contextmanager
def constant_numbers(optimizers: Iterable[Any]) -> Iterator[None]:
    """What the groups of `optimizers` hold stays as it is in the block, and no scheduler takes a step.

    Raises:
        TraceError: At the line that would do it.
    """
    optimizers = list(optimizers)
    groups = [optimizer.param_groups for optimizer in optimizers]
    steps = [(kind, vars(kind)["step"]) for kind in _schedulers() if "step" in vars(kind)]
    for optimizer in optimizers:
        optimizer.param_groups = [_Kept(group, type(optimizer).__name__) for group in optimizer.param_groups]
    for kind, _ in steps:
        kind.step = _refused
    try:
        yield
    finally:
        for kind, step in steps:
            kind.step = step
        for optimizer, before in zip(optimizers, groups, strict=True):
            optimizer.param_groups = before


class _Kept(dict[str, Any]):
    """A group of an optimiser in which nothing is set."""

    def __init__(self, group: dict[str, Any], owner: str) -> None:
        super().__init__(group)
        self._owner = owner

    def __setitem__(self, key: str, value: Any) -> None:
        raise TraceError(
            f"the step sets {key!r} of {self._owner}, and a workload keeps the one that it was traced with: set it "
            "outside of the step, and trace again for another"
        )


def _refused(scheduler: Any, *_: Any, **__: Any) -> None:
    raise TraceError(
        f"{type(scheduler).__name__} takes a step, and a workload keeps the rate that it was traced with: call "
        "scheduler.step() outside of the step, and trace again for another rate"
    )


def _schedulers() -> list[Any]:
    """All kinds of schedulers, torch's and the user's."""
    from torch.optim.lr_scheduler import LRScheduler

    found: list[Any] = [LRScheduler]
    for kind in found:  # which grows
        found += [other for other in kind.__subclasses__() if other not in found]
    return found
