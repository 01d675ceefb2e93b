"""Training by all processes that torchrun started: the step, and the checkpoint that one of them writes.

Every rank calls `experiments.training.loop.train` alike, with a `RankStep` and a `RankFile`, and gets the same figures.
Where torchrun starts all ranks again (``--max-restarts``), they go on from the checkpoint.

Not modelled: steps that are submitted while others are under way; hosts that do not share a folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from experiments.training.checkpoints import Checkpoint, load, random_states, save, set_random_states
from experiments.training.results import Done
from graphsched.errors import ExperimentError, GraphschedError
from graphsched.executors.distributed import RankProgram

WRITE_S = 600.0  # for reading, writing and sending a checkpoint


class RankStep:
    """A training step as `loop.train` knows it, by all ranks; results and states come to each of them."""

    def __init__(self, program: RankProgram) -> None:
        self._program = program

    def submit(self, **inputs: Any) -> Done:
        """One step, waited for; every rank gives the same inputs."""
        return Done(self._shared(self._program.run(**inputs), "the results of a step"))

    def state(self) -> dict[str, Any]:
        """Clones of all states on the host, by name."""
        return self._shared(self._program.state(), "the states")

    def reset(self, states: Mapping[str, Any]) -> None:
        """Set these states on the ranks where they lie."""
        self._program.reset(states)

    def _shared(self, tensors: dict[str, Any], what: str) -> dict[str, Any]:
        return dict(self._program.world.share(tensors, WRITE_S, what))


class RankFile:
    """The file in which a run of several ranks is kept: rank 0 writes it, whole or not at all, and all read it.

    On several hosts the file must be in a folder that all of them share.
    """

    def __init__(self, program: RankProgram, path: str | Path) -> None:
        self._world, self.path, self.ranks = program.world, Path(path), program.world.size

    def read(self) -> Checkpoint | None:
        """What the file has, on every rank; None: there is none.

        Raises:
            ExperimentError: Not all ranks see the same file.
            FileFormatError: As `checkpoints.load`.
        """
        seen = self._world.gather(_digest(self.path), WRITE_S, "the search for the checkpoint")
        if len(set(seen)) > 1:
            told = "; ".join(f"rank {rank} {'finds none' if d is None else f'has {d}'}" for rank, d in enumerate(seen))
            raise ExperimentError(f"{self.path} is not the same file for all ranks: {told}: name one that they share")
        return load(self.path) if seen[0] is not None else None

    def write(self, checkpoint: Checkpoint) -> None:
        """Have rank 0 put `checkpoint` in its place; all wait for that.

        Raises:
            OutputError: It could not, on every rank.
        """
        self._by_rank_0(lambda: save(checkpoint, self.path), "the checkpoint")

    def random_states(self) -> list[list[Tensor]]:
        """Those of each rank."""
        return self._world.gather(random_states(), WRITE_S, "the random numbers of all ranks")

    def set_random_states(self, states: list[list[Tensor]]) -> None:
        """Set the generators of this rank."""
        set_random_states(states[self._world.rank])

    def agreed(self, stop: bool) -> bool:
        """Whether rank 0 is to stop, and with it all: else one would wait for a step that another does not make."""
        return bool(self._world.share(stop, WRITE_S, "whether to stop"))

    def _by_rank_0(self, call: Callable[[], None], what: str) -> None:
        error: GraphschedError | None = None
        if self._world.rank == 0:
            try:
                call()
            except GraphschedError as found:
                error = found
        if (told := self._world.share(error, WRITE_S, what)) is not None:
            raise told


def _digest(path: Path) -> str | None:
    """A hash of the file; None: there is none, or it cannot be read, which `load` tells more of."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"an error ({error.strerror})"
