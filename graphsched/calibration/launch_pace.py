"""How fast the dispatching thread launches CUDA graphs just now: what launching one of tiny tasks takes it.

A launch is slowed down by more than a call is. On a host whose thread came and went between 6.5 and 10.5 µs a call,
launches on one GPU took 4.9 and 10.5 µs, on two 18 and 34 of chains, 122 and 219 of forty copies (docs/readings.md). So
launches have yardsticks of their own, on one GPU and over two.

Not modelled: yardsticks over more GPUs than two, and that launches with more copies are slowed down by less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from statistics import median
from typing import Any

from graphsched.calibration.tiny_plans import chain_round, program_of
from graphsched.executors.collector import no_collector
from graphsched.platform.points import Points

STAGES, STAGE = 10, 4  # of the chain, which goes on to the next GPU behind each; tasks of a stage
COLD_RUNS, RUNS = 2, 3
SAMPLES = 15
YARDSTICKS = 1, 2  # GPUs of the graphs whose launches are yardsticks


class LaunchYardstick:
    """Launches of a chain of tiny tasks, a graph on one GPU or to and fro between two."""

    def __init__(self, gpus: Sequence[int]) -> None:
        """`gpus`: numbers of one GPU, or of two."""
        self._program = program_of(chain_round(STAGES * STAGE, STAGE), tuple(gpus), mode="graph")
        self.sample_s()

    def sample_s(self) -> float:
        """Host seconds of a launch that follows ones like it; median of some, all in about a millisecond."""
        seconds = []
        for _ in range(COLD_RUNS + RUNS):
            self._program.time_once()
            seconds.append(self._program.issue_s)
        return median(seconds[COLD_RUNS:])

    def close(self) -> None:
        """Give streams and memory back."""
        self._program.close()


def launches_on(gpus: Sequence[int], make: Callable[[Sequence[int]], LaunchYardstick] = LaunchYardstick) -> Points:
    """`Dispatch.graph_launches` as they are now: by the number of GPUs, as many as there are here.

    Args:
        gpus: Numbers of the GPUs of this host.
        make: Makes a yardstick on some of them.
    """
    return tuple((n, median(samples)) for n, samples in sampled_in_turn(gpus, make, SAMPLES).items())


def sampled_in_turn(gpus: Sequence[int], make: Callable[[Sequence[int]], Any], count: int) -> dict[int, list[Any]]:
    """So many samples (`sample_s`) by the number of GPUs, of what `make` makes on one and on two, if there are two.

    A thread that is slow for a while is so in samples of both.
    """
    with no_collector(), ExitStack() as stack:
        made = {n: stack.enter_context(closing(make(gpus[:n]))) for n in YARDSTICKS if n <= len(gpus)}
        turns = [[one.sample_s() for one in made.values()] for _ in range(count)]
    return dict(zip(made, map(list, zip(*turns, strict=True)), strict=True))
