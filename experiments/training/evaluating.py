"""Accuracy on images that were not learned from, by a program of its own: forward only."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import TracebackType

from torch import Tensor, nn

import graphsched as gs
from graphsched.errors import ExperimentError


class Evaluation:
    """A network's accuracy on `images`, for the states of a training step.

    The network is evaluated as it is after ``eval()``. The last batch is filled up with other images, whose answers are
    left out.

    Raises:
        ExperimentError: There are no images, or more or fewer labels.
    """

    def __init__(
        self,
        net: nn.Module,
        images: Tensor,
        labels: Tensor,
        platform: gs.Platform,
        device: str,
        *,
        batch: int = 256,
        scheduler: str = "one_stream",
    ) -> None:
        if not len(images) or len(images) != len(labels):
            raise ExperimentError(f"{len(labels)} labels for {len(images)} images to test on: give one each")
        self._images, self._labels = images, labels
        self._batch = min(batch, len(images))
        work = gs.trace(copy.deepcopy(net).eval(), images[: self._batch], device=device)
        self._input = next(iter(work.source.inputs))
        known = net.state_dict()
        self._states = [v.name for v in work.values.values() if v.kind == "state" and v.name in known]
        self._program = gs.Program(gs.schedule(work, platform, scheduler=scheduler))

    def __call__(self, states: Mapping[str, Tensor]) -> float:
        """Share of right answers, from 0 to 1.

        Args:
            states: Named as in the network's ``state_dict``, or so with ``0/`` before: of a split network's first part.

        Raises:
            ExperimentError: A state of the network is not among them.
        """
        self._program.reset({name: _one_of(states, name) for name in self._states})
        right = 0
        for number in range(0, len(self._images), self._batch):
            start = min(number, len(self._images) - self._batch)
            output = self._program.run(**{self._input: self._images[start : start + self._batch]})["output"]
            answers = output.argmax(1).cpu()[number - start :]
            right += int((answers == self._labels[number : number + self._batch].cpu()).sum())
        return right / len(self._images)

    def close(self) -> None:
        """Give the program's memory back."""
        self._program.close()

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _one_of(states: Mapping[str, Tensor], name: str) -> Tensor:
    for called in (name, f"0/{name}"):
        if called in states:
            return states[called]
    raise ExperimentError(f"no state {name!r} to test the network with: there are {', '.join(states)}")
