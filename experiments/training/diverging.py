"""Trainings that diverge: what is said of them, and of what was kept before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from graphsched.errors import ExperimentError


@dataclass(frozen=True)
class Diverging:
    """The steps of a run since it was kept last, or began.

    Attributes:
        title: Of the run.
        per_epoch: Steps.
        path: Where it is kept; None: nowhere.
        epoch, step: Where it was then, from 0.
        known: States that were not finite when the run began, as masks of -inf are.
    """

    title: str
    per_epoch: int
    path: Path | None
    epoch: int
    step: int
    known: frozenset[str] = frozenset()

    def error(self, what: str, epoch: int, step: int) -> ExperimentError:
        """What to raise where `what` is not finite in this step of this epoch, both from 1."""
        kept = "nothing of the run is kept"
        if self.path is not None and (self.epoch or self.step):
            before = f"step {self.step + 1} of epoch {self.epoch + 1}"
            kept = f"{self.path} has what was before {before}: remove it to begin anew"
        return ExperimentError(
            f"{self.title}: {what} in epoch {epoch}, step {step} of {self.per_epoch}: lower the learning rate, or look "
            f"for inputs that are not finite; {kept}"
        )

    def check(self, states: Mapping[str, Tensor], epoch: int, step: int) -> None:
        """Make sure that the update of this step has left `states` finite, for the next loss alone would show it.

        Raises:
            ExperimentError: One is not that was so before.
        """
        for name in sorted(not_finite(states) - self.known):
            raise self.error(f"{name!r} is not finite after the update", epoch, step)


def not_finite(states: Mapping[str, Tensor]) -> frozenset[str]:
    """Names of states that hold infinity or what is no number.

    Example:
        >>> import torch
        >>> sorted(not_finite({"weight": torch.ones(2), "mask": torch.tensor([0.0, -torch.inf])}))
        ['mask']
    """
    return frozenset(name for name, t in states.items() if t.is_floating_point() and not bool(t.isfinite().all()))
